import { z } from "zod";
import { right, type Shown, type TextCell } from "../figures/index.js";
import { compareParts, openCheckpoint } from "../formats/checkpoint/index.js";
import { formatPercent, formatRanges, formatSome, plural } from "../kit/printing/index.js";
import { namedField } from "../kit/settings/index.js";
import { columnName } from "../merge/analysis/index.js";
import { type CheckpointComparison, compareCheckpoints } from "../tensor/measurements/index.js";
import type { DiffInput } from "./inputs.js";
import { callVerb, type Noted, type Verb, type VerbOptions, type WorkOptions } from "./verb.js";

export const diffSchema = z.strictObject({
  a: namedField("source", "first model: FOLDER, FOLDER+ADAPTER, or a name on the hub"),
  b: namedField("source", "second model"),
  tensors: z.boolean().optional().meta({ description: "list every tensor that differs" }),
});

/** Result of `diff`. */
export interface DiffResult extends CheckpointComparison, Noted {
  /** Name of the first checkpoint. */
  readonly a: string;
  /** Name of the second. */
  readonly b: string;
}

type Tensors = DiffResult["tensors"];

export const diffVerb: Verb<typeof diffSchema, DiffResult> = {
  name: "diff",
  description:
    "Compare two checkpoints tensor by tensor. Numbers are the relative change, ||B - A|| / ||A||; a dot means that " +
    "values are identical. The exit status is 0 if nothing differs, 1 if something does.",
  schema: diffSchema,
  fetch: "stream",
  options: { threads: "physical cores", memory: "256MB" },
  async run({ a, b }, { folder = ".", hub, threads, memory, signal, onProgress }) {
    const [left, other] = [
      await openCheckpoint(a, { base: folder, hub }),
      await openCheckpoint(b, { base: folder, hub }),
    ];
    const found = await compareCheckpoints(left, other, { threads, memory, signal, onProgress });
    return { a: left.name, b: other.name, ...found, notes: [], warnings: [] };
  },
  show({ tensors, onlyInA, onlyInB, reshaped }, { tensors: isListed }) {
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
    if (differing.length === 0) return [{ kind: "text", lines }];
    return [{ kind: "text", lines }, ...grid(tensors), ...(isListed ? [tensorTable(differing)] : [])];
  },
  terminal: {
    positional: ["a", "b"],
    groups: { Output: ["tensors"] },
    json: ({ notes: _notes, warnings: _warnings, ...found }) => found,
    isFailure: ({ identical }) => !identical,
  },
};

const tensorTable = (differing: Tensors): Shown => ({
  kind: "table",
  what: "tensor",
  columns: ["tensor", ...["differs", "mean |B-A|", "largest", "relative"].map(right)],
  rows: differing.map(({ tensor, differing: count, elements, meanAbsolute, largest, relative }) => [
    tensor,
    formatPercent(count / elements),
    ...[meanAbsolute, largest, relative].map((value) => value?.toExponential(2) ?? ""),
  ]),
});

const SAME: TextCell = { text: ".", tone: "dim" };

/** Layers down, top layer first, parts across; consecutive identical layers share a row. */
function grid(tensors: Tensors): Shown[] {
  const parts = [...new Set(tensors.filter(({ layer }) => layer !== null).map(({ part }) => part))].sort(compareParts);
  const layers = [...new Set(tensors.map(({ layer }) => layer))]
    .filter((layer) => layer !== null)
    .sort((a, b) => b - a);
  const rows: (string | TextCell)[][] = [];
  let untouched: number[] = [];
  const flush = () => {
    if (untouched.length > 0) rows.push([formatRanges(untouched.toReversed()), ...parts.map(() => SAME)]);
    untouched = [];
  };
  for (const layer of layers) {
    const inLayer = tensors.filter((tensor) => tensor.layer === layer);
    if (inLayer.every((tensor) => tensor.differing === 0)) {
      untouched.push(layer);
      continue;
    }
    flush();
    rows.push([String(layer), ...parts.map((part) => cell(inLayer.filter((tensor) => tensor.part === part)))]);
  }
  flush();
  const outside = tensors.filter(({ layer }) => layer === null);
  return [
    { kind: "table", what: "layer", columns: ["layer", ...parts.map(columnName)].map(right), rows },
    {
      kind: "table",
      what: "tensor",
      columns: ["outside", right("")],
      rows: outside.map((tensor) => [tensor.tensor, cell([tensor])]),
    },
  ];
}

function cell(tensors: Tensors): string | TextCell {
  if (tensors.length === 0) return "";
  if (tensors.every((tensor) => tensor.differing === 0)) return SAME;
  const relative = tensors.map((tensor) => tensor.relative);
  const largest = Math.max(...relative.map((value) => value ?? 0));
  return { text: relative.includes(null) && largest === 0 ? "differs" : formatRelative(largest), tone: "green" };
}

/** `0.47`, `0.03`, `5e-3`: two digits are enough to see where a model changed. */
function formatRelative(value: number): string {
  return value >= 0.0095 ? value.toFixed(2) : value.toExponential(0);
}

/** Options of `diff`. */
export interface DiffOptions extends VerbOptions, Pick<WorkOptions, "threads" | "memory"> {}

/**
 * Compares two checkpoints tensor by tensor, in one pass over the weights. Differences are of `b` against `a`.
 * @throws RecipeError if the input is not valid, with every problem
 * @throws CheckpointError or FormatError if one cannot be read
 * @throws CancelledError if the signal fires
 */
export function diff(input: DiffInput, options: DiffOptions = {}): Promise<DiffResult> {
  return callVerb(diffVerb, input, options);
}
