// Methods of Python's str. Positions and lengths count characters.
import { bind } from "./arguments.js";
import { scan, seek, takeEntries, takeText } from "./template-guard.js";
import {
  asIndex,
  characters,
  fail,
  isTrue,
  iterate,
  lengthOf,
  type Named,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from "./values.js";

/** White space in Python (str.isspace): Unicode's, and the separators U+001C to U+001F. */
const SPACE_CLASS = "[\\p{White_Space}\\x1c-\\x1f]";
const SPACE = new RegExp(SPACE_CLASS, "u");
const SPACES = new RegExp(`${SPACE_CLASS}+`, "gu");
const LINE_ENDS = "\\n\\v\\f\\r\\x1c-\\x1e\\x85\\u2028\\u2029";
const LINE = new RegExp(`[^${LINE_ENDS}]*(?:\\r\\n|[${LINE_ENDS}]|$)`, "gy");
const LINE_END = new RegExp(`(?:\\r\\n|[${LINE_ENDS}])$`);

type Method = (text: string, args: (Value | undefined)[]) => Value;

function textOf(value: Value | undefined, what: string): string {
  return typeof value === "string" ? value : fail(`${what} takes a str, not ${typeName(value ?? null)}`);
}

/** Python's strip, of characters or of white space. */
export function strip(text: string, which: Value | undefined, sides: "both" | "left" | "right" = "both"): string {
  scan(text);
  const removed = which === undefined || which === null ? undefined : new Set(textOf(which, "strip"));
  const isRemoved = (unit: string) => (removed ? removed.has(unit) : SPACE.test(unit));
  const before = (at: number) => (isLowSurrogate(text, at - 1) ? 2 : 1);
  let [start, end] = [0, text.length];
  if (sides !== "right") {
    for (let size = 1; start < end; start += size) {
      size = isLowSurrogate(text, start + 1) ? 2 : 1;
      if (!isRemoved(text.slice(start, start + size))) break;
    }
  }
  if (sides !== "left") {
    while (end > start && isRemoved(text.slice(end - before(end), end))) end -= before(end);
  }
  return text.slice(start, end);
}

function isLowSurrogate(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  return unit >= 0xdc00 && unit < 0xe000 && at > 0;
}

/** The part from one character to another, with Python's negative positions. */
function part(text: string, start: Value | undefined, end: Value | undefined): { part: string; offset: number } {
  if ((start === undefined || start === null) && (end === undefined || end === null)) return { part: text, offset: 0 };
  const all = characters(text);
  const place = (value: Value | undefined, usual: number) => {
    if (value === undefined || value === null) return usual;
    const at = asIndex(value);
    return Math.max(0, Math.min(all.length, at < 0 ? at + all.length : at));
  };
  const offset = place(start, 0);
  return { part: all.slice(offset, place(end, all.length)).join(""), offset };
}

/** Starts of the occurrences of a text, from the left, that do not overlap. */
function occurrences(text: string, sought: string, most = Number.POSITIVE_INFINITY): number[] {
  seek(text, sought);
  const found: number[] = [];
  for (let at = text.indexOf(sought); at !== -1 && found.length < most; at = text.indexOf(sought, at + sought.length)) {
    takeEntries(1);
    found.push(at);
  }
  return found;
}

export function replace(text: string, old: string, other: string, count = -1): string {
  if (old === "") {
    const units = characters(text);
    const places = count < 0 ? units.length + 1 : Math.min(count, units.length + 1);
    takeText(text.length + places * other.length);
    const filled = units.map((unit, i) => (i < places ? other + unit : unit)).join("");
    return places > units.length ? filled + other : filled;
  }
  const found = occurrences(text, old, count < 0 ? undefined : count);
  takeText(text.length + found.length * (other.length - old.length));
  if (count < 0) return text.replaceAll(old, () => other);
  let result = "";
  let at = 0;
  for (const start of found) {
    result += text.slice(at, start) + other;
    at = start + old.length;
  }
  return result + text.slice(at);
}

function split(text: string, [separator, most]: (Value | undefined)[], fromRight: boolean): Value[] {
  const limit = most === undefined ? -1 : asIndex(most);
  const pieces = separator === undefined || separator === null ? words(text) : cuts(text, textOf(separator, "split"));
  const count = limit < 0 ? pieces.length : Math.min(limit, pieces.length - 1);
  const kept = fromRight ? pieces.slice(pieces.length - count) : pieces.slice(0, count);
  const parts = kept.map(({ start, end }) => text.slice(start, end));
  if (count === pieces.length) return parts;
  const rest = fromRight ? pieces.slice(0, pieces.length - count) : pieces.slice(count);
  const [first, last] = [rest[0], rest.at(-1)];
  if (!first || !last) return parts;
  const whole = text.slice(first.start, last.end);
  if (fromRight)
    return [
      separator === undefined || separator === null ? strip(text.slice(0, last.end), undefined, "right") : whole,
      ...parts,
    ];
  return [...parts, separator === undefined || separator === null ? text.slice(first.start) : whole];
}

type Piece = { readonly start: number; readonly end: number };

function cuts(text: string, separator: string): Piece[] {
  if (separator === "") return fail("empty separator");
  const starts = occurrences(text, separator);
  return [...starts, text.length].map((end, i) => ({
    start: i === 0 ? 0 : (starts[i - 1] ?? 0) + separator.length,
    end,
  }));
}

function words(text: string): Piece[] {
  scan(text);
  const pieces: Piece[] = [];
  let start = 0;
  for (const space of text.matchAll(SPACES)) {
    takeEntries(1);
    if (space.index > start) pieces.push({ start, end: space.index });
    start = space.index + space[0].length;
  }
  if (start < text.length) pieces.push({ start, end: text.length });
  return pieces;
}

export function lines(text: string, keepsEnds = false): string[] {
  scan(text);
  const found: string[] = [];
  for (const [line] of text.matchAll(LINE)) {
    takeEntries(1);
    if (line !== "") found.push(keepsEnds ? line : line.replace(LINE_END, ""));
  }
  return found;
}

/** Text that is made of another by its case. One character becomes at most three. */
function recased(text: string, change: (text: string) => string): string {
  scan(text);
  const made = change(text);
  takeText(made.length);
  return made;
}

export const upper = (text: string): string => recased(text, (all) => all.toUpperCase());
export const lower = (text: string): string => recased(text, (all) => all.toLowerCase());

/** The titlecase of a character: of several letters, only the first is a capital. */
function titleCase(character: string): string {
  return character
    .toUpperCase()
    .replace(/^(\P{Cased}*\p{Cased})(.+)$/u, (_, first: string, rest: string) => first + rest.toLowerCase());
}

export function capitalize(text: string): string {
  return recased(text, (all) =>
    all.replace(/^(.)(.*)$/su, (_, first: string, rest: string) => titleCase(first) + rest.toLowerCase()),
  );
}

/** Capitals after what has no case, as str.title; the filter `title` has other rules. */
function title(text: string): string {
  return recased(text, (all) =>
    all.replace(/(\p{Cased})(\p{Cased}*)/gu, (_, first: string, rest: string) => titleCase(first) + rest.toLowerCase()),
  );
}

function find(text: string, [sought, start, end]: (Value | undefined)[], fromRight: boolean): number {
  const piece = part(text, start, end);
  const wanted = textOf(sought, "find");
  seek(text, wanted);
  const at = fromRight ? piece.part.lastIndexOf(wanted) : piece.part.indexOf(wanted);
  return at === -1 ? -1 : piece.offset + lengthOf(piece.part.slice(0, at));
}

function found(at: number): bigint {
  return at === -1 ? fail("substring not found") : BigInt(at);
}

function partition(text: string, sought: Value | undefined, fromRight: boolean): Value {
  const separator = textOf(sought, "partition");
  if (separator === "") fail("empty separator");
  seek(text, separator);
  const at = fromRight ? text.lastIndexOf(separator) : text.indexOf(separator);
  if (at === -1) return new Tuple(fromRight ? ["", "", text] : [text, "", ""]);
  return new Tuple([text.slice(0, at), separator, text.slice(at + separator.length)]);
}

/** Whether a text begins, or ends, with one text or one of several. */
function hasEnd(text: string, [ends, start, end]: (Value | undefined)[], at: "startsWith" | "endsWith"): boolean {
  const piece = start === undefined && end === undefined ? text : part(text, start, end).part;
  const all = ends instanceof Tuple ? ends.items : [ends ?? null];
  return all.some((one) => piece[at](textOf(one, at.toLowerCase())));
}

function pad(
  text: string,
  width: Value | undefined,
  fill: Value | undefined,
  left: (missing: number) => number,
): string {
  const size = asIndex(width ?? null);
  const mark = fill === undefined ? " " : textOf(fill, "padding");
  if (lengthOf(mark) !== 1) fail("The fill character must be exactly one character long");
  const missing = Math.max(0, size - lengthOf(text));
  takeText(text.length + missing * mark.length);
  return mark.repeat(left(missing)) + text + mark.repeat(missing - left(missing));
}

export function center(text: string, width: Value | undefined, fill?: Value): string {
  const size = asIndex(width ?? null);
  // CPython puts the odd one on the left where the width is odd.
  return pad(text, width, fill, (missing) => Math.floor(missing / 2) + (missing % 2 === 1 && size % 2 === 1 ? 1 : 0));
}

/** Joins the texts of a value. */
export function joinTexts(separator: string, items: Value, show?: (item: Value) => string): string {
  const texts: string[] = [];
  let length = 0;
  for (const item of iterate(items)) {
    if (typeof item !== "string" && !show)
      fail(`sequence item ${texts.length}: expected str instance, ${typeName(item)} found`);
    const text = show ? show(item) : (item as string);
    takeEntries(0);
    length += text.length + separator.length;
    texts.push(text);
  }
  takeText(length);
  return texts.join(separator);
}

const all = (pattern: RegExp) => (text: string) => {
  scan(text);
  return pattern.test(text);
};

const METHODS: Readonly<Record<string, readonly [parameters: readonly string[], method: Method]>> = {
  capitalize: [[], capitalize],
  center: [["width", "fillchar="], (text, [width, fill]) => center(text, width, fill)],
  count: [
    ["sub", "start=", "end="],
    (text, [sub, start, end]) => {
      const piece = part(text, start, end).part;
      const sought = textOf(sub, "count");
      return BigInt(sought === "" ? lengthOf(piece) + 1 : occurrences(piece, sought).length);
    },
  ],
  endswith: [["suffix", "start=", "end="], (text, args) => hasEnd(text, args, "endsWith")],
  find: [["sub", "start=", "end="], (text, args) => BigInt(find(text, args, false))],
  index: [["sub", "start=", "end="], (text, args) => found(find(text, args, false))],
  isalnum: [[], all(/^[\p{L}\p{N}]+$/u)],
  isalpha: [[], all(/^\p{L}+$/u)],
  isascii: [[], all(/^\p{ASCII}*$/u)],
  isdecimal: [[], all(/^\p{Nd}+$/u)],
  isdigit: [[], all(/^[\p{Nd}²³¹⁰⁴-⁹₀-₉]+$/u)],
  islower: [[], (text) => all(/\p{Ll}/u)(text) && !/[\p{Lu}\p{Lt}]/u.test(text)],
  isnumeric: [[], all(/^\p{N}+$/u)],
  isspace: [[], all(new RegExp(`^${SPACE_CLASS}+$`, "u"))],
  isupper: [[], (text) => all(/\p{Lu}/u)(text) && !/[\p{Ll}\p{Lt}]/u.test(text)],
  join: [["iterable"], (text, [items]) => joinTexts(text, items instanceof Undefined ? [] : (items ?? null))],
  ljust: [["width", "fillchar="], (text, [width, fill]) => pad(text, width, fill, () => 0)],
  lower: [[], lower],
  lstrip: [["chars="], (text, [which]) => strip(text, which, "left")],
  partition: [["sep"], (text, [sought]) => partition(text, sought, false)],
  removeprefix: [
    ["prefix"],
    (text, [prefix]) => (hasEnd(text, [prefix], "startsWith") ? text.slice(String(prefix).length) : text),
  ],
  removesuffix: [
    ["suffix"],
    (text, [suffix]) =>
      hasEnd(text, [suffix], "endsWith") ? text.slice(0, text.length - String(suffix).length) : text,
  ],
  replace: [
    ["old", "new", "count="],
    (text, [old, other, count]) =>
      replace(text, textOf(old, "replace"), textOf(other, "replace"), count === undefined ? -1 : asIndex(count)),
  ],
  rfind: [["sub", "start=", "end="], (text, args) => BigInt(find(text, args, true))],
  rindex: [["sub", "start=", "end="], (text, args) => found(find(text, args, true))],
  rjust: [["width", "fillchar="], (text, [width, fill]) => pad(text, width, fill, (missing) => missing)],
  rpartition: [["sep"], (text, [sought]) => partition(text, sought, true)],
  rsplit: [["sep=", "maxsplit="], (text, args) => split(text, args, true)],
  rstrip: [["chars="], (text, [which]) => strip(text, which, "right")],
  split: [["sep=", "maxsplit="], (text, args) => split(text, args, false)],
  splitlines: [["keepends="], (text, [keepsEnds]) => lines(text, isTrue(keepsEnds ?? false))],
  startswith: [["prefix", "start=", "end="], (text, args) => hasEnd(text, args, "startsWith")],
  strip: [["chars="], (text, [which]) => strip(text, which)],
  title: [[], title],
  upper: [[], upper],
  zfill: [
    ["width"],
    (text, [width]) => {
      const [, sign = "", digits = ""] = /^([+-]?)(.*)$/s.exec(text) ?? [];
      return sign + pad(digits, BigInt(asIndex(width ?? null) - sign.length), "0", (missing) => missing);
    },
  ],
};

/** A method of a text, if there is one of the name. */
export function textMethod(text: string, name: string): ((args: readonly Value[], named: Named) => Value) | undefined {
  const found = Object.hasOwn(METHODS, name) ? METHODS[name] : undefined;
  return found && ((args, named) => found[1](text, bind(name, found[0], args, named)));
}
