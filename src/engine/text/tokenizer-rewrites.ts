// Translates parts of a tokenizer.json so that @huggingface/tokenizers 0.2.0 does what `tokenizers` does with the original.
// Parts without an exact equivalent are refused.
import { isObject } from "../../core/index.js";
import { SPLIT_PATTERNS } from "../../weights/index.js";
import { countField, type Part, partsOf, problem, textField } from "./tokenizer-json.js";
import { escapePattern, WORD_CLASS } from "./unicode.js";

// Punctuation in `tokenizers`: that of ASCII, and Unicode's class P.
const PUNCTUATION = "[\\p{P}!-/:-@\\[-`{-~]";

export function translateNormalizer(part: Part): Part {
  switch (part.type) {
    case "Sequence":
      return { ...part, normalizers: partsOf(part.normalizers, "normalizers").map(translateNormalizer) };
    case "Replace":
      return replacement(part);
    case "Prepend":
      // An empty text stays empty.
      return prepend(literal(textField(part, "prepend")), "[\\s\\S]");
    case "Strip":
      return { type: "Sequence", normalizers: strips(part) };
    default:
      return part;
  }
}

/**
 * Puts a content before a text that starts with such a character. The pattern includes the character, as V8 also matches
 * an empty pattern after `\A` between the halves of a surrogate pair.
 */
function prepend(content: string, first: string): Part {
  return { type: "Replace", pattern: { Regex: `\\A(${first})` }, content: `${content}$1` };
}

/** JavaScript's trim also removes U+FEFF, which is not white space. */
function strips(part: Part): Part[] {
  const strip = (pattern: string): Part => ({ type: "Replace", pattern: { Regex: pattern }, content: "" });
  return [...(part.strip_left ? [strip("\\A\\s+")] : []), ...(part.strip_right ? [strip("\\s+\\z")] : [])];
}

export function translatePreTokenizer(part: Part): Part {
  switch (part.type) {
    case "Sequence":
      return sequence(partsOf(part.pretokenizers, "pretokenizers").map(translatePreTokenizer));
    case "Split":
      return split(patternOf(part), textField(part, "behavior"), part.invert === true);
    case "Whitespace":
      return split(`[${WORD_CLASS}]+|[^${WORD_CLASS}\\s]+`, "Removed", true);
    case "WhitespaceSplit":
      return split("\\s+", "Removed");
    case "CharDelimiterSplit":
      return split(escapePattern(textField(part, "delimiter")), "Removed");
    case "Punctuation":
      return split(PUNCTUATION, textField(part, "behavior", "Isolated"));
    case "Digits":
      return split("\\p{N}", part.individual_digits === true ? "Isolated" : "Contiguous");
    case "FixedLength":
      return split(`[\\s\\S]{1,${Math.max(countField(part, "length"), 1)}}`, "Isolated");
    case "Metaspace":
      return metaspace(part);
    case "ByteLevel":
      return byteLevel(part);
    default:
      throw problem(`its pre-tokenizer ${part.type} is not supported`, "pre_tokenizer");
  }
}

function sequence(pretokenizers: Part[]): Part {
  return { type: "Sequence", pretokenizers };
}

/**
 * A split by a regular expression. The package only supports the behaviors Isolated and Removed; for the others, the
 * pattern matches the whole pieces. A gap is text in which the pattern does not match.
 */
function split(pattern: string, behavior: string, invert = false): Part {
  const isolated = (regex: string): Part => ({ type: "Split", pattern: { Regex: regex }, behavior: "Isolated" });
  const gap = `(?:(?!(?:${pattern}))[\\s\\S])`;
  if (invert && behavior.startsWith("Merged")) {
    throw problem(`splits that are inverted and ${behavior} are not supported`, "pre_tokenizer");
  }
  switch (behavior) {
    case "Isolated":
      return isolated(pattern);
    case "Removed":
      return { type: "Split", pattern: { Regex: pattern }, behavior: "Removed", invert };
    case "Contiguous":
      return isolated(`(?:${pattern})+`);
    case "MergedWithPrevious":
      return isolated(`${gap}*(?:${pattern})|${gap}+`);
    case "MergedWithNext":
      return isolated(`(?:${pattern})${gap}*|${gap}+`);
    default:
      throw problem(`a split cannot be ${JSON.stringify(behavior)}`, "behavior");
  }
}

function patternOf(part: Part): string {
  const { pattern } = part;
  if (isObject(pattern) && typeof pattern.Regex === "string") return pattern.Regex;
  if (isObject(pattern) && typeof pattern.String === "string") return escapePattern(pattern.String);
  throw problem(`the pattern of ${part.type} is neither a String nor a Regex`, "pattern");
}

/** A replacement; its content has no references such as `$&` for JavaScript. */
export function replacement(part: Part): Part {
  return { type: "Replace", pattern: { Regex: patternOf(part) }, content: literal(textField(part, "content")) };
}

function literal(content: string): string {
  return content.replaceAll("$", "$$$$");
}

/** When a metaspace is put before the first character; early versions have `add_prefix_space`. */
export function prependScheme(part: Part): string {
  if (part.add_prefix_space === false) return "never";
  return textField(part, "prepend_scheme", "always");
}

/** Metaspace, and the split before each metaspace, which the package lacks. */
function metaspace(part: Part): Part {
  const sign = textField(part, "replacement", "▁");
  const spaces: Part = { type: "Metaspace", replacement: sign, prepend_scheme: prependScheme(part) };
  return part.split === false ? spaces : sequence([spaces, split(escapePattern(sign), "MergedWithNext")]);
}

/** ByteLevel with a split of its own: `\s` in the package's pattern is JavaScript's. */
function byteLevel(part: Part): Part {
  const bytes: Part = { type: "ByteLevel", add_prefix_space: false, use_regex: false };
  return sequence([
    ...(part.add_prefix_space === true ? [prepend(" ", "[^ ]")] : []),
    ...(part.use_regex === false ? [] : [split(SPLIT_PATTERNS.gpt2, "Isolated")]),
    bytes,
  ]);
}
