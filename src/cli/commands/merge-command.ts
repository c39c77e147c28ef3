import type { Command } from "commander";
import { planRecipeFile } from "../../merge/index.js";
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
  withMergeOptions(command).option("--allow-code", "run a file that the recipe names as its method");
  command.action(async (file: string, options: MergeOptions & { readonly allowCode?: boolean }) => {
    await runMerge(async (hub) => {
      const { opened, notes } = await planRecipeFile(file, outputFields(options), hub, options.allowCode);
      for (const note of notes) info(options, `note: ${note}`);
      return opened;
    }, options);
  });
}
