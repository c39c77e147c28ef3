// How text becomes what a model is asked: beginning and end marks, and contexts with their continuations.
import type { Tokenizer } from "./tokenizer.js";

/** What of a tokenizer is needed to write a prompt. */
export type PromptTokenizer = Pick<Tokenizer, "bos" | "eos" | "encode" | "tokenOf">;

/**
 * Makes the encoder of prompts. With `specialTokens`, a text gets what the tokenizer's own post-processor adds (BOS), with
 * two exceptions: a text that begins with the BOS token, as rendered chats do, gets no second one, and an end mark that
 * some tokenizers add is dropped, as it would end the answer before it begins.
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

/** A context, a text that may follow it, and whether the context begins with BOS (default true). */
export interface TextPair {
  readonly context: string;
  readonly continuation: string;
  readonly specialTokens?: boolean | undefined;
}

/**
 * Ids of a context and of its continuation, so that together they are the ids of the whole text: blanks at the
 * context's end go with the continuation, as tokens take the blank before a word with them. As lm-evaluation-harness
 * splits a pair (0.4.13, api/model.py, `_encode_pair`).
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
