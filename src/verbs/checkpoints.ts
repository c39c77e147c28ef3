import { openCheckpoint } from "../formats/checkpoint/index.js";
import { usageError } from "../kit/index.js";
import { type Explanation, explainMerge } from "../merge/analysis/index.js";
import type { StreamOptions } from "../tensor/streaming/index.js";
import { type FolderOptions, hubOf } from "./options.js";

/** Options of `explain`. */
export interface ExplainOptions extends StreamOptions, FolderOptions {
  /** The models that it may be made of. */
  readonly from: readonly string[];
  /** The model that those were fine-tuned from. Default: none. */
  readonly base?: string | undefined;
}

/** Result of `explain`. */
export interface ExplainResult extends Explanation {}

/**
 * Finds out how a model was merged: for each tensor the model it is from, or its weights by least squares; and a recipe, if one
 * gives every tensor.
 * @param merged a folder, or the name of a model on the hub
 * @throws LayergraftError with code `usage` for fewer than two models to explain it by, or for an adapter
 * @throws CheckpointError or FormatError if a model cannot be read
 * @throws CancelledError if the signal fires
 */
export async function explain(merged: string, options: ExplainOptions): Promise<ExplainResult> {
  const { from, base } = options;
  const names = [...from, ...(base === undefined ? [] : [base])];
  if (names.length < 2) throw usageError("Missing models to explain it by", { option: "from" });
  const whole = await open(merged, options);
  if (whole.adapter) throw usageError("explain takes a whole model. Merge the adapter into its base first.");
  const models = [];
  for (const source of names) models.push({ source, checkpoint: await open(source, options) });
  return explainMerge(whole, models, { ...options, hasBase: base !== undefined });
}

function open(source: string, { folder, ...options }: FolderOptions & Pick<StreamOptions, "signal">) {
  return openCheckpoint(source, { hub: hubOf(options), ...(folder === undefined ? {} : { base: folder }) });
}
