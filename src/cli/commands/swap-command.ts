import type { Command } from "commander";
import { shellQuote } from "../../kit/printing/index.js";
import { hasDefaultLayers, methodOf, type RecipeInput } from "../../merge/index.js";
import { type MergeOptions, outputFields, runMerge, withMergeOptions } from "../shared/merge-run.js";
import { info } from "../shared/output.js";
import { addRecipeFlags, type RecipeFlags, recipeFields } from "../shared/recipe-flags.js";

const FLAGS: RecipeFlags = {
  "Models:": ["task", "language", "base"],
  "Layers:": [
    ...["bottom", "top", "bottom_transition", "top_transition", "preset"],
    ["layers", "layers.language"],
    ["average", "layers.average"],
    ...["weights", "outside", "parts"],
  ],
};

export function add(program: Command): void {
  const command = program
    .command("swap")
    .description(
      "Take the bottom and top layers from the language expert and the middle layers from the task expert, and average " +
        "the tensors outside the layers (Bandarkar et al., arXiv 2410.01335). A source is a folder, FOLDER+ADAPTER with " +
        "a PEFT LoRA adapter, or a model on the Hugging Face hub (org/model).",
    );
  addRecipeFlags(command, methodOf({ method: "swap" }).schema, FLAGS);
  withMergeOptions(command).action(async (options: MergeOptions) => {
    const fields: Readonly<Record<string, unknown>> = recipeFields(FLAGS, options);
    await runMerge({ method: "swap", ...fields, ...outputFields(options) } as RecipeInput, options);
    if (!options.dryRun || !hasDefaultLayers(fields)) return;
    const [base = "BASE", task, language] = [fields.base, fields.task, fields.language].map((source) =>
      source === undefined ? undefined : shellQuote(String(source)),
    );
    info(
      options,
      "These layers are the paper's default, whatever the experts changed. To measure where they changed, and get recipes:\n" +
        `  layergraft suggest --base ${base} --task ${task} --language ${language}`,
    );
  });
}
