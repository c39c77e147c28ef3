// RAM: where several experts changed an element, their mean; where one did, its change, perhaps scaled up (RAM+).
import { z } from "zod";
import { defineOperation, type Value, type Weight } from "../../tensor/expressions/index.js";
import { defineCombination, type Signs } from "../../tensor/measurements/index.js";
import { onBase, oneValue, type SliceMerge } from "./mergekit.js";
import { defineMethod, expertFields, lambdaField, type Method, type SourceRecipe } from "./method.js";
import { addedToBase, requireBase } from "./operand.js";
import { resolveParameter } from "./parameter.js";

const FACTOR = { low: 0, high: 1000 };

const common = () => ({
  ...expertFields({}),
  lambda: lambdaField,
  threshold: z.number().min(0).default(1e-5).describe("changes of at most this size do not count"),
});

const FORMULA = "theta_base + lambda sum_{i in A} s_i tau_i / |A| per element, A = {i: |tau_i| > threshold}";
const about = {
  reference: "Yuan et al., 2026, arXiv 2601.13572; mergekit, methods ram and ramplus_tl",
  tag: "ram",
} as const;

/**
 * The mean of the values that are not zero, times `shared`; where only one is not zero, that value times its `alone`.
 */
export const unite = defineOperation("unite", {
  fields: { alone: "numberPerValue", shared: "number" },
  apply: (buffers, { alone, shared }, { length }, { kernels, table, weights }) => {
    kernels.counters(table, buffers.length).set(buffers);
    kernels.doubles(weights, buffers.length).set(alone);
    kernels.wasm.unite(table, buffers.length, length, weights, shared);
  },
});

/** 1 + r min(shared / unique, alpha) of each expert, from what it changed and what it alone changed. */
export const overlapScales = defineCombination(
  "overlap-scales",
  (counts: Signs, { r, alpha }: { readonly r: number; readonly alpha: number }) => {
    const all = counts.map(({ positive, negative }) => positive + negative);
    const models = all.length / 2;
    return all.slice(0, models).map((own, i) => {
      const unique = all[models + i] ?? 0;
      return unique === 0 ? 1 : 1 + r * Math.min((own - unique) / unique, alpha);
    });
  },
);

export const ram = defineMethod({
  ...about,
  name: "ram",
  mergekit: { own: [], common: ["epsilon"], isRounded: true, make: (slice) => fromMergekit(slice, "ram") },
  title: "RAM",
  summary: "Averages each element over the experts that changed it.",
  formula: `${FORMULA}, s_i = 1`,
  fields: common,
  example: { method: "ram", models: ["math-expert", "swahili-expert"], base: "base" },
  tensors: (recipe, sources, context) => united(recipe, sources, context),
});

export const ramPlus = defineMethod({
  ...about,
  name: "ramplus_tl",
  mergekit: {
    own: [],
    common: ["epsilon", "r", "alpha"],
    isRounded: true,
    make: (slice) => fromMergekit(slice, "ramplus_tl"),
  },
  title: "RAM+",
  summary: "As RAM, and scales up what only one expert changed.",
  formula: `${FORMULA}, s_i = 1 + r min(shared_i / unique_i, alpha) where |A| = 1, else 1, with the counts of a tensor's elements that expert i changed with others and alone`,
  fields: () => ({
    ...common(),
    r: z.number().min(FACTOR.low).max(FACTOR.high).default(0.1).describe("strength of the scaling"),
    alpha: z
      .number()
      .min(FACTOR.low)
      .max(FACTOR.high)
      .default(0.2)
      .describe("limit of the ratio of shared to unique elements"),
  }),
  example: { method: "ramplus_tl", models: ["math-expert", "swahili-expert"], base: "base" },
  tensors: (recipe, sources, context) => united(recipe, sources, context, recipe),
});

/** The smallest float32 that is larger. */
function above(x: number): number {
  const bits = new Uint32Array(Float32Array.of(x).buffer);
  bits[0] = (bits[0] ?? 0) + 1;
  return new Float32Array(bits.buffer)[0] ?? x;
}

type Recipe = z.output<z.ZodObject<ReturnType<typeof common>>>;

function united(
  { threshold, lambda: factor }: Recipe,
  { models, base }: Parameters<Method["tensors"]>[1],
  context: Parameters<Method["tensors"]>[2],
  scaled?: { readonly r: number; readonly alpha: number },
) {
  const [lead = requireBase(base, "RAM needs")] = models;
  const lambda = resolveParameter(factor, 1, "lambda", lead);
  const labels = models.map(({ label }) => label).join(", ");
  return addedToBase(models, base, "RAM needs", context, (name, _, changes) => {
    const active = changes.map((change): Value => {
      return { op: "trim", of: [change], low: above(threshold), high: Number.MAX_VALUE };
    });
    let scales: readonly Weight[] = active.map(() => 1);
    if (scaled) {
      const { r, alpha } = scaled;
      const { measured } = context.measure({
        id: `overlap above ${threshold} of ${name} of ${labels}, r ${r}, alpha ${alpha}`,
        kind: "signs",
        label: "elements that experts share",
        values: [
          ...active,
          ...models.map((_, i) => unite.of(active, { alone: models.map((_, k) => (i === k ? 1 : 0)), shared: 0 })),
        ],
        combine: overlapScales.with({ r, alpha }),
      });
      scales = models.map((_, at) => ({ measured, at }));
    }
    return [{ weight: lambda(name), value: unite.of(active, { alone: scales, shared: 1 }) }];
  });
}

/** One slice of a configuration of mergekit. */
function fromMergekit(slice: SliceMerge, method: "ram" | "ramplus_tl"): SourceRecipe | undefined {
  const threshold = oneValue(slice, "epsilon", 1e-5, { low: 0, high: 1e9 });
  const plus =
    method === "ram" ? {} : { r: oneValue(slice, "r", 0.1, FACTOR), alpha: oneValue(slice, "alpha", 0.2, FACTOR) };
  return onBase(slice, method, { threshold, ...plus });
}
