import type { Command } from "commander";
import { methodOf, type RecipeInput } from "../../merge/index.js";
import { type MergeOptions, outputFields, runMerge, withMergeOptions } from "../shared/merge-run.js";
import { addRecipeFlags, type RecipeFlags, recipeFields } from "../shared/recipe-flags.js";

const FLAGS: RecipeFlags = {
  "Options:": ["tokenizer", "approximation_method", "k", "cosine_similarity", "subword_method", "magikarp"],
};

export function add(program: Command): void {
  const command = program
    .command("transplant")
    .description(
      "Give a model the tokenizer of another model, so that experts with different tokenizers can be merged. Rows of " +
        "tokens that both have are kept; others are sums of these, by default found by orthogonal matching pursuit in the " +
        "other model's embedding (arXiv 2506.06607).",
    )
    .argument("<model>", "model that gets the tokenizer");
  addRecipeFlags(command, methodOf({ method: "transplant" }).schema, FLAGS);
  withMergeOptions(command).action((task: string, options: MergeOptions) =>
    runMerge(
      { method: "transplant", task, ...recipeFields(FLAGS, options), ...outputFields(options) } as RecipeInput,
      options,
    ),
  );
}
