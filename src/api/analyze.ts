// Where experts changed, and which merges that suggests.
import { resolve } from "node:path";
import {
  type Analysis,
  type AnalysisOutput,
  analyzeExperts,
  checkAnalysisOutput,
  type Suggestion,
  suggestRecipes,
  type ThresholdSpec,
  writeAnalysis,
} from "../merge/index.js";
import type { Source } from "./inputs.js";
import { controlsOf, type FolderOptions, hubOf, type StreamOptions } from "./options.js";

/** Options of `analyze`. */
export interface AnalyzeOptions extends StreamOptions, FolderOptions, Partial<AnalysisOutput> {
  /** The model that the experts were fine-tuned from: a folder, or `FOLDER+ADAPTER`. */
  readonly base: string;
  /** The experts by name, in the order of the result. */
  readonly experts: Readonly<Record<string, Source>>;
  /** Feature that makes a row: input (a column, as in arXiv 2410.01335) or output. Default: `input`. */
  readonly rows?: "input" | "output" | undefined;
  /** Thresholds above which a row counts as changed. Default: one, chosen from the data. */
  readonly thresholds?: readonly ThresholdSpec[] | undefined;
  /** If vocabularies differ, the one to align rows to: `base`, `union` or an expert's name. Default: none. */
  readonly vocabulary?: string | undefined;
}

/**
 * Measures where experts changed, in one pass over the weights: by tensor, part, layer and model (Bandarkar et al.,
 * arXiv 2410.01335, section 3.2).
 * @throws RecipeError if no expert is given, or a recipe among them is not valid
 * @throws OutputError if `out` is one of the models, or exists and `force` is not set
 * @throws MismatchError if the models do not fit together
 * @throws CheckpointError or FormatError if a model cannot be read
 * @throws CancelledError if the signal fires
 */
export async function analyze(options: AnalyzeOptions): Promise<Analysis> {
  const { base, experts, rows, thresholds, vocabulary, folder, out, force } = options;
  const models = [base, ...Object.values(experts).filter((source) => typeof source === "string")];
  const inputs = models.map((model) => resolve(folder ?? "", model));
  if (out !== undefined) await checkAnalysisOutput({ out, force }, inputs);
  const result = await analyzeExperts({
    base,
    experts,
    rows,
    thresholds,
    vocabulary,
    folder,
    hub: hubOf(options),
    ...controlsOf(options),
  });
  if (out !== undefined) await writeAnalysis({ out, force }, result);
  return result.analysis;
}

/** Options of `suggest`. */
export interface SuggestOptions extends StreamOptions, FolderOptions {
  /** The model that both experts were fine-tuned from. */
  readonly base: string;
  /** The task expert. */
  readonly task: string;
  /** The language expert. */
  readonly language: string;
  /** Difference of shares from which one expert owns a layer or module. Default: 0.001. */
  readonly tau?: number | undefined;
  /** The task expert's weight where shares are about equal. Default: 0.5. */
  readonly alpha?: number | undefined;
  /** If vocabularies differ, the one to align rows to: `task`, `language`, `base` or `union`. Default: none. */
  readonly vocabulary?: string | undefined;
}

/**
 * Suggests merges of two experts, by the depth of the model and by where they changed. Makes one pass over the weights.
 * @throws MismatchError if the models do not fit together
 * @throws CheckpointError or FormatError if a model cannot be read
 * @throws CancelledError if the signal fires
 */
export async function suggest(options: SuggestOptions): Promise<readonly Suggestion[]> {
  const { base, task, language, tau, alpha, vocabulary, folder } = options;
  const { analysis } = await analyzeExperts({
    base,
    experts: { task, language },
    vocabulary,
    folder,
    hub: hubOf(options),
    ...controlsOf(options),
  });
  return suggestRecipes({ analysis, sources: { base, task, language }, tau, alpha, vocabulary });
}
