// The value of a merged tensor as a tree of plain data: source tensors, averages, sums and operations.
import {
  type Arithmetic,
  type Declaration,
  type Fields,
  type FieldsOf,
  mapOperation,
  type Operation,
  type OwnOperation,
} from "../streaming/value-operation.js";

/** A tensor of an opened checkpoint. */
export interface Leaf {
  /** Id of the source in the plan. */
  readonly source: string;
  readonly tensor: string;
  /** Whether it is one that codes or scales are stored in, see `Checkpoint.asStored`. */
  readonly asStored?: true;
}

/** A number, or a measurement's `at`-th result (default 0), or the inverse of that. */
export type Weight = number | MeasuredNumber;

export interface MeasuredNumber {
  readonly measured: string;
  readonly at?: number;
  readonly inverse?: true;
}

/** sum(weight * value) / sum(weight) */
export interface Blend {
  readonly blend: readonly WeightedValue[];
}

/** sum(weight * value) */
export interface Sum {
  readonly sum: readonly WeightedValue[];
}

export interface WeightedValue {
  readonly weight: Weight;
  readonly value: Value;
}

/** Field types of operations in a plan; a mask, and factors, are the id of their measurement. */
export interface PlanTerms {
  readonly number: Weight;
  readonly value: Value;
  readonly mask: string;
  readonly factors: string;
}

export type ValueOperation = Operation<PlanTerms>;

/** An operation of one method. */
export interface MethodOperation<F extends Fields> extends Arithmetic {
  /** The result of the operation on values. */
  readonly of: (values: readonly Value[], fields: FieldsOf<F, PlanTerms>) => ValueOperation;
}

export function defineOperation<const F extends Fields>(name: string, declaration: Declaration<F>): MethodOperation<F> {
  const of: MethodOperation<F>["of"] = (values, fields) =>
    ({ op: name, of: values, ...fields }) as unknown as OwnOperation<PlanTerms>;
  return { ...declaration, name, of } as MethodOperation<F>;
}

export type Value = Leaf | Blend | Sum | ValueOperation;

/**
 * Results of measurements by id: numbers, a mask with one byte per row, 1 if the row is selected, or factors of rows or
 * columns.
 */
export type Measured = ReadonlyMap<string, MeasuredResult>;
export type MeasuredResult = readonly number[] | Uint8Array | Float32Array;

/** Whether a value, or a term of one, is a tensor. */
export function isLeaf(value: Value | { readonly operation: ValueOperation }): value is Leaf {
  return "source" in value;
}

/** Every leaf of a value, duplicates included. */
export function leavesOf(value: Value): Leaf[] {
  return isLeaf(value) ? [value] : childrenOf(value).flatMap(leavesOf);
}

export function childrenOf(value: Exclude<Value, Leaf>): readonly Value[] {
  if ("blend" in value) return value.blend.map((term) => term.value);
  if ("sum" in value) return value.sum.map((term) => term.value);
  return value.of;
}

/** The sources of all leaves of values. */
export function sourcesRead(values: readonly Value[]): Set<string> {
  return new Set(values.flatMap(leavesOf).map(({ source }) => source));
}

/** Whether a value contains an operation, not only averages and copies. @param op the one; default any */
export function hasOperation(value: Value, op?: string): boolean {
  if ("op" in value && (op === undefined || value.op === op)) return true;
  return !isLeaf(value) && childrenOf(value).some((inner) => hasOperation(inner, op));
}

/** Ids of the measurements that a value depends on. */
export function measurementsOf(value: Value): string[] {
  if (isLeaf(value)) return [];
  const ids: string[] = [];
  const number = (weight: Weight) => (typeof weight === "number" ? 0 : ids.push(weight.measured));
  const inner = (one: Value) => ids.push(...measurementsOf(one));
  const named = (id: string) => ids.push(id);
  if ("op" in value) mapOperation(value, { value: inner, number, mask: named, factors: named });
  else {
    for (const term of "blend" in value ? value.blend : value.sum) {
      number(term.weight);
      inner(term.value);
    }
  }
  return ids;
}

/** Sum of weights; exactly 0 if only rounding error is left, as in 0.1 + 0.2 - 0.3. */
export function sumOfWeights(weights: readonly number[]): number {
  const sum = weights.reduce((total, weight) => total + weight, 0);
  const size = weights.reduce((total, weight) => total + Math.abs(weight), 0);
  return Math.abs(sum) <= ROUNDING * size ? 0 : sum;
}

/** Well above the rounding error of a few hundred float64 weights, well below any weight in a recipe. */
export const ROUNDING = 1e-12;
