// Which backend runs a model: the one that is named, else one that fits into memory.

import { isAbsolute, join } from "node:path";
import {
  type EngineSource,
  estimateEngine,
  fitsIn,
  type MemoryEstimate,
  type ModelSource,
  openModelSource,
  requireMemory,
} from "../../engine/index.js";
import type { SourceOptions } from "../../formats/checkpoint/index.js";
import { freeMemory, LayergraftError, usageError } from "../../kit/index.js";
import { formatBytes } from "../../kit/printing/index.js";
import { isRecipeFile } from "../../merge/index.js";
import { planGguf } from "../gguf/plan-gguf.js";
import { FILE_TYPE_NAMES, type FileType } from "../gguf/tensor-types.js";
import { INSTALL_LLAMA, loadLibrary } from "./library.js";
import { estimateExport } from "./llama-memory.js";

/** Backends that run a model in this process. */
export const BACKENDS = ["engine", "llama"] as const;
export type BackendName = (typeof BACKENDS)[number];

export const DEFAULT_TYPE: FileType = "q8_0";
/** What is tried where float32 does not fit: the first has no loss that tasks show, the second is the smallest usual one. */
const SMALLER: readonly FileType[] = [DEFAULT_TYPE, "q4_k_m"];

export interface BackendOptions {
  /** Default: llama for a GGUF file or where a type is given, else what `prefer` says. */
  readonly backend?: BackendName | undefined;
  readonly type?: FileType | undefined;
  readonly providers?: readonly string[] | undefined;
}

/** How to choose where nothing names a backend. */
export interface ChoiceOptions extends BackendOptions, SourceOptions {
  /**
   * exact: the embedded engine, in float32. speed: llama.cpp, where it is installed and runs the model as it is written.
   * Either gives way to the other where it does not fit. Default: exact.
   */
  readonly prefer?: "exact" | "speed" | undefined;
  /** Whether the weights are shared with other models of the process. Default: false. */
  readonly shared?: boolean | undefined;
  /** How to load node-llama-cpp; for tests. */
  readonly load?: (() => Promise<unknown>) | undefined;
}

export interface BackendChoice {
  readonly name: BackendName;
  /** Of llama.cpp, for what is no GGUF file. */
  readonly type?: FileType | undefined;
  /** Why, in a few words. */
  readonly reason: string;
}

export function isGguf(source: EngineSource): source is string {
  return typeof source === "string" && /\.gguf$/i.test(source);
}

/**
 * The backend that the options name, or that the source or the type needs; undefined where nothing says so.
 * @throws LayergraftError code `usage` for options that do not go together
 */
export function namedBackend(
  source: EngineSource,
  { backend, type, providers }: BackendOptions,
): BackendName | undefined {
  const file = isGguf(source);
  const named = backend ?? (file || (type !== undefined && !providers) ? "llama" : providers && "engine");
  if (named !== undefined && !BACKENDS.includes(named))
    throw usageError(`backend is ${named}; it must be engine or llama`);
  if (type !== undefined && !FILE_TYPE_NAMES.includes(type)) {
    throw usageError(`type is ${type}; it must be one of ${FILE_TYPE_NAMES.join(", ")}`);
  }
  if (named === "llama") {
    if (providers) throw usageError("providers are for the embedded engine; llama.cpp chooses the GPU itself.");
    if (file && type !== undefined)
      throw usageError(`${source} is a GGUF file, which has its own type. Leave out type.`);
  } else if (type !== undefined) throw usageError("type needs the backend llama.");
  return named;
}

/**
 * The backend that a model runs in. Reads headers where nothing names it, and downloads no weights.
 * @throws LayergraftError code `usage` for options that do not go together; code `memory` if none fits
 */
export async function chooseBackend(
  source: EngineSource,
  options: ChoiceOptions,
): Promise<{ readonly choice: BackendChoice; readonly opened?: ModelSource }> {
  const { backend, type, prefer = "exact" } = options;
  const named = namedBackend(source, options);
  if (named !== undefined) {
    const reason = backend ? `--backend ${named}` : isGguf(source) ? "a GGUF file" : type ? "--type" : "--provider";
    return { choice: { name: named, type, reason } };
  }
  const { folder, hub } = options;
  const opened = await openModelSource(source, { folder, hub: hub && { ...hub, fetch: "plan" } });
  const engine = (reason: string) => ({ choice: { name: "engine", reason } as const, opened });
  const estimate = estimateEngine(opened, { shared: options.shared });
  const free = freeMemory();
  const fits = fitsIn(estimate, free);
  if (fits && (prefer === "exact" || !(await isWritten(source, folder)))) return engine("the default");
  const library = await loadLibrary(options.load).catch(() => undefined);
  if (fits && !library) return engine("the default");
  const exports: { readonly type: FileType; readonly size: MemoryEstimate }[] = [];
  for (const one of SMALLER) {
    const plan = await planGguf(opened, { type: one }).catch((error: unknown) => {
      if (error instanceof LayergraftError) return undefined;
      throw error;
    });
    if (plan) exports.push({ type: one, size: estimateExport(plan) });
    if (plan && fitsIn(estimateExport(plan), free)) break;
  }
  const fitting = exports.find(({ size }) => fitsIn(size, free));
  if (fits) {
    if (fitting?.type !== DEFAULT_TYPE) return engine("the default, as llama.cpp does not run this model");
    const reason = `${DEFAULT_TYPE}, faster than --backend engine, which is exact`;
    return { choice: { name: "llama", type: fitting.type, reason }, opened };
  }
  if (fitting && library) {
    const reason = `${fitting.type}, as float32 needs ${formatBytes(estimate.total)} and ${formatBytes(free.bytes)} are free`;
    return { choice: { name: "llama", type: fitting.type, reason }, opened };
  }
  const smallest = fitting ?? exports.at(-1);
  requireMemory({
    what: `${opened.name} in float32`,
    estimate,
    advice: () => adviceOf(smallest, fitting !== undefined),
  });
  return engine("the default");
}

/** What to do about a model that does not fit, where llama.cpp is not installed or does not help. */
function adviceOf(
  smallest: { readonly type: FileType; readonly size: MemoryEstimate } | undefined,
  fits: boolean,
): string {
  if (!smallest) return "llama.cpp does not run it either: use a machine with more memory.";
  const size = `about ${formatBytes(smallest.size.total)} as ${smallest.type}`;
  if (!fits) return `llama.cpp needs ${size}, which is too much, too.`;
  return `llama.cpp needs ${size}. Install it next to layergraft: ${INSTALL_LLAMA}.`;
}

/** Whether a source is on a disk as it is run: what a recipe computes would be exported for each change of it. */
async function isWritten(source: EngineSource, folder = "."): Promise<boolean> {
  return typeof source === "string" && !(await isRecipeFile(isAbsolute(source) ? source : join(folder, source)));
}
