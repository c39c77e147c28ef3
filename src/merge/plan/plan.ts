import type { TensorPlan } from "../../values/index.js";
import type { Recipe } from "./recipe.js";

/** A merge as plain data: the recipe with every default filled in, its inputs, and the value of each output tensor. */
export type Plan = TensorPlan<Recipe>;
