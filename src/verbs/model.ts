// A model that generates and scores text: from a folder, an adapter, a recipe or a plan.

import { z } from "zod";
import {
  brokenModel,
  type Engine,
  type GenerateOptions as EngineOptions,
  type EngineSource,
  type Finish,
  type Generation,
  type OpenEngineOptions,
  openEngine,
  requireNumbers,
} from "../engine/index.js";
import {
  type BackendChoice,
  type BackendName,
  type ChoiceOptions,
  chooseBackend,
  type OpenLlamaOptions,
  openLlama,
} from "../export/llama/index.js";
import { type CallOptions, usageError } from "../kit/index.js";
import { formatBytes } from "../kit/printing/index.js";
import { jsonSchemaOf, writtenAs } from "../kit/settings/index.js";
import { sourceField } from "../merge/index.js";
import { type ChatMessage, encodePair, promptEncoder, tokenBeforeText } from "../text/index.js";
import type { RecipeInput } from "./inputs.js";
import { type FolderOptions, hubOf } from "./options.js";
import { MergePlan } from "./plan-merge.js";

/**
 * A model to run: a folder, `FOLDER+ADAPTER`, the name of a model on the hub, a recipe file, a recipe, a plan, or a GGUF
 * file. The embedded engine computes what a recipe or plan blends, in memory, or in the cache if it has more than 64 MB;
 * llama.cpp runs an export in the cache.
 */
export type ModelInput = string | RecipeInput | MergePlan;

/** An input whose source may be a plan, which has no JSON. */
export type WithModel<Input extends { readonly source: unknown }> = Omit<Input, "source"> & {
  /** The model: a folder, `FOLDER+ADAPTER`, a name on the hub, a recipe or its file, or a plan. */
  readonly source: ModelInput;
};

const source = sourceField("");

/** A field for a model that is read or run: what recipes take as a source, or a plan. */
export const modelField = (description: string) =>
  writtenAs(
    z.custom<ModelInput>((value) => value instanceof MergePlan || source.safeParse(value).success, {
      error: "must be a folder, FOLDER+ADAPTER, a recipe or its file, or a plan",
    }),
    () => jsonSchemaOf(source),
  ).meta({ description });

/** Options of `openModel`. `onProgress` reports the bytes of a recipe that are computed, or of an export. */
export interface OpenModelOptions
  extends CallOptions,
    FolderOptions,
    Pick<OpenLlamaOptions, "type" | "threads" | "chat" | "generationConfig"> {
  /**
   * What runs the model: `engine`, the embedded engine, or `llama`, llama.cpp, which needs the package node-llama-cpp.
   * Default: `llama` for GGUF files or with a `type`, else what `prefer` says.
   */
  readonly backend?: BackendName | undefined;
  /**
   * The backend where none is named. `exact`: the embedded engine, in float32; `speed`: llama.cpp, where it is installed and
   * runs the model, but for recipes. Where float32 does not fit into memory, either takes llama.cpp. Default: `exact`.
   */
  readonly prefer?: ChoiceOptions["prefer"];
  /** Embedded engine: execution providers of ONNX Runtime in order of preference, such as `["cuda", "cpu"]`. Default: `["cpu"]`. */
  readonly providers?: readonly string[] | undefined;
}

/** Options of `Model.generate`. */
export interface GenerateOptions extends Omit<EngineOptions, "maxNewTokens" | "stopIds" | "onText" | "onDone"> {
  /** Maximum new tokens of an answer. Default: 256. */
  readonly maxNewTokens?: number | undefined;
  /** Whether to prepend the tokenizer's BOS token to a text. Chat templates add their own. Default: true. */
  readonly bos?: boolean | undefined;
  /** Variables of the chat template, such as `{ enable_thinking: false }`. Default: none. */
  readonly templateVariables?: Readonly<Record<string, unknown>> | undefined;
  /** Called with new text as it is generated, in whole characters, and the index of its prompt. Default: none. */
  readonly onText?: ((text: string, prompt: number) => void) | undefined;
}

/** An answer. */
export interface Answer {
  /** The text, without a stop text. */
  readonly text: string;
  /** Token ids, including those of a stop text. */
  readonly tokens: readonly number[];
  readonly finish: Finish;
}

