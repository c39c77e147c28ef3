import type { Finish } from "../../engine/index.js";
import { CancelledError } from "../../kit/index.js";
import { type PromptTokenizer, promptEncoder } from "../../text/index.js";
import type { Message, Sampling } from "../tasks/open-tasks.js";

/** What answered, for the result file: nothing in it changes from one run to the next with the same model. */
export interface BackendIdentity {
  /** `engine`, `llama` or `openai`. */
  readonly backend: string;
  /** The program that runs the model, with its version: `vllm 0.11.0`. Null if it does not say. */
  readonly server: string | null;
  /** Name of the model there. */
  readonly model: string;
  /** Digest of the model's weights or files, if known. */
  readonly digest: string | null;
  /**
   * Who puts the beginning-of-sequence token before a prompt: `tokenizer`: token ids were sent that begin as the
   * tokenizer's own post-processor has it; `server`: text was sent, and the server did as it does.
   */
  readonly bos: "tokenizer" | "server";
  /** Variables that the chat template is given; absent without. */
  readonly templateVariables?: Readonly<Record<string, unknown>> | undefined;
  /** Fields of the model's generation configuration that change its answers in text; absent where none do. */
  readonly generationConfig?: Readonly<Record<string, unknown>> | undefined;
}

/** What a backend cannot do, with the reason. What is absent it can do. */
export interface Incapacities {
  /** Log-likelihood of continuations of any length. */
  readonly loglikelihood?: string;
  /** Weighing choices; servers do so by the likeliest next tokens. */
  readonly choose?: string;
}

interface RequestOptions {
  /** Beginning of the prompt that other requests share, such as the shots. Computed once where possible. */
  readonly prefix?: string | undefined;
  /** Whether the tokenizer's special tokens (BOS) come first. Default: true. */
  readonly specialTokens?: boolean | undefined;
}

export interface GenerateRequest extends RequestOptions {
  readonly prompt: string;
  readonly maxNewTokens: number;
  /** The answer ends before the first of these. */
  readonly stop: readonly string[];
  /** Default: greedy. */
  readonly sampling?: Sampling | undefined;
}

export interface Generated {
  /** The text before the first stop. */
  readonly text: string;
  readonly finish: Finish;
}

export interface LoglikelihoodRequest extends RequestOptions {
  readonly context: string;
  readonly continuation: string;
}

export interface Loglikelihood {
  /** Natural logarithm, sum over the continuation's tokens. */
  readonly logprob: number;
  /** Tokens of the continuation. */
  readonly tokens: number;
  /** Whether each of them was the likeliest. */
  readonly greedy: boolean;
}

export interface ChooseRequest extends RequestOptions {
  readonly context: string;
  /** Continuations, such as " A". With a server, each must be a single token. */
  readonly choices: readonly string[];
}

export interface Chosen {
  /** Natural log-probability of each choice; null if the server's list of likely next tokens does not have it. */
  readonly logprobs: readonly (number | null)[];
}

/** Why one request has no answer. */
export interface RequestError {
  readonly error: string;
}

export type Answer<T> = T | RequestError;

export function isError<T extends object>(answer: Answer<T>): answer is RequestError {
  return "error" in answer;
}

export interface AnswerOptions<T> {
  readonly signal?: AbortSignal | undefined;
  /** Called with each answer as it comes, in any order. */
  readonly onResult?: ((index: number, answer: Answer<T>) => void) | undefined;
  /**
   * Whether the caller has the answer to a request, which then needs none, but still decides what is computed together.
   * Default: none are known.
   */
  readonly isKnown?: ((index: number) => boolean) | undefined;
}

/**
 * A backend. Answers are returned in the order of the requests. A request that cannot be answered gets a `RequestError`;
 * an error that concerns all requests is thrown.
 */
export interface Backend {
  readonly identity: BackendIdentity;
  readonly incapacities: Incapacities;
  /** Continues each prompt, greedily unless the request is sampled. */
  generate(requests: readonly GenerateRequest[], options?: AnswerOptions<Generated>): Promise<Answer<Generated>[]>;
  /** Sums the log-probabilities (in nats) of each continuation's tokens after its context. */
  loglikelihood(
    requests: readonly LoglikelihoodRequest[],
    options?: AnswerOptions<Loglikelihood>,
  ): Promise<Answer<Loglikelihood>[]>;
  /** Log-probabilities (in nats) of each choice as the next token. */
  choose(requests: readonly ChooseRequest[], options?: AnswerOptions<Chosen>): Promise<Answer<Chosen>[]>;
  /**
   * Renders a chat with the model's template, open for its reply. Absent without a template.
   * @param now time that the template writes; default that of the call
   */
  readonly renderChat?: ((messages: readonly Message[], now?: Date) => Promise<string>) | undefined;
  /**
   * Indices of requests that are computed together, if any. The last bits of an answer may depend on its batch, so a
   * resumed run must compute it in the same one.
   */
  readonly batches?: ((requests: readonly { readonly prefix?: string | undefined }[]) => number[][]) | undefined;
  /** The model's tokenizer, where it is on this machine. */
  readonly tokenizer?: PromptTokenizer | undefined;
  /** Closes connections, or frees the engine's memory. */
  close(): Promise<void>;
}

/** Ids of a text, with the tokens that the tokenizer's post-processor adds if `specialTokens` is set. */
export type Encode = (
  text: string,
  specialTokens: boolean,
  signal: AbortSignal | undefined,
) => Promise<readonly number[]>;

export function encodeWith(tokenizer: PromptTokenizer): Encode {
  const encode = promptEncoder(tokenizer);
  // The choices of an item share one long context, which is encoded once.
  const recent = new Map<string, readonly number[]>();
  return async (text, specialTokens) => {
    const key = `${specialTokens} ${text}`;
    const ids = recent.get(key) ?? encode(text, specialTokens);
    recent.delete(key);
    recent.set(key, ids);
    for (const oldest of recent.keys()) {
      if (recent.size <= REMEMBERED) break;
      recent.delete(oldest);
    }
    return ids;
  };
}

/** Texts whose ids are remembered, enough for the requests under way. */
const REMEMBERED = 8;

/** Moves spaces at the end of a context to the beginning of its choices, as tokens have them. */
export function moveBlanks(context: string, choices: readonly string[]): { context: string; choices: string[] } {
  const trimmed = context.trimEnd();
  return { context: trimmed, choices: choices.map((choice) => context.slice(trimmed.length) + choice) };
}

/** A generated text up to the first of the stops. */
export function cutAtStop(text: string, stops: readonly string[]): { text: string; stopped: boolean } {
  const ends = stops.filter((stop) => stop !== "").map((stop) => text.indexOf(stop));
  const found = ends.filter((end) => end >= 0);
  return found.length === 0 ? { text, stopped: false } : { text: text.slice(0, Math.min(...found)), stopped: true };
}

/** The error of an evaluation whose signal fired. */
export function stopped(): CancelledError {
  return new CancelledError("the evaluation was stopped", { option: "resume" });
}
