import type { Tokenizer } from "../engine/index.js";
import type { Encoded } from "./encode.js";

export interface PreviewPiece {
  /** As the tokenizer decodes it, special tokens included. */
  readonly text: string;
  readonly loss: boolean;
  readonly tokens: number;
}

/**
 * The text of an encoded example in pieces that are learned or not. A character across two pieces is in the second.
 */
export function previewOf(encoded: Encoded, tokenizer: Tokenizer): PreviewPiece[] {
  const ids = [...encoded.ids];
  const pieces: PreviewPiece[] = [];
  let shown = "";
  for (let start = 0; start < ids.length; ) {
    const loss = encoded.loss[start] === 1;
    let end = start + 1;
    while (end < ids.length && (encoded.loss[end] === 1) === loss) end++;
    // Decoded from the beginning: tokenizers treat the first token of a text differently.
    const decoded = tokenizer.decode(ids.slice(0, end));
    const soFar = end < ids.length ? decoded.replace(/\uFFFD+$/, "") : decoded;
    const text = soFar.startsWith(shown) ? soFar.slice(shown.length) : tokenizer.decode(ids.slice(start, end));
    pieces.push({ text, loss, tokens: end - start });
    shown = soFar;
    start = end;
  }
  return pieces;
}
