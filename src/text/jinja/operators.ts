// Python's arithmetic.

import { formatPercent } from "./format.js";
import { checkLength, spend, takeEntries, takeText } from "./template-guard.js";
import { asNumber, defined, fail, Tuple, typeName, type Value } from "./values.js";

/** Whole numbers of more digits are refused, as Python refuses to print them. */
const LARGEST = 10n ** 4300n;
const MOST_BITS = 14_284n;

/** Joins two texts. */
export function join(left: string, right: string): string {
  spend();
  checkLength(left.length + right.length);
  return left + right;
}

export function calculate(operator: string, left: Value, right: Value): Value {
  spend();
  const [a, b] = [
    asNumber(defined(left)),
    typeof left === "string" && operator === "%" ? undefined : asNumber(defined(right)),
  ];
  if (a !== undefined && b !== undefined) {
    if (typeof a === "bigint" && typeof b === "bigint") return bounded(wholeResult(operator, a, b));
    return floatResult(operator, Number(a), Number(b));
  }
  if (operator === "+") {
    if (typeof left === "string" && typeof right === "string") return join(left, right);
    if (Array.isArray(left) && Array.isArray(right)) return concat(left, right);
    if (left instanceof Tuple && right instanceof Tuple) return new Tuple(concat(left.items, right.items));
  }
  if (operator === "%" && typeof left === "string") return formatPercent(left, right);
  if (operator === "*") {
    if (typeof b === "bigint" && a === undefined) return repeat(left, Number(b)) ?? unsupported(operator, left, right);
    if (typeof a === "bigint" && b === undefined) return repeat(right, Number(a)) ?? unsupported(operator, left, right);
  }
  return unsupported(operator, left, right);
}

function unsupported(operator: string, left: Value, right: Value): never {
  return fail(`unsupported operand type(s) for ${operator}: '${typeName(left)}' and '${typeName(right)}'`);
}

function concat(left: readonly Value[], right: readonly Value[]): Value[] {
  takeEntries(left.length + right.length);
  return [...left, ...right];
}

function repeat(value: Value, times: number): Value | undefined {
  const count = Math.max(0, times);
  if (typeof value === "string") {
    takeText(value.length * count);
    return value.repeat(count);
  }
  const items = Array.isArray(value) ? value : value instanceof Tuple ? value.items : undefined;
  if (!items) return undefined;
  takeEntries(items.length * count);
  const repeated = Array.from({ length: items.length * count }, (_, i) => items[i % items.length] as Value);
  return value instanceof Tuple ? new Tuple(repeated) : repeated;
}

function bounded(value: bigint | number): bigint | number {
  if (value > Number.MAX_SAFE_INTEGER || value < Number.MIN_SAFE_INTEGER) takeText(1000);
  if (typeof value === "bigint" && (value > LARGEST || value < -LARGEST)) fail("a number has more than 4300 digits");
  return value;
}

function wholeResult(operator: string, a: bigint, b: bigint): bigint | number {
  switch (operator) {
    case "+":
      return a + b;
    case "-":
      return a - b;
    case "*":
      return a * b;
    case "/":
      return b === 0n ? fail("division by zero") : Number(a) / Number(b);
    case "//": {
      if (b === 0n) return fail("integer division or modulo by zero");
      const quotient = a / b;
      return a % b !== 0n && a < 0n !== b < 0n ? quotient - 1n : quotient;
    }
    case "%": {
      if (b === 0n) return fail("integer modulo by zero");
      const rest = a % b;
      return rest !== 0n && rest < 0n !== b < 0n ? rest + b : rest;
    }
    default: {
      if (b < 0n) return floatResult("**", Number(a), Number(b));
      const bits = BigInt((a < 0n ? -a : a).toString(2).length - 1);
      if (bits * b > MOST_BITS || (b > MOST_BITS && bits > 0n)) fail("a number has more than 4300 digits");
      return a ** b;
    }
  }
}

function floatResult(operator: string, a: number, b: number): number {
  switch (operator) {
    case "+":
      return a + b;
    case "-":
      return a - b;
    case "*":
      return a * b;
    case "/":
      return b === 0 ? fail("float division by zero") : a / b;
    case "//":
      return b === 0 ? fail("float floor division by zero") : Math.floor(a / b);
    case "%": {
      if (b === 0) return fail("float modulo");
      const rest = a % b;
      return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest;
    }
    default: {
      if (a === 0 && b < 0) return fail("0.0 cannot be raised to a negative power");
      const power = a ** b;
      if (Number.isNaN(power) && !Number.isNaN(a) && !Number.isNaN(b)) return fail("complex numbers are not supported");
      return Number.isFinite(power) || !Number.isFinite(a) || !Number.isFinite(b)
        ? power
        : fail("Numerical result out of range");
    }
  }
}

export function negate(value: Value, operator: "+" | "-"): Value {
  const number = asNumber(defined(value));
  if (number === undefined) return fail(`bad operand type for unary ${operator}: '${typeName(value)}'`);
  return operator === "-" ? -number : number;
}
