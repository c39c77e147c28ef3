// Finds which weighted sum of known models gives each tensor of another, and writes that as a recipe.

import type { Checkpoint } from "../../formats/checkpoint/index.js";
import { largestOf } from "../../kit/arrays/index.js";
import { CheckpointError, DTYPE_BY_TORCH_NAME, elementCount, groupBy } from "../../kit/index.js";
import { commandLine } from "../../kit/printing/index.js";
import type { StreamOptions } from "../../tensor/streaming/index.js";
import type { RecipeInput } from "../recipe/recipe.js";
import { type Closeness, compareWith, NOT_GIVEN } from "./closeness.js";
import { inLayerOrder, recipeOf, slerpOf } from "./explained-recipe.js";
import { findCopies, ownersOf } from "./find-copies.js";
import { fitArc } from "./fit-arc.js";
import {
  assignWeights,
  closestOf,
  type Fitted,
  isAlike,
  isCopy,
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
   * identical: the recipe gives its bits; rounding: the recipe gives it but for a few roundings of its dtype, or the sign of zeros;
   * same: it is the same in all models, so nothing tells which it is from; unexplained: no weighted sum gives it.
   */
  readonly verdict: "identical" | "rounding" | "same" | "unexplained";
  /** Weight of each model: the closest ones by least squares, or those of an arc; null where it has no counterpart. */
  readonly weights: readonly number[] | null;
  /** Share of its change that the weights leave over, by norm. */
  readonly residual: number;
  /**
   * Roundings of its dtype by which its elements differ at most from the recipe's; 0 where only the sign of zeros differs; null if
   * unexplained.
   */
  readonly roundings: number | null;
  /** Elements whose bits differ from the recipe's; null if unexplained. */
  readonly differing: number | null;
}

export interface Explanation {
  /** The models of the weights, the base last. */
  readonly sources: readonly string[];
  /** Gives every tensor; undefined if one is unexplained. */
  readonly recipe: RecipeInput | undefined;
  readonly tensors: readonly ExplainedTensor[];
  /** Tensors that all models have, and this one lacks. */
  readonly missing: readonly Pick<ExplainedTensor, "tensor" | "layer">[];
}

type Weights = ReadonlyMap<Fitted, readonly number[]>;

/**
 * What rounding leaves over must be less than this share of what tells the models apart. Where training changed weights by
 * little more than a rounding, everything is within a few roundings of everything.
 */
const TELLING = 0.1;

/**
 * Explains a merge by models that it may be made of. What is a copy of a model's tensor is that. Weights of the rest come from least
 * squares, over the whole model where one set of weights fits, else by layer, by attention and feed-forward, or by tensor. What the recipe gives is compared bit for bit, and where bits
 * differ, the roundings are counted. Finer weights, and a spherical interpolation, are tried there: what gives more bits is right.
 * @param models at least two; the base, if it is known, last
 * @throws CheckpointError if the merged model is quantised
 */
