// Normalizers of a tokenizer.json, as in `tokenizers` (src/normalizers).
import { isObject } from "../kit/index.js";
import { compilePattern, matchesOf } from "./patterns.js";
import { precompiled } from "./precompiled.js";
import { flagField, partsOf, problem, type TokenizerPart, textField } from "./tokenizer-json.js";
import { changeKnown } from "./unicode.js";

export type Normalizer = (text: string) => string;

/** @throws CheckpointError if it is not valid or not supported */
export function readNormalizer(part: TokenizerPart): Normalizer {
  switch (part.type) {
    case "Sequence": {
      const all = partsOf(part.normalizers, "normalizers").map(readNormalizer);
      return (text) => all.reduce((current, normalize) => normalize(current), text);
    }
    case "NFC":
    case "NFD":
    case "NFKC":
    case "NFKD": {
      const form = part.type;
      return (text) => changeKnown(text, (known) => known.normalize(form));
    }
    case "Lowercase":
      return lowerCase;
    case "StripAccents":
      return (text) => changeKnown(text, (known) => known.replace(/\p{M}+/gu, ""));
    case "Strip":
      return strip(flagField(part, "strip_left"), flagField(part, "strip_right"));
    case "Prepend": {
      const prefix = textField(part, "prepend");
      return (text) => (text === "" ? "" : prefix + text);
    }
    case "Replace":
      return readReplace(part);
    case "Precompiled":
      return precompiled(textField(part, "precompiled_charsmap"));
    case "BertNormalizer":
      return bert(part);
    default:
      throw problem(`its normalizer ${part.type} is not supported`, "normalizer");
  }
}

/** A replacement of each match. */
export function readReplace(part: TokenizerPart): Normalizer {
  const pattern = patternOf(part);
  const content = textField(part, "content");
  return (text) => {
    // An empty pattern does not match in an empty text.
    if (text === "") return "";
    let changed = "";
    let done = 0;
    for (const [start, end] of matchesOf(pattern, text)) {
      changed += text.slice(done, start) + content;
      done = end;
    }
    return changed + text.slice(done);
  };
}

/** The pattern of a part: a text, or a regular expression. */
export function patternOf({ type, pattern }: TokenizerPart): RegExp {
  if (!isObject(pattern)) throw problem(`the pattern of ${type} is neither a String nor a Regex`, "pattern");
  if (typeof pattern.String === "string") return patternOfText(pattern.String);
  if (typeof pattern.Regex !== "string") {
    throw problem(`the pattern of ${type} is neither a String nor a Regex`, "pattern");
  }
  try {
    return compilePattern(pattern.Regex);
  } catch (error) {
    throw problem((error as Error).message, "pattern");
  }
}

/** A pattern that matches exactly this text. */
export function patternOfText(text: string): RegExp {
  return new RegExp(text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"), "gu");
}

/** Letter by letter, so that a sigma at the end of a word is one like others. */
function lowerCase(text: string): string {
  return Array.from(text, (character) => character.toLowerCase()).join("");
}

function strip(left: boolean, right: boolean): Normalizer {
  return (text) => {
    const start = left ? text.search(/\P{White_Space}|$/u) : 0;
    // A search for white space at the end would scan each run of it to its end.
    let end = text.length;
    if (right) while (end > start && /\p{White_Space}/u.test(text.charAt(end - 1))) end--;
    return text.slice(start, end);
  };
}

const CHINESE =
  /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/gu;

function bert(part: TokenizerPart): Normalizer {
  const lower = flagField(part, "lowercase", true);
  const steps: Normalizer[] = [];
  if (flagField(part, "clean_text", true)) {
    steps.push((text) =>
      text.replace(/(?![\t\n\r])[\0\ufffd\p{Cc}\p{Cf}\p{Co}]/gu, "").replace(/\p{White_Space}/gu, " "),
    );
  }
  if (flagField(part, "handle_chinese_chars", true)) steps.push((text) => text.replace(CHINESE, " $& "));
  if (flagField(part, "strip_accents", lower)) {
    steps.push((text) => changeKnown(text, (known) => known.normalize("NFD").replace(/\p{Mn}+/gu, "")));
  }
  if (lower) steps.push(lowerCase);
  return (text) => steps.reduce((current, step) => step(current), text);
}
