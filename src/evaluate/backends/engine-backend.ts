import type { Engine } from "../../engine/index.js";
import { groupBy } from "../../kit/index.js";
import { type ChatTemplate, encodePair, type PromptTokenizer, withVariables } from "../../text/index.js";
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
 * prompts with the next ones. A killed run computes them again, so they are few.
 */
const BATCHES_AT_ONCE = 4;

/** Makes a backend of the engine. Closing it closes the engine. */
export function engineBackend(options: EngineBackendOptions): Backend {
  const { engine } = options;
  const encode = encodeWith(options.tokenizer);
  const size = options.batch ?? BATCH;

  /** Requests with the same beginning side by side, in their order, cut into what is computed together. */
  const batches = (requests: readonly { readonly prefix?: string | undefined }[]): number[][] => {
    const most = size * BATCHES_AT_ONCE;
    const groups = groupBy(requests.keys(), (index) => requests[index]?.prefix ?? "");
    return [...groups.values()].flatMap((group) =>
      Array.from({ length: Math.ceil(group.length / most) }, (_, i) => group.slice(i * most, (i + 1) * most)),
    );
  };

  /** Answers batch by batch. @param answerBatch returns its answers, or passes each to `onAnswer` as it comes */
  function inBatches<Q extends { readonly prefix?: string | undefined }, T extends object>(
    answerBatch: (
      batch: readonly Q[],
      signal: AbortSignal | undefined,
      onAnswer: (i: number, answer: Answer<T>) => void,
    ) => Promise<readonly Answer<T>[]>,
  ) {
    return async (requests: readonly Q[], { signal, onResult }: AnswerOptions<T> = {}): Promise<Answer<T>[]> => {
      const answers: Answer<T>[] = [];
      for (const batch of batches(requests)) {
        if (signal?.aborted) throw stopped();
        const asked = batch.flatMap((index) => requests[index] ?? []);
        const onAnswer = (i: number, answer: Answer<T>) => {
          const index = batch[i] ?? 0;
          answers[index] = answer;
          onResult?.(index, answer);
        };
        for (const [i, answer] of (await answerBatch(asked, signal, onAnswer)).entries()) onAnswer(i, answer);
      }
      return answers;
    };
  }

  const tooLong = (tokens: number, wanted: number): RequestError => ({
    error: `the prompt has ${tokens} tokens, which with ${wanted} more exceeds the model's context of ${engine.contextLength}`,
  });

  async function generate(
    batch: readonly GenerateRequest[],
    signal: AbortSignal | undefined,
    onAnswer: (i: number, answer: Answer<Generated>) => void,
  ): Promise<[]> {
    const prompts = await Promise.all(
      batch.map(({ prompt, specialTokens = true }) => encode(prompt, specialTokens, signal)),
    );
    const alike = groupBy(batch.keys(), (i) => {
      const { maxNewTokens, stop, sampling } = batch[i] as GenerateRequest;
      const { temperature, topP, topK } = sampling ?? {};
      return JSON.stringify({ maxNewTokens, stop, temperature, topP, topK });
    });
    for (const [key, indices] of alike) {
      const settings = JSON.parse(key) as Pick<GenerateRequest, "maxNewTokens" | "stop">;
      const { maxNewTokens, stop } = settings;
      // A prompt that fills the context is not cut, and an answer that ran out of it is not taken for whole.
      const length = (i: number): number => prompts[i]?.length ?? 0;
      const fitting = indices.filter((i) => length(i) < engine.contextLength);
      for (const i of indices) if (!fitting.includes(i)) onAnswer(i, tooLong(length(i), maxNewTokens));
      await engine.generate(
        fitting.map((i) => prompts[i] ?? []),
        {
          ...settings,
          seed: fitting.map((i) => batch[i]?.sampling?.seed ?? 0),
          batch: size,
          signal,
          onDone: (j, { text, finish, ids }) => {
            const i = fitting[j] ?? 0;
            const cut = cutAtStop(text, stop);
            if (finish === "invalid") onAnswer(i, { error: "the model's logits are not numbers" });
            else if (finish !== "length" || cut.stopped) onAnswer(i, { text: cut.text, finish: "stop" });
            else if (ids.length < maxNewTokens) onAnswer(i, tooLong(length(i), maxNewTokens));
            else onAnswer(i, { text, finish: "length" });
          },
        },
      );
    }
    return [];
  }

  async function loglikelihood(
    batch: readonly LoglikelihoodRequest[],
    signal: AbortSignal | undefined,
  ): Promise<Answer<Loglikelihood>[]> {
    const pairs = await Promise.all(
      batch.map((request) => encodePair((text, marks) => encode(text, marks, signal), request)),
    );
    const errors = pairs.map(({ context, continuation }): RequestError | undefined =>
      context.length === 0 || continuation.length === 0
        ? { error: "a context or a continuation without tokens has no log-likelihood" }
        : context.length + continuation.length > engine.contextLength
          ? tooLong(context.length, continuation.length)
          : undefined,
    );
    const sound = pairs.filter((_, i) => errors[i] === undefined);
    const scores = sound.length === 0 ? [] : await engine.scoreContinuations(sound, { batch: size, signal });
    let next = 0;
    return errors.map((error): Answer<Loglikelihood> => {
      if (error) return error;
      const score = scores[next++];
      if (!score || !Number.isFinite(score.logprob)) return { error: "the model's log-probability is not a number" };
      return { logprob: score.logprob, tokens: score.tokens.length, greedy: score.greedy };
    });
  }

  async function choose(batch: readonly ChooseRequest[], signal: AbortSignal | undefined): Promise<Answer<Chosen>[]> {
    const flat = batch.flatMap(({ choices, ...request }) =>
      choices.map((continuation) => ({ ...request, continuation })),
    );
    const scores = (await loglikelihood(flat, signal)).values();
    return batch.map(({ choices }): Answer<Chosen> => {
      const scored = choices.map(() => scores.next().value as Answer<Loglikelihood>);
      const error = scored.find(isError);
      return error ?? { logprobs: scored.map((score) => ("logprob" in score ? score.logprob : null)) };
    });
  }

  return {
    identity: { ...options.identity, bos: "tokenizer" },
    incapacities: {},
    tokenizer: options.tokenizer,
    batches,
    generate: inBatches(generate),
    loglikelihood: inBatches(loglikelihood),
    choose: inBatches(choose),
    renderChat: options.renderChat,
    close: () => engine.close(),
  };
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
    const identity = { backend, server, model, digest, ...(templateVariables && { templateVariables }) };
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
  return given && (async (messages) => given.render(messages, { addGenerationPrompt: true }));
}
