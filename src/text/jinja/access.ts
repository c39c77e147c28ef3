// `value.name`, `value[key]` and `value[start:end]`, as Jinja's sandbox has them.
import { bind } from "./arguments.js";
import { isEqual } from "./compare.js";
import { formatBraces } from "./format.js";
import { repr } from "./print.js";
import { takeEntries, takeText } from "./template-guard.js";
import { textMethod } from "./text-methods.js";
import {
  asIndex,
  asNumber,
  type Call,
  characters,
  Dict,
  defined,
  fail,
  firstOf,
  isPlain,
  Namespace,
  Thing,
  Tuple,
  typeName,
  Undefined,
  type Value,
  View,
} from "./values.js";

type Method<T> = (of: T, args: (Value | undefined)[]) => Value;
type Methods<T> = Readonly<Record<string, readonly [parameters: readonly string[], method: Method<T>]>>;

const DICT_METHODS: Methods<Dict> = {
  copy: [[], (dict) => copied(dict)],
  get: [["key", "default="], (dict, [key, value]) => firstOf(dict.get(key ?? null), value ?? null)],
  items: [
    [],
    (dict) =>
      new View(
        "dict_items",
        dict.pairs().map((pair) => new Tuple(pair)),
      ),
  ],
  keys: [[], (dict) => new View("dict_keys", dict.keys())],
  values: [[], (dict) => new View("dict_values", dict.values())],
};

const SEQUENCE_METHODS: Methods<readonly Value[]> = {
  count: [["value"], (items, [value]) => BigInt(items.filter((item) => isEqual(item, value ?? null)).length)],
  index: [
    ["value"],
    (items, [value]) => {
      const at = items.findIndex((item) => isEqual(item, value ?? null));
      return at === -1 ? fail(`${repr(value ?? null)} is not in list`) : BigInt(at);
    },
  ],
};

const LIST_METHODS: Methods<readonly Value[]> = { ...SEQUENCE_METHODS, copy: [[], (items) => [...items]] };

export function copied(dict: Dict): Dict {
  const copy = new Dict();
  for (const [key, value] of dict.pairs()) copy.set(key, value);
  return copy;
}

function method<T>(methods: Methods<T>, of: T, name: string): Thing | undefined {
  const found = Object.hasOwn(methods, name) ? methods[name] : undefined;
  return found && callable((args, named) => found[1](of, bind(name, found[0], args, named)));
}

function callable(call: Call): Thing {
  return new Thing("builtin_function_or_method", call);
}

/** A method or another attribute that Python's getattr finds; the names that change a list or a dict are none. */
function ownAttribute(value: Value, name: string): Value | undefined {
  if (typeof value === "string") {
    if (name === "format") return callable((args, named) => formatBraces(value, args, named, subscriptOrAttribute));
    const found = textMethod(value, name);
    return found && callable(found);
  }
  if (value instanceof Dict) return method(DICT_METHODS, value, name);
  if (Array.isArray(value)) return method(LIST_METHODS, value, name);
  if (value instanceof Tuple) return method(SEQUENCE_METHODS, value.items, name);
  if (value instanceof Namespace) return value.entries.get(name);
  return value instanceof Thing ? value.field(name) : undefined;
}

function subscriptOrAttribute(of: Value, name: string, isAttribute: boolean): Value {
  if (isAttribute) return attribute(of, name);
  return item(of, /^\d+$/.test(name) ? BigInt(name) : name);
}

/** `value.name`: an attribute, else an entry. */
export function attribute(value: Value, name: string): Value {
  const of = defined(value);
  const own = ownAttribute(of, name);
  const found = own === undefined ? entry(of, name) : own;
  return found === undefined ? missing(of, name) : found;
}

/** `value[key]`: an entry, else an attribute. */
export function item(value: Value, key: Value): Value {
  const of = defined(value);
  const own = entry(of, key);
  const found = own === undefined && typeof key === "string" ? ownAttribute(of, key) : own;
  return found === undefined ? missing(of, key) : found;
}

function missing(value: Value, key: Value): Undefined {
  const owner = value === null ? "None" : `${typeName(value)} object`;
  return new Undefined(
    typeof key === "string" ? `'${owner}' has no attribute '${key}'` : `${owner} has no element ${repr(key)}`,
  );
}

function entry(value: Value, key: Value): Value | undefined {
  if (value instanceof Dict) return isHashable(key) ? value.get(key) : undefined;
  const position = asNumber(key);
  if (typeof position !== "bigint") return undefined;
  if (typeof value === "string" && !isPlain(value)) return at(characters(value), position);
  const items = typeof value === "string" ? value : entries(value);
  return items && at(items, position);
}

function isHashable(key: Value): boolean {
  return !(Array.isArray(key) || key instanceof Dict || (key instanceof Tuple && !key.items.every(isHashable)));
}

/** The entries of what has positions. */
function entries(value: Value): readonly Value[] | undefined {
  if (Array.isArray(value)) return value;
  return value instanceof Tuple || (value instanceof View && value.type === "range") ? value.items : undefined;
}

function at(items: string | readonly Value[], position: bigint): Value | undefined {
  return items[Number(position < 0n ? position + BigInt(items.length) : position)];
}

/** `value[start:end:step]`. */
export function slice(value: Value, bounds: readonly (Value | undefined)[]): Value {
  const of = defined(value);
  const units = typeof of === "string" && !isPlain(of) ? characters(of) : undefined;
  const items = units ?? (typeof of === "string" ? of : entries(of));
  // An expression such as `dict[1:2]` is undefined in Jinja, as a wrong key is.
  if (items === undefined) return new Undefined(`${typeName(of)} object has no element slice`);
  const [start, end, by] = bounds.map((bound) =>
    bound === undefined || bound === null ? undefined : asIndex(bound, "a slice index"),
  );
  const step = by ?? 1;
  if (step === 0) return fail("slice step cannot be zero");
  const { length } = items;
  const place = (given: number | undefined, usual: number) => {
    if (given === undefined) return usual;
    const from = given < 0 ? given + length : given;
    return step > 0 ? Math.max(0, Math.min(length, from)) : Math.max(-1, Math.min(length - 1, from));
  };
  const first = place(start, step > 0 ? 0 : length - 1);
  const last = place(end, step > 0 ? length : -1);
  const count = Math.max(0, Math.ceil((last - first) / step));
  if (typeof items === "string" && step === 1) {
    takeText(count);
    return items.slice(first, first + count);
  }
  takeEntries(count);
  const kept = Array.from({ length: count }, (_, i) => items[first + i * step] as Value);
  if (typeof of === "string") return kept.join("");
  if (of instanceof Tuple) return new Tuple(kept);
  return of instanceof View ? new View("range", kept, repr(kept)) : kept;
}
