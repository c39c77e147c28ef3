// Fits weights of known models to the tensors of another by least squares, over the largest units that one set of weights fits.

import { blockOf, type Checkpoint, type CheckpointTensor } from "../../formats/checkpoint/index.js";
import { elementCount, groupBy, isFloatDType, sameShape } from "../../kit/index.js";
import type { Value } from "../../tensor/expressions/index.js";
import { type Measurement, measureAll } from "../../tensor/measurements/index.js";
import type { StreamOptions } from "../../tensor/streaming/index.js";

export interface KnownModel {
  /** As recipes name it. */
  readonly source: string;
  readonly checkpoint: Checkpoint;
}

/** Products of a tensor's change, of the models' changes (all against the last model), of the last model, and of the tensor. */
export interface Fitted {
  readonly stored: CheckpointTensor;
  readonly gram: readonly (readonly number[])[];
  /** Of an adapter that changes it; 0 if none does. */
  readonly rank: number;
  /** Weights that its unit shares. */
  fit?: Fit;
  isSame?: boolean;
}

/** Weights of the models, and the next best ones: those that add up to 1 first, and such as a person would have written. */
export type Fit = readonly (readonly number[])[];

interface Solution {
  /** Near the exact ones, and as a person would have written them. */
  readonly simple: readonly number[];
  readonly exact: readonly number[];
}

/** By norm, a stored value is off by less than one rounding; arithmetic in the same type adds some more. */
const ROUNDING = { BF16: 3 * 2 ** -9, F16: 3 * 2 ** -12, F32: 3 * 2 ** -24, F64: 3 * 2 ** -24 } as const;
/** Below this, a square is what is left of rounding. */
const NOTHING = 1e-13;

/** One pass over the weights. Tensors without a counterpart in every model are left out. */
export async function measureProducts(
  merged: Checkpoint,
  models: readonly KnownModel[],
  stream: StreamOptions,
): Promise<Fitted[]> {
  const checkpoints = [merged, ...models.map(({ checkpoint }) => checkpoint)];
  const common = [...merged.tensors.values()].filter(
    ({ name, dtype, shape }) =>
      isFloatDType(dtype) &&
      dtype in ROUNDING &&
      elementCount(shape) > 0 &&
      checkpoints.every(({ tensors }) => {
        const other = tensors.get(name);
        return other && isFloatDType(other.dtype) && sameShape(other.shape, shape);
      }),
  );
  const measurements = common.map((stored): Measurement => {
    const leaf = (i: number): Value => ({ source: String(i), tensor: stored.name });
    const change = (i: number): Value => ({
      sum: [
        { weight: 1, value: leaf(i) },
        { weight: -1, value: leaf(models.length) },
      ],
    });
    const values = [...models.map((_, i) => change(i)), leaf(models.length), leaf(0)];
    return { id: stored.name, kind: "gram", label: "products", values };
  });
  const sources = new Map(checkpoints.map((checkpoint, i) => [String(i), checkpoint]));
  const measured = await measureAll(measurements, sources, stream);
  const size = models.length + 2;
  return common.map((stored) => {
    const products = [...(measured.get(stored.name) ?? [])];
    const gram = Array.from({ length: size }, (_, i) => products.slice(i * size, (i + 1) * size));
    const ranks = models.map(({ checkpoint }) => {
      const { rank = 0, others = [] } = checkpoint.tensors.get(stored.name)?.lowRank ?? {};
      return others.reduce((sum, other) => sum + other.rank, rank);
    });
    return { stored, gram, rank: Math.max(...ranks) };
  });
}

/** Units that may have weights of their own, ever smaller. */
export const UNITS: readonly ((tensor: CheckpointTensor) => string)[] = [
  () => "",
  ({ layer }) => String(layer),
  ({ layer, part }) => `${layer} ${blockOf(part)}`,
  ({ name }) => name,
];

/** Whether the models do not differ in some tensors, but for what is left of rounding. */
export function isAlike(...unit: readonly Fitted[]): boolean {
  const last = (unit[0]?.gram.length ?? 1) - 1;
  return Array.from({ length: last - 1 }, (_, row) => row).every((row) => isNone(unit, row));
}

const isNone = (unit: readonly Fitted[], row: number): boolean => {
  const of = (at: number) => unit.reduce((sum, { gram }) => sum + (gram[at]?.[at] ?? 0), 0);
  return of(row) <= NOTHING * of((unit[0]?.gram.length ?? 1) - 1);
};

/** Gives tensors the weights of the largest unit that one set of weights fits, by norm. Those that no weights fit get none. */
export function assignWeights(unit: readonly Fitted[], level = 0): void {
  if (isAlike(...unit)) {
    for (const one of unit) one.isSame = true;
    return;
  }
  const found = solve(unit);
  const weights = closestOf(found);
  const base = weights.length - 1;
  // What did not change in an expert may as well be from it as from the base.
  const unchanged = weights.findIndex((_, i) => i < base && isNone(unit, i + 1));
  const isOfBase = unchanged >= 0 && weights[unchanged] === 0 && (weights[base] ?? 0) > 0;
  const simple = isOfBase
    ? weights.map((weight, i) => (i === unchanged ? (weights[base] ?? 0) : i === base ? 0 : weight))
    : weights;
  const next = UNITS[level + 1];
  const smaller = next ? [...groupBy(unit, ({ stored }) => next(stored)).values()] : [];
  const isGood = unit.every((one) => residualOf(one, weights) <= roundingOf(one));
  const fit = simple === weights ? found : [simple, ...found];
  if (isGood && isAsGood(unit, weights, smaller)) for (const one of unit) one.fit = fit;
  else for (const part of smaller) assignWeights(part, level + 1);
}

