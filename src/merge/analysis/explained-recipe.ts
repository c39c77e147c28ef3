// Writes weights of tensors as the recipe that gives them.

import { blockOf, type CheckpointTensor } from "../../formats/checkpoint/index.js";
import { groupBy } from "../../kit/index.js";
import { formatRanges } from "../../kit/printing/index.js";
import type { RecipeInput } from "../recipe/recipe.js";

export interface Weighted {
  readonly stored: CheckpointTensor;
  readonly weights: readonly number[];
}

const textOf = (weights: readonly number[]): string => weights.join(" ");

/**
 * @param same tensors that are the same in all models
 * @param sources of the weights, the base last if there is one
 */
export function recipeOf(
  known: readonly Weighted[],
  same: readonly CheckpointTensor[],
  sources: readonly string[],
  hasBase: boolean,
): RecipeInput {
  const [first] = known;
  // Nothing tells the models apart.
  if (!first) return { method: "passthrough", slices: [{ model: sources[0] ?? "" }] };
  const weighed = sources.flatMap((_, i) => (known.some(({ weights }) => weights[i] !== 0) ? [i] : []));
  // A recipe names a model, even where all values are zero.
  const used = weighed.length > 0 ? weighed : [0];
  const name = (i = 0): string => sources[i] ?? "";
  const isAverage = known.every(({ weights }) => Math.abs(weights.reduce((sum, one) => sum + one, -1)) < 1e-9);
  const unnormalized = isAverage ? {} : { normalize: false };
  if (known.every(({ weights }) => textOf(weights) === textOf(first.weights))) {
    const { weights } = first;
    if (used.length === 1 && isAverage) return { method: "passthrough", slices: [{ model: name(used[0]) }] };
    const base = hasBase && isAverage ? sources.length - 1 : -1;
    const isEqual = used.every((i) => weights[i] === weights[used[0] ?? 0]);
    // Thirds and the like were written as whole numbers, which round otherwise than fractions.
    const whole = [1, 3, 6, 7, 9].find((n) =>
      weights.every((weight) => Math.abs(weight * n - Math.round(weight * n)) < 1e-6),
    );
    const factor = isAverage && !used.includes(base) ? (whole ?? 1) : 1;
    const written = (i: number) => (weights[i] ?? 0) * factor;
    const models = used
      .filter((i) => i !== base)
      .map((i) =>
        isEqual && isAverage && !used.includes(base)
          ? name(i)
          : { model: name(i), weight: Number(written(i).toPrecision(12)) },
      );
    return (
      used.includes(base)
        ? { method: "task_arithmetic", base: name(base), models }
        : { method: "soup", models, ...unnormalized }
    ) as RecipeInput;
  }
  const units = groupBy(known, ({ stored }) => stored.layer);
  const isByLayer = [...units.values()].every((unit) => new Set(unit.map(({ weights }) => textOf(weights))).size === 1);
  const [task = 0, language = 0] = used;
  const once = (model: number) => sources.map((_, i) => (i === model ? 1 : 0));
  const ofLayer = [...units.values()].flatMap(([one]) => (one ? [[one.stored.layer, one.weights] as const] : []));
  const blends = new Map(ofLayer.filter(([, weights]) => !weights.includes(1)).map(([, one]) => [textOf(one), one]));
  const [blend] = blends.values();
  const layersWith = (isWanted: (weights: readonly number[]) => boolean) =>
    ofLayer.flatMap(([layer, weights]) => (layer !== null && isWanted(weights) ? [layer] : [])).sort((a, b) => a - b);
  const fromLanguage = layersWith((weights) => weights[language] === 1);
  if (isAverage && isByLayer && used.length === 2 && blends.size <= 1 && fromLanguage.length > 0) {
    const averaged = layersWith((weights) => !weights.includes(1));
    // Where nothing tells what is outside the layers, it is as that of the task is, or averaged as layers are.
    const [, outside = blend ?? once(task)] = ofLayer.find(([layer]) => layer === null) ?? [];
    return {
      method: "swap",
      task: name(task),
      language: name(language),
      layers: {
        language: formatRanges(fromLanguage),
        ...(averaged.length > 0 ? { average: formatRanges(averaged) } : {}),
      },
      ...(blend && blend[task] !== blend[language] ? { weights: [blend[task], blend[language]] } : {}),
      outside: outside[task] === 1 ? "task" : outside[language] === 1 ? "language" : "average",
    } as RecipeInput;
  }
  // Only an average leaves what is the same in all models as it is.
  const all = isAverage ? known : [...known, ...same.map((stored) => ({ stored, weights: once(task) }))];
  const models = used.map((i) => ({ model: name(i), weight: rulesOf(all, ({ weights }) => weights[i] ?? 0) }));
  return { method: "soup", models, ...unnormalized } as RecipeInput;
}

/** A spherical interpolation. */
export function slerpOf(models: readonly string[], shares: ReadonlyMap<CheckpointTensor, number>): RecipeInput {
  const known = [...shares].map(([stored, t]) => ({ stored, t }));
  const isOne = new Set(shares.values()).size === 1;
  return { method: "slerp", models, t: isOne ? known[0]?.t : rulesOf(known, ({ t }) => t) } as RecipeInput;
}

/** From the first layer to the last, then what is outside of them. Files are in the order of names: layer 10 before 2. */
export function inLayerOrder<T>(items: Iterable<T>, layerOf: (item: T) => number | null): T[] {
  const place = (item: T) => layerOf(item) ?? Number.MAX_SAFE_INTEGER;
  return [...items].sort((a, b) => place(a) - place(b));
}

interface WeightRule {
  readonly layer: number | null;
  readonly parts?: string;
  readonly tensors?: string;
  readonly value: number;
}

/** A number for each tensor, as rules for layers where these have one, else for blocks or tensors. */
function rulesOf<T extends { readonly stored: CheckpointTensor }>(
  known: readonly T[],
  numberOf: (one: T) => number,
): object[] {
  const isOne = (unit: readonly T[]) => new Set(unit.map(numberOf)).size === 1;
  const ordered = inLayerOrder(known, ({ stored }) => stored.layer);
  const rules = [...groupBy(ordered, ({ stored }) => stored.layer)].flatMap(([layer, inLayer]): WeightRule[] => {
    if (layer !== null && isOne(inLayer)) return [{ layer, value: numberOf(inLayer[0] as T) }];
    return [...groupBy(inLayer, ({ stored }) => blockOf(stored.part))].flatMap(([block, unit]): WeightRule[] =>
      isOne(unit)
        ? [{ layer, parts: layer === null ? "outside" : block, value: numberOf(unit[0] as T) }]
        : unit.map((one) => ({ layer: null, tensors: one.stored.name, value: numberOf(one) })),
    );
  });
  const alike = groupBy(rules, ({ parts, tensors, value }) => JSON.stringify([parts, tensors, value]));
  return [...alike.values()]
    .map((some) => {
      const { layer: _, value, ...where } = some[0] as WeightRule;
      const layers = some.flatMap(({ layer }) => layer ?? []).sort((a, b) => a - b);
      return { ...(layers.length > 0 ? { layers: formatRanges(layers) } : {}), ...where, value };
    })
    .toSorted((a, b) => Number("tensors" in b) - Number("tensors" in a));
}
