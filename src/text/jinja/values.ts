// Values of templates: Python's, as far as chat templates have them.
import { numberIn, WrittenNumber } from "../../kit/numbers/index.js";
import { spend, takeEntries } from "./template-guard.js";

/** A whole number is a bigint, and a float a number. */
export type Value =
  | null
  | boolean
  | bigint
  | number
  | string
  | Value[]
  | Tuple
  | Dict
  | View
  | Lazy
  | Undefined
  | Namespace
  | Thing;

/** An error that Python raises. */
export class TemplateFailure extends Error {}

/** Raised by `raise_exception`. */
export class Refusal extends Error {}

export function fail(message: string): never {
  throw new TemplateFailure(message);
}

export class Tuple {
  readonly items: readonly Value[];

  constructor(items: readonly Value[]) {
    this.items = items;
  }
}

/** A dict with keys in the order of their insertion. Equal keys, such as 1, 1.0 and True, are one. */
export class Dict {
  private readonly entries = new Map<unknown, [key: Value, value: Value]>();

  get size(): number {
    return this.entries.size;
  }

  get(key: Value): Value | undefined {
    return this.entries.get(hash(key))?.[1];
  }

  has(key: Value): boolean {
    return this.entries.has(hash(key));
  }

  set(key: Value, value: Value): this {
    const hashed = hash(key);
    const entry = this.entries.get(hashed);
    if (entry) entry[1] = value;
    else this.entries.set(hashed, [key, value]);
    return this;
  }

  pairs(): [key: Value, value: Value][] {
    takeEntries(3 * this.size);
    return [...this.entries.values()];
  }

  keys(): Value[] {
    return this.pairs().map(([key]) => key);
  }

  values(): Value[] {
    return this.pairs().map(([, value]) => value);
  }
}

/** What `dict.keys()` and others return, and a range. */
export class View {
  readonly type: "dict_keys" | "dict_values" | "dict_items" | "range";
  readonly items: readonly Value[];
  /** How a range is printed. */
  readonly text: string;

  constructor(type: View["type"], items: readonly Value[], text = "") {
    this.type = type;
    this.items = items;
    this.text = text;
  }
}

/** A generator: read once, and only as far as needed. */
export class Lazy {
  readonly iterator: Iterator<Value>;

  constructor(iterator: Iterator<Value>) {
    this.iterator = iterator;
  }
}

/** A missing variable, attribute or entry. Its message is that of the error where it is used. */
export class Undefined {
  readonly message: string;

  constructor(message: string) {
    this.message = message;
  }
}

/** A text that the filter `safe` marks: a text that is added to it is escaped, and then it is marked, too. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

export class Namespace {
  readonly entries = new Map<string, Value>();
}

export type Named = ReadonlyMap<string, Value>;
export type Call = (args: readonly Value[], named: Named) => Value;

/** A function, a macro or another object of Jinja's own. */
export class Thing {
  readonly type: string;
  readonly call: Call | undefined;
  readonly field: (name: string) => Value | undefined;

  constructor(type: string, call?: Call, field: Thing["field"] = () => undefined) {
    this.type = type;
    this.call = call;
    this.field = field;
  }
}

/** The key of a value in a map of JavaScript. */
export function hash(value: Value): unknown {
  spend(typeof value === "string" ? 1 + value.length / 4 : 1);
  if (typeof value === "string" || value === null) return value;
  if (typeof value === "boolean") return BigInt(value);
  if (typeof value === "number") return Number.isInteger(value) ? BigInt(value) : value;
  if (value instanceof Tuple)
    return `\0(${value.items.map((item) => `${typeof item}${String(hash(item))}`).join("\0")}`;
  if (Array.isArray(value) || value instanceof Dict) fail(`unhashable type: '${typeName(value)}'`);
  return value instanceof Undefined ? Undefined : value;
}

/** The first that is there; None is. */
export function firstOf<T extends Value | undefined>(first: Value | undefined, second: T): Value | T {
  return first === undefined ? second : first;
}

