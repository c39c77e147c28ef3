// Models as files of other programs.
import { resolve } from "node:path";
import { openModelSource } from "../engine/index.js";
import { type FileType, planGguf, writeGguf } from "../export/index.js";
import { engineSource, type ModelInput } from "./model.js";
import { controlsOf, type FolderOptions, type StreamOptions } from "./options.js";

/** Options of `exportModel`. */
export interface ExportOptions extends StreamOptions, FolderOptions {
  /** The model: a folder, `FOLDER+ADAPTER`, a recipe or its file, or a plan. */
  readonly source: ModelInput;
  /** File to write; it appears when it is complete. */
  readonly out: string;
  /** Encoding of the weights, as llama.cpp names it. Default: `"q8_0"`. */
  readonly type?: FileType | undefined;
  /** `PATTERN=TYPE`: encodings of tensors whose name in the file the regular expression finds. Default: none. */
  readonly tensorTypes?: readonly string[] | undefined;
  /** Resume an interrupted run; start from the beginning if there is none. Default: false. */
  readonly resume?: boolean | undefined;
  /** Replace an existing file or interrupted run. Default: false. */
  readonly force?: boolean | undefined;
}

/** Result of `exportModel`. */
export interface ExportResult {
  /** Absolute path of the file. */
  readonly out: string;
  readonly bytes: number;
  /** Equal for equal files: a digest of the sources, the configuration, the tokenizer and the options. */
  readonly digest: string;
  /** Number and bytes of tensors by encoding. */
  readonly encodings: Readonly<Record<string, { readonly tensors: number; readonly bytes: number }>>;
  /** How the file differs from the model, such as blocks that rows do not fill. */
  readonly notes: readonly string[];
  /** Such as values that exceeded float16. */
  readonly warnings: readonly string[];
}

/**
 * Writes a model as a GGUF file for llama.cpp. A recipe is merged while it is written.
 * @throws CheckpointError if llama.cpp does not run the model, or has no such tokenizer
 * @throws RecipeError or MismatchError if a recipe is not valid, or models do not fit together
 * @throws OutputError if `out` exists and `force` is not set, or the disk fills up
 * @throws CancelledError if the signal fires
 */
export async function exportModel(options: ExportOptions): Promise<ExportResult> {
  const { source, out, type = "q8_0", tensorTypes, folder, resume, force } = options;
  const opened = await openModelSource(engineSource(source), folder === undefined ? {} : { folder });
  const plan = await planGguf(opened, { type, tensorTypes });
  const target = { out: resolve(folder ?? "", out), resume, force };
  const { out: path, bytes, warnings } = await writeGguf(plan, { ...target, ...controlsOf(options) });
  const notes = [...opened.notes, ...plan.notes];
  return { out: path, bytes, digest: plan.digest, encodings: plan.encodings, notes, warnings };
}
