// Tests of Jinja, `value is name`.
import { bind } from "./arguments.js";
import { compare, isEqual } from "./compare.js";
import { calculate } from "./operators.js";
import { toText } from "./print.js";
import { lower, upper } from "./text-methods.js";
import { Dict, defined, isTrue, Lazy, type Named, Thing, Tuple, Undefined, type Value, View } from "./values.js";

type Test = (value: Value, argument: Value) => boolean;

const isInteger = (value: Value) => typeof value === "bigint";
const rest = (value: Value, by: Value) => calculate("%", value, by);
const isSequence = (value: Value) =>
  typeof value === "string" ||
  Array.isArray(value) ||
  value instanceof Tuple ||
  value instanceof Dict ||
  value instanceof Undefined ||
  (value instanceof View && value.type === "range");

const PLAIN: Readonly<Record<string, Test>> = {
  boolean: (value) => typeof value === "boolean",
  callable: (value) => value instanceof Thing && value.call !== undefined,
  defined: (value) => !(value instanceof Undefined),
  even: (value) => isEqual(rest(value, 2n), 0n),
  false: (value) => value === false,
  float: (value) => typeof value === "number",
  integer: isInteger,
  iterable: (value) => isSequence(value) || value instanceof View || value instanceof Lazy,
  lower: (value) => isCased(toText(value), lower),
  mapping: (value) => value instanceof Dict,
  none: (value) => value === null,
  number: (value) => typeof value === "number" || typeof value === "bigint" || typeof value === "boolean",
  odd: (value) => isEqual(rest(value, 2n), 1n),
  sequence: isSequence,
  string: (value) => typeof value === "string",
  true: (value) => value === true,
  undefined: (value) => value instanceof Undefined,
  upper: (value) => isCased(toText(value), upper),
};

const WITH_ARGUMENT: Readonly<Record<string, Test>> = {
  divisibleby: (value, by) => isEqual(rest(value, by), 0n),
  in: (value, container) => compare("in", value, container),
  sameas: (value, other) =>
    typeof value === "object" && value !== null ? value === other : typeof value === typeof other && value === other,
};

const COMPARISONS: Readonly<Record<string, string>> = {
  "==": "==",
  eq: "==",
  equalto: "==",
  "!=": "!=",
  ne: "!=",
  "<": "<",
  lt: "<",
  lessthan: "<",
  "<=": "<=",
  le: "<=",
  ">": ">",
  gt: ">",
  greaterthan: ">",
  ">=": ">=",
  ge: ">=",
};

/** Whether all letters of a text have a case, and it has letters. */
function isCased(text: string, change: (text: string) => string): boolean {
  return change(text) === text && /\p{Cased}/u.test(text);
}

export function hasTest(name: string): boolean {
  return [PLAIN, WITH_ARGUMENT, COMPARISONS].some((tests) => Object.hasOwn(tests, name));
}

/** The test of a name, which must exist. */
export function runTest(name: string, value: Value, args: readonly Value[], named: Named): boolean {
  if (Object.hasOwn(PLAIN, name)) {
    bind(name, [], args, named);
    return PLAIN[name]?.(value, null) ?? false;
  }
  const [argument = null] = bind(name, ["other"], args, named);
  const operator = Object.hasOwn(COMPARISONS, name) ? COMPARISONS[name] : undefined;
  if (operator !== undefined) return compare(operator, value, argument);
  return Object.hasOwn(WITH_ARGUMENT, name)
    ? (WITH_ARGUMENT[name]?.(value, argument) ?? false)
    : isTrue(defined(new Undefined(`the test ${name} is not supported`)));
}
