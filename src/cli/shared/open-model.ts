// Chooses what runs a model, and opens it: the embedded engine, or llama.cpp.

import { Option } from "commander";
import { type Engine, type OpenEngineOptions, openEngine } from "../../engine/index.js";
import { FILE_TYPE_NAMES, type FileType } from "../../export/index.js";
import { BACKENDS, type BackendName, chooseBackend, isGguf, openLlama } from "../../export/llama/index.js";
import { formatBytes } from "../../kit/printing/index.js";
import { hubAccess } from "./hub-access.js";
import type { WorkControls, WorkOptions } from "./output.js";
import { adding } from "./typed.js";

export interface ModelFlags extends WorkOptions {
  readonly backend?: BackendName;
  readonly type?: FileType;
  readonly provider?: string[];
}

export const withBackendOption = adding<Pick<ModelFlags, "backend">>((command) =>
  command
    .optionsGroup("Engine:")
    .addOption(
      new Option(
        "--backend <name>",
        "engine, or llama for llama.cpp (default: llama for .gguf files, else engine)",
      ).choices(BACKENDS),
    ),
);

export function typeOption(): Option {
  return new Option("--type <type>", "encoding of the weights in llama.cpp (default: q8_0)").choices(FILE_TYPE_NAMES);
}

export interface OpenedModel {
  readonly engine: Engine;
  /** What runs the model, and what was merged for it. */
  readonly facts: readonly string[];
}

interface OpenOptions extends Pick<WorkControls, "signal" | "onProgress"> {
  /** Most tokens of prompt and answer in llama.cpp; default the model's. */
  readonly context?: number | undefined;
  readonly asFloats?: OpenEngineOptions["asFloats"];
  readonly cache?: OpenEngineOptions["cache"];
}

/**
 * Opens a model with the backend that the flags name, or that the source needs.
 * @throws LayergraftError code `usage` for flags that do not go together
 */
export async function openModel(
  source: string,
  flags: ModelFlags,
  { signal, onProgress, context, ...embedded }: OpenOptions,
): Promise<OpenedModel> {
  const { backend, type, provider, threads } = flags;
  const chosen = chooseBackend(source, { backend, type, providers: provider });
  const hub = hubAccess("files", { signal, onProgress });
  if (chosen === "llama") {
    const engine = await openLlama(source, { type, threads, context, hub, signal, onProgress });
    return { engine, facts: [`${engine.program} (${isGguf(source) ? "a GGUF file" : "--backend llama"})`] };
  }
  let computed = 0;
  const engine = await openEngine(source, {
    ...{ signal, hub, threads, providers: provider, ...embedded },
    onProgress: (progress) => {
      computed = progress.total;
      onProgress?.(progress);
    },
  });
  const merged = computed > 0 ? [`${formatBytes(computed)} merged in memory`] : [];
  return { engine, facts: [`embedded engine (${backend ? "--backend engine" : "the default"})`, ...merged] };
}
