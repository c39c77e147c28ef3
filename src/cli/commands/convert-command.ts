// layergraft convert: a mergekit configuration in, the recipe that does the same out.

import type { Command } from "commander";
import { Document, isScalar, visit } from "yaml";
import { LayergraftError } from "../../core/index.js";
import { checkRecipe, readMergekit, readRecipe } from "../../merge/index.js";
import { type CommonOptions, print, printJson, say, withCommonOptions } from "../shared/output.js";

export function addConvertCommand(program: Command): void {
  const command = program
    .command("convert")
    .description(
      "Prints the recipe as YAML; what is different on purpose goes to stderr. Relative paths stay as they are, so the " +
        "recipe belongs into the folder that mergekit was run from.",
    )
    .argument("<configuration>", "mergekit's YAML file");
  withCommonOptions(command).action(async (file: string, options: CommonOptions) => {
    const converted = await readMergekit(file);
    if (!converted) {
      await readRecipe(file); // says what is wrong with a file that is neither
      throw new LayergraftError("usage", `${file} is a recipe already; layergraft merge executes it`);
    }
    checkRecipe(converted.recipe);
    for (const note of converted.notes) say(options, `note: ${note}`);
    if (options.json) printJson(converted);
    else print(format(converted.recipe));
  });
}

/** A recipe as a person would write it: lists of numbers on one line. */
function format(recipe: object): string {
  const document = new Document(recipe, { aliasDuplicateObjects: false });
  visit(document, {
    Seq: (_, list) => {
      list.flow = list.items.every((item) => isScalar(item) && typeof item.value === "number");
    },
  });
  return document.toString({ lineWidth: 0, flowCollectionPadding: false }).trimEnd();
}
