import type { Engine } from "../../engine/index.js";
import { groupBy } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import { type ChatTemplate, cannotFit, encodePair, type PromptTokenizer, withVariables } from "../../text/index.js";
import {
  type Answer,
  type AnswerOptions,
  type Backend,
  type BackendIdentity,
  type ChooseRequest,
  type Chosen,
  cutAtStop,
  encodeWith,
  type Generated,
  type GenerateRequest,
  isError,
  type Loglikelihood,
  type LoglikelihoodRequest,
  type RequestError,
  stopped,
} from "./backend.js";

export type EvaluationEngine = Pick<Engine, "contextLength" | "generate" | "scoreContinuations" | "close">;

export interface EngineBackendOptions {
  readonly engine: EvaluationEngine;
  readonly tokenizer: PromptTokenizer;
  readonly identity: Omit<BackendIdentity, "bos">;
  readonly renderChat?: Backend["renderChat"];
  /** Prompts computed together. Default: 8. */
  readonly batch?: number | undefined;
}

/** Enough to use two cores with a small model, with little memory for attention in a large one. */
const BATCH = 8;
/**
 * Batches passed to the engine together. It computes the shared beginning of their prompts once, and replaces finished
 * prompts with the next ones. A resumed run generates all answers of a killed one's last batches again, so they are few.
 */
const BATCHES_AT_ONCE = 4;

/** Requests with the same `prefix` are computed together. */
interface Prefixed {
  readonly prefix?: string | undefined;
}

/** What answers to a batch need, by their places in it. */
interface Answering<T extends object> {
  readonly signal: AbortSignal | undefined;
  readonly isKnown: (i: number) => boolean;
  readonly onAnswer: (i: number, answer: Answer<T>) => void;
}

type AnswerBatch<Q, T extends object> = (batch: readonly Q[], options: Answering<T>) => Promise<void>;

/** Makes a backend of the engine. Closing it closes the engine. */
export function engineBackend(options: EngineBackendOptions): Backend {
  const answers = new EngineAnswers(options);
  const answer =
    <Q extends Prefixed, T extends object>(answerBatch: AnswerBatch<Q, T>) =>
    (requests: readonly Q[], settings: AnswerOptions<T> = {}) =>
      inBatches(requests, answers.batches(requests), answerBatch, settings);
  return {
    identity: { ...options.identity, bos: "tokenizer" },
    incapacities: {},
    tokenizer: options.tokenizer,
    batches: (requests) => answers.batches(requests),
    generate: answer<GenerateRequest, Generated>((batch, place) => answers.generate(batch, place)),
    loglikelihood: answer<LoglikelihoodRequest, Loglikelihood>((batch, place) => answers.loglikelihood(batch, place)),
    choose: answer<ChooseRequest, Chosen>((batch, place) => answers.choose(batch, place)),
    renderChat: options.renderChat,
    close: () => options.engine.close(),
  };
}

/** Answers batch by batch, and puts each answer in the place of its request. */
async function inBatches<Q, T extends object>(
  requests: readonly Q[],
  batches: readonly (readonly number[])[],
  answerBatch: AnswerBatch<Q, T>,
  { signal, onResult, isKnown }: AnswerOptions<T>,
): Promise<Answer<T>[]> {
  const answers: Answer<T>[] = [];
  for (const batch of batches) {
    if (signal?.aborted) throw stopped();
    const indexOf = (i: number) => batch[i] ?? 0;
    await answerBatch(
      batch.flatMap((index) => requests[index] ?? []),
      {
        signal,
        isKnown: (i) => isKnown?.(indexOf(i)) ?? false,
        onAnswer: (i, answer) => {
          answers[indexOf(i)] = answer;
          onResult?.(indexOf(i), answer);
        },
      },
    );
  }
  return answers;
}

/** Requests with equal settings are generated in one call. */
function settingsOf({ maxNewTokens, stop, sampling }: GenerateRequest) {
  const { temperature, topP, topK } = sampling ?? {};
  return { maxNewTokens, stop, temperature, topP, topK };
}

/** Answers of an engine to one batch of requests. */
class EngineAnswers {
  readonly #engine: EvaluationEngine;
  readonly #encode: ReturnType<typeof encodeWith>;
  /** Prompts computed together. */
  readonly #size: number;

