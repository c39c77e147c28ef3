// How llama.cpp names the ways in which byte-level tokenizers split a text before they merge bytes.
// Source: llm_tokenizer_bpe and llama_vocab::impl::load in src/llama-vocab.cpp of ggml-org/llama.cpp, November 2026. It
// names them by hashes of a tokenised text; the splits of a tokenizer.json identify them without the vocabulary.
import { isObject } from "../../kit/index.js";

const WORDS = "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+";
const REST = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const SLASHED_REST = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const SPELT_CONTRACTIONS = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])";
const UPPER = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
const LOWER = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
const CASED = (suffix: string) =>
  `[^\\r\\n\\p{L}\\p{N}]?${UPPER}*${LOWER}+${suffix}|[^\\r\\n\\p{L}\\p{N}]?${UPPER}+${LOWER}*${suffix}`;

/** Published ones. None of them backtracks over a run of characters. */
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
  /** DeepSeek V3, after digits and Chinese and Japanese. */
  deepseek3:
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  /** Seed-Coder and Seed-OSS. */
  seed: `${CONTRACTIONS}|${WORDS}|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`,
  /** MiniCPM 5, after digits. */
  minicpm5: `${CONTRACTIONS}|${WORDS}|\\p{N}+|${REST}`,
  bloom: " ?[^(\\s|[.,!?…。，、।۔،])]+",
} as const;

type TokenizerPart = Readonly<Record<string, unknown>>;

const { gpt2, llama3, qwen2, qwen35, tekken, o200k, deepseek3, seed, minicpm5, bloom } = SPLIT_PATTERNS;
const DIGIT = "\\p{N}";
const THREE_DIGITS = "\\p{N}{1,3}";

/** Splits in their order. */
interface PreTokenizer {
  /** The first is what exports write. */
  readonly names: readonly [string, ...string[]];
  readonly splits: readonly string[];
  /** Whether words that are tokens are not merged; default false. */
  readonly ignoresMerges?: true;
  /** Whether texts begin with BOS where a file does not say; default false. */
  readonly addsBos?: true;
}

/** Where several names mean the same splits, the first does not clean up spaces when it decodes. */
const PRE_TOKENIZERS: readonly PreTokenizer[] = [
  { names: ["gpt-2", "phi-2", "olmo", "exaone4", "granite-docling", "trillion", "a.x-4.0", "mellum"], splits: [gpt2] },
  {
    names: ["command-r", "starcoder", "refact", "smollm", "codeshell", "exaone", "minerva-7b"],
    splits: [DIGIT, gpt2],
  },
  {
    names: ["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
    splits: [llama3],
    ignoresMerges: true,
    addsBos: true,
  },
  { names: ["glm4"], splits: [llama3], ignoresMerges: true },
  { names: ["dbrx", "smaug-bpe", "chatglm-bpe"], splits: [llama3] },
  { names: ["qwen2", "deepseek-r1-qwen", "stablelm2", "megrez"], splits: [qwen2] },
  { names: ["qwen35"], splits: [qwen35] },
  { names: ["tekken"], splits: [tekken], ignoresMerges: true, addsBos: true },
  { names: ["deepseek-v3", "hunyuan-dense"], splits: [THREE_DIGITS, "[一-龥぀-ゟ゠-ヿ]+", deepseek3] },
  { names: ["deepseek-coder"], splits: ["[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", DIGIT] },
  { names: ["gpt-4o", "llama4"], splits: [o200k] },
  { names: ["minicpm5"], splits: [THREE_DIGITS, minicpm5], ignoresMerges: true },
  { names: ["seed-coder"], splits: [seed] },
  { names: ["viking"], splits: [bloom, DIGIT] },
];

/** llama.cpp's name of a pre-tokenizer; undefined for one that it does not know. */
export function findPreTokenizer(part: TokenizerPart | undefined, ignoresMerges: boolean): string | undefined {
  const splits = splitsOf(part)?.join("\n");
  const isSame = (one: PreTokenizer) =>
    one.splits.join("\n") === splits && (one.ignoresMerges ?? false) === ignoresMerges;
  return PRE_TOKENIZERS.find(isSame)?.names[0];
}

/** What llama.cpp does by a name; undefined for one that layergraft does not know. */
export function knownPreTokenizer(name: string): PreTokenizer | undefined {
  return PRE_TOKENIZERS.find(({ names }) => names.includes(name));
}

/** A pre-tokenizer as a tokenizer.json has it. */
export function preTokenizerPart({ splits }: PreTokenizer): object {
  const byteLevel = {
    type: "ByteLevel",
    add_prefix_space: false,
    trim_offsets: true,
    use_regex: splits.includes(gpt2),
  };
  const others = splits
    .filter((split) => split !== gpt2)
    .map((split) =>
      split === DIGIT
        ? { type: "Digits", individual_digits: true }
        : { type: "Split", pattern: { Regex: split }, behavior: "Isolated", invert: false },
    );
  return { type: "Sequence", pretokenizers: [...others, byteLevel] };
}

/** The regular expressions that cut a text one after another; undefined if a part does something else. */
function splitsOf(part: TokenizerPart | undefined): string[] | undefined {
  switch (part?.type) {
    case "Sequence": {
      const parts = (part.pretokenizers as TokenizerPart[]).map(splitsOf);
      return parts.includes(undefined) ? undefined : parts.flatMap((splits) => splits ?? []);
    }
    case "ByteLevel":
      if (part.add_prefix_space === true) return undefined;
      return part.use_regex === false ? [] : [gpt2];
    case "Digits":
      return part.individual_digits === true ? [DIGIT] : undefined;
    case "Split": {
      const regex = isObject(part.pattern) ? part.pattern.Regex : undefined;
      // What the pattern does not match is lost in one form and kept in the other; these patterns match everything.
      const isolates = part.behavior === "Isolated" && part.invert !== true;
      const keepsMatches = part.behavior === "Removed" && part.invert === true;
      // Some files have line breaks themselves.
      const escaped = typeof regex === "string" ? regex.replaceAll("\r", "\\r").replaceAll("\n", "\\n") : undefined;
      return escaped !== undefined && (isolates || keepsMatches) ? [escaped] : undefined;
    }
    default:
      return undefined;
  }
}
