// Regular expressions by which published byte-level tokenizers split texts. None of them backtracks over a run of characters.

const WORDS = "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+";
const REST = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const SLASHED_REST = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const SPELT_CONTRACTIONS = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])";
const UPPER = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
const LOWER = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
const CASED = (suffix: string) =>
  `[^\\r\\n\\p{L}\\p{N}]?${UPPER}*${LOWER}+${suffix}|[^\\r\\n\\p{L}\\p{N}]?${UPPER}+${LOWER}*${suffix}`;

export const SPLIT_PATTERNS = {
  /** Also the default of the ByteLevel pre-tokenizer (pre_tokenizers/byte_level.rs). */
  gpt2: "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
  gpt2Grouped: "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
  llama3: `${CONTRACTIONS}|${WORDS}|\\p{N}{1,3}|${REST}`,
  llama3Spelt: `${SPELT_CONTRACTIONS}|${WORDS}|\\p{N}{1,3}|${REST}`,
  /** Qwen 2 to 3. */
  qwen2: `${CONTRACTIONS}|${WORDS}|\\p{N}|${REST}`,
  /** Qwen 3.5. */
  qwen35: `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`,
  /** Mistral's Tekken. */
  tekken: `${CASED("")}|\\p{N}|${SLASHED_REST}`,
  /** o200k, as in gpt-oss. */
  o200k: `${CASED(`${CONTRACTIONS}?`)}|\\p{N}{1,3}|${SLASHED_REST}`,
  bloom: " ?[^(\\s|[.,!?…。，、।۔،])]+",
} as const;
