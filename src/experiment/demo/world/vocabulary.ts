// The miniature's tokenizer: a word of English, a name or a number is one token; a Swahili word is its syllables, so
// that reading Swahili takes work. An ordinary WordPiece tokenizer.json, which any Hugging Face reader takes.
import { LARGEST_NUMBER, MARKS, NAMES, NOUNS, PLACES, SMALL, swahiliNumber, VERBS } from "./lexicon.js";

/** Marks a syllable that goes on a word: `kalamu` is `ka`, `##la`, `##mu`. */
const CONTINUED = "##";

export const SPECIAL_TOKENS = { pad: "<pad>", bos: "<bos>", eos: "<eos>", unk: "<unk>" } as const;

const SIGNS = [".", "?", ":", "+", "-", "="];

/** A Swahili word in syllables: consonants and then a vowel, as every Swahili syllable is, nasals aside. */
export function syllables(word: string): string[] {
  return word.match(/[^aeiou]*[aeiou]/g) ?? [];
}

/** English answers that are not words of a text. */
const ANSWERS = ["more", "less"];

function* wordsOf(language: "en" | "sw"): Generator<string> {
  const terms = [...Object.values(SMALL), ...NOUNS, ...VERBS, ...PLACES];
  for (const term of terms) yield* term[language].split(" ").filter((word) => word !== "");
  if (language === "en") yield* ANSWERS;
  else for (let number = 0; number <= LARGEST_NUMBER; number++) yield* swahiliNumber(number).split(" ");
}

/** All tokens, in the order of their ids. */
export function vocabulary(): string[] {
  const pieces = [...wordsOf("sw")].map(syllables);
  const first = new Set(pieces.map(([head = ""]) => head));
  const later = new Set(pieces.flatMap(([, ...rest]) => rest.map((piece) => CONTINUED + piece)));
  // A syllable may be spelt as an English word is; then they are one token.
  const tokens = [
    ...Object.values(SPECIAL_TOKENS),
    ...MARKS,
    ...SIGNS,
    ...Array.from({ length: LARGEST_NUMBER + 1 }, (_, number) => String(number)),
    ...NAMES,
    ...wordsOf("en"),
    ...[...first].sort(),
    ...[...later].sort(),
  ];
  return [...new Set(tokens)];
}

/** The content of tokenizer.json. Texts are words with spaces between them. */
export function tokenizerJson(): Record<string, unknown> {
  const tokens = vocabulary();
  const { bos, unk } = SPECIAL_TOKENS;
  const added = Object.values(SPECIAL_TOKENS).map((content) => ({
    id: tokens.indexOf(content),
    content,
    ...{ single_word: false, lstrip: false, rstrip: false, normalized: false, special: true },
  }));
  const start = { SpecialToken: { id: bos, type_id: 0 } };
  const sequence = (id: "A" | "B") => ({ Sequence: { id, type_id: 0 } });
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: added,
    normalizer: null,
    pre_tokenizer: { type: "WhitespaceSplit" },
    post_processor: {
      type: "TemplateProcessing",
      single: [start, sequence("A")],
      pair: [start, sequence("A"), sequence("B")],
      special_tokens: { [bos]: { id: bos, ids: [tokens.indexOf(bos)], tokens: [bos] } },
    },
    decoder: { type: "WordPiece", prefix: CONTINUED, cleanup: false },
    model: {
      type: "WordPiece",
      unk_token: unk,
      continuing_subword_prefix: CONTINUED,
      max_input_chars_per_word: 100,
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
    },
  };
}

/** The content of tokenizer_config.json. */
export function tokenizerConfigJson(): Record<string, unknown> {
  const { pad, bos, eos, unk } = SPECIAL_TOKENS;
  return {
    tokenizer_class: "PreTrainedTokenizerFast",
    ...{ pad_token: pad, bos_token: bos, eos_token: eos, unk_token: unk },
    clean_up_tokenization_spaces: false,
    model_max_length: MAX_POSITIONS,
  };
}

/** Positions of the model: longer than any text of its world, which stays under 80 tokens. */
export const MAX_POSITIONS = 256;
