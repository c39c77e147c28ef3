// The space of a search: recipe fields, and what each may be. A point of the unit cube is one value for each.
import type { JsonValue } from "../steps/step.js";

/** What a field may be: one of a list, a number, or a gradient of numbers over the layers. */
export type Variable =
  | readonly JsonValue[]
  | {
      readonly from: number;
      readonly to: number;
      readonly whole?: boolean | undefined;
      readonly gradient?: number | undefined;
    };

export type Space = Readonly<Record<string, Variable>>;

export type Fields = Readonly<Record<string, JsonValue>>;

const isList = (variable: Variable): variable is readonly JsonValue[] => Array.isArray(variable);

/** Number of equal cells of a coordinate; 0 for a real number. */
function cellsIn(variable: Variable): number {
  if (isList(variable)) return variable.length;
  return variable.whole ? variable.to - variable.from + 1 : 0;
}

const coordinatesIn = (variable: Variable) => (isList(variable) ? 1 : (variable.gradient ?? 1));

/** For each coordinate of the cube, its number of equal cells; 0 for a real number. */
export function cellsOf(space: Space): number[] {
  return Object.values(space).flatMap((variable) => Array(coordinatesIn(variable)).fill(cellsIn(variable)));
}

/** Number of points; infinite if a field is a real number. */
export function sizeOf(space: Space): number {
  return cellsOf(space).reduce((size, cells) => size * (cells || Number.POSITIVE_INFINITY), 1);
}

export function fieldsAt(space: Space, point: readonly number[]): Fields {
  let next = 0;
  return Object.fromEntries(
    Object.entries(space).map(([path, variable]) => {
      const own = point.slice(next, next + coordinatesIn(variable));
      next += own.length;
      const values = own.map((x) => valueAt(variable, x));
      return [path, !isList(variable) && variable.gradient ? { gradient: values } : (values[0] as JsonValue)];
    }),
  );
}

function valueAt(variable: Variable, x: number): JsonValue {
  const cells = cellsIn(variable);
  const cell = Math.min(cells - 1, Math.floor(x * cells));
  if (isList(variable)) return variable[cell] as JsonValue;
  const { from, to } = variable;
  if (cells > 0) return from + cell;
  // A thousandth of the range or finer, so that recipes stay readable.
  const digits = 3 - Math.ceil(Math.log10(to - from));
  const value = digits > 0 ? Number((from + x * (to - from)).toFixed(Math.min(digits, 100))) : from + x * (to - from);
  return Math.min(to, Math.max(from, value));
}

/** The point of these values; where one is missing or outside of the space, in the middle. */
export function pointOf(space: Space, fields: Fields): number[] {
  return Object.entries(space).flatMap(([path, variable]) => {
    const value = fields[path];
    const count = coordinatesIn(variable);
    const list =
      isGradient(value) && value.gradient.length === count
        ? value.gradient
        : Array<JsonValue>(count).fill(value ?? null);
    return list.map((one) => placeOf(variable, one));
  });
}

function isGradient(value: JsonValue | undefined): value is { gradient: JsonValue[] } {
  return typeof value === "object" && value !== null && "gradient" in value && Array.isArray(value.gradient);
}

function placeOf(variable: Variable, value: JsonValue): number {
  const cells = cellsIn(variable);
  if (isList(variable)) {
    const found = variable.findIndex((one) => JSON.stringify(one) === JSON.stringify(value));
    return found < 0 ? middle(cells) : (found + 0.5) / cells;
  }
  const { from, to } = variable;
  if (typeof value !== "number" || value < from || value > to) return middle(cells);
  return cells > 0 ? (value - from + 0.5) / cells : (value - from) / (to - from);
}

/** The middle of the cube; of an even number of cells, the lower one. */
function middle(cells: number): number {
  return cells === 0 ? 0.5 : (Math.floor((cells - 1) / 2) + 0.5) / cells;
}