/** Options of `Model.score`. */
export interface ScoreOptions extends Pick<CallOptions, "signal"> {
  /**
   * Text before the scored text; its own tokens are not scored. Default: only BOS, or EOS where the tokenizer has no BOS, as
   * in lm-evaluation-harness.
   */
  readonly context?: string | undefined;
  /** Whether to prepend the tokenizer's BOS token to the context. Default: true. */
  readonly bos?: boolean | undefined;
}

/** How likely a text is. */
export interface TextScore {
  /** Natural logarithm of the probability of the whole text. */
  readonly logprob: number;
  /** Natural logarithm of the probability of each token; their sum is `logprob`. */
  readonly tokenLogprobs: readonly number[];
  /** Whether every token is the most likely one. */
  readonly greedy: boolean;
}

/** A model in memory. Close it, or declare it with `await using`. */
export class Model {
  /** The folder's name, or a description of the recipe. */
  readonly name: string;
  /** Family, such as `llama`. */
  readonly family: string;
  /** Changes when the sources, the adapter or the recipe do. */
  readonly digest: string;
  /** Maximum tokens of prompt and answer together. */
  readonly contextLength: number;
  /** Number of token ids. */
  readonly vocabularySize: number;
  /** Notes on how the model was interpreted; usually empty. */
  readonly notes: readonly string[];
  /** What runs it, and why. */
  readonly backend: BackendChoice;
  readonly #engine: Engine;

  /** @internal Use `openModel`. */
  constructor({ engine, choice }: OpenedInBackend) {
    this.#engine = engine;
    this.backend = choice;
    this.name = engine.name;
    this.family = engine.family;
    this.digest = engine.digest;
    this.contextLength = engine.contextLength;
    this.vocabularySize = engine.vocabularySize;
    this.notes = engine.notes;
  }

  /** @internal */
  static engineOf(model: Model): Engine {
    return model.#engine;
  }

  /**
   * Answers a prompt. A text is encoded with the tokenizer's BOS, messages through the model's chat template. The answer
   * ends at the end tokens of generation_config.json, config.json and the tokenizer, and follows what generation_config.json
   * says besides, such as a repetition penalty; its settings of sampling are options here.
   * @throws LayergraftError if the prompt does not fit into the context, if there is no chat template for messages, or
   *   with code `broken-model` if the model's scores are not numbers
   * @throws CheckpointError if the model has no tokenizer that can be read
   * @throws CancelledError if the signal fires
   */
  async generate(prompt: string | readonly ChatMessage[], options: GenerateOptions = {}): Promise<Answer> {
    const [answer] = await this.generateAll([prompt], options);
    return answer as Answer;
  }

  /** Answers several prompts, `batch` at once. The answers are in the order of the prompts. @throws as `generate` */
  async generateAll(
    prompts: readonly (string | readonly ChatMessage[])[],
    options: GenerateOptions = {},
  ): Promise<readonly Answer[]> {
    const { maxNewTokens = 256, bos = true, templateVariables: variables = {}, onText, ...rest } = options;
    const encoded: number[][] = [];
    for (const prompt of prompts) encoded.push(await this.#engine.encode(prompt, { bos, variables }));
    const answers = await this.#engine.generate(encoded, {
      ...rest,
      maxNewTokens,
      onText,
    });
    return answers.map((answer, index) => this.#answerOf(answer, index));
  }

