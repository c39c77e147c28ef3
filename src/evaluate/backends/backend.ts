// Who answers the prompts: the interface that the engine and every server's adapter fill. Knows no task and no score.
import { type PromptTokenizer, promptEncoder } from "../../engine/index.js";

/** What answered, for the result file: nothing in it changes from one run to the next with the same model. */
export interface BackendIdentity {
  /** `engine`, `openai`, `llamacpp` or `ollama`. */
  readonly backend: string;
  /** The program that computed, with its version where it tells: `vllm 0.11.0`; null when it does not say. */
  readonly server: string | null;
  /** What the model is called there. */
  readonly model: string;
  /** Digest of the model's weights or files, where the server or the folder gives one. */
  readonly digest: string | null;
  /**
   * Who puts the beginning-of-sequence token before a prompt: `tokenizer`: token ids were sent that begin as the
   * tokenizer's own post-processor has it; `server`: text was sent, and the server did as it does.
   */
  readonly bos: "tokenizer" | "server";
}

/** What a backend cannot do, each with the reason; what is absent it can do. */
export interface Incapacities {
  /** Log-likelihood of continuations of any length. */
  readonly loglikelihood?: string;
  /** Weighing choices, which servers do by the likeliest next tokens. */
  readonly choose?: string;
}

export interface GenerateRequest {
  readonly prompt: string;
  /** The beginning of the prompt that other requests have too, such as the shots; computed once where that can be. */
  readonly prefix?: string | undefined;
  /** Whether the prompt begins with what the tokenizer itself puts before a text (BOS); default true. */
  readonly specialTokens?: boolean | undefined;
  readonly maxNewTokens: number;
  /** The answer ends before the first of these. */
  readonly stop: readonly string[];
}

export interface Generated {
  /** Up to the first stop, which is not part of it. */
  readonly text: string;
  /** `stop`: a stop string or the model's own end; `length`: maxNewTokens were not enough. */
  readonly finish: "stop" | "length";
}

export interface LoglikelihoodRequest {
  readonly context: string;
  readonly continuation: string;
  readonly prefix?: string | undefined;
  readonly specialTokens?: boolean | undefined;
}

export interface Loglikelihood {
  /** Natural logarithm, sum over the continuation's tokens. */
  readonly logprob: number;
  /** Tokens of the continuation. */
  readonly tokens: number;
  /** Whether each of them was the likeliest. */
  readonly greedy: boolean;
}

export interface ChooseRequest {
  readonly context: string;
  /** Continuations, such as " A"; servers want each to be a single token. */
  readonly choices: readonly string[];
  readonly prefix?: string | undefined;
  readonly specialTokens?: boolean | undefined;
}

export interface Chosen {
  /** Natural log-probability of each choice; null where the server's list of likeliest next tokens does not hold it. */
  readonly logprobs: readonly (number | null)[];
}

/** A request that the backend refused or could not answer rightly; the others are not concerned. */
export interface RequestError {
  readonly error: string;
}

export type Answer<T> = T | RequestError;

export function isError<T extends object>(answer: Answer<T>): answer is RequestError {
  return "error" in answer;
}

export interface AnswerOptions<T> {
  readonly signal?: AbortSignal | undefined;
  /** Called for each request when its answer is there, in whatever order they come. */
  readonly onResult?: ((index: number, answer: Answer<T>) => void) | undefined;
}

export interface ChatMessage {
  readonly role: string;
  readonly content: string;
}

/**
 * A backend. Answers come back in the order of the requests; a request that cannot be answered gives a fault, and what
 * concerns all of them (no server, no such model) an error.
 */
export interface Backend {
  readonly identity: BackendIdentity;
  readonly incapacities: Incapacities;
  /** Continues each prompt with greedy decoding. */
  generate(requests: readonly GenerateRequest[], options?: AnswerOptions<Generated>): Promise<Answer<Generated>[]>;
  /** Sums the log-probabilities (in nats) of each continuation's tokens after its context. */
  loglikelihood(
    requests: readonly LoglikelihoodRequest[],
    options?: AnswerOptions<Loglikelihood>,
  ): Promise<Answer<Loglikelihood>[]>;
  /** Log-probabilities (in nats) of each choice as the next token. */
  choose(requests: readonly ChooseRequest[], options?: AnswerOptions<Chosen>): Promise<Answer<Chosen>[]>;
  /** Text of a chat in the model's own form, ready for the model to answer; absent where the form is not known. */
  readonly renderChat?: ((messages: readonly ChatMessage[]) => Promise<string>) | undefined;
  /**
   * Indices of requests that are computed together, where that is so: an answer may depend in its last bits on the
   * company it was computed in, so a resumed run must compute it in the same.
   */
  readonly batches?: ((requests: readonly { readonly prefix?: string | undefined }[]) => number[][]) | undefined;
  /** Gives back what it holds: connections, a server it started, the engine's memory. */
  close(): Promise<void>;
}

/** A tokenizer, as far as backends need it; that of the engine is one. */
export type Encoder = PromptTokenizer;

/** Ids of a text; `specialTokens`: with what the tokenizer's own post-processor adds. */
export type Encode = (
  text: string,
  specialTokens: boolean,
  signal: AbortSignal | undefined,
) => Promise<readonly number[]>;

/** Encodes prompts with a tokenizer at hand. */
export function encodeWith(tokenizer: Encoder): Encode {
  const encode = promptEncoder(tokenizer);
  // The choices of an item have one long context, which is encoded once.
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

/** Texts whose ids are remembered: those of the requests that are under way together. */
const REMEMBERED = 8;

/** A context without the blanks at its end, and a choice with them before it, as tokens have them. */
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
