// When two merges are the same model: what a recipe says once its defaults are filled in. Not what it is called, and not
// the bytes, which are known only where it is computed.
import { RecipeError } from "../../core/index.js";
import { checkRecipe } from "../../merge/index.js";
import type { ModelSource } from "../steps/step.js";

/** Recipes by their text: a large plan is expanded many times, and checking takes longer than all else. */
const known = new Map<string, unknown>();
const MOST_KNOWN = 50_000;

/** What identifies a model; the same for recipes that say the same, whether they spell a default out or leave it away. */
export function identityOf(source: ModelSource): unknown {
  if (typeof source === "string") return source;
  const text = JSON.stringify(source);
  const found = known.get(text);
  if (found !== undefined) return found;
  if (known.size >= MOST_KNOWN) known.clear();
  const identity = settled(source);
  known.set(text, identity);
  return identity;
}

function settled(source: ModelSource): unknown {
  try {
    return checkRecipe(source);
  } catch (error) {
    // A configuration that is no recipe is a problem elsewhere; here it is what it says.
    if (error instanceof RecipeError) return source;
    throw error;
  }
}
