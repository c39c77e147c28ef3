// Pushes models and adapters to the hub.
import { resolve } from "node:path";
import { type PushResult, pushFolder } from "../merge/index.js";
import { type CallOptions, controlsOf, type FolderOptions } from "./options.js";

/** Options of `push`. */
export interface PushOptions extends CallOptions, FolderOptions {
  /** Repository on the hub, such as `org/name`; created if missing. */
  readonly name: string;
  /** Create the repository as private; an existing public one is an error. Default: false. */
  readonly private?: boolean | undefined;
  /** Branch to push to, created if missing. Default: `main`. */
  readonly branch?: string | undefined;
  /** Title of the commit. Default: names the folder and layergraft's version. */
  readonly message?: string | undefined;
  /** Send nothing, and return what would be sent. Default: false. */
  readonly dryRun?: boolean | undefined;
}

/**
 * Pushes a model or adapter to the Hugging Face hub, as one commit. Large files are streamed. What is there already, also
 * from an interrupted push, is not sent again. Needs a token with write access, as Python's huggingface_hub finds it:
 * `HF_TOKEN`, or the file that `hf auth login` writes.
 * @param source a folder with a model or an adapter. Weights, configuration, tokenizer, model card and `layergraft.json` are
 *   sent, without paths of this machine
 * @throws LayergraftError with code `hub` if the hub refuses or cannot be reached
 * @throws CheckpointError or FormatError if the folder is not a complete model or adapter
 * @throws CancelledError if the signal fires
 */
export function push(source: string, options: PushOptions): Promise<PushResult> {
  const { folder = "", private: isPrivate, name, branch, message, dryRun } = options;
  const { signal, onProgress } = controlsOf(options);
  return pushFolder(resolve(folder, source), { name, isPrivate, branch, message, dryRun, signal, onProgress });
}
