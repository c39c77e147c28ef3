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

export type FlatTerm = (Leaf & { readonly weight: number }) | (AtomicOperation & { readonly weight: number });

interface AtomicOperation {
  readonly operation: ValueOperation;
}

/** A value without nested averages and sums: sum(weight * term) / divisor. */
export interface WeightedSum {
  readonly terms: readonly FlatTerm[];
  readonly divisor: number;
}

export function isLeaf(value: Value | FlatTerm): value is Leaf {
  return "source" in value;
}

/** Every leaf of a value, duplicates included. */
export function leavesOf(value: Value): Leaf[] {
  const leaves: Leaf[] = [];
  const visit = (inner: Value): void => {
    if (isLeaf(inner)) leaves.push(inner);
    else for (const child of childrenOf(inner)) visit(child);
  };
  visit(value);
  return leaves;
}

export function childrenOf(value: Exclude<Value, Leaf>): readonly Value[] {
  if ("blend" in value) return value.blend.map((term) => term.value);
  if ("sum" in value) return value.sum.map((term) => term.value);
  return value.of;
}

/** Whether a value contains an operation, not only averages and copies. */
export function hasOperation(value: Value): boolean {
  return "op" in value || (!isLeaf(value) && childrenOf(value).some(hasOperation));
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

// Well above the rounding error of a few hundred float64 weights, well below any weight in a recipe.
const ROUNDING = 1e-12;

/**
 * Flattens nested averages and sums into one weighted sum over distinct tensors and operations.
 *
 * Inner weights are normalised and multiplied by outer ones, so nesting adds no rounding. Terms of weight 0 are dropped
 * and never read. A plain average keeps its weights; equal weights become 1, which makes a uniform average a sum
 * divided by its count at any nesting.
 * @throws RangeError if the weights of an average sum to zero
 */
export function flatten(value: Value, measured: Measured = new Map()): WeightedSum {
  const expanded = expand(value, measured);
  const merged = new Map<string, FlatTerm>();
  for (const term of expanded.terms) {
    const key = JSON.stringify(isLeaf(term) ? [term.source, term.tensor] : term.operation);
    const known = merged.get(key);
    merged.set(key, { ...term, weight: term.weight + (known?.weight ?? 0) });
  }
  let terms = [...merged.values()].filter((term) => term.weight !== 0);
  if (!expanded.isAverage) {
    // If all terms cancel, one tensor with weight 0 keeps the shape.
    return { terms: terms.length > 0 ? terms : [...merged.values()].slice(0, 1), divisor: 1 };
  }
  const [first] = terms;
  if (first && terms.every((term) => Math.abs(term.weight - first.weight) <= ROUNDING * Math.abs(first.weight))) {
    terms = terms.map((term) => ({ ...term, weight: 1 }));
  }
  const divisor = requireSum(terms);
  // An average of one term is that tensor.
  return terms.length === 1 && first ? { terms: [{ ...first, weight: 1 }], divisor: 1 } : { terms, divisor };
}

/** Terms of a sum; an average divides it by the sum of the weights. */
interface Expansion {
  readonly terms: readonly FlatTerm[];
  readonly isAverage: boolean;
}

function expand(value: Value, measured: Measured): Expansion {
  if (isLeaf(value)) return { terms: [{ ...value, weight: 1 }], isAverage: true };
  if ("op" in value) return { terms: [{ operation: value, weight: 1 }], isAverage: true };
  const isAverage = "blend" in value;
  const weighted = isAverage ? value.blend : value.sum;
  let ofAverages = true;
  const terms = weighted.flatMap(({ weight, value: inner }) => {
    const expanded = expand(inner, measured);
    ofAverages &&= expanded.isAverage;
    const divisor = expanded.isAverage ? requireSum(expanded.terms) : 1;
    const factor = numberOf(weight, measured);
    return expanded.terms.map((term) => ({ ...term, weight: factor * (term.weight / divisor) }));
  });
  if (!isAverage || ofAverages) return { terms, isAverage };
  // Sums inside an average change the total weight of its terms.
  const divisor = requireSum(weighted.map(({ weight }) => ({ weight: numberOf(weight, measured) })));
  return { terms: terms.map((term) => ({ ...term, weight: term.weight / divisor })), isAverage: false };
}

function requireSum(terms: readonly { weight: number }[]): number {
  const sum = sumOfWeights(terms.map((term) => term.weight));
  if (sum === 0) throw new RangeError("the weights of an average sum to zero");
  return sum;
}

export function numberOf(weight: Weight, measured: Measured): number {
  if (typeof weight === "number") return weight;
  const result = measured.get(weight.measured);
  const value = result?.[weight.at ?? 0];
  if (value === undefined) throw new Error(`measurement ${weight.measured} has not been made`);
  return weight.inverse ? 1 / value : value;
}

export function maskOf(id: string, measured: Measured): Uint8Array {
  const mask = measured.get(id);
  if (!(mask instanceof Uint8Array)) throw new Error(`measurement ${id} has not been made`);
  return mask;
}

/** Measured factors. */
export function factorsOf(id: string, measured: Measured): Float32Array {
  const factors = measured.get(id);
  if (!(factors instanceof Float32Array)) throw new Error(`measurement ${id} has not been made`);
  return factors;
}
