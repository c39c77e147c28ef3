// Layer swapping: bottom and top layers from the language expert, the middle from the task expert, averages between
// and outside. Bandarkar et al., ICLR 2025, arXiv 2410.01335, algorithm 1.
import { blockOf, type Part } from "../../checkpoint/architectures.js";
import { RecipeError } from "../../core/errors.js";
import { sumOfWeights, type Weight } from "../../source/expression.js";
import { average, type Operand, type OperandTensor, type PlanContext, take } from "../operand.js";
import type { SwapRecipe } from "../recipe.js";

/** How many layers go where, from the input to the output; what is left in the middle is the task expert's. */
export interface SwapLayers {
  readonly bottom: number;
  readonly top: number;
  readonly bottomTransition: number;
  readonly topTransition: number;
}

// The configuration found effective (arXiv 2410.01335, section 4.2), for a depth of 32.
const PAPER_DEPTH = 32;
const PAPER_BOTTOM = 5;
const PAPER_TOP = 2;

/**
 * The paper's configuration in proportion to a depth: at least one bottom layer, so that something is swapped, and at
 * least one layer left to the task expert.
 */
export function defaultSwapLayers(layers: number): { bottom: number; top: number } {
  const bottom = Math.min(Math.max(1, Math.round((PAPER_BOTTOM * layers) / PAPER_DEPTH)), layers - 1);
  const top = Math.min(Math.round((PAPER_TOP * layers) / PAPER_DEPTH), layers - 1 - bottom);
  return { bottom, top: Math.max(0, top) };
}

/** Fills in the defaults for a depth. */
export function swapLayers(recipe: SwapRecipe, layers: number): SwapLayers {
  const defaults = defaultSwapLayers(layers);
  const { bottom = defaults.bottom, top = defaults.top } = recipe;
  const result = { bottom, top, bottomTransition: recipe.bottom_transition, topTransition: recipe.top_transition };
  const sum = bottom + recipe.bottom_transition + recipe.top_transition + top;
  if (sum > layers) {
    throw new RecipeError(
      `bottom ${bottom} + bottom_transition ${recipe.bottom_transition} + top_transition ${recipe.top_transition} + top ${top} ` +
        `is ${sum}, more than the ${layers} layers of the model; choose fewer`,
      [],
      { field: "bottom", expected: `at most ${layers}`, actual: String(sum) },
    );
  }
  return result;
}

/** Which expert a layer comes from. */
export function ownerOfLayer(layer: number, layers: number, swap: SwapLayers): "task" | "language" | "average" {
  const { bottom, top, bottomTransition, topTransition } = swap;
  if (layer < bottom || layer > layers - 1 - top) return "language";
  if (layer >= bottom + bottomTransition && layer <= layers - 1 - top - topTransition) return "task";
  return "average";
}

/** The merged model, tensor by tensor. */
export function planSwapTensors(
  recipe: SwapRecipe,
  operands: { task: Operand; language: Operand; base?: Operand },
  context: PlanContext,
): Map<string, OperandTensor> {
  const { task, language } = operands;
  const { layers } = task;
  const swap = swapLayers(recipe, layers);
  let weights: readonly [Weight, Weight] | undefined;
  const averaged = (name: string) => {
    // Asked for only when something is averaged: a magnitude costs a pass over both experts.
    weights ??= swapWeights(recipe, operands, context);
    const [taskWeight, languageWeight] = weights;
    return average(
      name,
      [
        { operand: task, weight: taskWeight },
        { operand: language, weight: languageWeight },
      ],
      context,
    );
  };

  const tensors = new Map<string, OperandTensor>();
  for (const [name, { layer, part }] of task.tensors) {
    let owner: "task" | "language" | "average";
    if (layer === null) owner = recipe.outside;
    else owner = isSwapped(part, recipe.parts) ? ownerOfLayer(layer, layers, swap) : "task";
    tensors.set(name, owner === "average" ? averaged(name) : take(name, operands[owner]));
  }
  return tensors;
}

function isSwapped(part: Part, parts: SwapRecipe["parts"]): boolean {
  return parts === "all" || blockOf(part) === parts;
}

function swapWeights(
  recipe: SwapRecipe,
  { task, language, base }: { task: Operand; language: Operand; base?: Operand },
  context: PlanContext,
): readonly [Weight, Weight] {
  if (recipe.weights === "equal") return [1, 1];
  if (recipe.weights !== "magnitude") {
    if (sumOfWeights(recipe.weights) === 0) {
      throw new RecipeError("weights sum to zero, so their average is undefined; give weights with a sum", [], {
        field: "weights",
      });
    }
    return recipe.weights;
  }
  if (!base) throw needsBase();
  return [context.inverseMagnitude(task, base), context.inverseMagnitude(language, base)];
}

/** Weights by magnitude are asked for without the model that the change is measured from. */
export function needsBase(): RecipeError {
  return new RecipeError(
    "weights by magnitude need the base that the experts were fine-tuned from; give it with --base, or as base in the recipe",
    [],
    { field: "base" },
  );
}
