// Adapters from the changes of models.
import { resolve } from "node:path";
import { type Extraction, extractAdapter } from "../merge/index.js";
import type { Source } from "./inputs.js";
import { controlsOf, type FolderOptions, hubOf, type StreamOptions } from "./options.js";

/** Options of `extract`. */
export interface ExtractOptions extends StreamOptions, FolderOptions {
  /** The model that the adapter will be added to. */
  readonly base: string;
  /** The fine-tune or merge: a folder, `FOLDER+ADAPTER`, or a recipe, which is computed on the fly. */
  readonly model: Source;
  /** Folder to write. */
  readonly out: string;
  /** Largest rank of a weight. Default: 64, or no limit if `energy` is given. */
  readonly rank?: number | undefined;
  /** Share of each weight's squared change to keep with the smallest rank, above 0 and at most 1. Default: none. */
  readonly energy?: number | undefined;
  /** Leave changed norms, biases and embeddings at the base's. Default: false, they are saved whole. */
  readonly linearOnly?: boolean | undefined;
  /** Names of tensors to extract, with `*` for any text. Default: all. */
  readonly include?: readonly string[] | undefined;
  /** Names of tensors to leave at the base's, with `*` for any text. Default: none. */
  readonly exclude?: readonly string[] | undefined;
  /** Seed of the decomposition. Default: 0. */
  readonly seed?: number | undefined;
  /** Replace an existing adapter that `extract` wrote. Default: false. */
  readonly force?: boolean | undefined;
}

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
  const { out, force, signal: _, ...settings } = options;
  return extractAdapter(
    { ...settings, hub: hubOf(options), ...controlsOf(options) },
    { out: resolve(options.folder ?? "", out), force },
  );
}
