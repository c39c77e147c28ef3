// Finds which weighted average of known models gives each tensor of another, and writes that as a recipe.
import { elementCount, formatRanges, groupBy, isFloatDType, sameShape } from "../../core/index.js";
import { compileCompare, type Measurement, measureAll, type Value } from "../../values/index.js";
import {
  blockOf,
  type Checkpoint,
  type CheckpointTensor,
  resultsByJob,
  runProgram,
  type StreamOptions,
  totalDifferences,
} from "../../weights/index.js";
import { planRecipe } from "../plan/planner.js";
import type { RecipeInput } from "../plan/recipe.js";

export interface KnownModel {
  /** As recipes name it. */
  readonly source: string;
  readonly checkpoint: Checkpoint;
}

export interface ExplainedTensor {
  readonly tensor: string;
  readonly layer: number | null;
  /**
   * identical: the recipe gives its bits; rounding: a weighted average gives it, but for rounding; same: it is the same in all
   * models, so nothing tells which it is from; unexplained: no weighted average does.
   */
  readonly verdict: "identical" | "rounding" | "same" | "unexplained";
  /** Weight of each model, which add up to 1: the closest ones by least squares; null where it has no counterpart. */
  readonly weights: readonly number[] | null;
  /** Share of its change that the weights leave over, by norm. */
  readonly residual: number;
}

export interface Explanation {
  /** The models of the weights, the base last. */
  readonly sources: readonly string[];
  /** Undefined if nothing is explained. */
  readonly recipe: RecipeInput | undefined;
  readonly tensors: readonly ExplainedTensor[];
}

/** Products of a tensor's change, of the models' changes (all against the last model), and the tensor's own square at the end. */
interface Fitted {
  readonly stored: CheckpointTensor;
  readonly gram: readonly (readonly number[])[];
  weights?: readonly number[];
  isSame?: boolean;
}

/** A stored value is off by at most half a unit in its last place; arithmetic in the same type adds some more. */
const ROUNDING = { BF16: 3 * 2 ** -9, F16: 3 * 2 ** -12, F32: 3 * 2 ** -24, F64: 3 * 2 ** -24 } as const;
/** Below this, a square is what is left of rounding. */
const NOTHING = 1e-13;

/**
 * Explains a merge by models that it may be made of. Weights come from least squares, over the whole model where one set of weights
 * fits, else by layer, by attention and feed-forward, or by tensor. A second pass compares what the recipe gives, bit for bit.
 * @param models at least two; the base, if it is known, last
 */
export async function explainMerge(
  merged: Checkpoint,
  models: readonly KnownModel[],
  { hasBase, ...stream }: StreamOptions & { readonly hasBase: boolean },
): Promise<Explanation> {
  const fitted = await measure(merged, models, stream);
  assign(fitted, 0);
  const sources = models.map(({ source }) => source);
  const recipe = recipeOf(fitted, sources, hasBase);
  const identical = recipe ? await identicalTensors(merged, models, recipe, stream) : new Set<string>();
  const found = new Map(fitted.map((one) => [one.stored.name, one]));
  const tensors = [...merged.tensors.values()].map(({ name, layer }): ExplainedTensor => {
    const one = found.get(name);
    const place = { tensor: name, layer };
    const isIdentical = identical.has(name);
    if (!one) return { ...place, verdict: isIdentical ? "identical" : "unexplained", weights: null, residual: 1 };
    const weights = one.weights ?? solve([one]);
    const change = one.gram[0]?.[0] ?? 0;
    const residual = change > 0 ? Math.sqrt(residualOf(one, weights) / change) : 0;
    const verdict = one.isSame ? "same" : isIdentical ? "identical" : one.weights ? "rounding" : "unexplained";
    return { ...place, verdict, weights, residual };
  });
  return { sources, recipe, tensors };
}

/** One pass over the weights. Tensors without a counterpart in every model are left out. */
async function measure(merged: Checkpoint, models: readonly KnownModel[], stream: StreamOptions): Promise<Fitted[]> {
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
  const fitted: Fitted[] = [];
  const measurements = common.map((stored): Measurement => {
    const leaf = (i: number): Value => ({ source: String(i), tensor: stored.name });
    const change = (i: number): Value => ({
      sum: [
        { weight: 1, value: leaf(i) },
        { weight: -1, value: leaf(models.length) },
      ],
    });
    const combine = (gram: Fitted["gram"]) => {
      fitted.push({ stored, gram });
      return [];
    };
    const values = [...models.map((_, i) => change(i)), leaf(0)];
    return { id: stored.name, kind: "gram", label: "products", values, combine };
  });
  const sources = new Map(checkpoints.map((checkpoint, i) => [String(i), checkpoint]));
  await measureAll(measurements, sources, stream);
  return fitted;
}

