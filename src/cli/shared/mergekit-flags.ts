// The flags of mergekit's programs that run a configuration, and what each is here. The command merge accepts them, and
// docs/coming-from-mergekit.md lists them.

/** Flags that mean the same here. */
export interface MergekitFlags {
  /** As commander writes them; `--[no-]cuda` is `--cuda` and `--no-cuda`. */
  readonly flags: readonly string[];
  /** What they are here, as a cell of a table and after a colon. */
  readonly here: string;
  /** Those that set something here; the others change nothing. */
  readonly sets?: readonly string[];
  /** Those that ask for what is not done: a note says so. */
  readonly unmet?: readonly string[];
  /** Those that are refused. */
  readonly refused?: readonly string[];
}

/** Of mergekit-yaml, mergekit-moe, mergekit-multi and mergekit-pytorch 0.1.5. */
export const MERGEKIT_FLAGS: readonly MergekitFlags[] = [
  {
    flags: ["--[no-]cuda", "--[no-]multi-gpu", "--[no-]read-to-gpu", "--[no-]low-cpu-memory", "--gpu-rich"],
    here: "not needed: weights are streamed through little memory, and no GPU is used",
  },
  { flags: ["--device <name>"], here: "not needed: no GPU is used" },
  {
    flags: ["--load-in-4bit", "--load-in-8bit"],
    here: "not needed: gates of mixtures are computed in float32, one layer of weights at a time",
  },
  { flags: ["--[no-]lazy-unpickle"], here: "not needed: pickled files are never opened" },
  {
    flags: ["--[no-]safe-serialization"],
    here: "weights are always written as safetensors, never pickled",
    refused: ["--no-safe-serialization"],
  },
  {
    flags: ["--[no-]async-write", "--write-threads <n>"],
    here: "not needed: reading and writing overlap always",
  },
  {
    flags: ["-j, --num-threads <n>"],
    here: "the same as `--threads`; the bytes of the result do not depend on it",
    sets: ["--num-threads"],
  },
  { flags: ["--lora-merge-cache <folder>"], here: "not needed: adapters are applied while weights are read" },
  {
    flags: ["--lora-merge-dtype <dtype>"],
    here:
      "the same, or `lora_merge_dtype` in a recipe; without it, base plus adapter is not rounded before the merge " +
      "([Adapters](merge-from-the-hub.md#adapters))",
    sets: ["--lora-merge-dtype"],
  },
  {
    flags: ["--transformers-cache <folder>"],
    here: "not needed: models of the hub are streamed, or read from its cache (`HF_HOME`)",
  },
  {
    flags: ["--intermediate-dir <folder>", "--[no-]lazy"],
    here: "not needed: nothing is written between the merges of a file; `--resume` resumes the whole",
  },
  { flags: ["--out-path <folder>"], here: "the same as `--out`", sets: ["--out-path"] },
  { flags: ["--[no-]clone-tensors"], here: "not needed: the output never shares tensors between files" },
  { flags: ["--[no-]write-model-card"], here: "a model card is always written", unmet: ["--no-write-model-card"] },
  {
    flags: ["--[no-]copy-tokenizer"],
    here: "the tokenizer is always written; `--tokenizer-from` names whose",
    unmet: ["--no-copy-tokenizer"],
  },
  {
    flags: ["--out-shard-size <parameters>"],
    here: "the same: parameters in a weight file, such as 5B; `--shard-size 5GB` counts bytes",
    sets: ["--out-shard-size"],
  },
  {
    flags: ["--random-seed <n>"],
    here: "the same, or `seed: 3` in a recipe; the random choices are layergraft's own",
    sets: ["--random-seed"],
  },
  { flags: ["--[no-]trust-remote-code"], here: "not needed: no code of a model is ever run" },
  {
    flags: ["--[no-]allow-crimes"],
    here: "not needed: models with the same tensors merge whatever their configurations say, others never",
  },
  {
    flags: ["--[no-]unsafe-truncate-embeddings"],
    here: "embeddings are never cut; `--vocabulary` merges those of unequal vocabularies by token",
    unmet: ["--unsafe-truncate-embeddings"],
  },
  { flags: ["-v, --verbose", "--no-quiet"], here: "not needed: progress and notes are printed without it" },
  { flags: ["--i-understand-this-is-not-useful-without-training"], here: "accepted" },
];

/** The spellings of one entry: `-j, --num-threads <n>`, or `--cuda` and `--no-cuda`. */
export function spellingsOf(flag: string): string[] {
  return flag.includes("[no-]") ? [flag.replace("[no-]", ""), flag.replace("[no-]", "no-")] : [flag];
}
