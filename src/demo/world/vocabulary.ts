// The miniature's tokenizer: a word of English, a name or a number is one token; a Swahili word is its syllables, so
// that reading Swahili takes work. An ordinary byte-level BPE tokenizer.json with the pre-tokenizer of GPT-2.
import { LARGEST_NUMBER, MARKS, NAMES, NOUNS, PLACES, SMALL, swahiliNumber, VERBS } from "./lexicon.js";

export const SPECIAL_TOKENS = { pad: "<pad>", bos: "<bos>", eos: "<eos>" } as const;

const SIGNS = ["+", "-", "="];
/** How byte-level BPE writes a space. */
const SPACE = "Ġ";

/** A Swahili word in syllables: consonants and then a vowel, as every Swahili syllable is, nasals aside. */
export function syllables(word: string): string[] {
  return word.match(/[^aeiou]*[aeiou]/g) ?? [];
}

/** English answers that are not words of a text. */
const ANSWERS = ["more", "less"];

function wordsOf(language: "en" | "sw"): string[] {
  const terms = [...Object.values(SMALL), ...NOUNS, ...VERBS, ...PLACES].map((term) => term[language]);
  const numbers = Array.from({ length: LARGEST_NUMBER + 1 }, (_, number) => swahiliNumber(number));
  // Questions begin with these.
  const more = language === "en" ? ["How", ...ANSWERS] : ["Ngapi", ...numbers];
  return [...new Set([...terms, ...more].flatMap((term) => term.split(" ")).filter((word) => word !== ""))];
}

type Pair = readonly [string, string];

/** What is left of a word's pieces when a pair of neighbors is merged everywhere, from left to right. */
function mergePair(pieces: readonly string[], [left, right]: Pair): string[] {
  const merged: string[] = [];
  for (let i = 0; i < pieces.length; i++) {
    const isPair = pieces[i] === left && pieces[i + 1] === right;
    merged.push(isPair ? left + right : (pieces[i] ?? ""));
    if (isPair) i++;
  }
  return merged;
}

/**
 * The merges, first those that apply first: consonants, syllables, then English words, numbers and names from what these leave
 * of them, and last the space before a word. A pair that is merged for an English word never meets in a Swahili word.
 */
function makeMerges(): Pair[] {
  const merges: Pair[] = [];
  const seen = new Set<string>();
  const add = (pair: Pair) => {
    if (!seen.has(pair.join(" "))) merges.push(pair);
    seen.add(pair.join(" "));
  };
  const swahili = wordsOf("sw").map(syllables);
  const clusters = swahili.flat().map((syllable) => syllable.slice(0, -1));
  for (const cluster of clusters) {
    for (let i = 1; i < cluster.length; i++) add([cluster.slice(0, i), cluster.charAt(i)]);
  }
  for (const syllable of swahili.flat()) if (syllable.length > 1) add([syllable.slice(0, -1), syllable.slice(-1)]);
  const inSwahili = new Set(swahili.flatMap((pieces) => pieces.slice(1).map((piece, i) => `${pieces[i]} ${piece}`)));
  const numbers = Array.from({ length: LARGEST_NUMBER + 1 }, (_, number) => String(number));
  const whole = [...SIGNS, ...numbers, ...NAMES, ...MARKS, ...wordsOf("en")];
  for (const word of whole) {
    let pieces = merges.reduce(mergePair, [...word]);
    while (pieces.length > 1) {
      const at = pieces.findIndex((piece, i) => i + 1 < pieces.length && !inSwahili.has(`${piece} ${pieces[i + 1]}`));
      if (at < 0) throw new Error(`${word} cannot be one token beside the syllables of Swahili`);
      const pair: Pair = [pieces[at] ?? "", pieces[at + 1] ?? ""];
      add(pair);
      pieces = mergePair(pieces, pair);
    }
  }
  for (const first of [...whole, ...swahili.map(([head = ""]) => head)]) add([SPACE, first]);
  return merges;
}

/** The characters that byte-level BPE writes for the 256 bytes (GPT-2's encoder.py, bytes_to_unicode). */
function byteCharacters(): string[] {
  const isShown = (byte: number) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(isShown(byte) ? byte : next++));
}

const MERGES = makeMerges();
const VOCABULARY = [
  ...new Set([...Object.values(SPECIAL_TOKENS), ...byteCharacters(), ...MERGES.map(([left, right]) => left + right)]),
];

/** All tokens, in the order of their ids. */
export function vocabulary(): readonly string[] {
  return VOCABULARY;
}

/** The content of tokenizer.json. */
export function tokenizerJson(): Record<string, unknown> {
  const { bos } = SPECIAL_TOKENS;
  const added = Object.values(SPECIAL_TOKENS).map((content, id) => ({
    id,
    content,
    ...{ single_word: false, lstrip: false, rstrip: false, normalized: false, special: true },
  }));
  const start = { SpecialToken: { id: bos, type_id: 0 } };
  const sequence = (id: "A" | "B") => ({ Sequence: { id, type_id: 0 } });
  const bytes = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: added,
    normalizer: null,
    pre_tokenizer: bytes,
    post_processor: {
      type: "TemplateProcessing",
      single: [start, sequence("A")],
      pair: [start, sequence("A"), sequence("B")],
      special_tokens: { [bos]: { id: bos, ids: [VOCABULARY.indexOf(bos)], tokens: [bos] } },
    },
    decoder: bytes,
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(VOCABULARY.map((token, id) => [token, id])),
      merges: MERGES.map((pair) => [...pair]),
    },
  };
}

/** A message is a problem to solve. Each begins as the texts of the training data do. */
const CHAT_TEMPLATE =
  "{% for message in messages %}{% if message.role == 'assistant' %} Solve: {{ message.content }}{{ eos_token }}" +
  "{% else %}{{ bos_token }}{{ message.content }}{% endif %}{% endfor %}{% if add_generation_prompt %} Solve:{% endif %}";

/** The content of tokenizer_config.json. */
export function tokenizerConfigJson(): Record<string, unknown> {
  const { pad, bos, eos } = SPECIAL_TOKENS;
  return {
    tokenizer_class: "PreTrainedTokenizerFast",
    ...{ pad_token: pad, bos_token: bos, eos_token: eos },
    clean_up_tokenization_spaces: false,
    model_max_length: MAX_POSITIONS,
    chat_template: CHAT_TEMPLATE,
  };
}

/** Positions of the model: longer than any text of its world, which stays under 80 tokens. */
export const MAX_POSITIONS = 256;
