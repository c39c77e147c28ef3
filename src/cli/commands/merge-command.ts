import type { Command } from "commander";
import { RecipeError } from "../../core/index.js";
import { readMergekit, readRecipe } from "../../merge/index.js";
import { type MergeOptions, outputFields, runMerge, withMergeOptions } from "../shared/merge-run.js";
import { info } from "../shared/output.js";

export function addMergeCommand(program: Command): void {
  const command = program
    .command("merge")
    .description(
      "Run a recipe. Options override the recipe. Relative paths start from the recipe's folder. A model in a recipe may be " +
        "another recipe; intermediate models are never written. A mergekit configuration runs as it is; its relative " +
        "paths start from the working folder.",
    )
    .argument("<recipe>", "YAML file");
  withMergeOptions(command).action(async (file: string, options: MergeOptions) => {
    const converted = await readMergekit(file);
    for (const note of converted?.notes ?? []) info(options, `note: ${note}`);
    if (converted) return runMerge({ ...converted.recipe, ...outputFields(options) }, ".", options);
    const { recipe, folder, lineOf } = await readRecipe(file);
    try {
      await runMerge({ ...recipe, ...outputFields(options) }, folder, options);
    } catch (error) {
      // Errors found only when the models are open get their line here.
      const line = error instanceof RecipeError && error.where.field ? lineOf(error.where.field) : undefined;
      if (!(error instanceof RecipeError) || line === undefined) throw error;
      throw new RecipeError(`${file}, line ${line}: ${error.message}`, [], error.where);
    }
  });
}
