import { InvalidArgumentError } from "commander";
import { outputFields, runMerge, withMergeOptions } from "../shared/merge-run.js";
import { type Command, Option } from "../shared/typed.js";

/** SOURCE or SOURCE=WEIGHT; a path may contain '=', so only a number after the last one is a weight. */
function parseModel(text: string, earlier: readonly { model: string; weight?: number }[] = []): typeof earlier {
  const equals = text.lastIndexOf("=");
  const weight = equals > 0 && equals < text.length - 1 ? Number(text.slice(equals + 1)) : Number.NaN;
  if (text === "" || text.endsWith("=")) throw new InvalidArgumentError("It must be SOURCE or SOURCE=WEIGHT.");
  return [...earlier, Number.isFinite(weight) ? { model: text.slice(0, equals), weight } : { model: text }];
}

export function add(program: Command): void {
  const command = program
    .command("soup")
    .description("Average models tensor by tensor: equally, with weights, or by the inverse magnitude of their change.")
    .optionsGroup("Models:")
    .requiredOption("--model <source[=weight]>", "model to average; repeatable", parseModel)
    .option("--base <source>", "model all were fine-tuned from; for --weights magnitude")
    .addOption(
      new Option("--weights <weights>", "weights of the average")
        .choices(["equal", "magnitude"])
        .default(undefined, "those of --model, or equal"),
    );
  withMergeOptions(command).action(async (options) => {
    const { model, base, weights } = options;
    await runMerge({ method: "soup", models: [...model], base, weights, ...outputFields(options) }, options);
  });
}
