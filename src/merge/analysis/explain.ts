// Finds which weighted average of known models gives each tensor of another, and writes that as a recipe.
import { DTYPE_BY_TORCH_NAME, groupBy } from "../../core/index.js";
import type { Checkpoint, StreamOptions } from "../../weights/index.js";
import type { RecipeInput } from "../plan/recipe.js";
import { type Closeness, compareWith, NOT_GIVEN } from "./closeness.js";
import { recipeOf } from "./explained-recipe.js";
import {
  assignWeights,
  type Fitted,
  type KnownModel,
  measureProducts,
  residualOf,
  sizeOf,
  solve,
} from "./fit-weights.js";

export interface ExplainedTensor {
  readonly tensor: string;
  readonly layer: number | null;
  readonly dtype: string;
  /**
   * identical: the recipe gives its bits; rounding: the recipe gives it but for a few roundings of its dtype; same: it is the
   * same in all models, so nothing tells which it is from; unexplained: no weighted average gives it.
   */
  readonly verdict: "identical" | "rounding" | "same" | "unexplained";
  /** Weight of each model, which add up to 1: the closest ones by least squares; null where it has no counterpart. */
  readonly weights: readonly number[] | null;
  /** Share of its change that the weights leave over, by norm. */
  readonly residual: number;
  /** Roundings of its dtype by which its elements differ at most from the recipe's; null if unexplained. */
  readonly roundings: number | null;
}

export interface Explanation {
  /** The models of the weights, the base last. */
  readonly sources: readonly string[];
  /** Gives every tensor; undefined if one is unexplained. */
  readonly recipe: RecipeInput | undefined;
  readonly tensors: readonly ExplainedTensor[];
}

type Weights = ReadonlyMap<Fitted, readonly number[]>;

/**
 * What rounding leaves over must be less than this share of what tells the models apart. Where training changed weights by
 * little more than a rounding, everything is within a few roundings of everything.
 */
const TELLING = 0.1;

/**
 * Explains a merge by models that it may be made of. Weights come from least squares, over the whole model where one set of weights
 * fits, else by layer, by attention and feed-forward, or by tensor. What the recipe gives is compared bit for bit, and where bits
 * differ, the roundings are counted.
 * @param models at least two; the base, if it is known, last
 */
export async function explainMerge(
  merged: Checkpoint,
  models: readonly KnownModel[],
  { hasBase, ...stream }: StreamOptions & { readonly hasBase: boolean },
): Promise<Explanation> {
  const fitted = await measureProducts(merged, models, stream);
  assignWeights(fitted);
  const sources = models.map(({ source }) => source);
  const last = models.map((_, i) => (i === models.length - 1 ? 1 : 0));
  const attempt = async (weights: Weights): Promise<Attempt> => {
    const weighted = [...weights].map(([{ stored }, own]) => ({ stored, weights: own }));
    const recipe = { ...recipeOf(weighted, sources, hasBase), ...dtypeOf(fitted, models) } as RecipeInput;
    const terms = new Map(
      fitted.flatMap((one) => {
        const own = one.isSame ? last : weights.get(one);
        return own ? [[one.stored.name, { weights: own, isAdapted: rankOf(one) > 0, size: sizeOf(one) }] as const] : [];
      }),
    );
    return { weights, recipe, found: await compareWith(merged, models, recipe, terms, stream) };
  };
  const rankOf = ({ stored: { name } }: Fitted) =>
    Math.max(...models.map(({ checkpoint }) => checkpoint.tensors.get(name)?.lowRank?.rank ?? 0));
  const verdictOf = (one: Fitted, { weights, found }: Attempt): ExplainedTensor["verdict"] => {
    const { differing, roundings } = found.get(one.stored.name) ?? NOT_GIVEN;
    const own = weights.get(one);
    if (!one.isSame && !own) return "unexplained";
    if (differing === 0) return one.isSame ? "same" : "identical";
    // Each model's value passes a product, the sums of all, and the last rounding; that of an adapter the sums of its rank, too.
    const most = models.length + 2 + rankOf(one);
    return roundings <= most && (!own || leftOver(one, own).ofModels < TELLING) ? "rounding" : "unexplained";
  };
  const simple = new Map(fitted.flatMap((one) => (one.fit ? [[one, one.fit.simple] as const] : [])));
  let best = await withCloserWeights(await attempt(simple), attempt);
  // What the weights of its unit do not give may have weights of its own.
  const apart = [...best.weights.keys()].filter((one) => verdictOf(one, best) === "unexplained");
  if (apart.length > 0) {
    for (const one of apart) one.fit = solve([one]);
    const own = apart.map((one) => [one, one.fit?.simple ?? []] as const);
    best = await withCloserWeights(await attempt(new Map([...best.weights, ...own])), attempt);
  }

  const byName = new Map(fitted.map((one) => [one.stored.name, one]));
  const tensors = [...merged.tensors.values()].map(({ name, layer, dtype }): ExplainedTensor => {
    const one = byName.get(name);
    const place = { tensor: name, layer, dtype };
    const { differing, roundings } = best.found.get(name) ?? NOT_GIVEN;
    if (!one) {
      const verdict = differing === 0 ? "identical" : "unexplained";
      return { ...place, verdict, weights: null, residual: 1, roundings: differing === 0 ? 0 : null };
    }
    const verdict = verdictOf(one, best);
    const weights = best.weights.get(one) ?? solve([one]).simple;
    const residual = leftOver(one, weights).ofChange;
    return { ...place, verdict, weights, residual, roundings: verdict === "unexplained" ? null : roundings };
  });
  const isWhole = tensors.every(({ verdict }) => verdict !== "unexplained");
  return { sources, recipe: isWhole ? best.recipe : undefined, tensors };
}

