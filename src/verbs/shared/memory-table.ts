// What a model takes in each way that runs or trains it, beside what is free.

import { isAbsolute, join } from "node:path";
import { type ModelSource, openModelSource } from "../../engine/index.js";
import { estimateEngine, fitsIn, type MemoryEstimate } from "../../engine/memory/index.js";
import { FILE_TYPE_NAMES, type FileType, ggufPlanner } from "../../export/index.js";
import { estimateExport, estimateGguf, isGguf } from "../../export/llama/index.js";
import type { SourceOptions } from "../../formats/checkpoint/index.js";
import { LayergraftError } from "../../kit/index.js";
import { type FreeMemory, freeMemory } from "../../kit/memory/index.js";
import { estimateTraining } from "../../train/index.js";

/** A way to run or train a model. */
export interface MemoryRow {
  /** engine: float32; llama: by the type of its weights; full, lora: training in the engine. */
  readonly way: "engine" | "llama" | "full" | "lora";
  /** Of llama.cpp; `file` for a GGUF file's own. */
  readonly type?: FileType | "file" | undefined;
  /** Bytes, by what they are for; missing where the model does not run so. */
  readonly estimate?: MemoryEstimate | undefined;
  /** Whether that is free now. */
  readonly fits: boolean;
  /** Why the model does not run so. */
  readonly problem?: string | undefined;
}

/** Texts computed at once, and the tokens of each. */
export interface TextSizes {
  readonly texts: number;
  readonly tokens: number;
}

export interface MemoryTable {
  readonly model: string;
  /** As it was given. */
  readonly source: string;
  readonly free: FreeMemory;
  readonly running: TextSizes;
  readonly training: TextSizes;
  readonly rows: readonly MemoryRow[];
}

export interface MemoryTableOptions extends SourceOptions {
  /** Tokens of a text. Default: 1024, or the model's if fewer. */
  readonly tokens?: number | undefined;
  /** Texts at once. Default: 1 to run, 8 to train. */
  readonly texts?: number | undefined;
}

/** As `train` has them. */
const TRAINED = { texts: 8, tokens: 1024 };

/**
 * Estimates from headers. Of a model on the hub, no weights are downloaded.
 * @throws CheckpointError or FormatError or RecipeError or MismatchError if it cannot be opened at all
 */
export async function memoryTable(source: string, options: MemoryTableOptions = {}): Promise<MemoryTable> {
  const { folder = ".", hub, texts, tokens = TRAINED.tokens } = options;
  const free = freeMemory();
  const running = { texts: texts ?? 1, tokens };
  const training = { texts: texts ?? TRAINED.texts, tokens };
  const row = async (
    way: MemoryRow["way"],
    estimate: () => MemoryEstimate | Promise<MemoryEstimate>,
    type?: MemoryRow["type"],
  ): Promise<MemoryRow> => {
    const head = { way, ...(type === undefined ? {} : { type }) };
    try {
      const found = await estimate();
      return { ...head, estimate: found, fits: fitsIn(found, free) };
    } catch (error) {
      if (!(error instanceof LayergraftError)) throw error;
      return { ...head, fits: false, problem: error.message };
    }
  };
  let opened: ModelSource | undefined;
  let unread: unknown;
  try {
    opened = await openModelSource(source, { folder, hub: hub && { ...hub, fetch: "plan" } });
  } catch (error) {
    // llama.cpp runs GGUF files that the engine does not read.
    if (!isGguf(source)) throw error;
    unread = error;
  }
  const read = () => {
    if (!opened) throw unread;
    return opened;
  };
  const inLlama = isGguf(source)
    ? [
        await row(
          "llama",
          () => estimateGguf(isAbsolute(source) ? source : join(folder, source), opened, running),
          "file",
        ),
      ]
    : await rowsOfTypes();
  async function rowsOfTypes(): Promise<MemoryRow[]> {
    const planner = ggufPlanner(read());
    const of = (type: FileType) => async () => estimateExport((await planner)({ type }), running);
    return Promise.all(FILE_TYPE_NAMES.map((type) => row("llama", of(type), type)));
  }
  return {
    model: opened?.name ?? source,
    source,
    free,
    running,
    training,
    rows: [
      await row("engine", () => estimateEngine(read(), running)),
      ...inLlama,
      await row("full", () => estimateTraining(read(), { method: "full", ...training })),
      await row("lora", () => estimateTraining(read(), { method: "lora", ...training })),
    ],
  };
}
