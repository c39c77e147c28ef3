// layergraft swap: two experts in, one checkpoint out.

import { type Command, InvalidArgumentError, Option } from "commander";
import { OUTSIDE, type SwapRecipe } from "../../merge/index.js";
import { type MergeOptions, outputFields, runMerge, withMergeOptions } from "../shared/merge-run.js";
import { parseCount, parseList } from "../shared/output.js";

interface SwapOptions extends MergeOptions {
  readonly task: string;
  readonly language: string;
  readonly base?: string;
  readonly bottom?: number;
  readonly top?: number;
  readonly bottomTransition?: number;
  readonly topTransition?: number;
  readonly weights?: SwapRecipe["weights"];
  readonly outside?: SwapRecipe["outside"];
  readonly layers?: string;
  readonly average?: string;
  readonly parts?: string[];
}

function parseWeights(text: string): SwapRecipe["weights"] {
  if (text === "equal" || text === "magnitude") return text;
  const numbers = text.split(",").map((part) => (part.trim() === "" ? Number.NaN : Number(part)));
  const [task, language] = numbers;
  if (numbers.length !== 2 || !Number.isFinite(task) || !Number.isFinite(language)) {
    throw new InvalidArgumentError("It must be equal, magnitude, or two numbers TASK,LANGUAGE such as 1,2.");
  }
  return [task as number, language as number];
}

export function addSwapCommand(program: Command): void {
  const layers = (flags: string, description: string) => new Option(flags, description).argParser(parseCount);
  const command = program
    .command("swap")
    .description(
      "Takes the bottom and top layers from the language expert, the middle from the task expert, and averages " +
        "what lies outside the layers (Bandarkar et al., arXiv 2410.01335). A source is a folder, FOLDER+ADAPTER with " +
        "a PEFT LoRA adapter, or the name of a model in the hub's local cache.",
    )
    .requiredOption("--task <source>", "the expert whose middle layers are kept")
    .requiredOption("--language <source>", "the expert whose bottom and top layers are taken")
    .option("--base <source>", "the model both were fine-tuned from (for --weights magnitude)")
    .addOption(layers("--bottom <n>", "layers taken at the input (default: 5 of 32, in proportion)"))
    .addOption(layers("--top <n>", "layers taken at the output (default: 2 of 32, in proportion)"))
    .addOption(layers("--bottom-transition <n>", "layers averaged above the bottom ones (default: 0)"))
    .addOption(layers("--top-transition <n>", "layers averaged below the top ones (default: 0)"))
    .option(
      "--layers <list>",
      "layers to take from the language expert, such as 0-4,30-31, in place of --bottom and --top",
    )
    .option("--average <list>", "with --layers: layers to average")
    .addOption(
      new Option("--weights <weights>", "of averages: equal, magnitude, or TASK,LANGUAGE (default: equal)").argParser(
        parseWeights,
      ),
    )
    .addOption(new Option("--outside <from>", "tensors outside the layers (default: average)").choices(OUTSIDE))
    .addOption(
      new Option(
        "--parts <parts>",
        "what to take of a swapped layer: all, attention, mlp, or parts such as q_proj,k_proj (default: all)",
      ).argParser(parseList),
    );
  withMergeOptions(command).action(async (options: SwapOptions) => {
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
    await runMerge(recipe, ".", options);
  });
}
