import { type Palette, right, terminalLines } from "../../figures/index.js";
import { compareParts } from "../../formats/checkpoint/index.js";
import { formatPercent, formatRanges, formatSome, plural } from "../../kit/printing/index.js";
import { columnName } from "../../merge/analysis/index.js";
import { type DiffResult, diff } from "../../verbs/index.js";
import { runWithHub } from "../shared/hub-access.js";
import { paletteFor, print, printJson, withWorkOptions } from "../shared/output.js";
import type { Command } from "../shared/typed.js";

export function add(program: Command): void {
  const command = program
    .command("diff")
    .description(
      "Compare two checkpoints tensor by tensor. Numbers are the relative change, ||B - A|| / ||A||; a dot means that " +
        "values are identical. The exit status is 0 if nothing differs, 1 if something does.",
    )
    .argument("<a>", "first model: FOLDER, FOLDER+ADAPTER, or a name on the hub")
    .argument("<b>", "second model")
    .optionsGroup("Output:")
    .option("--tensors", "list every tensor that differs");
  withWorkOptions(command).action(async (a, b, options) => {
    const comparison = await runWithHub(options, (controls) => diff(a, b, controls));
    if (options.json) printJson(comparison);
    else print(describe(comparison, options.tensors ?? false, paletteFor(process.stdout)));
    if (!comparison.identical) process.exitCode = 1;
  });
}

function describe(comparison: DiffResult, listTensors: boolean, palette: Palette): string[] {
  const { tensors, onlyInA, onlyInB, reshaped } = comparison;
  const differing = tensors.filter((tensor) => tensor.differing > 0);
  const broken = tensors.filter((tensor) => tensor.nonFinite > 0);
  const lines = [
    differing.length === 0
      ? `All ${plural(tensors.length, "common tensor")} are identical.`
      : `${differing.length} of ${plural(tensors.length, "common tensor")} differ.`,
    ...(onlyInA.length > 0 ? [`Only in A: ${formatSome(onlyInA)}`] : []),
    ...(onlyInB.length > 0 ? [`Only in B: ${formatSome(onlyInB)}`] : []),
    ...(reshaped.length > 0 ? [`Different shape: ${formatSome(reshaped)}`] : []),
    ...(broken.length > 0 ? [`Infinite or NaN differences: ${formatSome(broken.map(({ tensor }) => tensor))}`] : []),
  ];
  if (differing.length === 0) return lines;
  lines.push("", ...grid(tensors, palette));
  if (listTensors) {
    const rows = differing.map(({ tensor, differing, elements, meanAbsolute, largest, relative }) => [
      tensor,
      formatPercent(differing / elements),
      meanAbsolute === null ? "" : meanAbsolute.toExponential(2),
      largest === null ? "" : largest.toExponential(2),
      relative === null ? "" : relative.toExponential(2),
    ]);
    lines.push(
      "",
      ...terminalLines({ columns: ["tensor", ...["differs", "mean |B-A|", "largest", "relative"].map(right)], rows }),
    );
  }
  return lines;
}

/** Layers down, top layer first, parts across; consecutive identical layers share a row. */
function grid(tensors: DiffResult["tensors"], palette: Palette): string[] {
  const parts = [...new Set(tensors.filter(({ layer }) => layer !== null).map(({ part }) => part))].sort(compareParts);
  const layers = [...new Set(tensors.map(({ layer }) => layer))]
    .filter((layer) => layer !== null)
    .sort((a, b) => b - a);
  const rows: string[][] = [];
  let untouched: number[] = [];
  const flush = () => {
    if (untouched.length > 0) rows.push([formatRanges(untouched.toReversed()), ...parts.map(() => palette.dim("."))]);
    untouched = [];
  };
  for (const layer of layers) {
    const inLayer = tensors.filter((tensor) => tensor.layer === layer);
    if (inLayer.every((tensor) => tensor.differing === 0)) {
      untouched.push(layer);
      continue;
    }
    flush();
    rows.push([
      String(layer),
      ...parts.map((part) =>
        cell(
          inLayer.filter((tensor) => tensor.part === part),
          palette,
        ),
      ),
    ]);
  }
  flush();
  const outside = tensors.filter(({ layer }) => layer === null);
  return [
    ...terminalLines({ columns: ["layer", ...parts.map(columnName)].map(right), rows }),
    "",
    ...terminalLines({
      columns: ["outside", right("")],
      rows: outside.map((tensor) => [tensor.tensor, cell([tensor], palette)]),
    }),
  ];
}

function cell(tensors: DiffResult["tensors"], palette: Palette): string {
  if (tensors.length === 0) return "";
  if (tensors.every((tensor) => tensor.differing === 0)) return palette.dim(".");
  const relative = tensors.map((tensor) => tensor.relative);
  const largest = Math.max(...relative.map((value) => value ?? 0));
  return palette.green(relative.includes(null) && largest === 0 ? "differs" : formatRelative(largest));
}

/** `0.47`, `0.03`, `5e-3`: two digits are enough to see where a model changed. */
function formatRelative(value: number): string {
  return value >= 0.0095 ? value.toFixed(2) : value.toExponential(0);
}
