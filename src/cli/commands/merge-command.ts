// layergraft merge: a recipe file, or a mergekit configuration, in; one checkpoint out.

import type { Command } from "commander";
import { RecipeError } from "../../core/index.js";
import { readMergekit, readRecipe } from "../../merge/index.js";
import { type MergeOptions, outputFields, runMerge, withMergeOptions } from "../shared/merge-run.js";
import { say } from "../shared/output.js";

export function addMergeCommand(program: Command): void {
  const command = program
    .command("merge")
    .description(
      "Merges as a YAML recipe says. A source of a recipe may be a recipe itself; nothing is written in between. " +
        "Relative paths in it start from the recipe's folder. Options given here go before the recipe's own. " +
        "A mergekit configuration is executed as it is; its relative paths start from the working folder.",
    )
    .argument("<recipe>", "YAML file");
  withMergeOptions(command).action(async (file: string, options: MergeOptions) => {
    const converted = await readMergekit(file);
    for (const note of converted?.notes ?? []) say(options, `note: ${note}`);
    if (converted) return runMerge({ ...converted.recipe, ...outputFields(options) }, ".", options);
    const { recipe, folder, lineOf } = await readRecipe(file);
    try {
      await runMerge({ ...recipe, ...outputFields(options) }, folder, options);
    } catch (error) {
      // What only the models can show to be wrong is told with its line, too.
      const line = error instanceof RecipeError && error.where.field ? lineOf(error.where.field) : undefined;
      if (!(error instanceof RecipeError) || line === undefined) throw error;
      throw new RecipeError(`${file}, line ${line}: ${error.message}`, [], error.where);
    }
  });
}
