// The normalization table of a SentencePiece model: texts by their prefixes as a double array, each with what replaces it.
// Follows src/lib.rs of the crate spm_precompiled (0.1.4), and normalizers/precompiled.rs of `tokenizers`.
import { problem } from "./tokenizer-json.js";

const MAX_BYTES = 100;

/**
 * Reads a table in base64.
 * @throws CheckpointError if it is not valid, or lengthens texts without bound
 */
export function precompiled(table: string): (text: string) => string {
  const bytes = Buffer.from(table, "base64");
  const size = bytes.length < 4 ? 0 : bytes.readUInt32LE();
  if (size === 0 || size % 4 !== 0 || size > bytes.length - 4)
    throw problem("its Precompiled table is damaged", "normalizer");
  const units = Uint32Array.from({ length: size / 4 }, (_, i) => bytes.readUInt32LE(4 + 4 * i));
  const texts = bytes.subarray(4 + size);

  /** The replacement of the shortest prefix of a text that the table has; undefined where it has none. */
  const replacementOf = (text: string): string | undefined => {
    let unit = units[0] as number;
    let at = offsetOf(unit);
    for (const byte of Buffer.from(text)) {
      at ^= byte;
      unit = units[at] ?? 0;
      // The label has bit 31 set where a unit holds a value.
      if (byte === 0 || (unit & 0x800000ff) !== byte) return undefined;
      at ^= offsetOf(unit);
      if ((unit >>> 8) & 1) return textAt((units[at] ?? 0) & 0x7fffffff);
    }
    return undefined;
  };
  const textAt = (start: number): string => {
    const end = texts.indexOf(0, start);
    if (start > texts.length) throw problem("its Precompiled table is damaged", "normalizer");
    const replacement = texts.subarray(start, end < 0 ? texts.length : end);
    if (replacement.length > MAX_BYTES)
      throw problem(`its Precompiled table replaces a text by more than ${MAX_BYTES} bytes`, "normalizer");
    return replacement.toString();
  };

  const graphemes = new Intl.Segmenter("und", { granularity: "grapheme" });
  return (text) =>
    Array.from(graphemes.segment(text), ({ segment }) => {
      const whole = Buffer.byteLength(segment) < 6 ? replacementOf(segment) : undefined;
      return whole ?? Array.from(segment, (character) => replacementOf(character) ?? character).join("");
    }).join("");
}

/** Distance to the children of a unit. */
function offsetOf(unit: number): number {
  return (unit >>> 10) << ((unit & 0x200) >>> 6);
}