  constructor({ engine, tokenizer, batch = BATCH }: EngineBackendOptions) {
    this.#engine = engine;
    this.#encode = encodeWith(tokenizer);
    this.#size = batch;
  }

  /** Indices of requests with the same beginning side by side, in their order, cut into what is computed together. */
  batches(requests: readonly Prefixed[]): number[][] {
    const most = this.#size * BATCHES_AT_ONCE;
    const groups = groupBy(requests.keys(), (index) => requests[index]?.prefix ?? "");
    return [...groups.values()].flatMap((group) =>
      Array.from({ length: Math.ceil(group.length / most) }, (_, i) => group.slice(i * most, (i + 1) * most)),
    );
  }

  async generate(batch: readonly GenerateRequest[], { signal, onAnswer }: Answering<Generated>): Promise<void> {
    const lengths = batch.map(({ prompt }) => prompt.length);
    const isLong = this.#refuseLong(lengths, onAnswer);
    const prompts = await Promise.all(
      batch.map(({ prompt, specialTokens = true }, i) =>
        isLong[i] ? [] : this.#encode(prompt, specialTokens, signal),
      ),
    );
    const asked = [...batch.entries()].filter(([i]) => !isLong[i]);
    const alike = groupBy(asked, ([, request]) => JSON.stringify(settingsOf(request)));
    for (const [key, requests] of alike) {
      const settings = JSON.parse(key) as ReturnType<typeof settingsOf>;
      const indices = requests.map(([i]) => i);
      await this.#generateAlike(indices, prompts, settings, batch, { signal, onAnswer });
    }
  }

