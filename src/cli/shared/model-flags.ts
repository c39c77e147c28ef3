// Flags of commands that run a model, and how they open it.

import { availableParallelism } from "node:os";
import { InvalidArgumentError, Option } from "commander";
import type { Engine, GenerateOptions } from "../../engine/index.js";
import { FILE_TYPE_NAMES, type FileType } from "../../export/index.js";
import type { BackendName } from "../../export/llama/index.js";
import { isObject } from "../../kit/index.js";
import { withWritten } from "../../kit/numbers/index.js";
import { Model, type OpenModelOptions, openModel } from "../../verbs/index.js";
import { factsOf, SOURCE } from "../../verbs/shared/index.js";
import { hubAccess } from "./hub-access.js";
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
import { parseJson } from "./prompt-files.js";
import { adding } from "./typed.js";

export { factsOf };

export interface EngineOptions extends CommonOptions {
  readonly backend?: BackendName;
  readonly threads?: number;
  readonly type?: FileType;
  readonly provider?: string[];
  readonly generationConfig?: boolean;
}

/** What can be run. */
export const SOURCE_ARGUMENT = SOURCE;

/** Adds the options of `EngineOptions`, but for the backend. */
export const withEngineOptions = adding<Omit<EngineOptions, "backend">>((command) =>
  withCommonOptions(
    command
      .optionsGroup("Engine:")
      .option("--threads <n>", `threads to use (default: all cores, ${availableParallelism()} here)`, parseThreads)
      .addOption(
        new Option("--type <type>", "encoding of the weights in llama.cpp (default: q8_0)").choices(FILE_TYPE_NAMES),
      )
      .option("--provider <name...>", "ONNX Runtime providers in order of preference, such as cuda cpu"),
  ),
);

/** Adds the option of models that answer. */
export const withGenerationConfigOption = adding<Pick<EngineOptions, "generationConfig">>((command) =>
  command.option(
    "--no-generation-config",
    "ignore the settings of generation_config.json, such as repetition_penalty (end tokens still count)",
  ),
);

/** Opens a model by its flags, and says what runs it and what was merged for it. */
export async function openByFlags(
  source: string,
  { backend, type, threads, provider, generationConfig }: EngineOptions,
  { signal, onProgress, prefer, chat }: Pick<OpenModelOptions, "signal" | "onProgress" | "prefer" | "chat">,
): Promise<{ readonly engine: Engine; readonly facts: readonly string[] }> {
  let computed = 0;
  const model = await openModel(source, {
    ...{
      backend,
      type,
      threads,
      providers: provider,
      generationConfig,
      prefer,
      chat,
      signal,
      hub: hubAccess("files", { signal, onProgress }),
    },
    onProgress: (progress) => {
      computed = progress.total;
      onProgress?.(progress);
    },
  });
  return { engine: Model.engineOf(model), facts: factsOf(model, computed) };
}

/** Opens a model, runs some work with it, closes it; Ctrl-C aborts the signal. */
export async function withEngine<T>(
  source: string,
  flags: CommonOptions,
  options: OpenModelOptions,
  work: (engine: Engine, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const start = performance.now();
  const signal = interruptSignal("this pass");
  let computed = 0;
  const model = await runWithProgress(flags, ({ onProgress }) =>
    openModel(source, {
      ...{ ...options, signal, hub: hubAccess("files", { signal, onProgress }) },
      onProgress(progress) {
        computed = progress.total;
        onProgress?.(progress);
      },
    }),
  );
  try {
    for (const note of model.notes) info(flags, `note: ${note}`);
    const facts = [model.family, ...factsOf(model, computed)].join(", ");
    info(flags, `${model.name}: ${facts}, ready in ${elapsed(start)}`);
    return await work(Model.engineOf(model), signal);
  } finally {
    await model.close();
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
      return withWritten(value);
    },
  ),
);

type SamplingFlags = Pick<GenerateOptions, "maxNewTokens" | "temperature" | "topK" | "topP">;

/** Adds the options of how an answer is drawn. @param length what the one of its most tokens says, and its default */
export const withAnswerOptions = (length: string, maxNewTokens?: number) =>
  adding<SamplingFlags>((command) =>
    command
      .optionsGroup("Sampling:")
      .addOption(new Option("--max-new-tokens <n>", length).default(maxNewTokens).argParser(parseCount))
      .option(
        "--temperature <t>",
        "temperature; 0 takes the most likely token",
        parseNumber((value) => value >= 0 && value <= 10, "It must be a number from 0 to 10."),
        0,
      )
      .option("--top-k <k>", "sample from the k most likely tokens", parsePositive)
      .option("--top-p <p>", "sample from the most likely tokens up to this total probability", parseShare),
  );
