// Prompts as tokens: BOS and EOS, and contexts with their continuations.
import type { Tokenizer } from "./tokenizer.js";

/** The part of a tokenizer that prompts need. */
export type PromptTokenizer = Pick<Tokenizer, "bos" | "eos" | "encode" | "tokenOf" | "unknown">;

/**
 * Makes the encoder of prompts. With `specialTokens`, a text gets the tokens of the tokenizer's post-processor (BOS), with
 * two exceptions: a text that begins with BOS, as rendered chats do, gets no second one, and an EOS that some tokenizers
 * add is dropped, as it would end the answer before it begins.
 */
export function promptEncoder(tokenizer: PromptTokenizer): (text: string, specialTokens: boolean) => number[] {
  const { bos, eos } = tokenizer;
  const begin = bos === undefined ? undefined : tokenizer.tokenOf(bos);
  const marks = tokenizer.encode("", { specialTokens: true });
  const hasEnd = eos !== undefined && marks.at(-1) === eos && (marks.length > 1 || eos !== bos);
  return (text, specialTokens) => {
    if (!specialTokens || (begin && text.startsWith(begin))) return tokenizer.encode(text);
    const ids = tokenizer.encode(text, { specialTokens: true });
    return hasEnd ? ids.slice(0, -1) : ids;
  };
}

/**
 * The token before a text that has no context: BOS, or EOS where there is none, as in lm-evaluation-harness (0.4.13,
 * models/huggingface.py, `prefix_token_id`).
 */
export function tokenBeforeText({ bos, eos }: Pick<Tokenizer, "bos" | "eos">): number[] {
  return [bos ?? eos ?? []].flat();
}

/** The text of BOS, for texts that are read from their beginning; empty where there is none. */
export function beginOf(tokenizer: Pick<Tokenizer, "bos" | "tokenOf">): string {
  return tokenizer.bos === undefined ? "" : (tokenizer.tokenOf(tokenizer.bos) ?? "");
}

/** A context, its continuation, and whether the context begins with BOS (default true). */
export interface TextPair {
  readonly context: string;
  readonly continuation: string;
  readonly specialTokens?: boolean | undefined;
}

/**
 * Ids of a context and of its continuation, which together are the ids of the whole text. White space at the end of the
 * context belongs to the continuation, as tokens include the space before a word. Splits pairs as lm-evaluation-harness
 * does (0.4.13, api/model.py, `_encode_pair`).
 * @param encode a prompt encoder, or a server that encodes
 */
export async function encodePair(
  encode: (text: string, specialTokens: boolean) => readonly number[] | Promise<readonly number[]>,
  { context, continuation, specialTokens = true }: TextPair,
): Promise<{ context: readonly number[]; continuation: readonly number[] }> {
  const before = await encode(context.trimEnd(), specialTokens);
  const whole = await encode(context + continuation, specialTokens);
  return { context: whole.slice(0, before.length), continuation: whole.slice(before.length) };
}

/**
 * Characters of a token on average, far beyond those of any text: encoding what cannot fit would hold up everything else for
 * seconds.
 */
const MAX_CHARACTERS = 32;

/** Whether a text is too long for a context of so many tokens, before it is encoded. */
export function cannotFit(characters: number, contextLength: number): boolean {
  return characters > contextLength * MAX_CHARACTERS;
}
