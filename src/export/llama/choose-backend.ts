// Which backend runs a model: the one that is named, else one that fits into memory.

import { isAbsolute, join } from "node:path";
import { type EngineSource, type ModelSource, openModelSource } from "../../engine/index.js";
import {
  estimateEngine,
  fitsIn,
  type MemoryAdvice,
  type MemoryEstimate,
  requireMemory,
} from "../../engine/memory/index.js";
import { loadRuntime } from "../../engine/runtime/index.js";
import type { SourceOptions } from "../../formats/checkpoint/index.js";
import { LayergraftError, usageError } from "../../kit/index.js";
import { describeFree, freeMemory } from "../../kit/memory/index.js";
import { formatBytes } from "../../kit/printing/index.js";
import { isRecipeFile } from "../../merge/index.js";
import { ggufPlanner } from "../gguf/plan-gguf.js";
import { FILE_TYPE_NAMES, type FileType } from "../gguf/tensor-types.js";
import { installLlama, llamaMissing, loadLibrary } from "./library.js";
import { estimateExport } from "./llama-memory.js";

/** Backends that run a model in this process. */
export const BACKENDS = ["engine", "llama"] as const;
export type BackendName = (typeof BACKENDS)[number];

export const DEFAULT_TYPE: FileType = "q8_0";
/** What is tried where float32 does not fit: the first has no loss that tasks show, the second is the smallest usual one. */
const SMALLER: readonly FileType[] = [DEFAULT_TYPE, "q4_k_m"];

/** Bytes of a smaller model's float32 weights: the engine has answered before llama.cpp has started. */
const QUICK = 50e6;

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
 * The backend that a model runs in. Reads headers, but for llama.cpp where that is named, and downloads no weights.
 * @returns with `opened`, the source of those headers. The engine fits into memory where it is chosen.
 * @throws LayergraftError code `usage` for options that do not go together; code `memory` if none fits, or the engine
 *   that is named
 */
export async function chooseBackend(
  source: EngineSource,
  options: ChoiceOptions,
): Promise<{ readonly choice: BackendChoice; readonly opened?: ModelSource }> {
  const { backend, type, prefer = "exact" } = options;
  const named = namedBackend(source, options);
  const { folder, hub } = options;
  const llama = () => loadLibrary(options.load).catch(() => undefined);
  /** A file that llama.cpp would run, were it installed. */
  const isLoneFile = named === "llama" && backend === undefined && isGguf(source) && !(await llama());
  if (named === "llama" && !isLoneFile) {
    const reason = backend ? "as given" : isGguf(source) ? "a GGUF file" : "for its type";
    return { choice: { name: named, type, reason } };
  }
  // First, so that nothing is read where nothing could run it.
  const missing: unknown = await loadRuntime().then(
    () => undefined,
    (error: unknown) => error,
  );
  if (missing !== undefined && (named || !(await llama()))) throw missing;
  const opened = await openModelSource(source, { folder, hub: hub && { ...hub, fetch: "plan" } });
  const estimate = estimateEngine(opened, { shared: options.shared });
  const free = freeMemory();
  const fits = missing === undefined && fitsIn(estimate, free);
  const reasons = {
    file: `in float32, as llama.cpp is not installed; to add it: ${installLlama()}`,
    none: "the default",
    given: "as given",
    providers: "for its providers",
  };
  const reason = reasons[isLoneFile ? "file" : named === undefined ? "none" : backend ? "given" : "providers"];
  const usual = { choice: { name: "engine", reason } as const, opened };
  const isQuick = estimate.weights < QUICK;
  if (fits && (named || prefer === "exact" || isQuick || !(await isWritten(source, folder)))) return usual;
  const library = await llama();
  if (fits && !library) return usual;
  const exports = await estimateExports(opened);
  const fitting = exports instanceof LayergraftError ? undefined : exports.find(({ size }) => fitsIn(size, free));
  const inLlama = (why: string) => {
    return { choice: { name: "llama", type: fitting?.type, reason: `${fitting?.type}, ${why}` } as const, opened };
  };
  if (fits) {
    return fitting?.type === DEFAULT_TYPE ? inLlama("for speed; the backend engine computes in float32") : usual;
  }
  if (fitting && library && !named) {
    if (missing !== undefined) return inLlama("as ONNX Runtime is not installed");
    return inLlama(`as float32 needs ${formatBytes(estimate.total)}, and ${describeFree(free)}`);
  }
  const advice = () => adviceOf(exports, fitting, library !== undefined);
  requireMemory({ what: `${opened.name} in float32`, estimate, advice }, free);
  return usual;
}

interface SizedExport {
  readonly type: FileType;
  readonly size: MemoryEstimate;
}

/** What the types take that are tried where float32 does not fit; an error where llama.cpp does not run the model. */
async function estimateExports(source: ModelSource): Promise<readonly SizedExport[] | LayergraftError> {
  try {
    const plan = await ggufPlanner(source);
    return SMALLER.map((type) => ({ type, size: estimateExport(plan({ type })) }));
  } catch (error) {
    if (error instanceof LayergraftError) return error;
    throw error;
  }
}

/** What to do about a model that does not fit into the engine, where llama.cpp is not chosen. */
function adviceOf(
  exports: readonly SizedExport[] | LayergraftError,
  fitting: SizedExport | undefined,
  isInstalled: boolean,
): MemoryAdvice {
  if (exports instanceof LayergraftError) return { text: exports.message };
  const smallest = exports.reduce((a, b) => (a.size.total <= b.size.total ? a : b));
  const needs = ({ type, size }: SizedExport) => `llama.cpp needs about ${formatBytes(size.total)} as ${type}`;
  if (!fitting) return { text: `${needs(smallest)}, which is too much, too.` };
  const way = { option: "llamaType", value: fitting.type };
  return isInstalled ? { text: `${needs(fitting)}.`, ...way } : { text: `${needs(fitting)}. ${llamaMissing()}` };
}

/** Whether a source is on a disk as it is run: what a recipe computes would be exported for each change of it. */
async function isWritten(source: EngineSource, folder = "."): Promise<boolean> {
  return typeof source === "string" && !(await isRecipeFile(isAbsolute(source) ? source : join(folder, source)));
}