  /** Generates for the requests at `indices`, which have the same settings. */
  async #generateAlike(
    indices: readonly number[],
    prompts: readonly (readonly number[])[],
    settings: ReturnType<typeof settingsOf>,
    batch: readonly GenerateRequest[],
    { signal, onAnswer }: Pick<Answering<Generated>, "signal" | "onAnswer">,
  ): Promise<void> {
    const { maxNewTokens, stop } = settings;
    // A prompt that fills the context is not cut, and an answer that ran out of it is not taken for whole.
    const length = (i: number): number => prompts[i]?.length ?? 0;
    const fitting = indices.filter((i) => length(i) < this.#engine.contextLength);
    for (const i of indices) if (!fitting.includes(i)) onAnswer(i, this.#tooLong(length(i), maxNewTokens));
    await this.#engine.generate(
      fitting.map((i) => prompts[i] ?? []),
      {
        ...settings,
        seed: fitting.map((i) => batch[i]?.sampling?.seed ?? 0),
        batch: this.#size,
        signal,
        onDone: (j, { text, finish, ids }) => {
          const i = fitting[j] ?? 0;
          const cut = cutAtStop(text, stop);
          if (finish === "invalid") onAnswer(i, { error: "the model's logits are not numbers" });
          else if (finish !== "length" || cut.stopped) onAnswer(i, { text: cut.text, finish: "stop" });
          else if (ids.length < maxNewTokens) onAnswer(i, this.#tooLong(length(i), maxNewTokens));
          else onAnswer(i, { text, finish: "length" });
        },
      },
    );
  }

  async loglikelihood(
    batch: readonly LoglikelihoodRequest[],
    { signal, isKnown, onAnswer }: Answering<Loglikelihood>,
  ): Promise<void> {
    const lengths = batch.map(({ context, continuation }) => context.length + continuation.length);
    const isLong = this.#refuseLong(lengths, onAnswer);
    const encode = (text: string, marks: boolean) => this.#encode(text, marks, signal);
    const none = { context: [], continuation: [] };
    const pairs = await Promise.all(batch.map((request, i) => (isLong[i] ? none : encodePair(encode, request))));
    const sound = [...pairs.entries()].filter(([i, { context, continuation }]) => {
      if (isLong[i]) return false;
      if (context.length === 0 || continuation.length === 0) {
        onAnswer(i, { error: "a context or a continuation without tokens has no log-likelihood" });
        return false;
      }
      if (context.length + continuation.length <= this.#engine.contextLength) return true;
      onAnswer(i, this.#tooLong(context.length, continuation.length));
      return false;
    });
    const indexOf = (j: number) => sound[j]?.[0] ?? 0;
    await this.#engine.scoreContinuations(
      sound.map(([, pair]) => pair),
      {
        batch: this.#size,
        signal,
        isKnown: (j) => isKnown(indexOf(j)),
        onDone: (j, { logprob, tokens, greedy }) =>
          onAnswer(
            indexOf(j),
            Number.isFinite(logprob)
              ? { logprob, tokens: tokens.length, greedy }
              : { error: "the model's log-probability is not a number" },
          ),
      },
    );
  }

  /** Scores each choice of each request as a continuation of its own. */
  async choose(batch: readonly ChooseRequest[], { signal, isKnown, onAnswer }: Answering<Chosen>): Promise<void> {
    const flat = batch.flatMap(({ choices, ...request }, i) =>
      choices.map((continuation, choice) => ({ i, choice, request: { ...request, continuation } })),
    );
    const placeOf = (at: number) => flat[at] ?? { i: 0, choice: 0 };
    const scored = batch.map(({ choices }) => ({ left: choices.length, answers: [] as Answer<Loglikelihood>[] }));
    await this.loglikelihood(
      flat.map(({ request }) => request),
      {
        signal,
        isKnown: (at) => isKnown(placeOf(at).i),
        onAnswer: (at, answer) => {
          const { i, choice } = placeOf(at);
          const item = scored[i];
          if (!item) return;
          item.answers[choice] = answer;
          if (--item.left > 0) return;
          const error = item.answers.find(isError);
          onAnswer(i, error ?? { logprobs: item.answers.map((one) => ("logprob" in one ? one.logprob : null)) });
        },
      },
    );
  }

  /** Answers what cannot fit, before it is encoded. @returns by text, whether it was refused */
  #refuseLong<T extends object>(lengths: readonly number[], onAnswer: Answering<T>["onAnswer"]): boolean[] {
    const { contextLength } = this.#engine;
    return lengths.map((characters, i) => {
      const isLong = cannotFit(characters, contextLength);
      const error = `the prompt has ${plural(characters, "character")}, which cannot fit into the model's context of ${contextLength} tokens`;
      if (isLong) onAnswer(i, { error });
      return isLong;
    });
  }

  #tooLong(tokens: number, wanted: number): RequestError {
    return {
      error: `the prompt has ${tokens} tokens, which with ${wanted} more exceeds the model's context of ${this.#engine.contextLength}`,
    };
  }
}

/**
 * Makes a backend of an opened model. Closing it closes the model, which is also closed if this fails.
 * @param options.model what results call it; default its name
 * @param options.digest default the model's
 * @throws CheckpointError if it has no tokenizer that can be read
 */
export async function modelBackend(
  engine: Engine,
  options: { readonly model?: string; readonly digest?: string } & Pick<EngineBackendOptions, "batch"> &
    Pick<BackendIdentity, "templateVariables"> = {},
): Promise<Backend> {
  const { model = engine.name, digest = engine.digest, batch, templateVariables } = options;
  try {
    const tokenizer = await engine.tokenizer();
    const renderChat = rendererOf(await engine.chatTemplate(), templateVariables);
    const { backend, program: server = null } = engine;
    const { applied } = engine.generationConfig;
    const identity = {
      backend,
      server,
      model,
      digest,
      ...(templateVariables && { templateVariables }),
      ...(Object.keys(applied).length > 0 && { generationConfig: applied }),
    };
    return engineBackend({ engine, tokenizer, identity, renderChat, batch });
  } catch (error) {
    await engine.close();
    throw error;
  }
}

/**
 * Writes conversations by a template, open for the model's reply; undefined without one.
 * @throws LayergraftError code `usage` for variables that the template does not read
 */
export function rendererOf(
  template: ChatTemplate | undefined,
  variables?: BackendIdentity["templateVariables"],
): Backend["renderChat"] {
  const given = withVariables(template, variables);
  return given && (async (messages, now) => given.render(messages, { addGenerationPrompt: true, ...(now && { now }) }));
}
