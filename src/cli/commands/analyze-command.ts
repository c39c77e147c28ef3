import { join } from "node:path";
import { InvalidArgumentError } from "commander";
import { heatmapLines, right, terminalLines } from "../../figures/index.js";
import { commandLine, formatPercent, formatSome } from "../../kit/printing/index.js";
import {
  type Analysis,
  AUTO_RULE,
  alikeSentences,
  heatmapOf,
  parseThreshold,
  THRESHOLD_PRESETS,
  type ThresholdSpec,
  trainingSentences,
} from "../../merge/analysis/index.js";
import { pairsOf } from "../../tensor/streaming/index.js";
import { analyze } from "../../verbs/index.js";
import { runWithHub } from "../shared/hub-access.js";
import { elapsed, hasColors, info, parseNamed, print, printJson, warn, withWorkOptions } from "../shared/output.js";
import { ON_HELP, readTexts } from "../shared/prompt-files.js";
import { type Command, Option } from "../shared/typed.js";

function parseThresholds(text: string, earlier: readonly ThresholdSpec[] = []): readonly ThresholdSpec[] {
  try {
    return [...earlier, parseThreshold(text)];
  } catch {
    throw new InvalidArgumentError(
      `It must be auto, common, or, also as EXPERT=VALUE, ${Object.keys(THRESHOLD_PRESETS).join(", ")} or a positive number.`,
    );
  }
}

export function add(program: Command): void {
  const command = program
    .command("analyze")
    .description(
      "Compare experts with their base in one pass. Shows the share of rows that changed by more than a threshold, for each " +
        "layer and projection (Bandarkar et al., arXiv 2410.01335, section 3.2). Writes analysis.json, rows.safetensors, " +
        "heatmap.svg and an interactive report.html.",
    )
    .optionsGroup("Models:")
    .requiredOption("--base <source>", "model that the experts were fine-tuned from")
    .requiredOption("--expert <name=source>", "expert: a model or a recipe file (.yaml); repeatable", parseNamed)
    .addOption(
      new Option("--rows <axis>", "feature that makes a row").choices(["input", "output"]).default(undefined, "input"),
    )
    .option(
      "--threshold <value>",
      `threshold: auto, common, a number, or ${Object.keys(THRESHOLD_PRESETS).join(", ")}; EXPERT=number for one expert; repeatable (default: auto)`,
      parseThresholds,
    )
    .option("--vocabulary <name>", "tokens to compare if vocabularies differ: base, an expert's name, or union")
    .option("--on <file>", ON_HELP)
    .addOption(
      new Option("--beside <maps>", "draw each expert's map beside the published ones").choices(["paper"] as const),
    )
    .optionsGroup("Output:")
    .option("-o, --out <folder>", "folder to write (default: print to the terminal only)")
    .option("--force", "replace an existing analysis");
  withWorkOptions(command).action(async (options) => {
    const start = performance.now();
    const { base, expert, rows, threshold: thresholds, vocabulary, out, force, beside } = options;
    const on = options.on === undefined ? undefined : await readTexts(options.on);
    const experts = Object.fromEntries(expert);
    const analysis = await runWithHub(options, (controls) =>
      analyze({
        base,
        experts,
        rows,
        thresholds,
        vocabulary,
        on,
        ...(out === undefined ? {} : { out, force, beside }),
        ...controls,
      }),
    );
    for (const warning of analysis.warnings) warn(warning);
    if (analysis.skipped.length > 0)
      info(options, `skipped tensors that are not floating point: ${formatSome(analysis.skipped)}`);
    if (options.json) printJson(analysis);
    else print(describe(analysis, beside));
    if (analysis.thresholds.some(({ name }) => name === "auto")) info(options, `auto: ${AUTO_RULE}`);
    info(options, lastSentences(analysis, base, expert).join(" "));
    if (out !== undefined) info(options, `Wrote the analysis in ${elapsed(start)}; open ${join(out, "report.html")}`);
  });
}

