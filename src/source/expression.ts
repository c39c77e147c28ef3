// What a tensor of a merge is made of, as a tree of plain data: a tensor of a source, or a weighted average of such.
// A soup inside a swap is an average inside a copy or an average; nothing is written in between.

/** A tensor of an opened checkpoint. */
export interface Leaf {
  /** Id of the source in the plan. */
  readonly source: string;
  readonly tensor: string;
}

/** A weight given as a number, or found by a measurement of the plan: 1 / its value. */
export type Weight = number | { readonly inverse: string };

/** sum(weight * value) / sum(weight) */
export interface Blend {
  readonly blend: readonly { readonly weight: Weight; readonly value: Value }[];
}

export type Value = Leaf | Blend;

/** Measured values by the id of their measurement. */
export type Measured = ReadonlyMap<string, number>;

/** A value without nesting: sum(weight * leaf) / divisor. */
export interface WeightedSum {
  readonly terms: readonly (Leaf & { readonly weight: number })[];
  readonly divisor: number;
}

export function isLeaf(value: Value): value is Leaf {
  return "source" in value;
}

/** Every leaf of a value, repeated ones repeated. */
export function leavesOf(value: Value): Leaf[] {
  return isLeaf(value) ? [value] : value.blend.flatMap((term) => leavesOf(term.value));
}

/** Ids of the measurements that a value's weights wait for. */
export function measurementsOf(value: Value): string[] {
  if (isLeaf(value)) return [];
  return value.blend.flatMap(({ weight, value }) => [
    ...(typeof weight === "number" ? [] : [weight.inverse]),
    ...measurementsOf(value),
  ]);
}

/** The sum of weights; 0 where all that is left is rounding, as of 0.1 + 0.2 - 0.3. */
export function sumOfWeights(weights: readonly number[]): number {
  const sum = weights.reduce((total, weight) => total + weight, 0);
  const size = weights.reduce((total, weight) => total + Math.abs(weight), 0);
  return Math.abs(sum) <= ROUNDING * size ? 0 : sum;
}

// Well above the rounding of sums of a few hundred float64 weights, well below what a person writes.
const ROUNDING = 1e-12;

/**
 * Multiplies nested averages out into one weighted sum over distinct tensors.
 *
 * An average of averages is one average with products of normalised weights, so nesting costs no rounding. Terms of
 * weight 0 are left out, and so are never read. A plain average keeps the weights it was given; where all weights are
 * equal they become 1, so that equal averages are sums divided by their count, whatever the nesting.
 * @throws {RangeError} if weights sum to zero
 */
export function flatten(value: Value, measured: Measured = new Map()): WeightedSum {
  const merged = new Map<string, Leaf & { weight: number }>();
  for (const term of expand(value, measured)) {
    const key = JSON.stringify([term.source, term.tensor]);
    const known = merged.get(key);
    merged.set(key, { ...term, weight: term.weight + (known?.weight ?? 0) });
  }
  let terms = [...merged.values()].filter((term) => term.weight !== 0);
  const [first] = terms;
  if (first && terms.every((term) => Math.abs(term.weight - first.weight) <= ROUNDING * Math.abs(first.weight))) {
    terms = terms.map((term) => ({ ...term, weight: 1 }));
  }
  const divisor = requireSum(terms);
  // One term is that tensor, whatever its weight.
  return terms.length === 1 && first ? { terms: [{ ...first, weight: 1 }], divisor: 1 } : { terms, divisor };
}

function expand(value: Value, measured: Measured): (Leaf & { weight: number })[] {
  if (isLeaf(value)) return [{ ...value, weight: 1 }];
  const numeric = value.blend.map((term) => numericWeight(term.weight, measured));
  return value.blend.flatMap((term, i) => {
    const inner = expand(term.value, measured);
    const sum = isLeaf(term.value) ? 1 : requireSum(inner);
    return inner.map((leaf) => ({ ...leaf, weight: (numeric[i] ?? 0) * (leaf.weight / sum) }));
  });
}

function requireSum(terms: readonly { weight: number }[]): number {
  const sum = sumOfWeights(terms.map((term) => term.weight));
  if (sum === 0) throw new RangeError("the weights of an average sum to zero");
  return sum;
}

function numericWeight(weight: Weight, measured: Measured): number {
  if (typeof weight === "number") return weight;
  const value = measured.get(weight.inverse);
  if (value === undefined) throw new Error(`measurement ${weight.inverse} has not been made`);
  return 1 / value;
}
