// Opens a model in llama.cpp: a GGUF file, or any other source, which is exported to the cache first.

import { stat } from "node:fs/promises";
import { basename, isAbsolute, join } from "node:path";
import {
  Engine,
  type EngineSource,
  isHere,
  type ModelSource,
  modelTextOf,
  type OpenEngineOptions,
  openModelSource,
  readGenerationConfig,
  requireTemplate,
} from "../../engine/index.js";
import { type MemoryAdvice, type MemoryUse, requireMemory } from "../../engine/memory/index.js";
import type { SourceOptions } from "../../formats/checkpoint/index.js";
import { ggufGeneration, readGgufHeader, requireModelFile } from "../../formats/gguf/index.js";
import {
  cachedFile,
  cacheFolderOf,
  exists,
  isFile,
  type ModelCacheSettings,
  modelCacheSettings,
} from "../../kit/files/index.js";
import { type CallOptions, CancelledError, CheckpointError, LayergraftError, type Progress } from "../../kit/index.js";
import type { FreeMemory } from "../../kit/memory/index.js";
import { planGguf } from "../gguf/plan-gguf.js";
import type { FileType } from "../gguf/tensor-types.js";
import { writeGguf } from "../gguf/write-gguf.js";
import { DEFAULT_TYPE, isGguf, namedBackend } from "./choose-backend.js";
import { ggufTemplate, ggufText } from "./gguf-text.js";
import { type Llama, type LlamaFile, type LlamaLibrary, loadLibrary } from "./library.js";
import { estimateExport, estimateGguf, fitsSmaller, tensorsOf } from "./llama-memory.js";
import { llamaModel } from "./llama-model.js";

export interface OpenLlamaOptions
  extends CallOptions,
    SourceOptions,
    Pick<OpenEngineOptions, "chat" | "generationConfig"> {
  /** Encoding of the weights in llama.cpp. GGUF files have their own. Default: `"q8_0"`. */
  readonly type?: FileType | undefined;
  /** Threads of the computation. Default: one per core. */
  readonly threads?: number | undefined;
  /** Maximum tokens of prompt and answer together. Default: the model's. */
  readonly context?: number | undefined;
  /** Where exported models are kept. Default: that of the environment. */
  readonly cache?: ModelCacheSettings | undefined;
  /** The source, where its headers were read before. Default: it is opened. */
  readonly opened?: ModelSource | undefined;
  /** How to load node-llama-cpp; for tests. */
  readonly load?: (() => Promise<unknown>) | undefined;
}

/**
 * Opens a model in llama.cpp.
 * @throws CheckpointError if llama.cpp does not run it
 * @throws LayergraftError code `runtime` if node-llama-cpp is not installed or does not load; code `memory` if the model
 *   does not fit; code `usage` for a type with a GGUF file, which has its own
 * @throws CancelledError if the signal fires
 */
export async function openLlama(source: EngineSource, options: OpenLlamaOptions = {}): Promise<Engine> {
  namedBackend(source, { backend: "llama", type: options.type });
  const library = await loadLibrary(options.load);
  if (!isGguf(source)) return openExported(library, source, options);
  const path = isAbsolute(source) ? source : join(options.folder ?? ".", source);
  if (!(await isFile(path))) throw new CheckpointError(`${path} does not exist, or is not a file.`, { file: path });
  const header = readGgufHeader(path);
  requireModelFile(header, path);
  const { metadata, tensors } = header;
  const generation = generationOf(options, () => readGenerationConfig(ggufGeneration({ metadata }), path));
  if (options.chat) {
    const chatTemplate = async () => ggufTemplate(path, metadata.get("tokenizer.chat_template"));
    await requireTemplate({ name: basename(path), chatTemplate });
  }
  // llama.cpp runs families that the engine does not read.
  const described = await openModelSource(path).catch(() => undefined);
  const estimateFor = (use: MemoryUse) => estimateGguf(path, described, use);
  const estimate = estimateFor({});
  const advice = (free: FreeMemory) =>
    fitsSmaller(estimate, tensors, free)
      ? { text: "Use a file with a smaller type, such as q4_k_m." }
      : { text: "Use a smaller model." };
  requireMemory({ what: basename(path), estimate, advice });
  const opened = await openFile(library, path, options);
  const text = await ggufText(path, opened.file, opened.vocabularySize);
  const model = llamaModel({ ...options, ...opened, library, notes: [], estimate: estimateFor });
  return new Engine(text, model, await generation);
}