interface Attempt {
  readonly weights: Weights;
  readonly recipe: RecipeInput;
  readonly found: ReadonlyMap<string, Closeness>;
}

/** Takes the exact weights in place of simple ones in each unit of which they give more. */
async function withCloserWeights(simple: Attempt, attempt: (weights: Weights) => Promise<Attempt>): Promise<Attempt> {
  const units = [...groupBy([...simple.weights.keys()], ({ fit }) => fit).values()];
  const of = (unit: readonly Fitted[], { found }: Attempt) => {
    const all = unit.map(({ stored }) => found.get(stored.name) ?? NOT_GIVEN);
    return {
      differing: all.reduce((sum, { differing }) => sum + differing, 0),
      roundings: Math.max(...all.map(({ roundings }) => roundings)),
    };
  };
  const withExact = (some: readonly (readonly Fitted[])[]): Weights => {
    const exact = new Set(some.flat());
    return new Map([...simple.weights].map(([one, own]) => [one, (exact.has(one) && one.fit?.exact) || own]));
  };
  const isExact = (one: Fitted) => simple.weights.get(one) === one.fit?.exact;
  const unsure = units.filter((unit) => !unit.every(isExact) && of(unit, simple).differing > 0);
  if (unsure.length === 0) return simple;
  const exact = await attempt(withExact(unsure));
  const closer = unsure.filter((unit) => {
    const [before, after] = [of(unit, simple), of(unit, exact)];
    // As many elements differ by chance.
    const few = after.differing + 3 * Math.sqrt(after.differing);
    return after.roundings < before.roundings || (after.roundings === before.roundings && before.differing > few);
  });
  if (closer.length === 0) return simple;
  return closer.length === unsure.length ? exact : attempt(withExact(closer));
}

/** The norm of what weights leave over, as a share of the tensor's own change, and of the largest change of a model. */
function leftOver(one: Fitted, weights: readonly number[]): { ofChange: number; ofModels: number } {
  const left = residualOf(one, weights);
  const share = (square: number) => (square > 0 ? Math.sqrt(left / square) : 0);
  const squares = one.gram.slice(0, -1).map((row, i) => row[i] ?? 0);
  return { ofChange: share(squares[0] ?? 0), ofModels: share(Math.max(...squares.slice(1))) };
}

/** The dtype that the recipe must name: none where each tensor has the dtype that it has in all models. */
function dtypeOf(fitted: readonly Fitted[], models: readonly KnownModel[]): Pick<RecipeInput, "dtype"> {
  const isKept = fitted.every(({ stored: { name, dtype } }) =>
    models.every(({ checkpoint }) => checkpoint.tensors.get(name)?.dtype === dtype),
  );
  if (isKept) return {};
  const byDType = groupBy(fitted, ({ stored }) => stored.dtype);
  const count = (dtype: (typeof DTYPE_BY_TORCH_NAME)[keyof typeof DTYPE_BY_TORCH_NAME]) =>
    byDType.get(dtype)?.length ?? 0;
  const names = Object.keys(DTYPE_BY_TORCH_NAME) as (keyof typeof DTYPE_BY_TORCH_NAME)[];
  const [dtype] = names.toSorted((a, b) => count(DTYPE_BY_TORCH_NAME[b]) - count(DTYPE_BY_TORCH_NAME[a]));
  return dtype ? { dtype } : {};
}
