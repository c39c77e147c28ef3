import { resolve } from "node:path";
import {
  type Analysis,
  type AnalysisOutput,
  type AnalyzeOptions as AnalysisSettings,
  type AnalysisWithRows,
  analyzeExperts,
  checkAnalysisOutput,
  type Suggestion,
  type SuggestOptions as SuggestSettings,
  suggestRecipes,
  writeAnalysis,
} from "../merge/analysis/index.js";
import { type FolderOptions, hubOf } from "./options.js";

/** Options of `analyze`. */
export interface AnalyzeOptions
  extends Omit<AnalysisSettings, keyof FolderOptions>,
    FolderOptions,
    Partial<AnalysisOutput> {
  /** 4 to 1000 texts on which to measure how alike the models represent them (`Analysis.alignment`). Default: none. */
  readonly on?: readonly string[] | undefined;
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
  const { base, experts, folder, out, force, beside } = options;
  const models = [base, ...Object.values(experts).filter((source) => typeof source === "string")];
  const inputs = models.map((model) => resolve(folder ?? "", model));
  if (out !== undefined) await checkAnalysisOutput({ out, force }, inputs);
  const result = await measured(options);
  if (out !== undefined) await writeAnalysis({ out, force, beside }, result);
  return result.analysis;
}

async function measured({ on, ...options }: AnalyzeOptions): Promise<AnalysisWithRows> {
  const settings = { ...options, hub: hubOf(options) };
  const { analysis, rows } = await analyzeExperts(settings);
  if (on === undefined) return { analysis, rows };
  // Loaded for texts alone: it runs the models.
  const { alignExperts } = await import("../engine/index.js");
  return { analysis: await alignExperts(analysis, options.base, options.experts, on, settings), rows };
}

/** Options of `suggest`. */
export interface SuggestOptions
  extends Omit<AnalyzeOptions, "experts" | "rows" | "thresholds" | "vocabulary" | keyof AnalysisOutput>,
    Pick<SuggestSettings, "tau" | "alpha" | "vocabulary"> {
  /** The task expert. */
  readonly task: string;
  /** The language expert. */
  readonly language: string;
}

/**
 * Suggests merges of two experts, by the depth of the model and by where they changed. Makes one pass over the weights.
 * @throws MismatchError if the models do not fit together
 * @throws CheckpointError or FormatError if a model cannot be read
 * @throws CancelledError if the signal fires
 */
export async function suggest(options: SuggestOptions): Promise<readonly Suggestion[]> {
  const { base, task, language, tau, alpha, vocabulary } = options;
  const { analysis } = await measured({ ...options, experts: { task, language } });
  return suggestRecipes({ analysis, sources: { base, task, language }, tau, alpha, vocabulary });
}
