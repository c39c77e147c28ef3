import type { Command } from "commander";
import { usageError } from "../../core/index.js";
import { planRecipeFile } from "../../merge/index.js";
import { type MergeOptions, outputFields, runMerge, withMergeOptions } from "../shared/merge-run.js";
import { info } from "../shared/output.js";

export function add(program: Command): void {
  const command = program
    .command("moe")
    .description(
      "Build a mixture of experts (Mixtral, DeepSeek or Qwen MoE) from models of one family: their MLPs behind a router, " +
        "in the attention and norms of one of them. Rows of the router are the hidden states of prompts. Takes a " +
        "configuration of mergekit-moe or a recipe of the method moe.",
    )
    .argument("<configuration>", "YAML file");
  withMergeOptions(command).action(async (file: string, options: MergeOptions) => {
    await runMerge(async (hub) => {
      const { opened, notes } = await planRecipeFile(file, outputFields(options), hub);
      if (opened.plan.recipe.method !== "moe")
        throw usageError(`${file} is not a mixture of experts. Run it with merge.`);
      for (const note of notes) info(options, `note: ${note}`);
      return opened;
    }, options);
  });
}
