// layergraft merge: a recipe file in, one checkpoint out.
import type { Command } from "commander";
import { readRecipe } from "../../merge/recipe-file.js";
import { type MergeOptions, outputFields, runMerge, withMergeOptions } from "../merge-run.js";

export function addMergeCommand(program: Command): void {
  const command = program
    .command("merge")
    .summary("execute a recipe")
    .description(
      "Merges as a YAML recipe says. A source of a recipe may be a recipe itself; nothing is written in between. " +
        "Relative paths in it start from the recipe's folder. Options given here go before the recipe's own.",
    )
    .argument("<recipe>", "YAML file");
  withMergeOptions(command).action(async (file: string, options: MergeOptions) => {
    const { recipe, folder } = await readRecipe(file);
    await runMerge({ ...recipe, ...outputFields(options) }, folder, options);
  });
}
