import { InvalidArgumentError } from "commander";
import { OUTSIDE, type SwapRecipe } from "../../merge/index.js";
import { outputFields, runMerge, withMergeOptions } from "../shared/merge-run.js";
import { parseCount, parseList } from "../shared/output.js";
import { type Command, Option } from "../shared/typed.js";

function parseWeights(text: string): SwapRecipe["weights"] {
  if (text === "equal" || text === "magnitude") return text;
  const numbers = text.split(",").map((part) => (part.trim() === "" ? Number.NaN : Number(part)));
  const [task, language] = numbers;
  if (numbers.length !== 2 || !Number.isFinite(task) || !Number.isFinite(language)) {
    throw new InvalidArgumentError("It must be equal, magnitude, or two numbers TASK,LANGUAGE such as 1,2.");
  }
  return [task as number, language as number];
}

export function add(program: Command): void {
  const command = program
    .command("swap")
    .description(
      "Take the bottom and top layers from the language expert and the middle layers from the task expert, and average " +
        "the tensors outside the layers (Bandarkar et al., arXiv 2410.01335). A source is a folder, FOLDER+ADAPTER with " +
        "a PEFT LoRA adapter, or a model on the Hugging Face hub (org/model).",
    )
    .optionsGroup("Models:")
    .requiredOption("--task <source>", "task expert; gives the middle layers")
    .requiredOption("--language <source>", "language expert; gives the bottom and top layers")
    .option("--base <source>", "model both were fine-tuned from; for --weights magnitude")
    .optionsGroup("Layers:")
    .option("--bottom <n>", "language expert's layers at the input (default: 5 of 32, scaled)", parseCount)
    .option("--top <n>", "language expert's layers at the output (default: 2 of 32, scaled)", parseCount)
    .option("--bottom-transition <n>", "layers to average above the bottom ones (default: 0)", parseCount)
    .option("--top-transition <n>", "layers to average below the top ones (default: 0)", parseCount)
    .option("--layers <list>", "layers to take, such as 0-4,30-31; instead of --bottom and --top")
    .option("--average <list>", "layers to average; with --layers")
    .option(
      "--weights <weights>",
      "weights of averages: equal, magnitude, or TASK,LANGUAGE (default: equal)",
      parseWeights,
    )
    .addOption(
      new Option("--outside <from>", "tensors outside the layers").choices(OUTSIDE).default(undefined, "average"),
    )
    .option(
      "--parts <parts>",
      "parts to swap: all, attention, mlp, or such as q_proj,k_proj (default: all)",
      parseList,
    );
  withMergeOptions(command).action(async (options) => {
    const { task, language, base, bottom, top, bottomTransition, topTransition, weights, outside, parts } = options;
    const named = { language: options.layers, average: options.average };
    const recipe = {
      method: "swap" as const,
      task,
      language,
      base,
      bottom,
      top,
      bottom_transition: bottomTransition,
      top_transition: topTransition,
      layers: named.language === undefined && named.average === undefined ? undefined : named,
      weights,
      outside,
      parts,
      ...outputFields(options),
    };
    await runMerge(recipe, options);
  });
}
