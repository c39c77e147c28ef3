// A strict parser for the JSON of a safetensors header. JSON.parse would do but for three things a header from a
// stranger must not get away with: duplicate keys, integers beyond 2^53, and deep nesting.
import { FormatError } from "../core/errors.js";

export type HeaderJson = string | number | boolean | null | HeaderJson[] | Map<string, HeaderJson>;

// A header nests three deep: the object, a tensor's object, its shape. More is no header.
const MAX_DEPTH = 8;

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const SPACE = /[ \t\n\r]*/y;

/**
 * Parses the text of a header.
 * @throws {FormatError} naming `file` and the position, if it is not JSON, repeats a key, or nests too deep.
 */
export function parseHeaderJson(text: string, file: string): HeaderJson {
  let at = 0;

  const fail = (what: string): never => {
    throw new FormatError(
      `${file}: the safetensors header is not valid: ${what} at character ${at}; the file is damaged or not safetensors, so fetch or save it again`,
      { file },
    );
  };

  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (!match) return undefined;
    at = pattern.lastIndex;
    return match[0];
  };

  const skip = (token: string): boolean => {
    take(SPACE);
    if (!text.startsWith(token, at)) return false;
    at += token.length;
    take(SPACE);
    return true;
  };

  const string = (): string => {
    const raw = takeString();
    return raw === undefined ? fail("expected a string") : (JSON.parse(raw) as string);
  };

  // Long strings overflow the regular expression engine's stack, so the end is found first and the text checked after.
  const takeString = (): string | undefined => {
    if (text[at] !== '"') return undefined;
    let end = at + 1;
    while (end < text.length && text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
    if (end - at < 4096) return take(STRING);
    const raw = text.slice(at, end + 1);
    try {
      JSON.parse(raw);
    } catch {
      return undefined;
    }
    at = end + 1;
    return raw;
  };

  const number = (): number => {
    const raw = take(NUMBER);
    if (raw === undefined) return fail("expected a value");
    const value = Number(raw);
    // A header holds sizes and offsets: 4.0 or 4e0 is no way to write one, and the reference crate refuses them too.
    if (!/^-?\d+$/.test(raw)) return fail(`${raw} is not a whole number`);
    if (!Number.isSafeInteger(value)) return fail(`the number ${raw} is too large`);
    return value;
  };

  const object = (depth: number): Map<string, HeaderJson> => {
    const entries = new Map<string, HeaderJson>();
    if (skip("}")) return entries;
    do {
      take(SPACE);
      const key = string();
      if (entries.has(key)) fail(`the key ${JSON.stringify(key)} stands there twice`);
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
    take(SPACE);
    if (skip("{")) return object(depth + 1);
    if (skip("[")) return array(depth + 1);
    if (text[at] === '"') return string();
    if (skip("true")) return true;
    if (skip("false")) return false;
    if (skip("null")) return null;
    return number();
  };

  const result = value(0);
  take(SPACE);
  if (at !== text.length) fail("something follows the JSON");
  return result;
}
