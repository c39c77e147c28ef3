import type { Command } from "commander";
import { methodOf, type RecipeInput } from "../../merge/index.js";
import { type MergeOptions, outputFields, runMerge, withMergeOptions } from "../shared/merge-run.js";
import { addRecipeFlags, type RecipeFlags, recipeFields } from "../shared/recipe-flags.js";

const FLAGS: RecipeFlags = {
  "Models:": ["expert", "base"],
  "Selection:": ["layers", "parts", "rows_below", "rows", "keep_share", "from", "keep"],
};

export function add(program: Command): void {
  const command = program
    .command("revert")
    .description(
      "Reset layers, parts or little-changed rows of an expert to the base it was fine-tuned from (Bandarkar et al., arXiv " +
        "2410.01335, section 3.3). Prints the share of parameters that stay the expert's.",
    );
  addRecipeFlags(command, methodOf({ method: "revert" }).schema, FLAGS);
  withMergeOptions(command).action((options: MergeOptions) =>
    runMerge({ method: "revert", ...recipeFields(FLAGS, options), ...outputFields(options) } as RecipeInput, options),
  );
}
