// What commands and verbs that run a model take, declared once, and how they open it.
import { z } from "zod";
import type { Engine } from "../engine/index.js";
import { FILE_TYPE_NAMES } from "../export/index.js";
import { BACKENDS } from "../export/llama/index.js";
import { usageError } from "../kit/index.js";
import { formatDuration } from "../kit/printing/index.js";
import { factsOf, Model, type ModelInput, type OpenModelOptions, openModel } from "./model.js";
import type { Controls, FlagSpelling } from "./verb.js";

/** What can be run. */
export const SOURCE = "FOLDER, FOLDER+ADAPTER, a recipe or .gguf file, or a model on the hub";

/** @param otherwise the default for what is no .gguf file and fits into memory as float32 */
export const backendFields = (otherwise = "") => ({
  backend: z
    .enum(BACKENDS)
    .optional()
    .meta({
      description: "engine, or llama for llama.cpp",
      unset: `llama for .gguf files${otherwise}, else engine if it fits`,
    }),
  type: z.enum(FILE_TYPE_NAMES).optional().meta({ description: "encoding of the weights in llama.cpp", unset: "q8_0" }),
  providers: z
    .array(z.string())
    .optional()
    .meta({ description: "ONNX Runtime providers in order of preference, such as cuda cpu" }),
});

/** Of what prefers speed. */
export const FASTER = ", and for folders where it is installed";

const TEMPERATURE = "must be a number from 0 to 10";
const SHARE = "must be a number from 0 to 1";
const LEAST = "must be at least 1";

export const templateFields = {
  templateVariables: z
    .record(z.string(), z.unknown())
    .optional()
    .meta({ description: `variables of the chat template, such as '{"enable_thinking": false}'` }),
};

export const batchField = (what: string) =>
  z
    .int()
    .min(1, LEAST)
    .optional()
    .meta({ description: `${what} per batch`, unset: "8" });

/** How answers are drawn. @param maxNewTokens the default */
export const samplingFields = (maxNewTokens: number) => ({
  maxNewTokens: z.int().min(0).default(maxNewTokens).meta({ description: "maximum tokens of an answer" }),
  temperature: z
    .number()
    .min(0, TEMPERATURE)
    .max(10, TEMPERATURE)
    .default(0)
    .meta({ description: "temperature; 0 takes the most likely token" }),
  topK: z.int().min(1, LEAST).optional().meta({ description: "sample from the k most likely tokens" }),
  topP: z
    .number()
    .min(0, SHARE)
    .max(1, SHARE)
    .optional()
    .meta({ description: "sample from the most likely tokens up to this total probability" }),
  generationConfig: z
    .boolean()
    .optional()
    .meta({ description: "follow the settings of generation_config.json, such as repetition_penalty", unset: "true" }),
  seed: z.int().min(0).default(0).meta({ description: "random seed" }),
  stop: z.array(z.string()).optional().meta({ description: "strings that end an answer" }),
});

/** How a terminal spells these fields. */
export const MODEL_FLAGS: Readonly<Record<string, FlagSpelling>> = {
  backend: { value: "name" },
  type: { value: "type" },
  providers: { flag: "provider", value: "name..." },
  templateVariables: { flag: "chat-template-kwargs", value: "json", read: "json" },
  temperature: { value: "t" },
  topK: { value: "k" },
  topP: { value: "p" },
  generationConfig: {
    flag: "no-generation-config",
    help: "ignore the settings of generation_config.json, such as repetition_penalty (end tokens still count)",
  },
  stop: { value: "text..." },
  bos: { flag: "no-bos", help: "do not add the tokenizer's BOS token" },
};

/** @throws LayergraftError code `usage` for a choice among the most likely tokens where the likeliest is taken */
export function checkSampling({ temperature, topK, topP }: z.output<z.ZodObject<ReturnType<typeof samplingFields>>>) {
  if (temperature > 0 || (topK === undefined && topP === undefined)) return;
  throw usageError(
    "top-p and top-k need a temperature above 0, as greedy answers are all the same; set one, such as 0.7",
  );
}

/** Opens a model, runs some work with it, closes it. What runs it, and how it was read, are notes. */
export async function withModel<T>(
  source: ModelInput,
  options: OpenModelOptions,
  { folder, hub, threads, signal, onProgress, onNote }: Controls,
  work: (engine: Engine, notes: string[]) => Promise<T>,
): Promise<T> {
  const start = performance.now();
  let computed = 0;
  const model = await openModel(source, {
    ...options,
    folder,
    hub,
    threads,
    signal,
    onProgress: (progress) => {
      computed = progress.total;
      onProgress?.(progress);
    },
  });
  try {
    for (const note of model.notes) onNote?.(`note: ${note}`);
    const facts = [model.family, ...factsOf(model, computed)].join(", ");
    onNote?.(`${model.name}: ${facts}, ready in ${formatDuration((performance.now() - start) / 1000)}`);
    return await work(Model.engineOf(model), [...model.notes]);
  } finally {
    await model.close();
  }
}
