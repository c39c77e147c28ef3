import type { TensorPlan } from "../model-plan.js";
import type { Recipe } from "./recipe.js";

/** A user's file that a method of the recipe is. */
export interface OwnCode {
  /** The method's name in the plan's recipe. */
  readonly name: string;
  /** Absolute path. */
  readonly file: string;
  /** SHA-256 of the file, which has no imports. */
  readonly digest: string;
}

/** A merge as plain data: the recipe with every default filled in, its inputs, and the value of each output tensor. */
export interface Plan extends TensorPlan<Recipe> {
  readonly code?: readonly OwnCode[];
}
