import { resolve } from "node:path";
import { openModelSource } from "../engine/index.js";
import {
  EXPORT_FORMATS,
  type ExportPlan,
  type FileType,
  type OnnxType,
  type WriteGgufOptions,
} from "../export/index.js";
import { own, usageError } from "../kit/index.js";
import { engineSource, type ModelInput } from "./model.js";
import { type FolderOptions, hubOf } from "./options.js";

/** Options of `exportModel`. */
export interface ExportOptions extends WriteGgufOptions, FolderOptions {
  /** The model: a folder, `FOLDER+ADAPTER`, a recipe or its file, or a plan. */
  readonly source: ModelInput;
  /** `gguf`: a file for llama.cpp. `onnx`: a folder for transformers.js. Default: `"gguf"`. */
  readonly format?: "gguf" | "onnx" | undefined;
  /** Encoding of the weights, as llama.cpp or transformers.js names it. Default: `"q8_0"`, for ONNX `"q8"`. */
  readonly type?: FileType | OnnxType | undefined;
  /** GGUF: `PATTERN=TYPE`, encodings of tensors whose name in the file the regular expression finds. Default: none. */
  readonly tensorTypes?: readonly string[] | undefined;
}

/** Result of `exportModel`. */
export interface ExportResult {
  /** Absolute path of the file or folder. */
  readonly out: string;
  readonly bytes: number;
  /** Equal for equal weights: a digest of the sources, the configuration and the options; for GGUF of the tokenizer, too. */
  readonly digest: string;
  /** Number and bytes of tensors by encoding. */
  readonly encodings: Readonly<Record<string, { readonly tensors: number; readonly bytes: number }>>;
  /** How the export differs from the model, such as blocks that rows do not fill. */
  readonly notes: readonly string[];
  /** Such as values that exceeded float16. */
  readonly warnings: readonly string[];
}

/**
 * Writes a model as a GGUF file for llama.cpp, or as an ONNX folder for transformers.js. A recipe is merged while it is
 * written.
 * @throws CheckpointError if the model's family is not supported, or llama.cpp has no such tokenizer
 * @throws RecipeError or MismatchError if a recipe is not valid, or models do not fit together
 * @throws OutputError if `out` exists and `force` is not set, or the disk fills up
 * @throws CancelledError if the signal fires
 */
export async function exportModel(options: ExportOptions): Promise<ExportResult> {
  const { folder, out } = options;
  const { digest, encodings, notes, write } = await planExport(options);
  const { bytes, warnings, ...written } = await write({ ...options, out: resolve(folder ?? "", out) });
  return { out: written.out, bytes, digest, encodings, notes, warnings };
}

/** An export that is planned, and what was read and chosen for it. */
interface PlannedExport extends ExportPlan {
  /** The model's name. */
  readonly name: string;
  readonly type: string;
}

/** Plans what `exportModel` writes. Reads headers. */
export async function planExport(options: Omit<ExportOptions, "out">): Promise<PlannedExport> {
  const { source, format: name = "gguf", tensorTypes, folder, resume } = options;
  const format = own(EXPORT_FORMATS, name);
  if (!format) throw usageError(`format is ${name}; it must be one of ${Object.keys(EXPORT_FORMATS).join(", ")}`);
  if (name === "onnx" && tensorTypes) {
    throw usageError("onnx has no encodings of single tensors.", { option: "tensorTypes" });
  }
  if (name === "onnx" && resume) throw usageError("onnx exports cannot be resumed. Repeat it without resume.");
  const { type = format.defaultType } = options;
  if (!format.types.includes(type)) {
    throw usageError(`type ${type} is not a type of ${name}. Choose one of ${format.types.join(", ")}.`);
  }
  const opened = await openModelSource(engineSource(source), { folder, hub: hubOf(options) });
  const plan = await format.plan(opened, type, tensorTypes);
  return { ...plan, name: opened.name, type, notes: [...opened.notes, ...plan.notes] };
}
