// What computes the tokens of an engine: the embedded decoder, or another program such as llama.cpp.

import type { ChatTemplate, Tokenizer } from "../text/index.js";
import type { AnswerGrammar, DecodingBatch, TokenAnswer } from "./decoding-batch.js";
import type { GenerateTokensOptions } from "./generate.js";
import type { ScoreEachOptions, ScoreRequest, Scores } from "./score.js";

/** Answers that begin and end at any time. */
export type AnswerBatch = Pick<DecodingBatch, "generate" | "waiting">;

/** A model in memory that computes tokens from tokens. */
export interface TokenModel {
  /** `engine` or `llama`. */
  readonly backend: string;
  /** The program that computes, with its version. */
  readonly program: string;
  /** The model family, such as `llama`. */
  readonly family: string;
  readonly vocabularySize: number;
  /** Tokens of prompt and answer together. */
  readonly contextLength: number;
  /** Notes on how the weights were read. */
  readonly notes: readonly string[];
  /** Answers prompts of at least one token, in their order. @throws CancelledError if the signal fires */
  generate(prompts: readonly (readonly number[])[], options: GenerateTokensOptions): Promise<TokenAnswer[]>;
  /** Scores texts, in their order, except those that are known. @throws CancelledError if the signal fires */
  score(requests: readonly ScoreRequest[], options: ScoreEachOptions<Scores>): Promise<Scores[]>;
  openBatch(rows: number): AnswerBatch;
  /**
   * The grammar of answers that fit a JSON Schema. Absent where the engine limits logits itself.
   * @throws LayergraftError code `usage` if it cannot be that of a grammar
   */
  grammar?(schema: Readonly<Record<string, unknown>>): Promise<AnswerGrammar>;
  /** Frees the model's memory. */
  close(): Promise<void>;
}

/** What an engine knows of a model besides its weights. */
export interface ModelText {
  readonly name: string;
  /** Changes with the model. */
  readonly digest: string;
  readonly notes: readonly string[];
  /** @throws CheckpointError if it has no readable tokenizer */
  tokenizer(): Promise<Tokenizer>;
  /** The chat template; undefined if it has none. */
  chatTemplate(): Promise<ChatTemplate | undefined>;
  /** Tokens that end an answer. */
  stopIds(): Promise<readonly number[]>;
}
