import { type Command, InvalidArgumentError, Option } from "commander";
import { type MergeOptions, outputFields, runMerge, withMergeOptions } from "../shared/merge-run.js";
import { parseList } from "../shared/output.js";

interface RevertOptions extends MergeOptions {
  readonly expert: string;
  readonly base: string;
  readonly layers?: string;
  readonly parts?: string[];
  readonly rowsBelow?: number;
  readonly rows?: "input" | "output";
  readonly keep?: boolean;
}

function parsePositive(text: string): number {
  const value = text.trim() === "" ? Number.NaN : Number(text);
  if (!(value > 0 && Number.isFinite(value))) throw new InvalidArgumentError("It must be a positive number.");
  return value;
}

export function addRevertCommand(program: Command): void {
  const command = program
    .command("revert")
    .description(
      "Reset layers, parts or little-changed rows of an expert to the base it was fine-tuned from (Bandarkar et al., arXiv " +
        "2410.01335, section 3.3). Prints the share of parameters that stay the expert's.",
    )
    .optionsGroup("Models:")
    .requiredOption("--expert <source>", "expert to reset")
    .requiredOption("--base <source>", "model it was fine-tuned from")
    .optionsGroup("Selection:")
    .option("--layers <list>", "layers to reset, such as 0-4,30-31 (default: the whole model)")
    .addOption(
      new Option("--parts <list>", "parts to reset: attention, mlp, outside, or such as q_proj,k_proj").argParser(
        parseList,
      ),
    )
    .addOption(
      new Option("--rows-below <t>", "reset only rows with a mean absolute change below t").argParser(parsePositive),
    )
    .addOption(
      new Option("--rows <axis>", "feature that makes a row").choices(["input", "output"]).default(undefined, "input"),
    )
    .option("--keep", "keep the selection and reset everything else");
  withMergeOptions(command).action(async (options: RevertOptions) => {
    const { expert, base, layers, parts, rowsBelow, rows, keep } = options;
    const recipe = { method: "revert" as const, expert, base, layers, parts, rows_below: rowsBelow, rows, keep };
    await runMerge({ ...recipe, ...outputFields(options) }, options);
  });
}
