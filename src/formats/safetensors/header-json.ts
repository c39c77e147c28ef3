// The JSON of a safetensors header, and names from files for messages.
import { FormatError } from "../../kit/index.js";

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

/** Parses the text of a header. @throws FormatError naming `file`, if it is not JSON, or an object has a key twice */
export function parseHeaderJson(text: string, file: string): unknown {
  const refuse = (what: string, cause?: unknown) =>
    new FormatError(
      `${file}: the safetensors header is not valid: ${what}; the file is damaged or not safetensors, so fetch or save it again`,
      { file },
      cause,
    );
  let value: unknown;
  let keys = -1; // the whole value counts as one
  try {
    value = JSON.parse(text, function (this: unknown, _, inner: unknown) {
      if (!Array.isArray(this)) keys++;
      return inner;
    });
  } catch (error) {
    throw refuse("it is not JSON", error);
  }
  // JSON.parse keeps the last of several values of a key.
  if (keys !== countKeys(text)) throw refuse("a key is repeated");
  return value;
}

/** Colons outside of strings of valid JSON. */
function countKeys(text: string): number {
  let count = 0;
  let isInString = false;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (char === "\\") at++;
    else if (char === '"') isInString = !isInString;
    else if (char === ":" && !isInString) count++;
  }
  return count;
}
