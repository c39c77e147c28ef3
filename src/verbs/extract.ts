// Adapters from the changes of models.
import { resolve } from "node:path";
import {
  type Extraction,
  type ExtractionOutput,
  extractAdapter,
  type ExtractOptions as Settings,
} from "../merge/extract/index.js";
import { type FolderOptions, hubOf } from "./options.js";

/** Options of `extract`. */
export interface ExtractOptions extends Omit<Settings, keyof FolderOptions>, FolderOptions, ExtractionOutput {}

/**
 * Writes the change of a model as a PEFT LoRA adapter: the best low-rank approximation of each linear weight, by
 * randomised singular value decomposition (arXiv 0909.4061).
 * @returns the share of the squared change that the adapter keeps, by rank, part and weight
 * @throws RecipeError if rank or energy is out of range, or a recipe is not valid
 * @throws MismatchError if the models do not fit together, or an adapter cannot hold a change
 * @throws OutputError if `out` is one of the models, or exists and `force` is not set
 * @throws CheckpointError or FormatError if a model cannot be read, or nothing changed
 * @throws CancelledError if the signal fires
 */
export function extract(options: ExtractOptions): Promise<Extraction> {
  const { out, force } = options;
  return extractAdapter(
    { ...options, hub: hubOf(options) },
    { out: options.folder === undefined ? out : resolve(options.folder, out), force },
  );
}