  /**
   * Answers a prompt as `generate` does, in parts of the text as they are made, in whole characters. Leaving the loop ends
   * the answer.
   * @returns the whole answer, for those who take the parts by `next`
   * @throws as `generate`
   */
  async *stream(
    prompt: string | readonly ChatMessage[],
    { signal, ...options }: Omit<GenerateOptions, "onText"> = {},
  ): AsyncGenerator<string, Answer, undefined> {
    const left = new AbortController();
    const parts: string[] = [];
    let isDone = false;
    let wake = () => {};
    const answer = this.generate(prompt, {
      ...options,
      signal: signal ? AbortSignal.any([signal, left.signal]) : left.signal,
      onText(text) {
        parts.push(text);
        wake();
      },
    });
    const ended = answer.then(
      () => undefined,
      () => undefined,
    );
    void ended.then(() => {
      isDone = true;
      wake();
    });
    try {
      while (!isDone || parts.length > 0) {
        const part = parts.shift();
        if (part !== undefined) yield part;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
      return await answer;
    } finally {
      left.abort();
      await ended;
    }
  }

  /**
   * Scores a text, after a context if there is one.
   * @throws LayergraftError if context and text do not fit into the model's context, or with `bos: false` if there is no
   *   context
   * @throws CheckpointError if the model has no tokenizer that can be read
   * @throws LayergraftError code `broken-model` if its scores are not numbers
   * @throws CancelledError if the signal fires
   */
  async score(text: string, options: ScoreOptions = {}): Promise<TextScore> {
    const { context = "", bos = true, signal } = options;
    const tokenizer = await this.#engine.tokenizer();
    const encoded = { context, continuation: text, specialTokens: bos };
    let pair = await encodePair(promptEncoder(tokenizer), encoded);
    if (pair.context.length === 0) {
      if (bos) pair = { ...pair, context: tokenBeforeText(tokenizer) };
      if (pair.context.length === 0) {
        const why = bos ? "the tokenizer has neither BOS nor EOS" : "bos is false";
        throw usageError(`nothing predicts the first token of the text: ${why}. Pass a context.`, { field: "context" });
      }
    }
    const [score] = await this.#engine.scoreContinuations([pair], { signal });
    const { logprob = 0, tokens = [], greedy = true } = score ?? {};
    requireNumbers(this.#engine, tokens, "for the text");
    return { logprob, tokenLogprobs: tokens, greedy };
  }

  /** Frees the model's memory. */
  close(): Promise<void> {
    return this.#engine.close();
  }

  /** Frees the model's memory at the end of an `await using` block. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #answerOf({ text, ids, finish }: Generation, index: number): Answer {
    if (finish === "invalid") throw brokenModel(this.#engine, `in answer ${index + 1}`);
    return { text, tokens: ids, finish };
  }
}

/**
 * Opens a model to generate and score text.
 * @throws CheckpointError or FormatError or RecipeError or MismatchError if it cannot be used
 * @throws LayergraftError if ONNX Runtime or node-llama-cpp is not installed, or if options do not go together; code
 *   `memory`, before anything is computed or downloaded, if the model does not fit into the memory that is free
 * @throws CancelledError if the signal fires
 */
export async function openModel(source: ModelInput, options: OpenModelOptions = {}): Promise<Model> {
  return new Model(await openInBackend(source, options));
}

/** What runs a model, and why. @param computed bytes that were merged for it */
export function factsOf(model: Model, computed: number): string[] {
  const { name, reason } = model.backend;
  if (name === "llama") return [`${Model.engineOf(model).program} (${reason})`];
  return [`embedded engine (${reason})`, ...(computed > 0 ? [`${formatBytes(computed)} merged`] : [])];
}

/** What the engine opens. */
export function engineSource(source: ModelInput): EngineSource {
  if (source instanceof MergePlan) return MergePlan.openedOf(source);
  return source;
}

/** What only `serve` chooses. */
interface HeldOptions extends Pick<OpenEngineOptions, "shared"> {
  /** llama.cpp: maximum tokens of prompt and answer together. */
  readonly context?: number | undefined;
}

/** @internal */
export interface OpenedInBackend {
  readonly engine: Engine;
  readonly choice: BackendChoice;
}

/** What runs a model. Reads headers. @throws as `openInBackend` where it cannot run here @internal */
export function chooseFor(source: ModelInput, options: OpenModelOptions, { shared }: HeldOptions) {
  return chooseBackend(engineSource(source), { ...options, hub: hubOf(options), shared });
}

/** @internal */
export async function openInBackend(
  source: ModelInput,
  options: OpenModelOptions,
  held: HeldOptions = {},
): Promise<OpenedInBackend> {
  const { context, ...embedded } = held;
  const given = engineSource(source);
  const hub = hubOf(options);
  const { choice, opened } = await chooseFor(source, options, held);
  const { name, type } = choice;
  const engine =
    name === "llama"
      ? await openLlama(given, { ...options, type, context, hub, opened })
      : await openEngine(given, { ...options, ...embedded, hub, opened });
  return { engine, choice };
}
