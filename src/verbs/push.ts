import { resolve } from "node:path";
import { type PushResult, type PushOptions as PushSettings, pushFolder } from "../merge/output/index.js";
import type { FolderOptions } from "./options.js";

/** Options of `push`. */
export interface PushOptions extends Omit<PushSettings, "retryDelay" | "timeout">, Pick<FolderOptions, "folder"> {}

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
  const { folder, ...settings } = options;
  return pushFolder(folder === undefined ? source : resolve(folder, source), settings);
}
