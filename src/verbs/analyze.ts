import { join, resolve } from "node:path";
import { z } from "zod";
import type { Progress } from "../kit/index.js";
import { commandLine, formatSome } from "../kit/printing/index.js";
import { namedField } from "../kit/settings/index.js";
import {
  type Analysis,
  type AnalysisWithRows,
  AUTO_RULE,
  alikeSentences,
  analyzeExperts,
  checkAnalysisOutput,
  parseThreshold,
  routingSentences,
  THRESHOLD_PRESETS,
  writeAnalysis,
} from "../merge/analysis/index.js";
import { sourceField } from "../merge/index.js";
import { showAnalysis } from "./analyze-show.js";
import type { AnalyzeInput } from "./inputs.js";
import { type Controls, callVerb, type Noted, type Verb, type VerbOptions, type WorkOptions } from "./verb.js";

const PRESETS = Object.keys(THRESHOLD_PRESETS).join(", ");

const isThreshold = (text: string) => {
  try {
    return parseThreshold(text) !== undefined;
  } catch {
    return false;
  }
};

const threshold = z
  .string()
  .refine(isThreshold, `must be auto, common, or, also as EXPERT=VALUE, ${PRESETS} or a positive number`);

/** Texts on which models are compared. */
export const textsField = (description: string) => z.array(z.string()).optional().meta({ description });

/** Help of `--on`. */
export const ON_HELP =
  "text file, one text per line (4 to 1000): also measure how alike the models represent and route them";

export const analyzeSchema = z.strictObject({
  base: namedField("source", "model that the experts were fine-tuned from"),
  experts: z
    .record(z.string(), sourceField("a model or a recipe"))
    .meta({ title: "sources by name", description: "expert: a model or a recipe file (.yaml)" }),
  rows: z.enum(["input", "output"]).optional().meta({ description: "feature that makes a row", unset: "input" }),
  thresholds: z
    .array(threshold)
    .optional()
    .meta({
      description: `threshold: auto, common, a number, or ${PRESETS}; EXPERT=number for one expert`,
      unset: "auto",
    }),
  vocabulary: z
    .string()
    .optional()
    .meta({ description: "tokens to compare if vocabularies differ: base, an expert's name, or union" }),
  on: textsField("4 to 1000 texts: also measure how alike the models represent and route them"),
  beside: z.enum(["paper"]).optional().meta({ description: "draw each expert's map beside the published ones" }),
  out: namedField("folder", "folder to write").optional().meta({ unset: "print to the terminal only" }),
});

/** Where experts changed. */
export interface AnalyzeResult extends Analysis, Noted {}

type Input = z.output<typeof analyzeSchema>;

export const analyzeVerb: Verb<typeof analyzeSchema, AnalyzeResult> = {
  name: "analyze",
  description:
    "Compare experts with their base in one pass. Shows the share of rows that changed by more than a threshold, for each " +
    "layer and projection (Bandarkar et al., arXiv 2410.01335, section 3.2). Writes analysis.json, rows.safetensors, " +
    "heatmap.svg and an interactive report.html.",
  schema: analyzeSchema,
  fetch: "stream",
  options: { threads: "physical cores", memory: "256MB", force: "replace an existing analysis" },
  async run(input, controls) {
    const { analysis } = await analyzeWithRows(input, controls);
    const { skipped } = analysis;
    const notes = skipped.length > 0 ? [`skipped tensors that are not floating point: ${formatSome(skipped)}`] : [];
    return { ...analysis, notes };
  },
  show: (analysis, { beside }) => showAnalysis(analysis, beside),
  terminal: {
    groups: {
      Models: ["base", "experts", "rows", "thresholds", "vocabulary", "on", "beside"],
      Output: ["out", "force"],
    },
    flags: {
      experts: { flag: "expert", value: "name=source" },
      rows: { value: "axis" },
      thresholds: { flag: "threshold", value: "value" },
      vocabulary: { value: "name" },
      on: { value: "file", read: "texts", help: ON_HELP },
      beside: { value: "maps" },
    },
    json: ({ notes: _, ...analysis }) => analysis,
    closing: (analysis, input, time) => [
      ...(analysis.thresholds.some(({ name }) => name === "auto") ? [`auto: ${AUTO_RULE}`] : []),
      lastSentences(analysis, input).join(" "),
      ...(input.out === undefined ? [] : [`Wrote the analysis in ${time}; open ${join(input.out, "report.html")}`]),
    ],
  },
};

/** What to do next, and how far to trust what is shown. */
function lastSentences(analysis: Analysis, input: Input): string[] {
  const sentences = [
    ...alikeSentences(analysis),
    ...routingSentences(analysis),
    "A map says where experts changed, not which merge is best: evaluate one.",
  ];
  const next = commandAfter(input);
  return next === undefined ? sentences : [...sentences, `Recipes to try: ${next}`];
}

/** Suggests recipes of two experts; undefined of other numbers. */
function commandAfter({ base, experts }: Pick<Input, "base" | "experts">): string | undefined {
  const [task, language, third] = Object.values(experts);
  if (typeof task !== "string" || typeof language !== "string" || third !== undefined) return undefined;
  return commandLine`suggest --base ${base} --task ${task} --language ${language}`;
}

/** Analyses experts, and writes the analysis if `out` is given. The result has the value of every row. */
export async function analyzeWithRows(
  { on, out, beside, thresholds, ...models }: Input,
  controls: Controls,
): Promise<AnalysisWithRows> {
  const { folder, force } = controls;
  const to =
    out === undefined ? undefined : { out: resolve(folder ?? "", out), force, beside, next: commandAfter(models) };
  const read = [models.base, ...Object.values(models.experts).filter((source) => typeof source === "string")];
  if (to) {
    await checkAnalysisOutput(
      { ...to, out: out ?? "" },
      read.map((model) => resolve(folder ?? "", model)),
    );
  }
  const settings = { ...models, ...controls, thresholds: thresholds?.map(parseThreshold) };
  const { analysis, rows } = await analyzeExperts(settings);
  const result = { analysis: on === undefined ? analysis : await aligned(analysis, on, settings), rows };
  if (to) await writeAnalysis(to, result);
  return result;
}

async function aligned(
  analysis: Analysis,
  texts: readonly string[],
  models: Pick<Input, "base" | "experts"> & Controls,
) {
  // Loaded for texts alone: it runs the models.
  const { alignExperts } = await import("../engine/index.js");
  return alignExperts(analysis, models.base, models.experts, texts, models);
}

/** Options of `analyze`. */
export interface AnalyzeOptions extends VerbOptions<Progress>, Pick<WorkOptions, "threads" | "memory" | "force"> {}

/**
 * Measures where experts changed, in one pass over the weights: by tensor, part, layer and model (Bandarkar et al.,
 * arXiv 2410.01335, section 3.2).
 * @throws RecipeError if the input is not valid, with every problem; or if no expert is given, or a recipe is not valid
 * @throws OutputError if `out` is one of the models, or exists and `force` is not set
 * @throws MismatchError if the models do not fit together
 * @throws CheckpointError or FormatError if a model cannot be read
 * @throws CancelledError if the signal fires
 */
export function analyze(input: AnalyzeInput, options: AnalyzeOptions = {}): Promise<AnalyzeResult> {
  return callVerb(analyzeVerb, input, options);
}