async function openExported(library: LlamaLibrary, source: EngineSource, options: OpenLlamaOptions): Promise<Engine> {
  const { type = DEFAULT_TYPE, threads, folder, hub, signal, onProgress, cache = modelCacheSettings() } = options;
  const headers = options.opened ?? (await openModelSource(source, { folder, hub: hub && { ...hub, fetch: "plan" } }));
  const estimateFor = (use: MemoryUse) => estimateExport(planned, use);
  let planned = await planGguf(headers, { type });
  const estimate = estimateFor({});
  const advice = (free: FreeMemory): MemoryAdvice =>
    fitsSmaller(estimate, tensorsOf(planned), free)
      ? { text: "Use a smaller type.", option: "llamaType", value: "q4_k_m" }
      : { text: "Use a smaller model." };
  requireMemory({ what: `${headers.name} as ${type}`, estimate, advice });
  const opened = isHere(headers)
    ? headers
    : await openModelSource(source, { folder, hub: hub && { ...hub, fetch: "files" } });
  if (options.chat) await requireTemplate(modelTextOf(opened));
  const generation = await generationOf(options, () => modelTextOf(opened).generationConfig());
  const plan = opened === headers ? planned : await planGguf(opened, { type });
  planned = plan;
  const onExport = (progress: Progress) => onProgress?.({ ...progress, phase: `exporting as ${type} for llama.cpp` });
  const file = {
    kind: "gguf" as const,
    digest: plan.digest,
    bytes: plan.layout.bytes,
    write: (out: string) => writeGguf(plan, { out, resume: true, threads, signal, onProgress: onExport }),
  };
  const { path, loaded } = await openCached();
  const text = { ...modelTextOf(opened), digest: plan.digest };
  return new Engine(
    text,
    llamaModel({
      ...options,
      ...loaded,
      library,
      estimate: estimateFor,
      notes: [...plan.notes, `weights are ${type} in ${path}`],
    }),
    generation,
  );

  async function openCached() {
    for (;;) {
      const path = await cachedFile(file, cache, signal);
      try {
        return { path, loaded: await openFile(library, path, options) };
      } catch (error) {
        // Otherwise another process made room in the cache.
        if (await exists(path)) throw error;
      }
    }
  }
}

/** What a model's own settings change, unless they are left out. */
async function generationOf<T>({ generationConfig = true }: OpenLlamaOptions, read: () => T) {
  return generationConfig ? read() : undefined;
}

/** What is known before a model is exported for llama.cpp. */
export interface ExportOutlook extends ModelCacheSettings {
  /** Size of the export. */
  readonly bytes: number;
}

/**
 * Checks that llama.cpp is installed and runs a model. Reads headers, and writes nothing.
 * @throws as `openLlama`
 */
export async function checkLlama(
  source: EngineSource,
  { type = DEFAULT_TYPE, folder, load }: Pick<OpenLlamaOptions, "type" | "folder" | "load"> = {},
): Promise<ExportOutlook> {
  await loadLibrary(load);
  const { layout } = await planGguf(await openModelSource(source, { folder }), { type });
  const cache = modelCacheSettings();
  return { folder: cacheFolderOf("gguf", cache), mostBytes: cache.mostBytes, bytes: layout.bytes };
}

// One for the process: it holds the GPU.
const started = new WeakMap<LlamaLibrary, Promise<Llama>>();
let lastMessage = "";

function start(library: LlamaLibrary, signal: AbortSignal | undefined): Promise<Llama> {
  const found =
    started.get(library) ??
    library.getLlama({
      build: "never",
      progressLogs: false,
      // Each context has its own number.
      maxThreads: 0,
      logger: (level, message) => {
        if (level === "error" || level === "fatal") lastMessage = message.trim();
      },
    });
  started.set(library, found);
  return found.catch((error: unknown) => {
    started.delete(library);
    // An interrupt ends the process in which it tries llama.cpp, too.
    if (signal?.aborted) throw new CancelledError("stopped while llama.cpp was started");
    throw new LayergraftError(
      "runtime",
      `node-llama-cpp has no llama.cpp that runs on ${process.platform}-${process.arch}: ${messageOf(error)}.`,
      {},
      error,
    );
  });
}

async function openFile(
  library: LlamaLibrary,
  path: string,
  { signal, onProgress }: OpenLlamaOptions,
): Promise<{ llama: Llama; file: LlamaFile; vocabularySize: number }> {
  const llama = await start(library, signal);
  const { size } = await stat(path);
  let isLoading = true;
  try {
    lastMessage = "";
    const file = await llama.loadModel({
      modelPath: path,
      ...(signal ? { loadSignal: signal } : {}),
      // Also called after the model is loaded.
      onLoadProgress: (share) => {
        if (isLoading) onProgress?.({ phase: "loading", done: Math.round(share * size), total: size, unit: "bytes" });
      },
    });
    const vocabularySize = file.fileInfo.metadata.tokenizer?.ggml?.tokens?.length ?? 0;
    if (vocabularySize === 0) throw new Error("it has no tokens");
    return { llama, file, vocabularySize };
  } catch (error) {
    if (signal?.aborted) throw new CancelledError("stopped while the model was loaded");
    const reason = [messageOf(error), lastMessage].filter((text) => text !== "").join("; ");
    throw new CheckpointError(
      `llama.cpp cannot open ${basename(path)}: ${reason}. If the file is not complete, download or export it again.`,
      { file: path },
      error,
    );
  } finally {
    isLoading = false;
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? (error.message.split("\n")[0] ?? "").replace(/\.$/, "") : String(error);
}