/** Units that may have weights of their own, ever smaller. */
const UNITS: readonly ((tensor: CheckpointTensor) => string)[] = [
  () => "",
  ({ layer }) => String(layer),
  ({ layer, part }) => `${layer} ${blockOf(part)}`,
  ({ name }) => name,
];

function assign(unit: readonly Fitted[], level: number): void {
  const of = (row: number, column = row) => unit.reduce((sum, { gram }) => sum + (gram[row]?.[column] ?? 0), 0);
  const last = (unit[0]?.gram.length ?? 1) - 1;
  const isNone = (row: number) => of(row) <= NOTHING * of(last);
  if (Array.from({ length: last }, (_, row) => row).every(isNone)) {
    for (const one of unit) one.isSame = true;
    return;
  }
  const weights = solve(unit);
  const base = weights.length - 1;
  // What did not change in an expert may as well be from it as from the base.
  const unchanged = weights.findIndex((_, i) => i < base && isNone(i + 1));
  const settled = weights[base] === 1 && unchanged >= 0 ? weights.map((_, i) => (i === unchanged ? 1 : 0)) : weights;
  const next = UNITS[level + 1];
  const smaller = next ? [...groupBy(unit, ({ stored }) => next(stored)).values()] : [];
  const isGood = unit.every((one) => residualOf(one, weights) <= roundingOf(one));
  if (isGood && isAsGood(unit, weights, smaller)) for (const one of unit) one.weights = settled;
  else for (const part of smaller) assign(part, level + 1);
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
  const least = smaller.reduce((sum, part) => sum + over(part, solve(part)), 0);
  const nothing = unit.reduce((sum, one) => sum + roundingOf(one) / 1000 + NOTHING * (one.gram.at(-1)?.at(-1) ?? 0), 0);
  return over(unit, weights) <= 1.2 * least + nothing;
}

/** Squared norm of what rounding may leave over. */
function roundingOf({ stored, gram }: Fitted): number {
  return ROUNDING[stored.dtype as keyof typeof ROUNDING] ** 2 * (gram.at(-1)?.at(-1) ?? 0);
}

/** Weights of the models by least squares over some tensors; the last model has what is left of 1. */
function solve(unit: readonly Fitted[]): number[] {
  const size = (unit[0]?.gram.length ?? 2) - 1;
  const of = (row: number, column: number) => unit.reduce((sum, { gram }) => sum + (gram[row]?.[column] ?? 0), 0);
  // Rows of the normal equations, their right-hand side at the end.
  const rows = Array.from({ length: size - 1 }, (_, i) => [
    ...Array.from({ length: size - 1 }, (_, j) => of(i + 1, j + 1)),
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
      for (let j = i; factor !== 0 && j < size; j++) row[j] = (row[j] ?? 0) - factor * (pivot[j] ?? 0);
    }
  }
  const exact = rows.map((row, i) => (row[i] ? (row[size - 1] ?? 0) / row[i] : 0));
  // How far rounding moves a weight: its error per element, against the size of the change. Where changes are as small as the
  // rounding, it does not average out; then a simpler weight is as good if it leaves over about as much.
  const elements = unit.reduce((sum, { stored }) => sum + elementCount(stored.shape), 0);
  const noise = unit.reduce((sum, one) => sum + roundingOf(one), 0) / (3 * elements);
  const left = unit.reduce((sum, one) => sum + residualOf(one, [...exact, 0]), 0);
  const error = Math.max(4 * noise, left / 1000);
  const weights = exact.map((weight, i) => simplest(weight, 1e-6 + Math.sqrt(error / (scale[i] || 1))));
  return [...weights, simplest(1 - weights.reduce((sum, weight) => sum + weight, 0), 1e-9)];
}

/** The simplest number near one: a whole number, a fraction of small numbers, or three decimals. */
function simplest(value: number, tolerance: number): number {
  for (const denominator of [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 100, 1000]) {
    const near = Math.round(value * denominator) / denominator;
    const most = denominator === 1 ? 0.1 : 0.02;
    if (Math.abs(near - value) < Math.min(most, tolerance)) return near === 0 ? 0 : near;
  }
  return value;
}

/** Squared norm of what weights leave over. */
function residualOf({ gram }: Fitted, weights: readonly number[]): number {
  const factors = [1, ...weights.slice(0, -1).map((weight) => -weight)];
  const square = factors.reduce(
    (sum, one, i) => sum + factors.reduce((inner, other, j) => inner + one * other * (gram[i]?.[j] ?? 0), 0),
    0,
  );
  return Math.max(0, square);
}

const textOf = (weights: readonly number[]): string => weights.join(" ");

