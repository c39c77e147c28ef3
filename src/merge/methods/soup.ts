// Soups: the average of several models, uniform, weighted, or weighted by the inverse magnitude of their change.
// Wortsman et al., ICML 2022, arXiv 2203.05482; magnitude weights: Bandarkar et al., arXiv 2410.01335, section 3.4.
import { RecipeError } from "../../core/errors.js";
import { sumOfWeights, type Weight } from "../../source/expression.js";
import { average, type Operand, type OperandTensor, type PlanContext } from "../operand.js";
import type { SoupRecipe } from "../recipe.js";
import { needsBase } from "./swap.js";

/** The averaged model, tensor by tensor. `models` are the operands of `recipe.models`, in order. */
export function planSoupTensors(
  recipe: SoupRecipe,
  operands: { models: readonly Operand[]; base?: Operand },
  context: PlanContext,
): Map<string, OperandTensor> {
  const { models } = operands;
  const weights = soupWeights(recipe, operands, context);
  const terms = models.map((operand, i) => ({ operand, weight: weights[i] ?? 0 }));
  return new Map([...(models[0]?.tensors.keys() ?? [])].map((name) => [name, average(name, terms, context)]));
}

function soupWeights(
  recipe: SoupRecipe,
  { models, base }: { models: readonly Operand[]; base?: Operand },
  context: PlanContext,
): readonly Weight[] {
  const given = recipe.models.map((model) => (typeof model === "string" ? undefined : model.weight));
  if (recipe.weights === "magnitude") {
    if (given.some((weight) => weight !== undefined)) {
      throw new RecipeError("weights by magnitude and weights of single models exclude each other; leave one out", [], {
        field: "weights",
      });
    }
    if (!base) throw needsBase();
    return models.map((model) => context.inverseMagnitude(model, base));
  }
  const weights = given.map((weight) => weight ?? 1);
  if (sumOfWeights(weights) === 0) {
    throw new RecipeError("the models' weights sum to zero, so their average is undefined", [], { field: "models" });
  }
  return weights;
}