export function typeName(value: Value): string {
  if (value === null) return "NoneType";
  if (typeof value === "string") return "str";
  if (typeof value === "boolean") return "bool";
  if (typeof value === "bigint") return "int";
  if (typeof value === "number") return "float";
  if (Array.isArray(value)) return "list";
  if (value instanceof Tuple) return "tuple";
  if (value instanceof Dict) return "dict";
  if (value instanceof Lazy) return "generator";
  if (value instanceof Undefined) return "Undefined";
  if (value instanceof Namespace) return "Namespace";
  return value.type;
}

/** Ends with the error of an undefined value. */
export function defined(value: Value): Exclude<Value, Undefined> {
  return value instanceof Undefined ? fail(value.message) : value;
}

/** Plain data as values. Members of objects that are undefined are left out, as in JSON. */
export function fromData(data: unknown): Value {
  spend();
  if (data === null || data === undefined) return null;
  if (typeof data === "number") return Number.isInteger(data) ? BigInt(data) : data;
  if (data instanceof WrittenNumber) return /[.eE]/.test(data.text) ? data.valueOf() : BigInt(data.text);
  if (typeof data === "string" || typeof data === "boolean" || typeof data === "bigint") return data;
  if (Array.isArray(data)) return data.map((item, i) => fromData(numberIn(data, i, item)));
  if (typeof data !== "object") return fail(`a value is a ${typeof data}, not plain data`);
  const dict = new Dict();
  for (const [key, value] of Object.entries(data)) {
    if (value !== undefined) dict.set(key, fromData(numberIn(data, key, value)));
  }
  return dict;
}

export function isTrue(value: Value): boolean {
  if (value === null || value instanceof Undefined) return false;
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Tuple || value instanceof View) return value.items.length > 0;
  if (value instanceof Dict) return value.size > 0;
  return typeof value === "object" ? true : Boolean(value);
}

/** A number where Python has one: True is 1. */
export function asNumber(value: Value): bigint | number | undefined {
  if (typeof value === "boolean") return BigInt(value);
  return typeof value === "bigint" || typeof value === "number" ? value : undefined;
}

/** A whole number that is an index or a count. @throws TemplateFailure if it is not one */
export function asIndex(value: Value, what = "the argument"): number {
  const number = asNumber(value);
  if (typeof number !== "bigint") return fail(`${what} is '${typeName(value)}', not an integer`);
  return Number(number);
}

const SURROGATE = /[\ud800-\udfff]/;

/** Whether each unit of a text is a character. */
export function isPlain(text: string): boolean {
  return !SURROGATE.test(text);
}

/** The characters of a text. */
export function characters(text: string): string[] {
  takeEntries(text.length);
  return [...text];
}

/** The entries that a loop over a value has. */
export function* iterate(value: Value): Generator<Value, void> {
  if (value instanceof Lazy) {
    for (let next = value.iterator.next(); !next.done; next = value.iterator.next()) {
      spend();
      yield next.value;
    }
    return;
  }
  for (const item of sequence(value)) {
    spend();
    yield item;
  }
}

/** The entries of a value as they are stored, or made. */
export function sequence(value: Value): readonly Value[] {
  if (Array.isArray(value)) return value;
  if (value instanceof Tuple || value instanceof View) return value.items;
  if (typeof value === "string") return characters(value);
  if (value instanceof Dict) return value.keys();
  if (value instanceof Undefined) return [];
  if (value instanceof Lazy) return listOf(value);
  return fail(`'${typeName(value)}' object is not iterable`);
}

/** A new list of all entries. */
export function listOf(value: Value): Value[] {
  if (!(value instanceof Lazy)) {
    const items = sequence(value);
    takeEntries(items.length);
    return [...items];
  }
  const items: Value[] = [];
  for (const item of iterate(value)) {
    takeEntries(0);
    items.push(item);
  }
  return items;
}

/** Python's len(). */
export function lengthOf(value: Value): number {
  if (typeof value === "string") {
    spend(1 + value.length / 4);
    if (isPlain(value)) return value.length;
    let length = 0;
    for (const _ of value) length++;
    return length;
  }
  if (value instanceof Dict) return value.size;
  if (Array.isArray(value)) return value.length;
  if (value instanceof Tuple || value instanceof View) return value.items.length;
  return value instanceof Undefined ? 0 : fail(`object of type '${typeName(value)}' has no len()`);
}
