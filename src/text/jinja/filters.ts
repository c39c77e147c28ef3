// Filters of Jinja, with `tojson` as transformers defines it.
import { item } from "./access.js";
import { bind } from "./arguments.js";
import { order } from "./compare.js";
import { formatPercent } from "./format.js";
import { round, toFloat, toInteger } from "./number-filters.js";
import { calculate } from "./operators.js";
import { toJson, toText } from "./print.js";
import { scan, takeText } from "./template-guard.js";
import { hasTest, runTest } from "./tests.js";
import { capitalize, joinTexts, lines, lower, replace, strip, upper } from "./text-methods.js";
import {
  asIndex,
  asNumber,
  Dict,
  defined,
  fail,
  firstOf,
  isTrue,
  iterate,
  Lazy,
  lengthOf,
  listOf,
  type Named,
  sequence,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from "./values.js";

type Bound = (Value | undefined)[];
type Filter = (value: Value, args: Bound) => Value;

/** Entries of `a.b.0` in a value. */
function path(value: Value, attributes: Value | undefined, usual?: Value): Value {
  if (attributes === undefined || attributes === null) return value;
  const parts = typeof attributes === "string" ? attributes.split(".") : [attributes];
  let found = value;
  for (const part of parts) {
    found = item(found, typeof part === "string" && /^\d+$/.test(part) ? BigInt(part) : part);
    if (found instanceof Undefined && usual !== undefined) found = usual;
  }
  return found;
}

/** What values are sorted and grouped by. */
function keyOf(value: Value, attributes: Value | undefined, isCaseSensitive: Value | undefined): Value {
  const key = path(value, attributes);
  return typeof key === "string" && !isTrue(isCaseSensitive ?? false) ? lower(key) : key;
}

function sorted<T>(items: readonly T[], key: (item: T) => Value, isReversed: Value | undefined): T[] {
  const keyed = items.map((item) => ({ item, key: key(item) }));
  const direction = isTrue(isReversed ?? false) ? -1 : 1;
  return keyed.sort((a, b) => direction * order(a.key, b.key)).map(({ item }) => item);
}

function lazy(generate: () => Generator<Value, void>): Lazy {
  return new Lazy(generate());
}

function first(value: Value): Value {
  for (const found of iterate(value)) return found;
  return new Undefined("No first item, sequence was empty.");
}

function last(value: Value): Value {
  if (value instanceof Lazy) return fail("'generator' object is not reversible");
  return firstOf(sequence(value).at(-1), new Undefined("No last item, sequence was empty."));
}

function extreme(value: Value, [isCaseSensitive, attributes]: Bound, sign: number): Value {
  let best: { readonly found: Value; readonly key: Value } | undefined;
  for (const found of iterate(value)) {
    const key = keyOf(found, attributes, isCaseSensitive);
    if (!best || sign * order(key, best.key) < 0) best = { found, key };
  }
  return best ? best.found : new Undefined("No aggregated item, sequence was empty.");
}

export function escapeHtml(text: string): string {
  const names: Readonly<Record<string, string>> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "'": "&#39;",
    '"': "&#34;",
  };
  scan(text);
  const escaped = text.replace(/[&<>'"]/g, (mark) => names[mark] ?? mark);
  takeText(escaped.length);
  return escaped;
}

function indent(text: string, [width, isFirst, blank]: Bound): string {
  const margin =
    typeof width === "string" ? width : " ".repeat(Math.min(10_000, width === undefined ? 4 : asIndex(width)));
  const all = lines(`${text}\n`);
  takeText(text.length + all.length * margin.length);
  const isBlankIndented = isTrue(blank ?? false);
  const indented = all.map((line, i) => (i > 0 && (isBlankIndented || line !== "") ? margin + line : line)).join("\n");
  return isTrue(isFirst ?? false) ? margin + indented : indented;
}

function* unique(value: Value, [isCaseSensitive, attributes]: Bound): Generator<Value, void> {
  const seen = new Dict();
  for (const one of iterate(value)) {
    const key = keyOf(one, attributes, isCaseSensitive);
    if (!seen.has(key)) yield one;
    seen.set(key, true);
  }
}

function dictSort(value: Value, [isCaseSensitive, by, isReversed]: Bound): Value {
  if (!(value instanceof Dict)) return fail(`'${typeName(value)}' object has no attribute 'items'`);
  const at =
    by === undefined || by === "key" ? 0 : by === "value" ? 1 : fail('You can only sort by either "key" or "value"');
  return sorted(value.pairs(), (pair) => keyOf(pair[at], undefined, isCaseSensitive), isReversed).map(
    (pair) => new Tuple(pair),
  );
}

function json(value: Value, [isAscii, indentation, separators, sortsKeys]: Bound): string {
  const margin = indentation ?? null;
  const pair = separators === undefined || separators === null ? undefined : listOf(separators).map(toText);
  return toJson(value, {
    ascii: isTrue(isAscii ?? false),
    indent:
      margin === null
        ? undefined
        : typeof margin === "string"
          ? margin
          : " ".repeat(Math.max(0, Math.min(1000, asIndex(margin)))),
    separators: pair
      ? [pair[0] ?? fail("not enough separators"), pair[1] ?? fail("not enough separators")]
      : [margin === null ? ", " : ",", ": "],
    sortsKeys: isTrue(sortsKeys ?? false),
  });
}

const text =
  (change: (text: string) => Value): Filter =>
  (value) =>
    change(toText(value));

/** The titles of the filter: words begin after white space, hyphens and opening brackets. */
function title(all: string): string {
  return all
    .split(/([-\s({[<]+)/)
    .map((word) => word.replace(/^(.)(.*)$/su, (_, head: string, tail: string) => upper(head) + lower(tail)))
    .join("");
}

const FILTERS: Readonly<Record<string, readonly [parameters: readonly string[], filter: Filter]>> = {
  abs: [[], (value) => magnitude(asNumber(defined(value)) ?? fail(`bad operand type for abs(): '${typeName(value)}'`))],
  capitalize: [[], text(capitalize)],
  default: [
    ["default_value=", "boolean="],
    (value, [usual, isBoolean]) =>
      value instanceof Undefined || (isTrue(isBoolean ?? false) && !isTrue(value)) ? firstOf(usual, "") : value,
  ],
  dictsort: [["case_sensitive=", "by=", "reverse="], dictSort],
  first: [[], first],
  float: [["default="], (value, [usual]) => firstOf(toFloat(value), firstOf(usual, 0))],
  indent: [
    ["width=", "first=", "blank="],
    (value, args) =>
      indent(typeof value === "string" ? value : fail(`indent takes a str, not ${typeName(value)}`), args),
  ],
  int: [["default=", "base="], (value, [usual, base]) => toInteger(value, usual, base)],
  items: [
    [],
    (value) => {
      if (value instanceof Undefined) return [];
      return value instanceof Dict
        ? value.pairs().map((pair) => new Tuple(pair))
        : fail("Can only get item pairs from a mapping.");
    },
  ],
  join: [
    ["d=", "attribute="],
    (value, [separator, attributes]) =>
      joinTexts(toText(separator ?? ""), value, (one) => toText(path(one, attributes))),
  ],
  last: [[], last],
  length: [[], (value) => BigInt(lengthOf(value))],
  list: [[], listOf],
  lower: [[], text(lower)],
  max: [["case_sensitive=", "attribute="], (value, args) => extreme(value, args, -1)],
  min: [["case_sensitive=", "attribute="], (value, args) => extreme(value, args, 1)],
  replace: [
    ["old", "new", "count="],
    (value, [old, other, count]) =>
      replace(
        toText(value),
        toText(old ?? null),
        toText(other ?? null),
        count === undefined || count === null ? -1 : asIndex(count),
      ),
  ],
  reverse: [[], (value) => reversed(value)],
  round: [["precision=", "method="], round],
  safe: [[], text((all) => all)],
  sort: [
    ["reverse=", "case_sensitive=", "attribute="],
    (value, [isReversed, isCaseSensitive, attributes]) => {
      const all = typeof attributes === "string" ? attributes.split(",") : [attributes];
      const key = (one: Value) => all.map((each) => keyOf(one, each, isCaseSensitive));
      return sorted(listOf(value), key, isReversed);
    },
  ],
  string: [[], text((all) => all)],
  sum: [
    ["attribute=", "start="],
    (value, [attributes, start]) => {
      let total = firstOf(start, 0n);
      for (const one of iterate(value)) total = calculate("+", total, path(one, attributes));
      return total;
    },
  ],
  title: [[], text(title)],
  tojson: [["ensure_ascii=", "indent=", "separators=", "sort_keys="], json],
  trim: [["chars="], (value, [which]) => strip(toText(value), which)],
  unique: [["case_sensitive=", "attribute="], (value, args) => lazy(() => unique(value, args))],
  upper: [[], text(upper)],
};

const ALIASES: Readonly<Record<string, string>> = { count: "length", d: "default" };

function magnitude(number: bigint | number): Value {
  return number < 0 || Object.is(number, -0) ? -number : number;
}

function reversed(value: Value): Value {
  if (typeof value === "string") return [...listOf(value)].reverse().join("");
  return lazy(() => iterate(listOf(value).reverse()));
}

/** Filters that take any arguments. */
const OTHERS = ["format", "map"];
const SELECTIONS = ["select", "reject", "selectattr", "rejectattr"];

export function hasFilter(name: string): boolean {
  return (
    Object.hasOwn(FILTERS, name) || Object.hasOwn(ALIASES, name) || OTHERS.includes(name) || SELECTIONS.includes(name)
  );
}

/** A filter with its arguments. @throws TemplateFailure if it does not exist */
export function runFilter(given: string, value: Value, args: readonly Value[], named: Named): Value {
  const name = (Object.hasOwn(ALIASES, given) ? ALIASES[given] : undefined) ?? given;
  if (name === "map") return map(value, args, named);
  if (name === "format") return formatFilter(value, args, named);
  if (SELECTIONS.includes(name)) return select(name, value, args, named);
  const found = Object.hasOwn(FILTERS, name) ? FILTERS[name] : undefined;
  if (!found) return fail(`the filter ${name.slice(0, 40)} is not supported`);
  return found[1](value, bind(name, found[0], args, named));
}

function map(value: Value, args: readonly Value[], named: Named): Value {
  if (!isTrue(value)) return lazy(function* () {});
  const [name, ...rest] = args;
  if (name === undefined) {
    const [attributes, usual] = bind("map", ["attribute", "default="], [], named);
    return lazy(function* () {
      for (const one of iterate(value)) yield path(one, attributes, usual);
    });
  }
  return lazy(function* () {
    for (const one of iterate(value)) yield runFilter(toText(name), one, rest, named);
  });
}

function select(filter: string, value: Value, args: readonly Value[], named: Named): Value {
  const hasAttribute = filter.endsWith("attr");
  const [name, ...rest] = hasAttribute ? args.slice(1) : args;
  const attributes = hasAttribute ? args[0] : undefined;
  if (hasAttribute && attributes === undefined) return fail(`${filter} needs the name of an attribute`);
  if (name !== undefined && !hasTest(toText(name)))
    return fail(`the test ${toText(name).slice(0, 40)} is not supported`);
  // As in Jinja, what is false has no entries.
  if (!isTrue(value)) return lazy(function* () {});
  const isSelection = filter.startsWith("select");
  return lazy(function* () {
    for (const one of iterate(value)) {
      const tested = path(one, attributes);
      const holds = name === undefined ? isTrue(tested) : runTest(toText(name), tested, rest, named);
      if (holds === isSelection) yield one;
    }
  });
}

/** `format` takes any arguments. */
function formatFilter(value: Value, args: readonly Value[], named: Named): Value {
  if (args.length > 0 && named.size > 0) return fail("can't handle positional and keyword arguments at the same time");
  const dict = new Dict();
  for (const [key, one] of named) dict.set(key, one);
  return formatPercent(toText(value), named.size > 0 ? dict : new Tuple(args));
}
