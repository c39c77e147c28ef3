// Tells whether two recipes make the same model.
import { RecipeError } from "../../core/index.js";
import { checkRecipe } from "../../merge/index.js";
import type { ModelSource } from "../steps/step.js";

/** By the recipe's JSON. A plan is expanded many times, and checking recipes would take most of the time. */
const known = new Map<string, unknown>();
const MAX_KNOWN = 50_000;

/** The identity of a model: of a recipe, the recipe with its defaults filled in. */
export function identityOf(source: ModelSource): unknown {
  if (typeof source === "string") return source;
  const text = JSON.stringify(source);
  const found = known.get(text);
  if (found !== undefined) return found;
  if (known.size >= MAX_KNOWN) known.clear();
  const identity = withDefaults(source);
  known.set(text, identity);
  return identity;
}

function withDefaults(source: ModelSource): unknown {
  try {
    return checkRecipe(source);
  } catch (error) {
    // The plan's check reports it.
    if (error instanceof RecipeError) return source;
    throw error;
  }
}
