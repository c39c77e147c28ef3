import type { Command } from "commander";
import { usageError } from "../../kit/index.js";
import { yamlText } from "../../kit/settings/index.js";
import { checkRecipe, readRecipe } from "../../merge/index.js";
import { readMergekit } from "../../merge/mergekit/index.js";
import { type CommonOptions, info, print, printJson, withCommonOptions } from "../shared/output.js";
import { AS_MERGEKIT } from "../shared/recipe-flags.js";

export function add(program: Command): void {
  const command = program
    .command("convert")
    .description(
      "Print a mergekit configuration as a recipe. Notes on stderr list deliberate differences. Relative paths are not " +
        "changed, so save the recipe in the folder that mergekit runs from.",
    )
    .argument("<configuration>", "mergekit YAML file");
  command.option("--as-mergekit", AS_MERGEKIT);
  withCommonOptions(command).action(async (file: string, options: CommonOptions & { asMergekit?: boolean }) => {
    const converted = await readMergekit(file, undefined, options);
    if (!converted) {
      await readRecipe(file); // throws if the file is not a recipe either
      throw usageError(`${file} is already a recipe; run it with layergraft merge`);
    }
    checkRecipe(converted.recipe);
    for (const note of converted.notes) info(options, `note: ${note}`);
    if (options.json) printJson(converted);
    else print(yamlText(converted.recipe).trimEnd());
  });
}