function describe(analysis: Analysis, beside?: "paper"): string[] {
  const { experts, matrices, thresholds } = analysis;
  const number = (value: number | null) => (value === null ? "" : value.toExponential(2));
  const rows = experts.map((name, i) => {
    const figures = matrices.experts[i];
    return [
      name,
      number(figures?.mean ?? null),
      number(figures?.maximum ?? null),
      number(figures?.relativeNorm ?? null),
      formatPercent(figures?.exactZeroShare ?? 0),
      ...thresholds.map(
        (threshold, t) => `${formatPercent(figures?.shares[t] ?? 0)} > ${number(threshold.values[i] ?? 0)}`,
      ),
    ];
  });
  const columns = ["mean row", "largest row", "relative", "untouched"];
  const above = thresholds.map(({ name }) => `rows above (${name})`);
  const shared = thresholds.map(({ name }) => `overlap (${name})`);
  const pairs = pairsOf(experts.length).map(([i, j], index) => {
    const { cosine = null, conflictShare = 0, overlap = [] } = matrices.pairs[index] ?? {};
    const shared = overlap.map((share) => (share === null ? "" : formatPercent(share)));
    const name = `${experts[i]} and ${experts[j]}`;
    return [name, cosine === null ? "" : cosine.toFixed(3), formatPercent(conflictShare), ...shared];
  });
  return [
    ...heatmapLines(heatmapOf(analysis, beside), hasColors(process.stdout), beside === undefined ? 1 : 3),
    "",
    "all matrices of the layers:",
    ...terminalLines({ columns: ["expert", ...[...columns, ...above].map(right)], rows }),
    ...(pairs.length > 0
      ? ["", ...terminalLines({ columns: ["pair", ...["cosine", "conflict", ...shared].map(right)], rows: pairs })]
      : []),
    ...trainingLines(analysis),
    ...paperLines(analysis),
    ...alignmentLines(analysis),
  ];
}

/** What to do next, and how far to trust what is printed. */
function lastSentences(analysis: Analysis, base: string, sources: ReadonlyMap<string, string>): string[] {
  const [task, language, third] = sources.values();
  const sentences = [
    ...alikeSentences(analysis),
    "A map says where experts changed, not which merge is best: evaluate one.",
  ];
  if (task === undefined || language === undefined || third !== undefined) return sentences;
  return [...sentences, `Recipes to try: ${commandLine`suggest --base ${base} --task ${task} --language ${language}`}`];
}

function trainingLines({ training }: Analysis): string[] {
  const sentences = trainingSentences(training);
  return sentences.length > 0 ? ["", ...sentences] : [];
}

/** One for each expert and kind of published maps. */
function paperLines({ paper }: Analysis): string[] {
  const columns = (paper[0]?.at ?? []).map(({ threshold }) => right(`at ${threshold}`));
  const rows = paper.map(({ expert, kind, maps, at }) => [
    expert,
    `${kind} (${maps} maps)`,
    ...at.map(({ correlation, interval }) => {
      if (correlation === null) return "same everywhere";
      const ends = interval && ` (${interval.low.toFixed(2)} to ${interval.high.toFixed(2)})`;
      return `${correlation.toFixed(2)}${ends ?? ""}`;
    }),
  ]);
  return [
    "",
    "like the paper's maps (mean rank correlation of cells; layers matched by relative depth; 95% interval, each layer",
    "counted as one observation):",
    ...terminalLines({ columns: ["expert", "published", ...columns], rows }),
  ];
}

/** Rows are layers, from the input up. */
function alignmentLines({ alignment, experts, layers }: Analysis): string[] {
  if (!alignment) return [];
  const names = ["base", ...experts];
  const columns = pairsOf(names.length).map(([i, j]) => right(`${names[i]} and ${names[j]}`));
  const rows = Array.from({ length: layers }, (_, layer) => [
    String(layer),
    ...alignment.pairs.map((pair) => pair[layer]?.toFixed(3) ?? ""),
  ]);
  const title = `alike after each layer, on ${alignment.texts} texts (linear CKA):`;
  return ["", title, ...terminalLines({ columns: ["layer", ...columns], rows })];
}
