import type { EngineSource } from "../../engine/index.js";
import { usageError } from "../../kit/index.js";
import { FILE_TYPE_NAMES, type FileType } from "../gguf/tensor-types.js";

/** Backends that run a model in this process. */
export const BACKENDS = ["engine", "llama"] as const;
export type BackendName = (typeof BACKENDS)[number];

export interface BackendOptions {
  /** Default: llama for a GGUF file, else engine. */
  readonly backend?: BackendName | undefined;
  readonly type?: FileType | undefined;
  readonly providers?: readonly string[] | undefined;
}

export function isGguf(source: EngineSource): source is string {
  return typeof source === "string" && /\.gguf$/i.test(source);
}

/**
 * The backend that the options name, or that the source needs.
 * @throws LayergraftError code `usage` for options that do not go together
 */
export function chooseBackend(source: EngineSource, { backend, type, providers }: BackendOptions): BackendName {
  const file = isGguf(source);
  const chosen = backend ?? (file ? "llama" : "engine");
  if (!BACKENDS.includes(chosen)) throw usageError(`backend is ${chosen}; it must be engine or llama`);
  if (type !== undefined && !FILE_TYPE_NAMES.includes(type)) {
    throw usageError(`type is ${type}; it must be one of ${FILE_TYPE_NAMES.join(", ")}`);
  }
  if (chosen === "llama") {
    if (providers) throw usageError("providers are for the embedded engine; llama.cpp chooses the GPU itself.");
    if (file && type !== undefined)
      throw usageError(`${source} is a GGUF file, which has its own type. Leave out type.`);
    return chosen;
  }
  if (type !== undefined) throw usageError("type needs the backend llama.");
  return chosen;
}
