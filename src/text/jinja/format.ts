// Python's two ways to fill a text: `"%s" % value` and `"{}".format(value)`.

import { floatText, repr, toText } from "./print.js";
import { takeText } from "./template-guard.js";
import { asIndex, asNumber, Dict, fail, Tuple, typeName, Undefined, type Value } from "./values.js";

/** Most digits after the point, and most characters of a field. */
const MAX_DIGITS = 100;
const MAX_WIDTH = 100_000;

interface Spec {
  readonly fill?: string | undefined;
  readonly align?: string | undefined;
  readonly sign?: string | undefined;
  readonly width?: number;
  readonly precision?: number | undefined;
  readonly type?: string | undefined;
}

/** A number with so many digits after the point, rounded as Python does: exactly, and ties to even. */
export function fixed(value: number, digits: number): string {
  const text = value.toFixed(Math.min(digits, MAX_DIGITS));
  const scale = 10 ** digits;
  // Only a multiple of a power of two is half way between two results.
  const isTie = Number.isInteger(value * 2 ** (digits + 1)) && Math.abs((value * scale) % 1) === 0.5;
  if (!isTie) return text;
  const below = Math.floor(Math.abs(value * scale));
  const even = (below % 2 === 0 ? below : below + 1) / scale;
  return (value < 0 ? "-" : "") + even.toFixed(digits);
}

const BASES: Readonly<Record<string, number>> = { d: 10, i: 10, u: 10, x: 16, X: 16 };

/** The digits of a number without its sign. */
function digitsOf(number: bigint | number, { type = "", precision }: Spec): string {
  const base = BASES[type];
  if (base !== undefined || (type === "" && typeof number === "bigint")) {
    if (typeof number === "number") return fail(`Unknown format code '${type}' for object of type 'float'`);
    const digits = (number < 0n ? -number : number).toString(base ?? 10).padStart(precision ?? 0, "0");
    return type === "X" ? digits.toUpperCase() : digits;
  }
  const value = Math.abs(Number(number));
  if (!Number.isFinite(value)) return floatText(value);
  if (type === "" && precision === undefined) return floatText(value);
  return type === "f" ? fixed(value, precision ?? 6) : fail(`the format ${type || "of digits"} is not supported`);
}

function formatNumber(number: bigint | number, spec: Spec): string {
  const isNegative = number < 0 || Object.is(number, -0);
  const sign = isNegative ? "-" : spec.sign === "+" || spec.sign === " " ? spec.sign : "";
  return padded(digitsOf(number, spec), sign, spec, ">");
}

function padded(text: string, sign: string, { fill = " ", align, width = 0 }: Spec, usual: string): string {
  takeText(width);
  const missing = Math.max(0, width - [...text].length - sign.length);
  const side = align ?? usual;
  if (side === "=") return sign + fill.repeat(missing) + text;
  const left = side === "<" ? 0 : side === "^" ? Math.floor(missing / 2) : missing;
  return fill.repeat(left) + sign + text + fill.repeat(missing - left);
}

function bounded(digits: string | undefined, most: number): number | undefined {
  if (digits === undefined || digits === "") return undefined;
  const number = Number(digits);
  return number <= most ? number : fail(`a format asks for ${number} characters; at most ${most} are supported`);
}

