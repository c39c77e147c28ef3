import { type Command, InvalidArgumentError, Option } from "commander";
import { defined, usageError } from "../../kit/index.js";
import { outputSchema, type RecipeInput } from "../../merge/index.js";
import { planMerge } from "../../verbs/index.js";
import { type MergeOptions, outputFields, runMerge, withMergeOptions } from "../shared/merge-run.js";
import { info, parseCount } from "../shared/output.js";

/** Flags of mergekit-yaml and mergekit-moe that change nothing here; docs/coming-from-mergekit.md says why. */
const OF_MERGEKIT = [
  ...["--cuda", "--multi-gpu", "--read-to-gpu", "--low-cpu-memory", "--gpu-rich", "--device <name>"],
  ...["--lazy-unpickle", "--trust-remote-code", "--copy-tokenizer", "--clone-tensors", "--safe-serialization"],
  ...["--async-write", "--write-threads <n>", "--num-threads <n>", "--lora-merge-cache <folder>"],
  ...["--transformers-cache <folder>", "--allow-crimes", "--write-model-card", "-v, --verbose"],
  "--i-understand-this-is-not-useful-without-training",
];

interface MergekitOptions {
  readonly allowCode?: boolean;
  readonly outShardSize?: number;
  readonly randomSeed?: number;
  readonly loraMergeDtype?: RecipeInput["lora_merge_dtype"];
}

/** A number as mergekit writes it, such as 5B. */
function parseParameters(text: string): number {
  const [, digits, unit = ""] = /^([1-9]\d{0,14})([kmb]?)$/i.exec(text) ?? [];
  if (digits === undefined) throw new InvalidArgumentError("It must be a number of parameters, such as 5B.");
  return Number(digits) * 1000 ** ["", "k", "m", "b"].indexOf(unit.toLowerCase());
}

export function add(program: Command): void {
  const command = program
    .command("merge")
    .description(
      "Run a recipe. Options override the recipe. Relative paths start from the recipe's folder. A model in a recipe may be " +
        "another recipe; intermediate models are never written. A configuration of mergekit or mergekit-moe runs as it is; " +
        "its relative paths start from the working folder.",
    )
    .argument("<recipe>", "YAML file")
    .argument("[out]", "folder to write, as --out");
  withMergeOptions(command).option("--allow-code", "run a file that the recipe names as its method");
  const theirs = OF_MERGEKIT.map((flags) => new Option(flags).hideHelp());
  for (const option of theirs) command.addOption(option);
  command.addOption(new Option("--out-shard-size <parameters>").argParser(parseParameters).hideHelp());
  const { lora_merge_dtype: field } = outputSchema.shape;
  command.addOption(new Option("--lora-merge-dtype <dtype>").choices(field.unwrap().options).hideHelp());
  command.addOption(new Option("--random-seed <n>").argParser(parseCount).hideHelp());
  command.action(async (file: string, out: string | undefined, flags: MergeOptions & MergekitOptions) => {
    if (out !== undefined && flags.out !== undefined) throw usageError(`Give ${out} or --out ${flags.out}, not both.`);
    const options = { ...flags, ...(out === undefined ? {} : { out }) };
    const unused = theirs.filter((option) => option.attributeName() in flags).map(({ long }) => long);
    if (unused.length > 0)
      info(options, `note: not needed here: ${unused.join(", ")} (see docs/coming-from-mergekit.md)`);
    const { allowCode, outShardSize, randomSeed: seed, loraMergeDtype } = flags;
    await runMerge(async (hub) => {
      const planWith = (fields: Partial<RecipeInput>) => planMerge(file, { hub, allowCode, seed, fields });
      const fields = defined({ ...outputFields(options), lora_merge_dtype: loraMergeDtype });
      const plan = await planWith(fields);
      const own = plan.toJSON().notes;
      for (const note of plan.notes) if (!own.includes(note)) info(options, `note: ${note}`);
      if (outShardSize === undefined || options.shardSize) return plan;
      const { bytesToWrite, parameters } = plan.summary;
      return planWith({ ...fields, shard_size: Math.ceil((outShardSize * bytesToWrite) / Math.max(1, parameters)) });
    }, options);
  });
}
