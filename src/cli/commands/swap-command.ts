import type { Command } from "commander";
import { locateSource } from "../../formats/checkpoint/index.js";
import { CheckpointError, MismatchError } from "../../kit/index.js";
import { commandLine } from "../../kit/printing/index.js";
import { suggestRecipes, trainingSentences } from "../../merge/analysis/index.js";
import { hasDefaultLayers, methodOf, type RecipeInput } from "../../merge/index.js";
import { analyze } from "../../verbs/index.js";
import { runWithHub } from "../shared/hub-access.js";
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
    const isDefault = hasDefaultLayers(fields);
    const measured = async () => (isDefault && options.dryRun ? measuredExperts(fields, options) : undefined);
    const recipe = { method: "swap", ...fields, ...outputFields(options) } as RecipeInput;
    await runMerge(recipe, options, async () => (await measured()) ?? {});
    if (options.json || options.quiet || !isDefault) return;
    const { measured: found, training = [] } = (await measured()) ?? {};
    for (const sentence of trainingSentences(training)) info(options, `note: ${sentence}`);
    const { base, task, language } = fields;
    info(
      options,
      found
        ? `\nThese layers are the paper's default, whatever the experts changed.\nMeasured: ${found.layers}.\n` +
            `These are ${found.reason}.\nEvaluate both. To take the measured ones, add:\n  --layers ${Object(found.recipe).layers.language}`
        : "These layers are the paper's default, whatever the experts changed. To measure where they changed, and get recipes" +
            (base === undefined
              ? `:\n  ${commandLine`suggest --base BASE --task ${String(task)} --language ${String(language)}`}\nwhere BASE is the model that both were fine-tuned from.`
              : `:\n  ${commandLine`suggest --base ${String(base)} --task ${String(task)} --language ${String(language)}`}`),
    );
  });
}

/** The layers that `suggest` measures and the signs of training, where a base is named and all weights are on this disk. */
async function measuredExperts({ base, task, language }: Readonly<Record<string, unknown>>, options: MergeOptions) {
  if (base === undefined) return undefined;
  const sources = { base: String(base), task: String(task), language: String(language) };
  try {
    for (const source of Object.values(sources)) await locateSource(source);
    const { base: root, ...experts } = sources;
    const analysis = await runWithHub(options, (controls) => analyze({ base: root, experts }, controls));
    const measured = suggestRecipes({ analysis, sources }).find(({ name }) => name === "profile");
    return { measured, training: analysis.training };
  } catch (error) {
    // The plan stands without: a model is on the hub, or vocabularies differ.
    if (error instanceof CheckpointError || error instanceof MismatchError) return undefined;
    throw error;
  }
}
