// Differences between methods whose models are samples too: experts (or seeds) crossed with items.
import { SIGNIFICANCE_LEVEL } from "./significance.js";
import type { Interval } from "./statistics.js";
import { studentQuantile, studentTail } from "./student.js";

/** One of the models that a method is averaged over, such as the merge of one pair of experts. */
export interface CrossedModel {
  /**
   * What it was drawn from: its level of each random factor, such as `{ math: "math-1", swahili: "swahili-3" }` of a
   * merge, `{ math: "math-1" }` of that expert, and `{}` of the base.
   */
  readonly levels: Readonly<Record<string, string>>;
  /** Values of items by id: shares from 0 to 1, or the pseudo-values of a corpus score (`pseudoValues`). */
  readonly values: ReadonlyMap<string, number>;
}

/** The difference of two methods (`crossedDifference`), in the unit of the values. */
export interface CrossedDifference {
  /** Mean over the first method's models and items; and the second's. */
  readonly first: number;
  readonly second: number;
  /** Second less first. */
  readonly difference: number;
  /** Undefined of fewer than two items, or where the models never differ. */
  readonly interval: Interval | undefined;
  /** Two-sided t test with `degrees` of freedom; undefined where there is no interval. */
  readonly pValue: number | undefined;
  /** Degrees of freedom of interval and test. */
  readonly degrees: number;
  /** What varies: the number of levels of each factor, and of items. */
  readonly over: { readonly factors: Readonly<Record<string, number>>; readonly items: number };
  /** Items that a model has no value for; they are left out for all. */
  readonly leftOut: number;
}

/**
 * The difference of two methods, each the mean over its models, with an interval that covers other experts as well as
 * other items: experts of each side and items are crossed random effects, as subjects and items in Baayen, Davidson and
 * Bates 2008 (Journal of Memory and Language 59).
 *
 * Models of both methods that agree in the factors they share are paired: a merge with the expert it was made of, or with
 * the other merge of the same experts. Where the pairs fill the grid of their factors, each factor with two or more
 * levels varies. Else only the items do, and `over.factors` is empty: the interval is about these models.
 *
 * The interval is Student's t with the unbiased variance of a crossed random-effects design (sums of mean squares; Searle,
 * Casella and McCulloch, Variance Components, 1992, chapter 4), never below that over items alone. Its degrees of freedom
 * are Satterthwaite's (1946, Biometrics Bulletin 2), or fewer: with few experts these are too many where experts differ
 * more than they seem to, so the interval is also as wide as the root of the sum of squares of two of its own, over experts
 * and over items (Howe 1974, Journal of the American Statistical Association 69). docs/evaluate-and-compare.md has its
 * coverage.
 *
 * A factor with a single level (one base, one expert of a side) is taken as given.
 * @param first at least one model; differences are those of the second method less this one
 * @param options level (default 0.95)
 */
export function crossedDifference(
  first: readonly CrossedModel[],
  second: readonly CrossedModel[],
  { level = 0.95 }: { readonly level?: number } = {},
): CrossedDifference {
  const { items, leftOut } = commonItems([...first, ...second]);
  const { factors, cells } = gridOf(first, second);
  const shape = [...factors.map(({ size }) => size), items.length];
  const valuesOf = new Map(
    [...first, ...second].map((model) => [model, Float64Array.from(items, (id) => model.values.get(id) ?? 0)]),
  );
  const meansOf = (models: readonly CrossedModel[]) => {
    const [one, ...others] = models.map((model) => valuesOf.get(model) ?? new Float64Array());
    if (!one || others.length === 0) return one ?? new Float64Array();
    return one.map((value, i) => others.reduce((sum, own) => sum + (own[i] ?? 0), value) / models.length);
  };
  const table = new Float64Array(cells.length * items.length);
  for (const [c, { plus, minus }] of cells.entries()) {
    const subtracted = meansOf(minus);
    table.set(
      meansOf(plus).map((value, i) => value - (subtracted[i] ?? 0)),
      c * items.length,
    );
  }
  const [before, after] = [first, second].map(
    (models) => meansOf(models).reduce((sum, value) => sum + value, 0) / items.length,
  ) as [number, number];
  const difference = after - before;
  const { variance, degrees } = items.length < 2 ? { variance: 0, degrees: 0 } : varianceOfMean(table, shape);
  const named = Object.fromEntries(factors.map(({ name, size }) => [name, size]));
  const found = { first: before, second: after, difference, over: { factors: named, items: items.length }, leftOut };
  // Rounding leaves a trace where all values are equal.
  if (!(variance > 1e-24)) return { ...found, interval: undefined, pValue: undefined, degrees };
  const deviation = Math.sqrt(variance);
  const reach = deviation * studentQuantile(1 - level, degrees);
  return {
    ...found,
    interval: { low: difference - reach, high: difference + reach, level, deviation },
    pValue: studentTail(difference / deviation, degrees),
    degrees,
  };
}

