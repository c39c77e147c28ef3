// A strict parser for the JSON of a safetensors header. Unlike JSON.parse, it rejects duplicate keys, integers beyond
// 2^53, lone surrogates and deep nesting.
import { FormatError } from "../../core/index.js";

export type HeaderJson = string | number | boolean | null | HeaderJson[] | Map<string, HeaderJson>;

// A header nests three deep: the object, a tensor's object, its shape. More is not a header.
const MAX_DEPTH = 8;

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const SPACE = " \t\n\r";

const LONE_SURROGATE = /\p{Surrogate}/u;
const INVISIBLE = /[\p{Control}\p{Format}\p{Zl}\p{Zp}]/gu;

/** Whether a string can be encoded as UTF-8, which a lone surrogate cannot; the reference crate rejects it too. */
export function isUnicode(text: string): boolean {
  return !LONE_SURROGATE.test(text);
}

/**
 * A name from a file for messages: quoted, without control characters, and cut short, as a damaged file may have a name
 * of a hundred megabytes.
 */
export function quote(name: string): string {
  const shown = JSON.stringify(name.length > 200 ? `${name.slice(0, 200)}…` : name);
  return shown.replace(INVISIBLE, (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`);
}

/**
 * Parses the text of a header. A number that is not an integer within 2^53 becomes NaN, which known fields reject;
 * unknown fields are ignored, as in the reference crate.
 * @throws FormatError naming `file` and the position, if it is not JSON, repeats a key, or nests too deep.
 */
export function parseHeaderJson(text: string, file: string): HeaderJson {
  let at = 0;

  const fail = (what: string): never => {
    throw new FormatError(
      `${file}: the safetensors header is not valid: ${what} at character ${at}; the file is damaged or not safetensors, so fetch or save it again`,
      { file },
    );
  };

  // Loops rather than expressions: opening a small checkpoint takes mostly this.
  const skipSpace = (): void => {
    while (at < text.length && SPACE.includes(text[at] as string)) at++;
  };

  const skip = (token: string): boolean => {
    skipSpace();
    if (!text.startsWith(token, at)) return false;
    at += token.length;
    skipSpace();
    return true;
  };

  const string = (): string => {
    if (text[at] !== '"') return fail("expected a string");
    let end = at;
    do end = text.indexOf('"', end + 1);
    while (end >= 0 && isEscaped(text, end));
    if (end < 0) return fail("a string that is not JSON");
    let result: string;
    try {
      result = JSON.parse(text.slice(at, end + 1)) as string;
    } catch {
      return fail("a string that is not JSON");
    }
    if (!isUnicode(result)) return fail("a string with half a surrogate pair");
    at = end + 1;
    return result;
  };

  const number = (): number => {
    NUMBER.lastIndex = at;
    const [raw] = NUMBER.exec(text) ?? [];
    if (raw === undefined) return fail("expected a value");
    at += raw.length;
    const value = Number(raw);
    if (!Number.isFinite(value)) return fail("a number out of range");
    // A header holds sizes and offsets: 4.0 or 4e0 is not valid, and the reference crate refuses them too.
    return /^-?\d+$/.test(raw) && Number.isSafeInteger(value) ? value : Number.NaN;
  };

  const object = (depth: number): Map<string, HeaderJson> => {
    const entries = new Map<string, HeaderJson>();
    if (skip("}")) return entries;
    do {
      skipSpace();
      const key = string();
      if (entries.has(key)) fail(`the key ${quote(key)} is repeated`);
      if (!skip(":")) fail("expected ':'");
      entries.set(key, value(depth));
    } while (skip(","));
    if (!skip("}")) fail("expected ',' or '}'");
    return entries;
  };

  const array = (depth: number): HeaderJson[] => {
    const items: HeaderJson[] = [];
    if (skip("]")) return items;
    do items.push(value(depth));
    while (skip(","));
    if (!skip("]")) fail("expected ',' or ']'");
    return items;
  };

  const value = (depth: number): HeaderJson => {
    if (depth > MAX_DEPTH) fail("nested too deep");
    skipSpace();
    if (skip("{")) return object(depth + 1);
    if (skip("[")) return array(depth + 1);
    if (text[at] === '"') return string();
    if (text[at] === "-" || isDigit(text[at])) return number();
    if (skip("true")) return true;
    if (skip("false")) return false;
    if (skip("null")) return null;
    return fail("expected a value");
  };

  const result = value(0);
  skipSpace();
  if (at !== text.length) fail("something follows the JSON");
  return result;
}

function isDigit(char = ""): boolean {
  return char >= "0" && char <= "9";
}

/** Whether the character at a place follows an odd number of backslashes. */
function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text[first - 1] === "\\") first--;
  return (at - first) % 2 === 1;
}
