// SentencePiece's normalization of text: white space, and replacements by the longest match (NFKC and more).
// After src/normalizer.cc of google/sentencepiece; the trie is darts-clone's double array.
import type { SentencePieceModel } from "./sentencepiece-model.js";

/** The sign that stands for a space within pieces. */
export const SPACE_SIGN = "\u2581";

export function sentencePieceNormalizer(model: SentencePieceModel): (text: string) => string {
  const replace = replacer(model.charsMap);
  const space = model.escapeWhitespaces ? SPACE_SIGN : " ";
  const trims = model.removeExtraWhitespaces;

  return (text) => {
    const bytes = Buffer.from(text, "utf8");
    // Half a surrogate pair becomes U+FFFD, as in the bytes.
    const input = bytes.toString("utf8");
    let output = "";
    let afterSpace = trims;
    let isStarted = false;
    let at = 0;
    let byte = 0;
    while (at < input.length) {
      const found = replace(bytes, byte);
      const length = found?.length ?? ((input.codePointAt(at) ?? 0) > 0xffff ? 2 : 1);
      const source = input.slice(at, at + length);
      let part = found?.text ?? source;
      at += length;
      byte += Buffer.byteLength(source);

      while (afterSpace && part.startsWith(" ")) part = part.slice(1);
      if (part === "") continue;
      if (!isStarted) {
        isStarted = true;
        if (model.addDummyPrefix) output += space;
      }
      output += part.replaceAll(" ", space);
      afterSpace = trims && part.endsWith(" ");
    }
    if (trims) while (output.endsWith(space)) output = output.slice(0, -space.length);
    return output;
  };
}

interface Replacement {
  readonly text: string;
  /** UTF-16 units of the input that it replaces. */
  readonly length: number;
}

/** Finds the longest replacement that begins at a byte. */
function replacer(charsMap: Uint8Array): (bytes: Uint8Array, from: number) => Replacement | undefined {
  if (charsMap.length < 4) return () => undefined;
  const view = new DataView(charsMap.buffer, charsMap.byteOffset, charsMap.byteLength);
  const trieBytes = Math.min(view.getUint32(0, true), charsMap.length - 4);
  const units = trieBytes >> 2;
  const texts = charsMap.subarray(4 + trieBytes);
  const decoder = new TextDecoder();
  const unitAt = (index: number) => (index < units ? view.getUint32(4 + 4 * index, true) : 0);
  const textAt = (offset: number) => {
    const end = texts.indexOf(0, offset);
    return decoder.decode(texts.subarray(offset, end < 0 ? undefined : end));
  };

  return (bytes, from) => {
    let position = offsetOf(unitAt(0));
    let best: { offset: number; bytes: number } | undefined;
    for (let i = from; i < bytes.length; i++) {
      const byte = bytes[i] ?? 0;
      position ^= byte;
      const unit = unitAt(position);
      if (labelOf(unit) !== byte) break;
      position ^= offsetOf(unit);
      if (hasLeaf(unit)) best = { offset: unitAt(position) & 0x7fffffff, bytes: i + 1 - from };
    }
    if (!best) return undefined;
    return { text: textAt(best.offset), length: decoder.decode(bytes.subarray(from, from + best.bytes)).length };
  };
}

// Bits of a unit of darts-clone: 0-7 the label, 8 whether a value follows, 9 whether the offset is in steps of 256,
// 10-30 the offset, 31 whether it is a value.
const labelOf = (unit: number) => (unit & 0x800000ff) >>> 0;
const hasLeaf = (unit: number) => (unit & 0x100) !== 0;
const offsetOf = (unit: number) => (unit >>> 10) << ((unit & 0x200) >>> 6);
