// Pre-tokenizers of a tokenizer.json, as in `tokenizers` (src/pre_tokenizers): a text to pieces.

import { SPLIT_PATTERNS } from "../formats/gguf/index.js";
import { BYTE_OF } from "../formats/vocabulary/index.js";
import { patternOf, patternOfText } from "./normalizers.js";
import { compilePattern, matchesOf } from "./patterns.js";
import {
  characterField,
  countField,
  flagField,
  partsOf,
  problem,
  quoted,
  type TokenizerPart,
  textField,
} from "./tokenizer-json.js";
import { PUNCTUATION, WORDS } from "./unicode.js";

export interface Piece {
  readonly text: string;
  /** Whether it begins the whole text. */
  readonly isFirst: boolean;
}

export type PreTokenizer = (piece: Piece) => Piece[];

/** @throws CheckpointError if it is not valid or not supported */
export function readPreTokenizer(part: TokenizerPart): PreTokenizer {
  switch (part.type) {
    case "Sequence":
      return sequence(partsOf(part.pretokenizers, "pretokenizers"));
    case "Split":
      return split(patternOf(part), textField(part, "behavior"), flagField(part, "invert"));
    case "Whitespace":
      return split(WORDS, "Removed", true);
    case "WhitespaceSplit":
      return split(SPACE, "Removed");
    case "CharDelimiterSplit":
      return split(patternOfText(characterField(part, "delimiter")), "Removed");
    case "Punctuation":
      return split(PUNCTUATION, textField(part, "behavior", "Isolated"));
    case "BertPreTokenizer":
      return inTurn([split(SPACE, "Removed"), split(PUNCTUATION, "Isolated")]);
    case "Digits":
      return split(/\p{N}/gu, flagField(part, "individual_digits") ? "Isolated" : "Contiguous");
    case "FixedLength":
      return split(new RegExp(`[\\s\\S]{1,${Math.max(countField(part, "length"), 1)}}`, "gu"), "Isolated");
    case "Metaspace":
      return metaspace(part);
    case "ByteLevel":
      return byteLevel(part);
    default:
      throw problem(`its pre-tokenizer ${part.type} is not supported`, "pre_tokenizer");
  }
}

const SPACE = /\p{White_Space}/gu;
const CHARACTER_OF = new Map(Array.from(BYTE_OF, ([character, byte]) => [byte, character]));
const GPT2 = compilePattern(SPLIT_PATTERNS.gpt2);

function inTurn(all: readonly PreTokenizer[]): PreTokenizer {
  return (piece) => all.reduce((pieces, split) => pieces.flatMap(split), [piece]);
}

function sequence(parts: readonly TokenizerPart[]): PreTokenizer {
  const puts = (part: TokenizerPart) =>
    part.type === "Metaspace" ? prependScheme(part) !== "never" : flagField(part, "add_prefix_space");
  const isFirst = (part: TokenizerPart) => part.type === "Metaspace" && prependScheme(part) === "first";
  // Where a split cuts what was put before a text, both pieces begin where the text does.
  if (parts.some((part, i) => isFirst(part) && parts.slice(0, i).some(puts))) {
    const message = "a Metaspace of the first piece after a part that puts a character before it is not supported";
    throw problem(message, "pre_tokenizer");
  }
  return inTurn(parts.map(readPreTokenizer));
}

const same =
  (change: (piece: Piece) => string): PreTokenizer =>
  (piece) => [{ ...piece, text: change(piece) }];

/** A part of a text: a match, or what is between two. */
type Span = [start: number, end: number, isMatch: boolean];

/** What becomes of matches, by the name of a split's behavior (NormalizedString::split). */
const BEHAVIORS: Readonly<Record<string, (spans: Span[]) => Span[]>> = {
  Isolated: (spans) => spans,
  Removed: (spans) => spans.filter(([, , isMatch]) => !isMatch),
  Contiguous: (spans) => joinSpans(spans, (isMatch, last) => isMatch === last),
  MergedWithPrevious: (spans) => joinSpans(spans, (isMatch, last) => isMatch && !last),
  MergedWithNext: (spans) => joinSpans(spans.reverse(), (isMatch, last) => isMatch && !last).reverse(),
};

/** Joins each span with the one before it where it should be. */
function joinSpans(spans: readonly Span[], joins: (isMatch: boolean, last: boolean) => boolean): Span[] {
  const joined: Span[] = [];
  let last = false;
  for (const span of spans) {
    const previous = joined.at(-1);
    if (previous && joins(span[2], last)) {
      previous[0] = Math.min(previous[0], span[0]);
      previous[1] = Math.max(previous[1], span[1]);
    } else joined.push([...span]);
    last = span[2];
  }
  return joined;
}

function split(pattern: RegExp, behavior: string, invert = false): PreTokenizer {
  const apply = Object.hasOwn(BEHAVIORS, behavior) ? BEHAVIORS[behavior] : undefined;
  if (!apply) throw problem(`a split cannot be ${quoted(behavior)}`, "behavior");
  return ({ text, isFirst }) => {
    const spans: Span[] = [];
    let done = 0;
    for (const [start, end] of matchesOf(pattern, text)) {
      if (done < start) spans.push([done, start, invert]);
      spans.push([start, end, !invert]);
      done = end;
    }
    if (done < text.length) spans.push([done, text.length, invert]);
    return apply(spans)
      .filter(([start, end]) => start < end)
      .map(([start, end]) => ({ text: text.slice(start, end), isFirst: isFirst && start === 0 }));
  };
}

const SCHEMES = ["always", "first", "never"];

/** When a metaspace is put before the first character; early versions have `add_prefix_space`. */
export function prependScheme(part: TokenizerPart): string {
  if (!flagField(part, "add_prefix_space", true)) return "never";
  const scheme = textField(part, "prepend_scheme", "always");
  if (SCHEMES.includes(scheme)) return scheme;
  throw problem(`prepend_scheme of Metaspace is ${quoted(scheme)}; it must be ${SCHEMES.join(", ")}`, "prepend_scheme");
}

function metaspace(part: TokenizerPart): PreTokenizer {
  const sign = characterField(part, "replacement", "▁");
  const scheme = prependScheme(part);
  const marked = same(({ text, isFirst }) => {
    const changed = text.replaceAll(" ", () => sign);
    const isMarked = scheme === "always" || (scheme === "first" && isFirst);
    return isMarked && !changed.startsWith(sign) ? sign + changed : changed;
  });
  return flagField(part, "split", true) ? inTurn([marked, split(patternOfText(sign), "MergedWithNext")]) : marked;
}

function byteLevel(part: TokenizerPart): PreTokenizer {
  return inTurn([
    ...(flagField(part, "add_prefix_space") ? [same(({ text }) => (text.startsWith(" ") ? text : ` ${text}`))] : []),
    ...(flagField(part, "use_regex", true) ? [split(GPT2, "Isolated")] : []),
    same(({ text }) => Array.from(Buffer.from(text), (byte) => CHARACTER_OF.get(byte)).join("")),
  ]);
}
