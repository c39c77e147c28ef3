// Transplants in a recipe: the checkpoint of `task` becomes one with the tokenizer of `tokenizer`.
import { type Checkpoint, transplant } from "../../weights/index.js";
import { sourcesOf } from "./recipe.js";

/**
 * Replaces the checkpoint that a recipe gives another tokenizer, if it does.
 * @param sources by label; changed in place
 * @param prefix of the recipe's labels
 * @returns notes
 */
export async function transplantIn(
  recipe: object,
  sources: Map<string, Checkpoint>,
  prefix: string,
): Promise<string[]> {
  const { method, k = 64 } = recipe as { method?: string; k?: number };
  if (method !== "transplant") return [];
  const [model, donor] = [sources.get(`${prefix}task`), sources.get(`${prefix}tokenizer`)] as [Checkpoint, Checkpoint];
  const { checkpoint, notes } = await transplant(model, donor, k);
  sources.set(`${prefix}task`, checkpoint);
  return notes.map((note) => `${prefix}task: ${note}`);
}

/** The same in a recipe and all recipes within it. */
export async function transplantAll(recipe: object, sources: Map<string, Checkpoint>, prefix = ""): Promise<void> {
  for (const [label, source] of sourcesOf(recipe)) {
    if (typeof source === "object") await transplantAll(source, sources, `${prefix}${label}.`);
  }
  await transplantIn(recipe, sources, prefix);
}