/** Whether weights leave over about as little as weights of smaller units would: where changes are small, rounding hides much. */
function isAsGood(
  unit: readonly Fitted[],
  weights: readonly number[],
  smaller: readonly (readonly Fitted[])[],
): boolean {
  if (smaller.length < 2) return true;
  const over = (part: readonly Fitted[], own: readonly number[]) =>
    part.reduce((sum, one) => sum + residualOf(one, own), 0);
  const least = smaller.reduce((sum, part) => sum + over(part, closestOf(solve(part))), 0);
  const nothing = unit.reduce((sum, one) => sum + roundingOf(one) / 1000 + NOTHING * (one.gram.at(-1)?.at(-1) ?? 0), 0);
  return over(unit, weights) <= 1.2 * least + nothing;
}

/** Squared norm of what rounding may leave over. */
export function roundingOf({ stored, gram }: Fitted): number {
  return ROUNDING[stored.dtype as keyof typeof ROUNDING] ** 2 * (gram.at(-1)?.at(-1) ?? 0);
}

/** Weights of the models by least squares over some tensors; two if they add up to 1, three if others leave over less. */
export function solve(unit: readonly Fitted[]): Fit {
  const models = (unit[0]?.gram.length ?? 2) - 2;
  const { simple, exact } = leastSquares(unit, models - 1);
  const free = leastSquares(unit, models);
  const isAverage = free.simple.at(-1) === 0;
  return [withLast([...simple, 0]), ...(isAverage ? [[...exact, 0]] : [free.simple, free.exact]).map(withLast)];
}

/** The last of them that a person would have written. */
export const closestOf = (fit: Fit): readonly number[] => fit.at(-2) ?? [];

/** Weights from those of the changes, and what all weights add up to beyond 1. */
function withLast(found: readonly number[]): readonly number[] {
  const weights = found.slice(0, -1);
  const rest = 1 + (found.at(-1) ?? 0) - weights.reduce((sum, weight) => sum + weight, 0);
  return [...weights, simplest(rest, 1e-9)];
}

/** Factors of the first products after the tensor's own. */
function leastSquares(unit: readonly Fitted[], columns: number): Solution {
  const of = (row: number, column: number) => unit.reduce((sum, { gram }) => sum + (gram[row]?.[column] ?? 0), 0);
  // Rows of the normal equations, their right-hand side at the end.
  const rows = Array.from({ length: columns }, (_, i) => [
    ...Array.from({ length: columns }, (_, j) => of(i + 1, j + 1)),
    of(i + 1, 0),
  ]);
  const scale = rows.map((row, i) => row[i] ?? 0);
  for (const [i, pivot] of rows.entries()) {
    const value = pivot[i] ?? 0;
    // A change that is a sum of those before, or none, gets no weight.
    if (!(value > 1e-9 * (scale[i] ?? 0))) {
      pivot.fill(0);
      continue;
    }
    for (const [k, row] of rows.entries()) {
      const factor = k === i ? 0 : (row[i] ?? 0) / value;
      for (let j = i; factor !== 0 && j <= columns; j++) row[j] = (row[j] ?? 0) - factor * (pivot[j] ?? 0);
    }
  }
  // Recipes have no smaller weights.
  const exact = rows.map((row, i) =>
    row[i] && Math.abs((row[columns] ?? 0) / row[i]) >= 1e-9 ? (row[columns] ?? 0) / row[i] : 0,
  );
  // How far rounding moves a weight: its error per element, against the size of the change. Where changes are as small as the
  // rounding, it does not average out; then a simpler weight is as good if it leaves over about as much.
  const elements = unit.reduce((sum, { stored }) => sum + elementCount(stored.shape), 0);
  const noise = unit.reduce((sum, one) => sum + roundingOf(one), 0) / (3 * elements);
  const left = sum(unit.map(({ gram }) => squareOf(gram, [1, ...exact.map((factor) => -factor)])));
  const error = Math.max(4 * noise, left / 1000);
  const simple = exact.map((weight, i) => simplest(weight, 1e-6 + Math.sqrt(error / (scale[i] || 1))));
  return { simple, exact };
}

/** The simplest number near one: a whole number, a fraction of small numbers, or three decimals. */
export function simplest(value: number, tolerance: number): number {
  for (const denominator of [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 100, 1000]) {
    const near = Math.round(value * denominator) / denominator;
    const most = denominator === 1 ? 0.1 : 0.02;
    if (Math.abs(near - value) < Math.min(most, tolerance)) return near === 0 ? 0 : near;
  }
  return value;
}

/** Squared norm of what weights leave over. */
export function residualOf({ gram }: Fitted, weights: readonly number[]): number {
  return squareOf(gram, [1, ...weights.slice(0, -1).map((weight) => -weight), 1 - sum(weights)]);
}

/** Whether weights are those of a copy of a model, or differ from these by far less than a rounding. */
export function isCopy(one: Fitted, weights: readonly number[]): boolean {
  const copied = weights.map(Math.round);
  if (copied.filter((weight) => weight !== 0).join() !== "1") return false;
  const rest = weights.map((weight, i) => weight - (copied[i] ?? 0));
  return one.rank === 0 && squareOf(one.gram, [0, ...rest.slice(0, -1), sum(rest)]) <= roundingOf(one) / 1000;
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

/** Squared norm of a sum of what the first products are of. */
function squareOf(gram: Fitted["gram"], factors: readonly number[]): number {
  const products = factors.flatMap((one, i) => factors.map((other, j) => one * other * (gram[i]?.[j] ?? 0)));
  return Math.max(0, sum(products));
}

/** Root mean square of a tensor's elements. */
export const sizeOf = ({ stored, gram }: Fitted): number =>
  Math.sqrt((gram.at(-1)?.at(-1) ?? 0) / elementCount(stored.shape));
