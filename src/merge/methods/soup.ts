// Soups: average models uniformly, with weights, or by the inverse magnitude of their change.

import { z } from "zod";
import { RecipeError } from "../../kit/index.js";
import { sumOfWeights, type Weight } from "../../tensor/expressions/index.js";
import { inverseMagnitude } from "./inverse-magnitude.js";
import { type SliceMerge, switched, weighted } from "./mergekit.js";
import { defineMethod, modelsField, parametersOf, type SourceRecipe, sourceField, weightField } from "./method.js";
import { average, computed, copyTensor, type Operand, type PlanContext, requireBase, tensorOf } from "./operand.js";
import { resolveParameter, resolveSwitch, switchField } from "./parameter.js";

const fields = () => ({
  models: modelsField("models to average", {
    weight: weightField.optional().describe("weight in the average; default 1"),
  }),
  base: sourceField(
    "model that all were fine-tuned from; required for `weights: magnitude` and for `budget`",
  ).optional(),
  weights: z
    .enum(["equal", "magnitude"], {
      error: "must be equal or magnitude; write the weight of one model as { model, weight }",
    })
    .default("equal")
    .describe("`equal` uses the weight of each model; `magnitude` measures weights from the size of its change"),
  normalize: switchField.default(true).describe("divide by the sum of the weights; `false` gives a weighted sum"),
});

export const soup = defineMethod({
  name: "soup",
  title: "Soup",
  summary: "Averages models: uniformly, with weights, or by the inverse magnitude of their change.",
  formula:
    "sum(w_i theta_i) / sum(w_i), or with normalize: false without the division; by magnitude: w_i = 1 / mean row MAV of (theta_i - theta_base)",
  reference:
    "Wortsman et al., ICML 2022, arXiv 2203.05482; magnitudes: Bandarkar et al., arXiv 2410.01335, section 5.1",
  tag: "model-soup",
  mergekit: { name: "linear", own: ["weight"], common: ["normalize"], isRounded: true, make: fromMergekit },
  fields,
  example: { method: "soup", models: ["swahili-expert", { model: "math-expert", weight: 2 }] },
  tensors: (recipe, { models, base }, context) => {
    const weights = soupWeights(recipe, models, base, context);
    const lead = models[0] as Operand;
    const isNormalized = resolveSwitch(recipe.normalize, true, "normalize", lead);
    const sums = () =>
      computed(lead, models, context, (name) => ({
        sum: models.map((model, i) => ({ weight: weights[i]?.(name) ?? 0, value: tensorOf(model, name).value })),
      }));
    const added = recipe.normalize === true ? undefined : sums();
    return new Map(
      [...lead.tensors.keys()].map((name) => {
        const sum = added?.get(name);
        if (sum && !isNormalized(name)) return [name, sum];
        const terms = models.map((operand, i) => ({ operand, weight: weights[i]?.(name) ?? 0 }));
        if (terms.every(({ weight }) => typeof weight === "number")) {
          const numbers = terms.map(({ weight }) => weight as number);
          if (sumOfWeights(numbers) === 0) throw zeroSum(name);
          const [only, ...others] = terms.filter(({ weight }) => weight !== 0);
          if (only && others.length === 0) return [name, copyTensor(name, only.operand)];
        }
        return [name, average(name, terms, context)];
      }),
    );
  },
  headline: ({ models }) => (models.length === 1 ? "Copy of one model" : `Soup of ${models.length} models`),
  describe: ({ models }, _, layers) =>
    models.length === 1
      ? `A copy of a model of ${layers} layers.`
      : `An average (soup) of ${models.length} models of ${layers} layers.`,
  weighting: ({ models }) => {
    const weights = models.map((model) => parametersOf(model).weight ?? 1);
    if (weights.some((weight) => typeof weight !== "number")) return "by layer, part or tensor";
    return weights.every((weight) => weight === weights[0]) ? "equally" : weights.join(", ");
  },
});

function soupWeights(
  { models: entries, weights }: z.output<z.ZodObject<ReturnType<typeof fields>>>,
  models: Parameters<typeof soup.tensors>[1]["models"],
  base: Parameters<typeof soup.tensors>[1]["base"],
  context: PlanContext,
): readonly ((name: string) => Weight)[] {
  const given = entries.map((entry) => parametersOf(entry).weight);
  if (weights === "magnitude") {
    if (given.some((weight) => weight !== undefined)) {
      throw RecipeError.at(
        { field: "weights" },
        "weights: magnitude cannot be combined with weights of single models. Remove one of them.",
      );
    }
    const root = requireBase(base, "weights by magnitude need");
    return models.map((model) => {
      const weight = inverseMagnitude(model, root, context);
      return () => weight;
    });
  }
  return models.map((model, i) => resolveParameter(given[i], 1, `models[${i}].weight`, model));
}

function zeroSum(name: string): RecipeError {
  return RecipeError.at(
    { field: "models", tensor: name },
    `the models' weights sum to zero for ${name}, so the average is undefined. Choose weights with a nonzero sum.`,
  );
}

/** One slice of a configuration of mergekit. */
function fromMergekit(slice: SliceMerge): SourceRecipe {
  const normalize = switched(slice, "normalize", true);
  const models = weighted(slice.models, slice);
  const [first] = models;
  if (normalize === true && first && models.length === 1) return first.model;
  return { method: "soup", models, ...(normalize === true ? {} : { normalize }) };
}
