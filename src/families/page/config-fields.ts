// Reads the fields of a model's configuration, with the family's defaults, and collects all problems.
import { isObject, type JsonObject } from "../../kit/index.js";

/** Far above any real size: bounds allocations, and keeps products exact. */
const MAX_COUNT = 2 ** 24;

const TYPES: Readonly<Record<string, string>> = { number: "a number", string: "a text", boolean: "true or false" };

/**
 * A view of one JSON object. A reader that finds a problem notes it and returns a harmless value, so that one pass finds
 * all problems. Values must not be used before `problems` is known to be empty.
 */
export class ConfigFields {
  /** One sentence per problem. Shared with the views of nested objects. */
  readonly problems: string[];
  firstProblem: string | undefined;
  readonly #json: JsonObject;
  readonly #defaults: JsonObject;
  readonly #path: string;
  readonly #root: ConfigFields;
  readonly #read = new Set<string>();

  /** @param defaults values of missing fields */
  constructor(
    json: JsonObject,
    defaults: JsonObject = {},
    parent?: { readonly of: ConfigFields; readonly field: string },
  ) {
    this.#json = json;
    this.#defaults = defaults;
    this.#root = parent ? parent.of.#root : this;
    this.#path = parent ? `${parent.of.#path}${parent.field}.` : "";
    this.problems = parent ? parent.of.problems : [];
  }

  /** The value in the file, else the default. Null is a value. */
  get(field: string): unknown {
    this.#read.add(field);
    const value = this.#json[field];
    return value === undefined ? this.#defaults[field] : value;
  }

  /** Whether the file has a value that is not null. */
  has(field: string): boolean {
    return this.#json[field] !== undefined && this.#json[field] !== null;
  }

  refuse(field: string, sentence: string): void {
    this.#root.firstProblem ??= `${this.#path}${field}`;
    this.problems.push(`${this.#path}${field} ${sentence}`);
  }

  /** Whether something asked for the value. */
  isRead(field: string): boolean {
    return this.#read.has(field);
  }

  /** Refuses values of another type than the default has, of fields that no reader checked. */
  checkUnread(): void {
    for (const [field, usual] of Object.entries(this.#defaults)) {
      const value = this.#json[field] ?? usual;
      if (this.isRead(field) || usual === null || value === undefined || typeof value === typeof usual) continue;
      this.#wrong(field, value, TYPES[typeof usual] ?? "an object");
    }
  }

  /** A whole number of at least 1, or of at least `least`. */
  count(field: string, least = 1): number {
    const value = this.get(field);
    const isWhole = typeof value === "number" && Number.isSafeInteger(value);
    if (isWhole && value >= least && value <= MAX_COUNT) return value;
    return this.#wrong(field, value, `a whole number from ${least} to ${MAX_COUNT}`);
  }

  /** The same, null where the value is null or missing. */
  countOrNull(field: string): number | null {
    return this.#isNothing(field) ? null : this.count(field);
  }

  /** A finite number above 0, or above `bound`. */
  positive(field: string, bound = 0): number {
    const value = this.get(field);
    if (typeof value === "number" && Number.isFinite(value) && value > bound) return value;
    return this.#wrong(field, value, `a number above ${bound}`);
  }

  /** The same, null where the value is null or missing. */
  positiveOrNull(field: string): number | null {
    return this.#isNothing(field) ? null : this.positive(field);
  }

  /** Null and missing are false, as in Python's conditions. */
  flag(field: string): boolean {
    const value = this.get(field) ?? false;
    if (typeof value === "boolean") return value;
    this.#wrong(field, value, "true or false");
    return false;
  }

  /** The value of one of the keys of `choices`. */
  choice<T>(field: string, choices: Readonly<Record<string, T>>, fallback: T): T {
    const value = this.get(field);
    if (typeof value === "string" && Object.hasOwn(choices, value)) return choices[value] as T;
    this.#wrong(field, value, `one of ${Object.keys(choices).join(", ")}`);
    return fallback;
  }

  /** A list of exactly `length` numbers above 0. */
  positives(field: string, length: number): number[] {
    const value = this.get(field);
    const isPositive = (x: unknown) => typeof x === "number" && Number.isFinite(x) && x > 0;
    if (Array.isArray(value) && value.length === length && value.every(isPositive)) return value;
    this.#wrong(field, value, `a list of ${length} numbers above 0`);
    return [];
  }

  /** A list of exactly `length` whole numbers of at least 0. */
  counts(field: string, length: number): number[] {
    const value = this.get(field);
    const isCount = (x: unknown) => typeof x === "number" && Number.isSafeInteger(x) && x >= 0;
    if (Array.isArray(value) && value.length === length && value.every(isCount)) return value;
    this.#wrong(field, value, `a list of ${length} whole numbers of at least 0`);
    return [];
  }

  /** A list of exactly `length` entries, each one of the choices; null where the value is null or missing. */
  choicesOrNull<T extends string | number>(field: string, length: number, choices: readonly T[]): T[] | null {
    if (this.#isNothing(field)) return null;
    const value = this.get(field);
    if (Array.isArray(value) && value.length === length && value.every((x) => choices.includes(x))) return value;
    this.#wrong(field, value, `a list of ${length} entries, each one of ${choices.join(", ")}`);
    return null;
  }

  /** A view of the object in a field; undefined where the value is null, missing or empty, as Python's `or` has it. */
  nested(field: string): ConfigFields | undefined {
    const value = this.get(field);
    if (value === undefined || value === null) return undefined;
    if (isObject(value)) {
      return Object.keys(value).length > 0 ? new ConfigFields(value, {}, { of: this, field }) : undefined;
    }
    this.#wrong(field, value, "an object");
    return undefined;
  }

  #isNothing(field: string): boolean {
    return (this.get(field) ?? null) === null;
  }

  #wrong(field: string, value: unknown, expected: string): number {
    const found = value === undefined ? "is missing" : `is ${brief(value)}`;
    this.refuse(field, `${found}; it must be ${expected}`);
    return 1;
  }
}

/** JSON short enough for a message. */
export function brief(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}
