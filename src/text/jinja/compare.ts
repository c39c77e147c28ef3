// Python's ==, < and in.
import { scan, seek, spend } from "./template-guard.js";
import { asNumber, Dict, defined, fail, iterate, Tuple, typeName, Undefined, type Value, View } from "./values.js";

export function isEqual(left: Value, right: Value): boolean {
  spend();
  if (typeof left === "string" && typeof right === "string") {
    if (left.length === right.length) scan(left);
    return left === right;
  }
  if (left === right) return true;
  const [a, b] = [asNumber(left), asNumber(right)];
  // biome-ignore lint/suspicious/noDoubleEquals: compares whole numbers and floats by value
  if (a !== undefined && b !== undefined) return a == b;
  if (left instanceof Undefined) return right instanceof Undefined;
  if (Array.isArray(left) && Array.isArray(right)) return areEqual(left, right);
  if (left instanceof Tuple && right instanceof Tuple) return areEqual(left.items, right.items);
  if (left instanceof View && right instanceof View) {
    return left.type === right.type && left.type !== "dict_values" && areEqual(left.items, right.items);
  }
  if (!(left instanceof Dict && right instanceof Dict) || left.size !== right.size) return false;
  return left.pairs().every(([key, value]) => {
    const other = right.get(key);
    return other !== undefined && isEqual(value, other);
  });
}

function areEqual(left: readonly Value[], right: readonly Value[]): boolean {
  return left.length === right.length && left.every((item, i) => isEqual(item, right[i] as Value));
}

/** Negative, zero or positive as `left` comes before, with or after `right`. @throws TemplateFailure if they have no order */
export function order(left: Value, right: Value, operator = "<"): number {
  spend();
  const [a, b] = [asNumber(defined(left)), asNumber(defined(right))];
  if (a !== undefined && b !== undefined) return a < b ? -1 : a > b ? 1 : a >= b ? 0 : Number.NaN;
  if (typeof left === "string" && typeof right === "string") return orderTexts(left, right);
  const [items, others] = [entries(left), entries(right)];
  if (!items || !others || Array.isArray(left) !== Array.isArray(right)) {
    return fail(`'${operator}' not supported between instances of '${typeName(left)}' and '${typeName(right)}'`);
  }
  for (const [i, item] of items.entries()) {
    const other = others[i];
    if (other === undefined) return 1;
    if (!isEqual(item, other)) return order(item, other, operator);
  }
  return items.length - others.length;
}

function entries(value: Value): readonly Value[] | undefined {
  return value instanceof Tuple ? value.items : Array.isArray(value) ? value : undefined;
}

/** By code points, where JavaScript goes by UTF-16 units. */
function orderTexts(left: string, right: string): number {
  scan(left);
  let i = 0;
  while (i < left.length && left[i] === right[i]) i++;
  const at = (text: string) => {
    const unit = text.charCodeAt(i);
    return unit >= 0xd800 && unit < 0xe000 ? unit + 0x10000 : unit;
  };
  if (i === left.length || i === right.length) return left.length - right.length;
  return at(left) - at(right);
}

export function compare(operator: string, left: Value, right: Value): boolean {
  switch (operator) {
    case "==":
      return isEqual(left, right);
    case "!=":
      return !isEqual(left, right);
    case "in":
      return contains(right, left);
    case "not in":
      return !contains(right, left);
    case "<":
      return order(left, right, operator) < 0;
    case "<=":
      return order(left, right, operator) <= 0;
    case ">":
      return order(left, right, operator) > 0;
    default:
      return order(left, right, operator) >= 0;
  }
}

export function contains(container: Value, item: Value): boolean {
  if (typeof container === "string") {
    if (typeof item !== "string") {
      return fail(`'in <string>' requires string as left operand, not ${typeName(item)}`);
    }
    seek(container, item);
    return container.includes(item);
  }
  if (container instanceof Dict) return container.has(item);
  for (const entry of iterate(container)) if (isEqual(entry, item)) return true;
  return false;
}
