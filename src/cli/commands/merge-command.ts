// The command of the verb, which takes the flags of mergekit's programs, too.
import { statSync } from "node:fs";
import { InvalidArgumentError, Option } from "commander";
import { defined, usageError } from "../../kit/index.js";
import { outputSchema } from "../../merge/index.js";
import { planMerge } from "../../verbs/index.js";
import { mergeVerb } from "../../verbs/shared/index.js";
import { hubAccess } from "../shared/hub-access.js";
import { MERGEKIT_FLAGS, spellingsOf } from "../shared/mergekit-flags.js";
import { type CommonOptions, info, parseCount, parseThreads, runWithProgress } from "../shared/output.js";
import { verbCommand } from "../shared/verb-command.js";

interface MergekitOptions extends CommonOptions {
  readonly out?: string;
  readonly shardSize?: string;
  readonly numThreads?: number;
  readonly outPath?: string;
  readonly outShardSize?: number;
  readonly randomSeed?: number;
  readonly loraMergeDtype?: string;
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
function noteFlags(theirs: ReturnType<typeof mergekitOptions>, options: CommonOptions): void {
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

const isFolder = (path: string) => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

const theirs = mergekitOptions();

export const add = verbCommand(mergeVerb, {
  hidden: theirs.map(({ option }) => option),
  async settled(given, [file = "", argument]) {
    const {
      out,
      outPath,
      numThreads,
      outShardSize,
      randomSeed: seed,
      loraMergeDtype,
      shardSize,
    } = given as MergekitOptions;
    const place = argument ?? outPath;
    // Two models in place of a recipe are answered where the recipe is read.
    if (place !== undefined && out !== undefined && !isFolder(file))
      throw usageError(`Give ${place} or --out ${out}, not both.`);
    noteFlags(theirs, given);
    const size =
      outShardSize === undefined || shardSize !== undefined
        ? undefined
        : await runWithProgress(given, async (controls) => {
            const hub = hubAccess("plan", controls);
            const { bytesToWrite, parameters } = (await planMerge(file, { hub, seed, asMergekit: true })).summary;
            return Math.ceil((outShardSize * bytesToWrite) / Math.max(1, parameters));
          });
    return {
      input: defined({ out: place, seed, lora_merge_dtype: loraMergeDtype, shard_size: size }),
      flags: { ...defined({ threads: numThreads }), ...given },
    };
  },
});
