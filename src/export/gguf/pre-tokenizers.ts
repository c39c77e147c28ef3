// How llama.cpp names the ways in which byte-level tokenizers split a text before they merge bytes.
// Source: llm_tokenizer_bpe and llama_vocab::impl::load in src/llama-vocab.cpp of ggml-org/llama.cpp, November 2026. It
// names them by hashes of a tokenised text; the splits of a tokenizer.json identify them without the vocabulary.
import { isObject } from "../../core/index.js";
import type { Part } from "../../engine/index.js";

const GPT2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const DIGIT = "\\p{N}";

const CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const REST = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const LLAMA3 = `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|${REST}`;
const QWEN2 = `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|${REST}`;

const UPPER = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
const LOWER = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
const REST_WITH_SLASH = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const TEKKEN = `[^\\r\\n\\p{L}\\p{N}]?${UPPER}*${LOWER}+|[^\\r\\n\\p{L}\\p{N}]?${UPPER}+${LOWER}*|\\p{N}|${REST_WITH_SLASH}`;
const GPT4O =
  `[^\\r\\n\\p{L}\\p{N}]?${UPPER}*${LOWER}+${CONTRACTIONS}?|` +
  `[^\\r\\n\\p{L}\\p{N}]?${UPPER}+${LOWER}*${CONTRACTIONS}?|\\p{N}{1,3}|${REST_WITH_SLASH}`;

/** Splits in their order, and whether words that are tokens are not merged. */
interface PreTokenizer {
  readonly name: string;
  readonly splits: readonly string[];
  readonly ignoresMerges: boolean;
}

/** Where several names mean the same splits, the one that does not clean up spaces when it decodes. */
const PRE_TOKENIZERS: readonly PreTokenizer[] = [
  { name: "gpt-2", splits: [GPT2], ignoresMerges: false },
  { name: "command-r", splits: [DIGIT, GPT2], ignoresMerges: false },
  { name: "llama-bpe", splits: [LLAMA3], ignoresMerges: true },
  { name: "dbrx", splits: [LLAMA3], ignoresMerges: false },
  { name: "qwen2", splits: [QWEN2], ignoresMerges: false },
  { name: "tekken", splits: [TEKKEN], ignoresMerges: true },
  { name: "gpt-4o", splits: [GPT4O], ignoresMerges: false },
];

/** llama.cpp's name of a pre-tokenizer; undefined for one that it does not know. */
export function findPreTokenizer(part: Part | undefined, ignoresMerges: boolean): string | undefined {
  const splits = splitsOf(part);
  const isSame = (other: readonly string[]) => splits?.join("\n") === other.join("\n");
  return PRE_TOKENIZERS.find((known) => isSame(known.splits) && known.ignoresMerges === ignoresMerges)?.name;
}

/** The regular expressions that cut a text one after another; undefined if a part does something else. */
function splitsOf(part: Part | undefined): string[] | undefined {
  switch (part?.type) {
    case "Sequence": {
      const parts = (part.pretokenizers as Part[]).map(splitsOf);
      return parts.includes(undefined) ? undefined : parts.flatMap((splits) => splits ?? []);
    }
    case "ByteLevel":
      if (part.add_prefix_space === true) return undefined;
      return part.use_regex === false ? [] : [GPT2];
    case "Digits":
      return part.individual_digits === true ? [DIGIT] : undefined;
    case "Split": {
      const regex = isObject(part.pattern) ? part.pattern.Regex : undefined;
      // What the pattern does not match is lost in one form and kept in the other; these patterns match everything.
      const isolates = part.behavior === "Isolated" && part.invert !== true;
      const keepsMatches = part.behavior === "Removed" && part.invert === true;
      return typeof regex === "string" && (isolates || keepsMatches) ? [regex] : undefined;
    }
    default:
      return undefined;
  }
}
