// Values as Python prints them: str(), repr() and json.dumps().

import { order } from "./compare.js";
import { scan, spend, takeText } from "./template-guard.js";
import {
  asNumber,
  Dict,
  defined,
  fail,
  Lazy,
  Namespace,
  Tuple,
  typeName,
  Undefined,
  type Value,
  View,
} from "./values.js";

/** Python's str(). */
export function toText(value: Value): string {
  if (typeof value === "string") return value;
  return value instanceof Undefined ? "" : repr(value);
}

export function repr(value: Value): string {
  spend();
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "bigint") return joined([value.toString()]);
  if (typeof value === "number") return floatText(value);
  if (typeof value === "string") return quote(value);
  if (Array.isArray(value)) return `[${joined(value.map(repr))}]`;
  if (value instanceof Tuple) {
    return value.items.length === 1 ? `(${repr(value.items[0] as Value)},)` : `(${joined(value.items.map(repr))})`;
  }
  if (value instanceof Dict) return `{${joined(value.pairs().map(([key, item]) => `${repr(key)}: ${repr(item)}`))}}`;
  if (value instanceof View) return value.text || `${value.type}([${joined(value.items.map(repr))}])`;
  if (value instanceof Undefined) return "Undefined";
  if (value instanceof Namespace) {
    return `<Namespace {${joined([...value.entries].map(([key, item]) => `${quote(key)}: ${repr(item)}`))}}>`;
  }
  return value instanceof Lazy ? "<generator object>" : `<${value.type}>`;
}

function joined(texts: readonly string[], separator = ", "): string {
  takeText(texts.reduce((sum, text) => sum + text.length + separator.length, 0));
  return texts.join(separator);
}

/** The shortest text of a float, with an exponent where Python writes one. */
export function floatText(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  const [mantissa = "", exponent = ""] = value.toExponential().split("e");
  const power = Number(exponent);
  if (power < -4 || power >= 16) {
    return `${sign(value)}${mantissa.replace("-", "")}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  }
  const digits = mantissa.replace(/[-.]/g, "");
  if (power < 0) return `${sign(value)}0.${"0".repeat(-power - 1)}${digits}`;
  const whole = digits.slice(0, power + 1).padEnd(power + 1, "0");
  return `${sign(value)}${whole}.${digits.slice(power + 1) || "0"}`;
}

function sign(value: number): string {
  return value < 0 || Object.is(value, -0) ? "-" : "";
}

const NAMED_ESCAPES: Readonly<Record<string, string>> = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** A text as a Python literal. */
function quote(text: string): string {
  scan(text);
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const inner = text.replace(/[\\\p{C}\p{Z}'"]/gu, (character) => {
    if (character === " " || character === '"') return character;
    if (character === "'") return mark === "'" ? "\\'" : "'";
    const code = character.codePointAt(0) ?? 0;
    const hex = (width: number) => code.toString(16).padStart(width, "0");
    const escaped = code < 256 ? `\\x${hex(2)}` : code < 65_536 ? `\\u${hex(4)}` : `\\U${hex(8)}`;
    return NAMED_ESCAPES[character] ?? escaped;
  });
  takeText(inner.length);
  return `${mark}${inner}${mark}`;
}

export interface JsonOptions {
  readonly ascii: boolean;
  /** What each level begins with; without it all is on one line. */
  readonly indent: string | undefined;
  readonly separators: readonly [item: string, key: string];
  readonly sortsKeys: boolean;
}

/** Python's json.dumps. */
export function toJson(value: Value, options: JsonOptions, level = 0): string {
  spend();
  if (typeof value === "string") return jsonText(value, options);
  if (value === null) return "null";
  if (typeof value === "boolean" || typeof value === "bigint") return String(value);
  if (typeof value === "number") return jsonFloat(value);
  const nested = (item: Value) => toJson(item, options, level + 1);
  if (Array.isArray(value)) return bracketed("[", value.map(nested), "]", options, level);
  if (value instanceof Tuple) return bracketed("[", value.items.map(nested), "]", options, level);
  if (!(value instanceof Dict)) return fail(`Object of type ${typeName(value)} is not JSON serializable`);
  const pairs = value.pairs();
  if (options.sortsKeys) pairs.sort(([a], [b]) => order(a, b));
  const members = pairs.map(
    ([key, item]) => `${jsonText(keyText(key), options)}${options.separators[1]}${nested(item)}`,
  );
  return bracketed("{", members, "}", options, level);
}

function bracketed(
  open: string,
  items: string[],
  close: string,
  { indent, separators }: JsonOptions,
  level: number,
): string {
  if (items.length === 0) return open + close;
  if (indent === undefined) return open + joined(items, separators[0]) + close;
  takeText(indent.length * (level + 1));
  const line = `\n${indent.repeat(level + 1)}`;
  return `${open}${line}${joined(items, separators[0] + line)}\n${indent.repeat(level)}${close}`;
}

function jsonFloat(value: number): string {
  if (Number.isFinite(value)) return floatText(value);
  return Number.isNaN(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

function keyText(key: Value): string {
  if (typeof key === "string") return key;
  if (typeof key === "boolean" || key === null || asNumber(key) !== undefined) {
    return toJson(key, { ascii: false, indent: undefined, separators: [", ", ": "], sortsKeys: false });
  }
  return fail(`keys must be str, int, float, bool or None, not ${typeName(defined(key))}`);
}

function jsonText(text: string, { ascii }: JsonOptions): string {
  takeText(text.length);
  scan(text);
  const json = JSON.stringify(text);
  if (!ascii) return json;
  return json.replace(/[\x7f-\uffff]/g, (unit) =>
    unit === "\x7f" ? unit : `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
