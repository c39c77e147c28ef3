// Numbers of JSON as they are written. Python tells 2.0 from 2 and has whole numbers of any size; a number of JavaScript does
// neither. Values are parsed as usual, and what is written is kept beside them.

import { randomUUID } from "node:crypto";

/** A number with its text, where it stands by itself. */
export class WrittenNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  valueOf(): number {
    return Number(this.text);
  }

  toJSON(): number {
    return Number(this.text);
  }
}

/** Texts of numbers by the list or object that they are in, then by index or key. */
const WRITTEN = new WeakMap<object, Map<string, string>>();
/** What no text begins with by accident, nor on purpose. */
const MARK = `${randomUUID()} `;

const NUMBER = /^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
/** Most digits of a whole number, as in Python. */
const MAX_DIGITS = 4300;

/** Whether a number of JavaScript loses what a text says: a float that is whole, or a whole number that is rounded. */
function isLost(text: string): boolean {
  const isFloat = /[.eE]/.test(text);
  return isFloat ? Number.isInteger(Number(text)) : text.length <= MAX_DIGITS && !Number.isSafeInteger(Number(text));
}

/**
 * Parses JSON, and keeps how numbers in lists and objects are written: `numberIn` has it.
 * @returns what JSON.parse does, but a `WrittenNumber` where the whole text is one that a number of JavaScript is not
 * @throws SyntaxError
 */
export function parseWritten(text: string): unknown {
  const plain: unknown = JSON.parse(text);
  if (!/\d[.eE]|\d{16}/.test(text)) return plain;
  if (typeof plain === "number") return isLost(text.trim()) ? new WrittenNumber(text.trim()) : plain;
  let isInString = false;
  let isMarked = false;
  // One pattern for a whole string would overflow the stack on a long one.
  const marked = text.replace(/\\.|"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/gs, (found) => {
    if (found === '"') isInString = !isInString;
    if (isInString || !NUMBER.test(found) || !isLost(found)) return found;
    isMarked = true;
    return `"${MARK}${found}"`;
  });
  if (!isMarked) return plain;
  return JSON.parse(marked, function (this: object, key, value: unknown) {
    if (typeof value !== "string" || !value.startsWith(MARK)) return value;
    const number = value.slice(MARK.length);
    const kept = WRITTEN.get(this) ?? new Map<string, string>();
    WRITTEN.set(this, kept.set(key, number));
    return Number(number);
  });
}

/** Keeps that a number of a list or object is a float where it is whole: `numberIn` has it as 2.0. */
export function keepFloat(holder: object, key: string | number): void {
  const value = (holder as Readonly<Record<string | number, unknown>>)[key];
  if (!Number.isInteger(value)) return;
  const digits = Object.is(value, -0) ? "-0" : String(value);
  const kept = WRITTEN.get(holder) ?? new Map<string, string>();
  WRITTEN.set(holder, kept.set(String(key), digits.includes("e") ? digits : `${digits}.0`));
}

/** Keeps of a copy how the numbers that it shares with the original are written. */
export function carryWritten(from: unknown, to: unknown): void {
  if (typeof from !== "object" || from === null || typeof to !== "object" || to === null || from === to) return;
  const kept = WRITTEN.get(from);
  if (kept) WRITTEN.set(to, new Map([...(WRITTEN.get(to) ?? []), ...kept]));
  for (const [key, value] of Object.entries(from)) carryWritten(value, (to as Readonly<Record<string, unknown>>)[key]);
}

/** A value of a list or object; a number with its text where that says more. */
export function numberIn(holder: object, key: string | number, value: unknown): unknown {
  const text = typeof value === "number" ? WRITTEN.get(holder)?.get(String(key)) : undefined;
  return text !== undefined && Object.is(Number(text), value) ? new WrittenNumber(text) : value;
}

/**
 * A copy of an object whose own numbers have their texts, as its fields may be put into another.
 * @param from the object that was parsed
 */
export function withWritten(mapping: Readonly<Record<string, unknown>>, from: object = mapping) {
  return Object.fromEntries(Object.entries(mapping).map(([key, value]) => [key, numberIn(from, key, value)]));
}

/** The JSON of a value, with numbers as they were written. @param indent spaces of each level; default: one line */
export function stringifyWritten(value: unknown, indent?: number): string {
  const mark = (number: unknown) => (number instanceof WrittenNumber ? `${MARK}${number.text}` : undefined);
  const replacer = function (this: Record<string, unknown>, key: string, plain: unknown) {
    // toJSON is called before.
    return mark(this[key]) ?? mark(numberIn(this, key, plain)) ?? plain;
  };
  const json = JSON.stringify(value, replacer, indent) ?? "";
  return json.replaceAll(new RegExp(`"${MARK}([^"]*)"`, "g"), "$1");
}