export async function explainMerge(
  merged: Checkpoint,
  models: readonly KnownModel[],
  { hasBase, ...stream }: StreamOptions & { readonly hasBase: boolean },
): Promise<Explanation> {
  if (merged.asStored) {
    const advice = `Write it as values first: ${commandLine`export ${merged.source} --format hf --type bfloat16 --out FOLDER`}`;
    throw new CheckpointError(`${merged.name} is quantised: its codes cannot be sums of others. ${advice}`, {
      file: merged.folder,
    });
  }
  const fitted = await measureProducts(merged, models, stream);
  const dtype = dtypeOf(fitted, models);
  const copies = await findCopies(merged, models, fitted, dtype, stream);
  const owners = ownersOf(
    new Map([...copies].filter(([one]) => !isAlike(one))),
    hasBase ? models.length - 1 : undefined,
  );
  for (const one of fitted) {
    const owner = owners.get(one);
    if (owner !== undefined) one.fit = [models.map((_, i) => (i === owner ? 1 : 0))];
    else if (copies.has(one) && sizeOf(one) > 0) one.isSame = true;
  }
  assignWeights(fitted.filter(({ fit, isSame }) => !fit && !isSame));
  const sources = models.map(({ source }) => source);
  const last = models.map((_, i) => (i === models.length - 1 ? 1 : 0));
  const same = fitted.flatMap(({ isSame, stored }) => (isSame ? [stored] : []));
  const attempt = async (weights: Weights, given?: RecipeInput): Promise<Attempt> => {
    const weighted = [...weights].map(([{ stored }, own]) => ({ stored, weights: own }));
    const method = given ?? recipeOf(weighted, same, sources, hasBase);
    const recipe = { ...method, ...dtype } as RecipeInput;
    const terms = new Map(
      fitted.flatMap((one) => {
        const own = one.isSame ? last : weights.get(one);
        return own ? [[one.stored.name, { weights: own, isAdapted: one.rank > 0, size: sizeOf(one) }] as const] : [];
      }),
    );
    return { weights, recipe, found: await compareWith(merged, models, recipe, terms, stream) };
  };
  const verdictOf = (one: Fitted, { weights, found }: Attempt): ExplainedTensor["verdict"] => {
    const { differing, roundings } = found.get(one.stored.name) ?? NOT_GIVEN;
    const own = weights.get(one);
    if (!one.isSame && !own) return "unexplained";
    if (differing === 0) return one.isSame ? "same" : "identical";
    if (roundings === 0) return "rounding";
    // Nothing rounds a copy.
    if (own && isCopy(one, own)) return "unexplained";
    return roundings <= mostRoundings(one) && (!own || leftOver(one, own).ofModels < TELLING)
      ? "rounding"
      : "unexplained";
  };
  const isUnexplained = (one: Fitted, found: Attempt) => verdictOf(one, found) === "unexplained";
  const withFit = fitted.filter(({ fit }) => fit);
  const units = [...groupBy(withFit, ({ fit }) => fit).values()];
  const first = await attempt(new Map(withFit.map((one) => [one, one.fit?.[0] ?? []])));
  let best = first;
  for (const i of [1, 2, 3]) best = await withCloser(best, units, (one) => one.fit?.[i], attempt);
  // What the weights of its unit do not give may have weights of its own.
  const each = withFit.map((one) => [one]);
  const alone = new Map(withFit.map((one) => [one, solve([one])]));
  for (const i of [-2, -1]) best = await withCloser(best, each, (one) => alone.get(one)?.at(i), attempt);
  best = await withNeighbours(best, owners, (one) => withFit.includes(one) && !isUnexplained(one, best), attempt);
  const changed = fitted.filter(({ isSame }) => !isSame);
  if (best !== first || differingIn(changed, best) > 0)
    best = await orAlongArc(best, changed, sources, attempt, isUnexplained);

  const layerOf = ({ layer }: { readonly layer: number | null }) => layer;
  const byName = new Map(fitted.map((one) => [one.stored.name, one]));
  const tensors = inLayerOrder(merged.tensors.values(), layerOf).map(({ name, layer, dtype }): ExplainedTensor => {
    const one = byName.get(name);
    const place = { tensor: name, layer, dtype };
    const { differing, roundings } = best.found.get(name) ?? NOT_GIVEN;
    if (!one) {
      const verdict = differing === 0 ? "identical" : "unexplained";
      return { ...place, verdict, weights: null, residual: 1, roundings: differing === 0 ? 0 : null, differing };
    }
    const verdict = verdictOf(one, best);
    const weights = best.weights.get(one) ?? closestOf(solve([one]));
    const residual = leftOver(one, weights).ofChange;
    return { ...place, verdict, weights, residual, roundings: verdict === "unexplained" ? null : roundings, differing };
  });
  const isWhole = tensors.every(({ verdict }) => verdict !== "unexplained");
  const [some, ...others] = models.map(({ checkpoint }) => checkpoint.tensors);
  const missing = inLayerOrder(some?.values() ?? [], layerOf).flatMap(({ name: tensor, layer }) =>
    !merged.tensors.has(tensor) && others.every((other) => other.has(tensor)) ? [{ tensor, layer }] : [],
  );
  return { sources, recipe: isWhole ? best.recipe : undefined, tensors, missing };
}

interface Attempt {
  readonly weights: Weights;
  readonly recipe: RecipeInput;
  readonly found: ReadonlyMap<string, Closeness>;
}

type Try = (weights: Weights, given?: RecipeInput) => Promise<Attempt>;

/** Each model's value passes a product, the sums of all, and the last rounding; that of an adapter the sums of its rank, too. */
const mostRoundings = ({ gram, rank }: Fitted) => gram.length + rank;

/** Takes proposed weights in each group of tensors of which they give more. */
async function withCloser(
  best: Attempt,
  groups: readonly (readonly Fitted[])[],
  proposed: (one: Fitted) => readonly number[] | undefined,
  attempt: Try,
): Promise<Attempt> {
  const withProposed = (some: readonly (readonly Fitted[])[]): Weights =>
    new Map([
      ...best.weights,
      ...some.flat().map((one) => [one, proposed(one) ?? best.weights.get(one) ?? []] as const),
    ]);
  const isNew = (one: Fitted) => `${proposed(one) ?? best.weights.get(one)}` !== `${best.weights.get(one)}`;
  const unsure = groups.filter((group) => differingIn(group, best) > 0 && group.some(isNew));
  if (unsure.length === 0) return best;
  const other = await attempt(withProposed(unsure));
  const closer = unsure.filter((group) => isCloser(group, other, best));
  if (closer.length === 0) return best;
  return closer.length === unsure.length ? other : attempt(withProposed(closer));
}

