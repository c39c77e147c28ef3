import { plural } from "../../kit/printing/index.js";
import { STATISTICS } from "../../merge/index.js";
import { hubAccess } from "../shared/hub-access.js";
import {
  elapsed,
  info,
  parseCount,
  parsePositive,
  printJson,
  runWithProgress,
  withWorkOptions,
} from "../shared/output.js";
import { readTexts } from "../shared/prompt-files.js";
import { type Command, Option } from "../shared/typed.js";

export function add(program: Command): void {
  const command = program
    .command("measure")
    .description(
      "Measure a model on texts, and write what merges weigh by: the Fisher information of each weight (fisher, for the " +
        "method fisher), products of the inputs of each matrix (gram, for regmean), or their mean size (inputs, for aim); " +
        "or how often each neuron fires (activations, for the command neurons).",
    )
    .argument("<model>", "model, or a recipe file (.yaml)")
    .addOption(new Option("--kind <kind>", "statistics to measure").choices(STATISTICS).makeOptionMandatory())
    .requiredOption("--on <file>", "text file, one text per line")
    .option("--samples <n>", "texts to draw (default: 256)", parsePositive)
    .option("--length <n>", "tokens to read of a text (default: 512)", parsePositive)
    .option("--seed <n>", "seed of the draw (default: 0)", parseCount)
    .optionsGroup("Output:")
    .requiredOption("-o, --out <folder>", "folder to write")
    .option("--force", "replace earlier statistics");
  withWorkOptions(command).action(async (model, options) => {
    const start = performance.now();
    const { kind, on, samples, length, seed, out, force } = options;
    const texts = await readTexts(on);
    const { measureStatistics } = await import("../../engine/index.js");
    const summary = await runWithProgress(
      options,
      (controls) =>
        measureStatistics(model, {
          ...{ kind, texts, samples, length, seed, out, force, ...controls },
          hub: hubAccess("files", controls),
        }),
      "this text",
    );
    if (options.json) printJson(summary);
    info(
      options,
      `Measured ${plural(summary.tensors, "tensor")} on ${plural(summary.texts, "text")} (${plural(summary.tokens, "token")}) in ${elapsed(start)}: ${out}`,
    );
  });
}
