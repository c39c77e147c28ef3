// What the server needs of a model, whatever runs it.

import type { ChatMessage, Tokenizer, TokenScores } from "../engine/index.js";

export interface AnswerRequest {
  /** Answers to the same array, by identity, may share what is computed of it. */
  readonly prompt: readonly number[];
  readonly maxNewTokens: number;
  /** 0 takes the most likely token. */
  readonly temperature: number;
  readonly topP: number;
  readonly topK?: number | undefined;
  /** Chooses the samples, with `choice`. */
  readonly seed: number;
  /** Number of this answer among those to its prompt. */
  readonly choice: number;
  /** Number of most likely tokens to score with each token; undefined without log-probabilities. */
  readonly top?: number | undefined;
  readonly signal: AbortSignal;
  /** Receives the scores of the prompt's tokens but the first, in parts. Needs `top`. */
  readonly onPrompt?: ((scores: readonly TokenScores[]) => void) | undefined;
  /** Receives each new token, with scores if `top` is given. Returning "stop" ends the answer after it. */
  readonly onToken: (id: number, scores?: TokenScores) => "stop" | undefined;
  /** Receives the token that ends the answer, such as EOS. */
  readonly onEnd: (id: number, scores?: TokenScores) => void;
}

/** How an answer ended: at a stop text, at an end token, at its length; invalid if a logit is not a number. */
export type Finish = "stop" | "end" | "length" | "invalid";

/** A model that answers several requests at once. */
export interface ServedModel {
  /** Changes with the model. */
  readonly digest: string;
  /** Most tokens of prompt and answer together. */
  readonly contextLength: number;
  /** Answers computed at once. */
  readonly parallel: number;
  readonly tokenizer: Pick<Tokenizer, "encode" | "decode" | "tokenOf" | "incremental">;
  /**
   * The tokens of a text, or of a conversation through the model's chat template.
   * @param options.bos whether a text begins with the tokenizer's BOS; default true
   * @throws LayergraftError code `usage` or `template` if the model has no chat template or it refuses the messages
   */
  encode(prompt: string | readonly ChatMessage[], options?: { readonly bos?: boolean }): Promise<number[]>;
  /** @throws LayergraftError code `usage` if tokens are missing or are not tokens of the model */
  check(prompt: readonly number[], what: string): void;
  /**
   * Computes an answer. The same request has the same answer, whatever else is computed at the time.
   * @throws CancelledError if the signal fires
   */
  generate(request: AnswerRequest): Promise<Finish>;
  close(): Promise<void>;
}