function recipeOf(fitted: readonly Fitted[], sources: readonly string[], hasBase: boolean): RecipeInput | undefined {
  const known = fitted.flatMap(({ stored, weights }) => (weights ? [{ ...stored, weights }] : []));
  const [first] = known;
  if (!first) return undefined;
  const used = sources.flatMap((_, i) => (known.some(({ weights }) => weights[i] !== 0) ? [i] : []));
  const name = (i = 0): string => sources[i] ?? "";
  if (known.every(({ weights }) => textOf(weights) === textOf(first.weights))) {
    const { weights } = first;
    if (used.length === 1) return { method: "passthrough", slices: [{ model: name(used[0]) }] };
    const base = hasBase ? sources.length - 1 : -1;
    const isEqual = used.every((i) => weights[i] === weights[used[0] ?? 0]);
    // Thirds and the like were written as whole numbers, which round otherwise than fractions.
    const whole = [1, 3, 6, 7, 9].find((n) =>
      weights.every((weight) => Math.abs(weight * n - Math.round(weight * n)) < 1e-6),
    );
    const written = (i: number) => (used.includes(base) ? (weights[i] ?? 0) : (weights[i] ?? 0) * (whole ?? 1));
    const models = used
      .filter((i) => i !== base)
      .map((i) =>
        isEqual && !used.includes(base) ? name(i) : { model: name(i), weight: Number(written(i).toFixed(6)) },
      );
    return (
      used.includes(base) ? { method: "task_arithmetic", base: name(base), models } : { method: "soup", models }
    ) as RecipeInput;
  }
  const units = groupBy(known, UNITS[1] as (typeof UNITS)[number]);
  const isByLayer = [...units.values()].every((unit) => new Set(unit.map(({ weights }) => textOf(weights))).size === 1);
  const [task = 0, language = 0] = used;
  const ofLayer = [...units.values()].flatMap(([one]) => (one ? [[one.layer, one.weights] as const] : []));
  const blends = new Map(ofLayer.filter(([, weights]) => !weights.includes(1)).map(([, one]) => [textOf(one), one]));
  const [blend] = blends.values();
  const layersWith = (isWanted: (weights: readonly number[]) => boolean) =>
    ofLayer.flatMap(([layer, weights]) => (layer !== null && isWanted(weights) ? [layer] : [])).sort((a, b) => a - b);
  const fromLanguage = layersWith((weights) => weights[language] === 1);
  if (isByLayer && used.length === 2 && blends.size <= 1 && fromLanguage.length > 0) {
    const averaged = layersWith((weights) => !weights.includes(1));
    const [, outside = blend ?? []] = ofLayer.find(([layer]) => layer === null) ?? [];
    return {
      method: "swap",
      ...{ task: name(task), language: name(language) },
      layers: {
        language: formatRanges(fromLanguage),
        ...(averaged.length > 0 ? { average: formatRanges(averaged) } : {}),
      },
      ...(blend && blend[task] !== blend[language] ? { weights: [blend[task], blend[language]] } : {}),
      outside: outside[task] === 1 ? "task" : outside[language] === 1 ? "language" : "average",
    } as RecipeInput;
  }
  const blocks = groupBy(known, UNITS[2] as (typeof UNITS)[number]);
  const models = used.map((i) => {
    const rules = [...blocks.values()].flatMap((unit): object[] => {
      const [one] = unit;
      const value = one?.weights[i] ?? 0;
      if (!one || unit.some(({ weights }) => weights[i] !== value))
        return unit.map((tensor) => ({ tensors: tensor.name, value: tensor.weights[i] ?? 0 }));
      const parts = one.layer === null ? "outside" : blockOf(one.part);
      return [{ ...(one.layer === null ? {} : { layers: [one.layer] }), parts, value }];
    });
    return { model: name(i), weight: rules.toSorted((a, b) => Number("parts" in a) - Number("parts" in b)) };
  });
  return { method: "soup", models } as RecipeInput;
}

async function identicalTensors(
  merged: Checkpoint,
  models: readonly KnownModel[],
  recipe: RecipeInput,
  stream: StreamOptions,
): Promise<Set<string>> {
  const opened = new Map(models.map(({ source, checkpoint }) => [source, checkpoint]));
  const { plan, sources } = await planRecipe({ ...recipe, dtype: "keep" }, { opened });
  const steps = plan.steps.filter(({ tensor, dtype, shape }) => {
    const found = merged.tensors.get(tensor);
    return found?.dtype === dtype && sameShape(found.shape, shape);
  });
  const program = compileCompare(steps, sources, new Map(), merged.tensors);
  const outcome = await runProgram(program, { ...stream, phase: "comparing" });
  const results = resultsByJob(outcome, program.jobs.length);
  return new Set(
    steps.flatMap(({ tensor }, i) => (totalDifferences(results[i] ?? []).differing === 0 ? [tensor] : [])),
  );
}
