import { outputFields, runMerge, withMergeOptions } from "../shared/merge-run.js";
import { parseList, parseNumber, parseShare } from "../shared/output.js";
import { type Command, Option } from "../shared/typed.js";

export function add(program: Command): void {
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
    .option("--parts <list>", "parts to reset: attention, mlp, outside, or such as q_proj,k_proj", parseList)
    .option(
      "--rows-below <t>",
      "reset only rows with a mean absolute change below t",
      parseNumber((value) => value > 0 && value < Infinity, "It must be a positive number."),
    )
    .addOption(
      new Option("--rows <axis>", "feature that makes a row").choices(["input", "output"]).default(undefined, "input"),
    )
    .option("--keep-share <s>", "reset all but this share of the parameters, or of the layers", parseShare)
    .addOption(
      new Option("--from <order>", "order of --keep-share: the rows that changed least, or layers from there")
        .choices(["smallest", "bottom", "middle", "top"])
        .default(undefined, "smallest"),
    )
    .option("--keep", "keep the selection and reset everything else");
  withMergeOptions(command).action(async (options) => {
    const { expert, base, layers, parts, rowsBelow, rows, keepShare, from, keep } = options;
    const chosen = { layers, parts, rows_below: rowsBelow, rows, keep_share: keepShare, from, keep };
    await runMerge({ method: "revert" as const, expert, base, ...chosen, ...outputFields(options) }, options);
  });
}
