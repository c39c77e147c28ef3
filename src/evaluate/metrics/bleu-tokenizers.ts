// The tokenizers of BLEU in sacreBLEU 2.6.0: none, 13a, zh, intl and char.

import { RecipeError } from "../../kit/index.js";
import { didYouMean } from "../../kit/printing/index.js";
import { strip, words } from "./segments.js";

/** Those of sacreBLEU that need no dictionary and no model. */
export const BLEU_TOKENIZERS = ["none", "13a", "zh", "intl", "char"] as const;
export type BleuTokenizer = (typeof BLEU_TOKENIZERS)[number];

/** Why there is no such tokenizer, in a sentence that says what to do. */
export function missingTokenizer(name: string): string {
  // spBLEU, Goyal et al. 2022, arXiv 2106.03193.
  if (["spm", "flores101", "flores200", "spBLEU-1K"].includes(name)) {
    return `${name} (spBLEU) needs a SentencePiece model that only sacreBLEU has. Score with another tokenizer, and the answers in the samples file with sacreBLEU`;
  }
  return `unknown tokenizer ${name}; it must be one of ${BLEU_TOKENIZERS.join(", ")}${didYouMean(name, BLEU_TOKENIZERS)}`;
}

/**
 * The function that cuts a line into tokens.
 * @throws RecipeError for a name that is not there
 */
export function bleuTokenizer(name: string): (line: string) => readonly string[] {
  switch (name) {
    case "none":
      return words;
    case "13a":
      return (line) => words(splitWestern(unescapeMarkup(line)));
    case "zh":
      return (line) => words(splitWestern(strip(line).replace(CHINESE, " $& ")));
    case "intl":
      return (line) => words(splitInternational(line));
    case "char":
      return (line) => [...line].flatMap((character) => words(character));
    default:
      throw RecipeError.at({ field: "tokenize", actual: name }, missingTokenizer(name));
  }
}

/** What mteval-v13a does before it looks at punctuation. */
function unescapeMarkup(line: string): string {
  const plain = line
    .replaceAll("<skipped>", "")
    .replaceAll("-\n", "")
    .replaceAll("\n", " ")
    .replaceAll("&quot;", '"')
    .replaceAll("&amp;", "&")
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">");
  return ` ${plain} `;
}

/** The language-dependent part of mteval-v13a, for western languages. */
function splitWestern(line: string): string {
  return line
    .replace(/([{-~[-` -&(-+:-@/])/gu, " $1 ")
    .replace(/([^0-9])([.,])/gu, "$1 $2 ")
    .replace(/([.,])([^0-9])/gu, " $1 $2")
    .replace(/([0-9])(-)/gu, "$1 $2 ");
}

/**
 * What sacreBLEU's zh tokenizer takes for a Chinese character. Two of its ranges are written with five digits after
 * \u, which Python reads as four digits and a literal fifth one. As strings compare, '\u20000' <= c <= '\u2a6d6' then
 * holds for single characters from U+2001 to U+2A6D, and '\u2f800' <= c <= '\u2fa1d' for U+2F81 to U+2FA1: dashes,
 * quotation marks and arrows among them, and none of the supplementary ideographs that were meant.
 */
const CHINESE = new RegExp(
  [
    "[\u3400-\u4db5\u4e00-\u9fbb\uf900-\ufa2d\ufa30-\ufa6a\ufa70-\ufad9\u2001-\u2a6d\u2f81-\u2fa1\uff00-\uffef",
    "\u2e80-\u2eff\u3000-\u303f\u31c0-\u31ef\u2f00-\u2fdf\u2ff0-\u2fff\u3100-\u312f\u31a0-\u31bf\ufe10-\ufe1f",
    "\ufe30-\ufe4f\u2600-\u26ff\u2700-\u27bf\u3200-\u32ff\u3300-\u33ff]",
  ].join(""),
  "gu",
);

/** mteval-v14's international tokenization: punctuation by its neighbours, symbols in any case. */
function splitInternational(line: string): string {
  return line
    .replace(/(\P{N})(\p{P})/gu, "$1 $2 ")
    .replace(/(\p{P})(\P{N})/gu, " $1 $2")
    .replace(/(\p{S})/gu, " $1 ");
}
