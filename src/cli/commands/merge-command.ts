import { type Command, Option } from "commander";
import { usageError } from "../../core/index.js";
import { planRecipeFile } from "../../merge/index.js";
import { type MergeOptions, outputFields, runMerge, withMergeOptions } from "../shared/merge-run.js";
import { info } from "../shared/output.js";

const NOT_NEEDED = "weights are streamed through little memory, and no GPU is used";
/** Flags of mergekit-yaml, and why they do nothing here. */
const OF_MERGEKIT: Readonly<Record<string, string>> = {
  "--cuda": NOT_NEEDED,
  "--multi-gpu": NOT_NEEDED,
  "--read-to-gpu": NOT_NEEDED,
  "--low-cpu-memory": NOT_NEEDED,
  "--gpu-rich": NOT_NEEDED,
  "--device <name>": NOT_NEEDED,
  "--lazy-unpickle": "safetensors and GGUF files are streamed; pickled files are never opened",
  "--trust-remote-code": "no code of a model is ever run",
  "--copy-tokenizer": "the tokenizer is always copied; --tokenizer-from says whose",
  "--clone-tensors": "the output never shares tensors between files",
  "--safe-serialization": "the output is always safetensors",
  "--async-write": "reading and writing overlap always",
  "--write-threads <n>": "--threads sets all threads",
  "--num-threads <n>": "--threads sets all threads",
  "--out-shard-size <size>": "--shard-size sets it, such as --shard-size 5GB",
  "--random-seed <n>": "seed is a field of a recipe; print the recipe with layergraft convert, and set it there",
  "--lora-merge-cache <folder>": "adapters are applied while weights are read",
  "--transformers-cache <folder>": "models of the hub are streamed, or read from its cache (HF_HOME)",
  "--allow-crimes": "models with the same tensors are merged whatever their configurations say, others never",
};

export function add(program: Command): void {
  const command = program
    .command("merge")
    .alias("moe")
    .description(
      "Run a recipe. Options override the recipe. Relative paths start from the recipe's folder. A model in a recipe may be " +
        "another recipe; intermediate models are never written. A configuration of mergekit or mergekit-moe runs as it is; " +
        "its relative paths start from the working folder.",
    )
    .argument("<recipe>", "YAML file")
    .argument("[out]", "folder to write, as --out");
  withMergeOptions(command).option("--allow-code", "run a file that the recipe names as its method");
  const theirs = Object.entries(OF_MERGEKIT).map(([flags, why]) => ({ option: new Option(flags).hideHelp(), why }));
  for (const { option } of theirs) command.addOption(option);
  command.action(
    async (file: string, out: string | undefined, flags: MergeOptions & { readonly allowCode?: boolean }) => {
      if (out !== undefined && flags.out !== undefined)
        throw usageError(`Give ${out} or --out ${flags.out}, not both.`);
      const options = { ...flags, ...(out === undefined ? {} : { out }) };
      for (const { option, why } of theirs) {
        if (option.attributeName() in flags) info(options, `note: ${option.long} is ignored: ${why}`);
      }
      await runMerge(async (hub) => {
        const { opened, notes } = await planRecipeFile(file, outputFields(options), hub, options.allowCode);
        for (const note of notes) info(options, `note: ${note}`);
        return opened;
      }, options);
    },
  );
}