const PERCENT = /%(?:\(([^)]{0,200})\))?([-+ #0]*)(\d+|\*)?(?:\.(\d+|\*)?)?[hlL]?(.)?/gs;

/** Python's `text % value`. */
export function formatPercent(text: string, value: Value): string {
  const args = value instanceof Tuple ? value.items : [value];
  let used = 0;
  const next = (): Value =>
    used < args.length ? (args[used++] as Value) : fail("not enough arguments for format string");
  const filled = text.replace(PERCENT, (whole, key, flags: string, width, precision, type: string | undefined) => {
    if (type === "%") return "%";
    const number = (digits: string | undefined, most: number) =>
      digits === "*" ? bounded(String(asIndex(next())), most) : bounded(digits, most);
    let argument: Value | undefined;
    if (key !== undefined) {
      if (!(value instanceof Dict)) fail("format requires a mapping");
      argument = value.get(key as string);
      if (argument === undefined) fail(`KeyError: ${repr(key as string)}`);
      used = args.length;
    }
    const wide = number(width as string | undefined, MAX_WIDTH) ?? 0;
    const exact = whole.includes(".") ? (number(precision as string | undefined, MAX_DIGITS) ?? 0) : undefined;
    const align = flags.includes("-") ? "<" : undefined;
    if (argument === undefined) argument = next();
    if (type === "s" || type === "r" || type === "a") {
      const shown = type === "s" ? toText(argument) : repr(argument);
      return padded(exact === undefined ? shown : [...shown].slice(0, exact).join(""), "", { width: wide, align }, ">");
    }
    const given = asNumber(argument);
    if (type === undefined || !"diuxXf".includes(type) || flags.includes("#")) {
      return fail(`the format %${flags}${type ?? ""} is not supported`);
    }
    if (given === undefined) return fail(`%${type} format: a number is required, not ${typeName(argument)}`);
    const isWhole = "diu".includes(type);
    const zero = flags.includes("0") && align === undefined;
    return formatNumber(isWhole && typeof given === "number" ? truncated(given) : given, {
      type,
      width: wide,
      precision: exact,
      sign: flags.includes("+") ? "+" : flags.includes(" ") ? " " : undefined,
      align: zero ? "=" : align,
      fill: zero ? "0" : " ",
    });
  });
  // A dict, or a list, that is not used is no error.
  if (used < args.length && (value instanceof Tuple || !(value instanceof Dict || Array.isArray(value)))) {
    fail("not all arguments converted during string formatting");
  }
  takeText(filled.length);
  return filled;
}

function truncated(value: number): bigint {
  return Number.isFinite(value) ? BigInt(Math.trunc(value)) : fail("cannot convert float to integer");
}

const SPEC = /^(?:(.)?([<>=^]))?([-+ ])?(0)?(\d+)?(?:\.(\d+))?([a-zA-Z%])?$/su;

/** Python's format(value, spec). */
function formatSpec(value: Value, text: string): string {
  if (text === "") return toText(value);
  const found = SPEC.exec(text) ?? fail(`Invalid format specifier '${text.slice(0, 40)}'`);
  const [, fill, align, sign, zero, width, precision, type] = found;
  const spec: Spec = {
    fill: fill ?? (zero ? "0" : " "),
    align: align ?? (zero ? "=" : undefined),
    sign,
    width: bounded(width, MAX_WIDTH) ?? 0,
    precision: bounded(precision, MAX_DIGITS),
    type,
  };
  if (typeof value === "string") {
    if (type !== undefined && type !== "s") fail(`Unknown format code '${type}' for object of type 'str'`);
    if (align === "=") fail("'=' alignment not allowed in string format specifier");
    const shown = spec.precision === undefined ? value : [...value].slice(0, spec.precision).join("");
    return padded(shown, "", { ...spec, align }, "<");
  }
  const number = asNumber(value);
  if (number === undefined || (typeof value === "boolean" && type === undefined)) {
    return fail(`unsupported format string passed to ${typeName(value)}.__format__`);
  }
  return formatNumber(number, spec);
}

const FIELD = /\{\{|\}\}|\{([^{}]*)\}|[{}]/g;

/** Python's text.format(...), without fields within fields. */
export function formatBraces(
  text: string,
  args: readonly Value[],
  named: ReadonlyMap<string, Value>,
  get: (of: Value, name: string, isAttribute: boolean) => Value,
): string {
  let used = 0;
  const filled = text.replace(FIELD, (whole, field: string | undefined) => {
    if (whole === "{{" || whole === "}}") return whole[0] ?? "";
    if (field === undefined) return fail("a brace of the format string has no partner");
    const found = /^([^!:.[]*)((?:\.[^!:.[]+|\[[^\]]*\])*)(?:!([rsa]))?(?::(.*))?$/s.exec(field);
    const [, name = "", path = "", conversion, spec = ""] = found ?? fail("the format string has an invalid field");
    const position = name === "" ? used++ : /^\d+$/.test(name) ? Number(name) : undefined;
    let value = position === undefined ? named.get(name) : args[position];
    if (value === undefined) return fail(`the format string has no argument ${name || position}`);
    for (const [, attribute, item = ""] of path.matchAll(/\.([^.[]+)|\[([^\]]*)\]/g)) {
      value = get(value, attribute ?? item, attribute !== undefined);
      if (value instanceof Undefined) fail(value.message);
    }
    return formatSpec(
      conversion === "r" || conversion === "a" ? repr(value) : conversion ? toText(value) : value,
      spec,
    );
  });
  takeText(filled.length);
  return filled;
}
