import { type Command, InvalidArgumentError, Option } from "commander";
import { defined, usageError } from "../../kit/index.js";
import { outputSchema, type RecipeInput } from "../../merge/index.js";
import { planMerge } from "../../verbs/index.js";
import { type MergeOptions, outputFields, runMerge, withMergeOptions } from "../shared/merge-run.js";
import { MERGEKIT_FLAGS, spellingsOf } from "../shared/mergekit-flags.js";
import { info, parseCount, parseThreads } from "../shared/output.js";
import { AS_MERGEKIT } from "../shared/recipe-flags.js";

interface MergekitOptions {
  readonly allowCode?: boolean;
  readonly asMergekit?: boolean;
  readonly numThreads?: number;
  readonly outPath?: string;
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

/** A dtype as mergekit writes it, such as torch.bfloat16. */
function parseDtype(text: string): string {
  const { options } = outputSchema.shape.lora_merge_dtype.unwrap();
  const name = text.replace(/^torch\./, "");
  if (!options.some((option) => option === name)) {
    throw new InvalidArgumentError(`It must be one of ${options.join(", ")}.`);
  }
  return name;
}

/** How the values of flags that set something are read. */
const PARSERS: Readonly<Record<string, (text: string) => unknown>> = {
  "--num-threads": parseThreads,
  "--lora-merge-dtype": parseDtype,
  "--out-shard-size": parseParameters,
  "--random-seed": parseCount,
};

/** mergekit's flags as options of the command, with what each is here. */
function mergekitOptions() {
  return MERGEKIT_FLAGS.flatMap(({ flags, sets = [], ...row }) =>
    flags.flatMap(spellingsOf).map((flag) => {
      const option = new Option(flag).hideHelp();
      const long = option.long ?? flag;
      const parse = PARSERS[long];
      return { row, option: parse ? option.argParser(parse) : option, long, hasEffect: sets.includes(long) };
    }),
  );
}

/**
 * Reports the flags of mergekit that were given and have no effect.
 * @throws LayergraftError code `usage` for one that asks for what is never done
 */
function noteFlags(theirs: ReturnType<typeof mergekitOptions>, options: MergeOptions): void {
  const given = theirs.filter(({ option, hasEffect }) => {
    const value = (options as Record<string, unknown>)[option.attributeName()];
    return !hasEffect && value !== undefined && (value === false) === option.negate;
  });
  for (const { long, row } of given) {
    if (row.refused?.includes(long)) throw usageError(`${long} is not supported: ${row.here}. Remove it.`);
    if (row.unmet?.includes(long)) info(options, `note: ${long} has no effect: ${row.here.replaceAll("`", "")}`);
  }
  const unused = given.filter(({ long, row }) => !row.unmet?.includes(long)).map(({ long }) => long);
  if (unused.length > 0)
    info(options, `note: not needed here: ${unused.join(", ")} (see docs/coming-from-mergekit.md)`);
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
  withMergeOptions(command)
    .option("--allow-code", "run a file that the recipe names as its method")
    .option("--as-mergekit", AS_MERGEKIT);
  const theirs = mergekitOptions();
  for (const { option } of theirs) command.addOption(option);
  command.action(async (file: string, argument: string | undefined, flags: MergeOptions & MergekitOptions) => {
    const { allowCode, asMergekit, outPath, numThreads, outShardSize, randomSeed: seed, loraMergeDtype } = flags;
    const out = argument ?? outPath;
    if (out !== undefined && flags.out !== undefined) throw usageError(`Give ${out} or --out ${flags.out}, not both.`);
    const options: MergeOptions = { ...defined({ out, threads: numThreads }), ...flags };
    noteFlags(theirs, options);
    await runMerge(async (hub) => {
      const planWith = (fields: Partial<RecipeInput>) => planMerge(file, { hub, allowCode, seed, fields, asMergekit });
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