/**
 * Gives copies the weights of others in their layer, or of most others, where these give the same bits: an average of models that
 * are nearly equal rounds to one of them in some tensors.
 */
async function withNeighbours(
  best: Attempt,
  owners: ReadonlyMap<Fitted, number>,
  isExplained: (one: Fitted) => boolean,
  attempt: Try,
): Promise<Attempt> {
  const others = [...best.weights].filter(([one]) => !owners.has(one) && isExplained(one));
  const byLayer = groupBy(others, ([{ stored }]) => stored.layer);
  const mostOf = (some: typeof others) =>
    [...groupBy(some, ([, weights]) => `${weights}`).values()].toSorted((a, b) => b.length - a.length)[0]?.[0]?.[1];
  const most = mostOf(others);
  const proposed = new Map(
    [...owners.keys()].flatMap((one) => {
      const weights = mostOf(byLayer.get(one.stored.layer) ?? []) ?? most;
      return weights && `${weights}` !== `${best.weights.get(one)}` ? [[one, weights] as const] : [];
    }),
  );
  if (proposed.size === 0) return best;
  const other = await attempt(new Map([...best.weights, ...proposed]));
  const equal = [...proposed].filter(([one]) => closenessOf(one, other).differing === 0);
  if (equal.length === proposed.size) return other;
  return equal.length > 0 ? attempt(new Map([...best.weights, ...equal])) : best;
}

/** A spherical interpolation if it gives more, or as much by fewer numbers. */
async function orAlongArc(
  best: Attempt,
  fitted: readonly Fitted[],
  sources: readonly string[],
  attempt: Try,
  isUnexplained: (one: Fitted, found: Attempt) => boolean,
): Promise<Attempt> {
  const arc = fitArc(fitted);
  if (!arc) return best;
  const shares = new Map([...arc.shares].map(([{ stored }, share]) => [stored, share]));
  const names = arc.ends.map((i) => sources[i] ?? "");
  const found = await attempt(arc.weights, slerpOf(names, shares));
  // It is computed in float32, so its bits in a smaller type are those of the recipe, but for few.
  const elements = fitted.reduce((sum, { stored }) => sum + elementCount(stored.shape), 0);
  const isGiven = isWide(fitted) || differingIn(fitted, found) < elements / 100;
  if (!isGiven || fitted.some((one) => isUnexplained(one, found))) return best;
  const numbers = (all: Iterable<unknown>) => new Set([...all].map(String)).size;
  const isSimpler = numbers(shares.values()) < numbers(best.weights.values());
  const isBetter = isSimpler ? !isCloser(fitted, best, found) : isCloser(fitted, found, best);
  return isBetter || fitted.some((one) => isUnexplained(one, best)) ? found : best;
}

const closenessOf = ({ stored }: Fitted, { found }: Attempt) => found.get(stored.name) ?? NOT_GIVEN;

const differingIn = (group: readonly Fitted[], attempt: Attempt) =>
  group.reduce((sum, one) => sum + closenessOf(one, attempt).differing, 0);

const isWide = (group: readonly Fitted[]) => group.every(({ stored: { dtype } }) => dtype === "F32" || dtype === "F64");

/** Whether an attempt gives more of the elements than another. */
function isCloser(group: readonly Fitted[], one: Attempt, other: Attempt): boolean {
  const [now, before] = [one, other].map((attempt) => ({
    isWithin: group.every((tensor) => closenessOf(tensor, attempt).roundings <= mostRoundings(tensor)),
    roundings: largestOf(group.map((tensor) => closenessOf(tensor, attempt).roundings)),
    differing: differingIn(group, attempt),
  })) as [Score, Score];
  if (now.isWithin !== before.isWithin) return now.isWithin;
  // In float32 almost every element differs by something, so the roundings tell.
  if (isWide(group) && now.roundings !== before.roundings) return now.roundings < before.roundings;
  // As many elements differ by chance; a fit to few elements gives some of them in any case.
  return before.differing > now.differing + 3 * Math.sqrt(now.differing) + 10;
}

interface Score extends Closeness {
  readonly isWithin: boolean;
}

/** The norm of what weights leave over, as a share of the tensor's own change, and of the largest change of a model. */
function leftOver(one: Fitted, weights: readonly number[]): { ofChange: number; ofModels: number } {
  const left = residualOf(one, weights);
  const share = (square: number) => (square > 0 ? Math.sqrt(left / square) : 0);
  const squares = one.gram.slice(0, -2).map((row, i) => row[i] ?? 0);
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