/**
 * Jackknife pseudo-values (Tukey 1958; Efron and Tibshirani 1993, chapter 11) of a score of sums: how much each item adds to it, so that a
 * corpus score such as BLEU can be resampled like a mean. Their mean is the score.
 * @param vectors the sums of each item; at least one
 * @returns one number for each item; undefined where the score is not finite without one of them
 */
export function pseudoValues(
  vectors: readonly (readonly number[])[],
  score: (sums: readonly number[]) => number,
): number[] | undefined {
  const sums = (vectors[0] ?? []).map((_, entry) => vectors.reduce((sum, vector) => sum + (vector[entry] ?? 0), 0));
  const whole = score(sums);
  const count = vectors.length;
  const without = vectors.map((vector) => score(sums.map((sum, entry) => sum - (vector[entry] ?? 0))));
  const raw = without.map((rest) => whole + (count - 1) * (whole - rest));
  const bias = raw.reduce((sum, value) => sum + value, 0) / count - whole;
  const values = count === 1 ? [whole] : raw.map((value) => value - bias);
  return values.every(Number.isFinite) ? values : undefined;
}

function commonItems(models: readonly CrossedModel[]): { items: string[]; leftOut: number } {
  const items = [...(models[0]?.values.keys() ?? [])].filter((id) => models.every(({ values }) => values.has(id)));
  if (models.every(({ values }) => values.size === items.length)) return { items, leftOut: 0 };
  return { items, leftOut: new Set(models.flatMap(({ values }) => [...values.keys()])).size - items.length };
}

interface Cell {
  readonly plus: readonly CrossedModel[];
  readonly minus: readonly CrossedModel[];
}

/** The pairs of models as a grid of factors, the last one fastest; one cell of all models where they do not fill one. */
function gridOf(
  first: readonly CrossedModel[],
  second: readonly CrossedModel[],
): { factors: { name: string; size: number }[]; cells: Cell[] } {
  const pairs = second.flatMap((plus) =>
    first
      .filter((minus) => Object.entries(minus.levels).every(([name, own]) => (plus.levels[name] ?? own) === own))
      .map((minus) => ({ plus, minus, levels: { ...minus.levels, ...plus.levels } as Record<string, string> })),
  );
  const names = [...new Set(pairs.flatMap(({ levels }) => Object.keys(levels)))].sort();
  const factors = names
    .map((name) => ({ name, levels: [...new Set(pairs.map(({ levels }) => levels[name] ?? ""))].sort() }))
    .filter(({ levels }) => levels.length > 1);
  const placeOf = (levels: Readonly<Record<string, string>>) =>
    factors.reduce(
      (place, factor) => place * factor.levels.length + factor.levels.indexOf(levels[factor.name] ?? ""),
      0,
    );
  const grid = new Map(pairs.map(({ plus, minus, levels }) => [placeOf(levels), { plus: [plus], minus: [minus] }]));
  const size = factors.reduce((product, { levels }) => product * levels.length, 1);
  const areUsed = [...first, ...second].every((model) =>
    pairs.some(({ plus, minus }) => plus === model || minus === model),
  );
  if (grid.size !== size || pairs.length !== size || !areUsed) {
    return { factors: [], cells: [{ plus: second, minus: first }] };
  }
  return {
    factors: factors.map(({ name, levels }) => ({ name, size: levels.length })),
    cells: [...grid].sort(([a], [b]) => a - b).map(([, cell]) => cell),
  };
}

