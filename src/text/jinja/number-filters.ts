// The filters int, float and round.
import { fixed } from "./format.js";
import { strip } from "./text-methods.js";
import { asIndex, asNumber, defined, fail, firstOf, typeName, type Value } from "./values.js";

export function toInteger(value: Value, usual: Value | undefined, base: Value | undefined): Value {
  const fallback = firstOf(usual, 0n);
  const radix = base === undefined ? 10 : asIndex(base);
  if (typeof value === "string") {
    const text = strip(value, undefined).replaceAll("_", "");
    const prefix = { 2: /^([+-]?)0b/i, 8: /^([+-]?)0o/i, 16: /^([+-]?)0x/i }[radix];
    const digits = prefix ? text.replace(prefix, "$1") : text;
    const allowed = radix === 10 ? /^[+-]?\d{1,4300}$/ : /^[+-]?[\da-z]{1,4300}$/i;
    const whole =
      allowed.test(digits) && (radix === 10 ? BigInt(digits.replace("+", "")) : Number.parseInt(digits, radix));
    if (typeof whole === "bigint") return whole;
    if (typeof whole === "number" && !Number.isNaN(whole)) return BigInt(whole);
  }
  const number = toFloat(value);
  return number !== undefined && Number.isFinite(number) ? BigInt(Math.trunc(number)) : fallback;
}

export function toFloat(value: Value): number | undefined {
  const number = asNumber(defined(value));
  if (number !== undefined) return Number(number);
  if (typeof value !== "string") return undefined;
  const text = strip(value, undefined).toLowerCase();
  if (/^[+-]?(?:\d+(?:_\d+)*(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/.test(text)) return Number(text.replaceAll("_", ""));
  const special = /^([+-]?)(?:(inf(?:inity)?)|nan)$/.exec(text);
  if (!special) return undefined;
  return special[2] ? (special[1] === "-" ? -1 : 1) * Number.POSITIVE_INFINITY : Number.NaN;
}

export function round(value: Value, [precision, method]: readonly (Value | undefined)[]): Value {
  const number = asNumber(defined(value)) ?? fail(`type ${typeName(value)} doesn't define __round__ method`);
  const digits = precision === undefined ? 0 : asIndex(precision);
  const how = method ?? "common";
  if (how !== "common" && how !== "floor" && how !== "ceil") return fail("method must be common, ceil or floor");
  const scale = 10 ** digits;
  if (how !== "common") return Math[how](Number(number) * scale) / scale;
  if (typeof number === "bigint" && digits >= 0) return number;
  if (digits < 0) return fail("a negative precision is not supported");
  return Number(fixed(number as number, digits));
}
