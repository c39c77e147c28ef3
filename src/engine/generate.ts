// Answers many prompts at a time: a row of the batch gets the next prompt as soon as its answer ends.
import { Random } from "../kit/index.js";
import { type BatchRequest, DecodingBatch, rowsFor, type TokenAnswer } from "./decoding-batch.js";
import type { LoadedDecoder } from "./loaded-decoder.js";
import { DEFAULT_BATCH, sharedBeginning, sharedLength } from "./prefill.js";
import { requireWhole, type SamplingOptions, type TokenScores } from "./sampling.js";

export interface GenerateTokensOptions
  extends SamplingOptions,
    Pick<BatchRequest, "maxNewTokens" | "minNewTokens" | "stopIds" | "logits" | "top"> {
  /** Seed of sampling, or one for each prompt; each has its own random stream. Default 0. */
  readonly seed?: number | readonly number[] | undefined;
  /** Prompts answered at once; default 8. */
  readonly batch?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Receives each new token. Returning "stop" ends the answer after it. */
  readonly onToken?: (prompt: number, id: number, scores?: TokenScores) => "stop" | undefined;
  readonly onDone?: (prompt: number, answer: TokenAnswer) => void;
}

/**
 * Answers prompts of at least one token.
 * @returns in the order of the prompts
 * @throws LayergraftError if an option is out of its range
 * @throws CancelledError if the signal fires
 */
export async function generateTokens(
  decoder: LoadedDecoder,
  prompts: readonly (readonly number[])[],
  options: GenerateTokensOptions,
): Promise<TokenAnswer[]> {
  const { batch: most = DEFAULT_BATCH, signal } = options;
  requireWhole({ batch: most }, 1);
  const rows = rowsFor(decoder, Math.min(most, prompts.length));
  const shared = rows > 1 ? sharedLength(prompts) : 0;
  const beginning = await sharedBeginning(decoder, prompts[0]?.slice(0, shared) ?? [], 0, signal);
  return answerAll(new DecodingBatch(decoder, { rows, beginning }), prompts, options);
}

/** Answers prompts in a batch. @returns in the order of the prompts @throws as `generateTokens` */
export async function answerAll(
  batch: Pick<DecodingBatch, "generate">,
  prompts: readonly (readonly number[])[],
  { seed = 0, batch: _, signal, onToken, onDone, ...request }: GenerateTokensOptions,
): Promise<TokenAnswer[]> {
  return together(signal, (either) =>
    prompts.map(async (prompt, index) => {
      const answer = await batch.generate({
        ...request,
        prompt,
        random: typeof seed === "number" ? Random.of(seed, `answer ${index}`) : Random.of(seed[index] ?? 0, "answer"),
        signal: either,
        onToken: (id, scores) => onToken?.(index, id, scores),
      });
      onDone?.(index, answer);
      return answer;
    }),
  );
}

/** Results of what is started together; an error in one ends the others. */
export async function together<T>(
  signal: AbortSignal | undefined,
  start: (signal: AbortSignal) => readonly Promise<T>[],
): Promise<T[]> {
  const failure = new AbortController();
  const results = start(signal ? AbortSignal.any([signal, failure.signal]) : failure.signal);
  try {
    return await Promise.all(results);
  } catch (error) {
    failure.abort();
    await Promise.allSettled(results);
    throw error;
  }
}
