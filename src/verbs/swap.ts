import { locateSource } from "../formats/checkpoint/index.js";
import { CheckpointError, MismatchError } from "../kit/index.js";
import { commandLine } from "../kit/printing/index.js";
import { hasDefaultLayers } from "../merge/index.js";
import type { SwapInput } from "./inputs.js";
import { type MergeResult, type MergeWorkOptions, methodVerb } from "./merge.js";
import { type Controls, callVerb } from "./verb.js";

/** A layer swap, as a verb. */
export const swapVerb = methodVerb("swap", {
  description:
    "Take the bottom and top layers from the language expert and the middle layers from the task expert, and average " +
    "the tensors outside the layers (Bandarkar et al., arXiv 2410.01335). A source is a folder, FOLDER+ADAPTER with " +
    "a PEFT LoRA adapter, or a model on the Hugging Face hub (org/model).",
  groups: {
    Models: ["task", "language", "base"],
    Layers: [
      ...["bottom", "top", "bottom_transition", "top_transition", "preset"],
      ...["layers", "weights", "outside", "parts"],
    ],
  },
  open: ["layers"],
  measures: " (with `base`: all)",
  flags: { "layers.language": { flag: "layers" }, "layers.average": { flag: "average" } },
  beside: async (input, controls) => (hasDefaultLayers(input) ? measuredExperts(input, controls) : undefined),
  closing(input) {
    if (!hasDefaultLayers(input)) return [];
    const { base, task, language } = input as SwapInput;
    const command = commandLine`suggest --base ${String(base ?? "BASE")} --task ${String(task)} --language ${String(language)}`;
    return [
      "These layers are the paper's default, whatever the experts changed. To measure where they changed, and get recipes:\n" +
        `  ${command}${base === undefined ? "\nwhere BASE is the model that both were fine-tuned from." : ""}`,
    ];
  },
});

/** The layers that `suggest` measures and the signs of training, where a base is named and all weights are on this disk. */
async function measuredExperts(input: object, controls: Controls) {
  const { base, task, language } = input as SwapInput;
  if (base === undefined) return undefined;
  const sources = { base: String(base), task: String(task), language: String(language) };
  try {
    for (const source of Object.values(sources)) await locateSource(source, controls.folder);
    const { base: root, ...experts } = sources;
    // Loaded here alone, as no merge is written by them.
    const [{ analyzeWithRows }, { suggestRecipes, trainingSentences }] = await Promise.all([
      import("./analyze.js"),
      import("../merge/analysis/index.js"),
    ]);
    const { analysis } = await analyzeWithRows({ base: root, experts }, controls);
    const { training } = analysis;
    const measured = suggestRecipes({ analysis, sources }).find(({ name }) => name === "profile");
    const lines = measured && [
      ...trainingSentences(training).map((sentence) => `note: ${sentence}`),
      "\nThese layers are the paper's default, whatever the experts changed.\n" +
        `Measured: ${measured.layers}.\nThese are ${measured.reason}.\nEvaluate both. To take the measured ones, add:\n` +
        `  --layers ${Object(measured.recipe).layers.language}`,
    ];
    return { json: { measured, training }, lines };
  } catch (error) {
    // The plan stands without: a model is on the hub, or vocabularies differ.
    if (error instanceof CheckpointError || error instanceof MismatchError) return undefined;
    throw error;
  }
}

/** Writes a merge of the method `swap`. @throws as `merge` */
export function swap(input: SwapInput, options: MergeWorkOptions = {}): Promise<MergeResult> {
  return callVerb(swapVerb, input, options);
}
