// layergraft revert: part of an expert goes back to its base.
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
      "Gives layers, parts or little-changed rows of an expert back to the base it was fine-tuned from (Bandarkar et al., " +
        "arXiv 2410.01335, section 3.3), and says what share of the parameters stays the expert's.",
    )
    .requiredOption("--expert <source>", "the expert")
    .requiredOption("--base <source>", "the model it was fine-tuned from")
    .option("--layers <list>", "layers that go back, such as 0-4,30-31 (default: all, and what is in none)")
    .addOption(
      new Option("--parts <list>", "parts that go back: attention, mlp, outside, or such as q_proj,k_proj").argParser(
        parseList,
      ),
    )
    .addOption(
      new Option(
        "--rows-below <t>",
        "of those only rows whose mean absolute change is below t (default: whole tensors)",
      ).argParser(parsePositive),
    )
    .addOption(
      new Option("--rows <axis>", "what a row is: an input feature, or an output feature (default: input)").choices([
        "input",
        "output",
      ]),
    )
    .option("--keep", "the complement: what is chosen stays the expert's, all else goes back");
  withMergeOptions(command).action(async (options: RevertOptions) => {
    const { expert, base, layers, parts, rowsBelow, rows, keep } = options;
    const recipe = { method: "revert" as const, expert, base, layers, parts, rows_below: rowsBelow, rows, keep };
    await runMerge({ ...recipe, ...outputFields(options) }, ".", options);
  });
}
