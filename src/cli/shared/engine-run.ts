import { availableParallelism } from "node:os";
import { type Command, InvalidArgumentError, Option } from "commander";
import type { Engine, GenerateOptions } from "../../engine/index.js";
import { readBounded } from "../../kit/files/index.js";
import { isObject, isSystemError, usageError } from "../../kit/index.js";
import { formatBytes } from "../../kit/printing/index.js";
import { type ModelFlags, openModel, typeOption } from "./open-model.js";
import {
  type CommonOptions,
  elapsed,
  info,
  interruptSignal,
  parseCount,
  parseNumber,
  parsePositive,
  parseShare,
  parseThreads,
  runWithProgress,
  withCommonOptions,
} from "./output.js";
import { adding } from "./typed.js";

export interface EngineOptions extends CommonOptions, ModelFlags {}

/** What can be read as weights. */
export const WEIGHTS_ARGUMENT = "FOLDER, FOLDER+ADAPTER, a recipe file, or a model on the hub";
/** What can be run. */
export const SOURCE_ARGUMENT = "FOLDER, FOLDER+ADAPTER, a recipe or .gguf file, or a model on the hub";

/** Adds the options of `EngineOptions`. */
export const withEngineOptions = adding<EngineOptions>((command) =>
  withCommonOptions(
    command
      .optionsGroup("Engine:")
      .option("--threads <n>", `threads to use (default: all cores, ${availableParallelism()} here)`, parseThreads)
      .addOption(typeOption())
      .option("--provider <name...>", "ONNX Runtime providers in order of preference, such as cuda cpu"),
  ),
);

/** Opens a model, runs some work with it, closes it; Ctrl-C aborts the signal. */
export async function withEngine<T>(
  source: string,
  options: EngineOptions,
  work: (engine: Engine, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const start = performance.now();
  const signal = interruptSignal();
  const { engine, facts } = await runWithProgress(options, ({ onProgress }) =>
    openModel(source, options, { signal, onProgress }),
  );
  try {
    for (const note of engine.notes) info(options, `note: ${note}`);
    info(options, `${engine.name}: ${[engine.family, ...facts].join(", ")}, ready in ${elapsed(start)}`);
    return await work(engine, signal);
  } finally {
    await engine.close();
  }
}

export interface TemplateFlags {
  readonly chatTemplateKwargs?: Readonly<Record<string, unknown>>;
}

/** Adds the options of `TemplateFlags`. */
export const withTemplateOption = adding<TemplateFlags>((command) =>
  command.option(
    "--chat-template-kwargs <json>",
    `variables of the chat template, such as '{"enable_thinking": false}'`,
    (text: string) => {
      const problem = (why: string) => new InvalidArgumentError(`It ${why}.`);
      const value = parseJson(text, problem);
      if (!isObject(value)) throw problem("must be a JSON object");
      return value;
    },
  ),
);

export type SamplingFlags = Pick<
  GenerateOptions,
  "maxNewTokens" | "temperature" | "topK" | "topP" | "seed" | "stop" | "batch"
>;

/** Adds the options of `SamplingFlags`. */
export const withSamplingOptions = (maxNewTokens: number) =>
  adding<SamplingFlags>((command) =>
    withAnswerOptions(command, new Option("--max-new-tokens <n>", "maximum tokens of an answer").default(maxNewTokens))
      .option("--seed <n>", "random seed", parseCount, 0)
      .option("--stop <text...>", "strings that end an answer"),
  );

/** Adds the options of how an answer is drawn. @param length the one of its most tokens, with its default */
export function withAnswerOptions(command: Command, length: Option): Command {
  return command
    .optionsGroup("Sampling:")
    .addOption(length.argParser(parseCount))
    .option(
      "--temperature <t>",
      "temperature; 0 takes the most likely token",
      parseNumber((value) => value >= 0 && value <= 10, "It must be a number from 0 to 10."),
      0,
    )
    .option("--top-k <k>", "sample from the k most likely tokens", parsePositive)
    .option("--top-p <p>", "sample from the most likely tokens up to this total probability", parseShare);
}

export function samplingOf(flags: SamplingFlags): GenerateOptions {
  const { maxNewTokens, temperature, topK, topP, seed, stop, batch } = flags;
  if (temperature === 0 && (topK !== undefined || topP !== undefined)) {
    throw usageError("--top-k and --top-p need a temperature above 0; add one, such as --temperature 0.7.");
  }
  return { maxNewTokens, temperature, topK, topP, seed, stop, batch };
}

const MAX_INPUT_BYTES = 100_000_000;

/** The text of a file, or of standard input for -. */
async function readInput(path: string): Promise<string> {
  const refusal = (why: string, cause?: unknown) => usageError(`${path} ${why}`, { file: path }, cause);
  const tooLarge = () => refusal(`has more than ${formatBytes(MAX_INPUT_BYTES)}; split it into several files`);
  const bytes = await readBounded(path === "-" ? process.stdin : path, MAX_INPUT_BYTES, tooLarge).catch(
    (error: unknown) => {
      if (!isSystemError(error, "ENOENT")) throw error;
      throw refusal("does not exist", error);
    },
  );
  return bytes.toString("utf8");
}

/** Prompts of a file: a JSON array of strings, JSON Lines of strings or of objects with a prompt, or one prompt per line. */
export async function readPrompts(path: string): Promise<string[]> {
  const text = await readInput(path);
  const problem = (why: string) => usageError(`${path}: ${why}`, { file: path });
  const promptOf = (value: unknown, where: string): string => {
    const prompt = typeof value === "object" && value !== null ? (value as { prompt?: unknown }).prompt : value;
    if (typeof prompt !== "string") throw problem(`${where} must be a string, or an object with a string "prompt"`);
    return prompt;
  };
  if (/\.json$/i.test(path)) {
    const list = parseJson(text, problem);
    if (!Array.isArray(list)) throw problem("must be a JSON array of prompts");
    return list.map((value, i) => promptOf(value, `entry ${i + 1}`));
  }
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== "");
  if (!/\.jsonl$/i.test(path)) return lines;
  return lines.map((line, i) =>
    promptOf(
      parseJson(line, (why) => problem(`line ${i + 1} ${why}`)),
      `line ${i + 1}`,
    ),
  );
}

function parseJson(text: string, problem: (why: string) => Error): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw problem(`is not valid JSON: ${(error as Error).message}`);
  }
}

/** Token ids from a file, or from standard input for -: a JSON array of arrays of integers. */
export async function readTokenFile(path: string): Promise<number[][]> {
  const problem = (why: string) => usageError(`${path}: ${why}`, { file: path });
  const value = parseJson(await readInput(path), problem);
  const isTokens = (list: unknown): list is number[] => Array.isArray(list) && list.every(Number.isInteger);
  if (!Array.isArray(value) || !value.every(isTokens)) {
    throw problem("must be an array of arrays of token ids, such as [[1, 15, 27], [1, 9]]");
  }
  return value;
}