/**
 * Variance of the mean of a full grid whose axes are all random: of each set of axes S, the mean square of its
 * interaction over the number of cells estimates the sum of the variance components of all sets that contain S; added
 * for odd and subtracted for even sizes of S, what remains is each component once.
 */
function varianceOfMean(table: Float64Array, shape: readonly number[]): { variance: number; degrees: number } {
  const parts = Array.from({ length: 2 ** shape.length - 1 }, (_, i) => {
    const isIn = (axis: number) => Math.floor((i + 1) / 2 ** axis) % 2 === 1;
    let effect: Effect = { values: table, shape };
    for (const axis of shape.keys()) effect = isIn(axis) ? centered(effect, axis) : averaged(effect, axis);
    const sizes = shape.filter((_, axis) => isIn(axis));
    const degrees = sizes.reduce((product, size) => product * (size - 1), 1);
    const squares = effect.values.reduce((sum, value) => sum + value ** 2, 0);
    const value = squares / sizes.reduce((product, size) => product * size, degrees);
    return { value, degrees, axes: sizes.length, hasItems: isIn(shape.length - 1) };
  });
  const overItems = parts.find(({ axes, hasItems }) => axes === 1 && hasItems) as (typeof parts)[number];
  const variance = parts.reduce((sum, { value, axes }) => sum + (axes % 2 === 1 ? value : -value), 0);
  if (variance <= overItems.value) return { variance: overItems.value, degrees: overItems.degrees };
  const satterthwaite = (sum: number, of: typeof parts) =>
    Math.max(1, sum ** 2 / of.reduce((all, { value, degrees }) => all + value ** 2 / degrees, 0));
  const experts = parts.filter(({ axes, hasItems }) => axes === 1 && !hasItems);
  const ofExperts = satterthwaite(
    experts.reduce((sum, { value }) => sum + value, 0),
    experts,
  );
  const squared = (degrees: number) => studentQuantile(SIGNIFICANCE_LEVEL, degrees) ** 2;
  const separate = (variance - overItems.value) * squared(ofExperts) + overItems.value * squared(overItems.degrees);
  const wider = Math.sqrt(separate / variance);
  let [low, high] = [1, satterthwaite(variance, parts)];
  if (studentTail(wider, high) >= SIGNIFICANCE_LEVEL) return { variance, degrees: high };
  for (let step = 0; step < 40; step++) {
    const middle = (low + high) / 2;
    if (studentTail(wider, middle) > SIGNIFICANCE_LEVEL) low = middle;
    else high = middle;
  }
  return { variance, degrees: low };
}

interface Effect {
  readonly values: Float64Array;
  readonly shape: readonly number[];
}

function averaged({ values, shape }: Effect, axis: number): Effect {
  const size = shape[axis] ?? 1;
  const inner = shape.slice(axis + 1).reduce((product, one) => product * one, 1);
  const means = new Float64Array(values.length / size);
  for (const [at, value] of values.entries()) {
    const to = Math.floor(at / (inner * size)) * inner + (at % inner);
    means[to] = (means[to] ?? 0) + value / size;
  }
  return { values: means, shape: shape.map((one, i) => (i === axis ? 1 : one)) };
}

function centered(effect: Effect, axis: number): Effect {
  const { values, shape } = effect;
  const size = shape[axis] ?? 1;
  const inner = shape.slice(axis + 1).reduce((product, one) => product * one, 1);
  const means = averaged(effect, axis).values;
  return {
    values: values.map((value, at) => value - (means[Math.floor(at / (inner * size)) * inner + (at % inner)] ?? 0)),
    shape,
  };
}
