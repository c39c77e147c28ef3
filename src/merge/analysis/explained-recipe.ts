// Writes weights of tensors as the recipe that gives them.
import { formatRanges, groupBy } from "../../core/index.js";
import { blockOf, type CheckpointTensor } from "../../weights/index.js";
import type { RecipeInput } from "../plan/recipe.js";
import { UNITS } from "./fit-weights.js";

export interface Weighted {
  readonly stored: CheckpointTensor;
  readonly weights: readonly number[];
}

const textOf = (weights: readonly number[]): string => weights.join(" ");

/** @param sources of the weights, the base last if there is one */
export function recipeOf(weighted: readonly Weighted[], sources: readonly string[], hasBase: boolean): RecipeInput {
  const known = weighted.map(({ stored, weights }) => ({ ...stored, weights }));
  const [first] = known;
  // Nothing tells the models apart.
  if (!first) return { method: "passthrough", slices: [{ model: sources[0] ?? "" }] };
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
        isEqual && !used.includes(base) ? name(i) : { model: name(i), weight: Number(written(i).toPrecision(12)) },
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
