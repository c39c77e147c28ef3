// Words of other programs, for commands and flags: those with one meaning here are taken, the others are answered in a sentence.

import { type Command, Option } from "commander";
import { commandLine } from "../../kit/printing/index.js";
import { MERGEKIT_FLAGS, spellingsOf } from "./mergekit-flags.js";

/** `means`: what it is here. `says`: why it is not, in a sentence. */
export type Synonym = { readonly means: string } | { readonly says: string };

const QUANTIZE = `A quantised model is an export. Write: ${commandLine`export MODEL --type q4_k_m --out FILE.gguf`}`;

/** Commands, in lower case. */
export const COMMAND_SYNONYMS: Readonly<Record<string, Synonym>> = {
  evaluate: { means: "eval" },
  lm_eval: { means: "eval" },
  "lm-eval": { means: "eval" },
  finetune: { means: "train" },
  "fine-tune": { means: "train" },
  publish: { means: "push" },
  upload: { means: "push" },
  info: { means: "inspect" },
  show: { means: "inspect" },
  version: { means: "--version" },
  quantize: { says: QUANTIZE },
  "llama-quantize": { says: QUANTIZE },
  "convert_hf_to_gguf.py": { says: `export writes GGUF files. Write: ${commandLine`export MODEL --out FILE.gguf`}` },
  "llama-cli": { says: `To ask a model, write: ${commandLine`generate MODEL --prompt TEXT`}` },
  "llama-server": { says: `serve has the OpenAI API. Write: ${commandLine`serve MODEL`}` },
  run: {
    says: `To ask a model, write: ${commandLine`generate MODEL --chat --prompt TEXT`}. To run a plan, write: ${commandLine`experiment PLAN run`}`,
  },
  ...Object.fromEntries(
    ["mergekit-yaml", "mergekit-moe", "mergekit"].map((name) => [
      name,
      { says: `merge runs configurations of mergekit. Write: ${commandLine`merge CONFIG --out FOLDER`}` },
    ]),
  ),
  list: {
    says: `Merge methods: ${commandLine`methods`}. Tasks: ${commandLine`eval --list`}. Prepared models: ${commandLine`cache`}`,
  },
  report: { says: `The report of an experiment: ${commandLine`experiment PLAN report`}` },
};

/** Choices by other programs' names, in lower case. */
const CHOICE_SYNONYMS: Readonly<Record<string, string>> = {
  ...{ bf16: "bfloat16", fp16: "float16", f16: "float16", half: "float16", fp32: "float32", f32: "float32" },
  // As llama.cpp's own quantiser takes them.
  ...{ q4_k: "q4_k_m", q5_k: "q5_k_m" },
};

/** A choice as it is here, where the case does not count; undefined if it is none of them. */
export function choiceOf(word: string, choices: readonly string[]): string | undefined {
  const find = (name: string | undefined) => choices.find((choice) => choice.toLowerCase() === name);
  const small = word.toLowerCase();
  return find(small) ?? find(Object.hasOwn(CHOICE_SYNONYMS, small) ? CHOICE_SYNONYMS[small] : undefined);
}

/** What a merge method says where it is typed as a command. */
export const methodAsCommand = (name: string): string =>
  `${name} is a merge method. Its fields: ${commandLine`methods ${name}`}. Write them to a recipe, and run it: ${commandLine`merge RECIPE --out FOLDER`}`;

/** The first argument of a command. */
const [SOURCE, RECIPE] = ["<source>", "<recipe>"];

const AS_APPROXIMATED = "Approximated rows are written as they are.";

/** `only` names the command that the word belongs to; others have a flag of the same name for something else. */
type FlagSynonym = ({ readonly means: readonly string[] } | { readonly says: string }) & { readonly only?: string };

/** Flags, in lower case and with dashes; of one letter those with one dash. `means` lists flags of here: a command takes the word where it has one of them. */
export const FLAG_SYNONYMS: Readonly<Record<string, FlagSynonym>> = {
  method: {
    says: `merge takes a recipe: a file with method: NAME and the fields of the method. Its fields: ${commandLine`methods NAME`}. Without a file, swap, soup and revert take models as flags.`,
    only: "merge",
  },
  "max-tokens": { means: ["--max-new-tokens"] },
  "n-predict": { means: ["--max-new-tokens"] },
  "batch-size": { means: ["--batch"] },
  "num-fewshot": { means: ["--shots"] },
  output: { means: ["--out"] },
  "output-dir": { means: ["--out"] },
  "output-path": { means: ["--out"] },
  outfile: { means: ["--out"] },
  outtype: { means: ["--type"] },
  quantize: { means: ["--type"] },
  model: { means: [SOURCE] },
  m: { means: [SOURCE, RECIPE] },
  overwrite: { means: ["--force"] },
  "base-model": { means: ["--base"] },
  "model-name-or-path": { means: ["--base"], only: "train" },
  dataset: { means: ["--data"], only: "train" },
  "dataset-name": { means: ["--data"], only: "train" },
  "learning-rate": { means: ["--optimizer.lr"] },
  "num-train-epochs": { means: ["--epochs"] },
  "max-steps": { means: ["--steps"] },
  "per-device-train-batch-size": { means: ["--batch"] },
  "gradient-accumulation-steps": { means: ["--accumulation"] },
  temp: { means: ["--temperature"] },
  "ctx-size": { means: ["--context"] },
  device: { says: "Leave out --device. Models run on the CPU. With --provider cuda, the engine runs them on a GPU." },
  dryrun: { means: ["--dry-run"] },
  offline: { says: "Leave out --offline. Set HF_HUB_OFFLINE=1 in the environment, and the hub is not asked." },
  out: { says: "Leave out --out. convert prints the recipe, so redirect it to a file with >.", only: "convert" },
  donor: { means: ["--tokenizer"], only: "transplant" },
  experts: { says: "Name the two experts: --task EXPERT --language EXPERT.", only: "swap" },
  prompt: {
    says: `chat asks for lines. To ask once: ${commandLine`generate MODEL --chat --prompt TEXT`}`,
    only: "chat",
  },
  p: { says: `chat asks for lines. To ask once: ${commandLine`generate MODEL --chat --prompt TEXT`}`, only: "chat" },
  verbose: { says: "Leave out --verbose. Progress and notes are printed without it." },
  v: { says: "Leave out -v. Progress and notes are printed without it." },
  lora: { says: "Train a LoRA adapter with --method lora.", only: "train" },
  config: { means: [RECIPE] },
  "num-threads": { means: ["--threads"] },
  "weight-scheme": {
    says: "Leave out --weight-scheme. common_interpolation weights rows by their distance, as mergekit does by default.",
    only: "transplant",
  },
  "prefix-match": {
    says: "Leave out --prefix-match. Tokens that only begin alike are approximated, as in mergekit by default.",
    only: "transplant",
  },
  "byte-match": { says: "Leave out --byte-match. Tokens are always matched by their bytes.", only: "transplant" },
  "new-vocab-noise": { says: `Leave out --new-vocab-noise. ${AS_APPROXIMATED}`, only: "transplant" },
  "new-vocab-scale": { says: `Leave out --new-vocab-scale. ${AS_APPROXIMATED}`, only: "transplant" },
};

/** Commands for programs of mergekit whose other flags it shares with mergekit-yaml. */
const OF_MERGEKIT = ["extract", "transplant"];

/** Why a flag that all programs of mergekit have is not needed here. */
function mergekitSentence(name: string, command: Command): string | undefined {
  if (!OF_MERGEKIT.includes(command.name())) return undefined;
  const isNamed = (flag: string) => spellingsOf(flag).some((one) => plain(/--[\w-]+/.exec(one)?.[0] ?? "") === name);
  const found = MERGEKIT_FLAGS.find(({ flags, sets }) => sets === undefined && flags.some(isNamed));
  return found && `Leave out --${name}: ${found.here.replaceAll("`", "")}.`;
}

const dashed = (name: string): string => (name.length === 1 ? `-${name}` : `--${name}`);

/** As the table has it: `--Max_Tokens` is `max-tokens`. */
const plain = (flag: string): string => flag.replace(/^--?/, "").toLowerCase().replaceAll("_", "-");

const belongsTo = ({ only }: FlagSynonym, command: Command) => only === undefined || only === command.name();

/** A line with another command has its flags. */
const ANOTHER = /layergraft .*/;

/** What a flag of another program is here: the sentences that name no other flag than those of the command. */
export function flagSentence(flag: string, command: Command): string | undefined {
  const name = plain(flag);
  const found = Object.hasOwn(FLAG_SYNONYMS, name) ? FLAG_SYNONYMS[name] : undefined;
  if (!found || !("says" in found) || !belongsTo(found, command)) return mergekitSentence(name, command);
  const isThere = (one: string) => plain(one) === name || command.options.some(({ long }) => long === one);
  const fitting = found.says
    .split(/(?<=\.) /)
    .filter((text) => (text.replace(ANOTHER, "").match(/--[\w-]+/g) ?? []).every(isThere));
  return fitting.join(" ") || undefined;
}

/** An option under another name, in any case, with dashes or underscores. */
class NamedElsewhere extends Option {
  readonly #attribute: string;
  readonly #name: string;

  constructor(name: string, attribute: string, value: string) {
    super(`${dashed(name)}${value}`);
    this.#attribute = attribute;
    this.#name = name;
    this.hideHelp();
  }

  /** Of commander, whose types leave it out. */
  is(flag: string): boolean {
    return flag.startsWith(this.#name.length === 1 ? "-" : "--") && plain(flag) === this.#name;
  }

  override attributeName(): string {
    return this.#attribute;
  }
}

/** Where the value of a flag that means the first argument is kept. */
const FIRST = "first argument";

/** Adds the words of other programs to a command's own options. */
export function addFlagSynonyms(command: Command): void {
  for (const [name, synonym] of Object.entries(FLAG_SYNONYMS)) {
    if (
      !("means" in synonym) ||
      !belongsTo(synonym, command) ||
      command.options.some(({ short, long }) => [short, long].includes(dashed(name)))
    )
      continue;
    const meant = command.options.find(({ long }) => synonym.means.includes(long ?? ""));
    if (meant) {
      const option = new NamedElsewhere(name, meant.attributeName(), / ?[<[].*/.exec(meant.flags)?.[0] ?? "");
      if (meant.parseArg) option.argParser(meant.parseArg);
      command.addOption(option);
    } else if (synonym.means.includes(`<${command.registeredArguments[0]?.name()}>`)) {
      command.addOption(new NamedElsewhere(name, FIRST, " <source>"));
    }
  }
}

/** The first argument, where it was given as a flag. */
export function firstArgument(command: Command): string[] {
  const value: unknown = command.getOptionValue(FIRST);
  return typeof value === "string" ? [value] : [];
}

/** Rows of the table in docs/commands.md: the word, and what it is here. */
export function synonymRows(): [word: string, meaning: string][] {
  const meaning = (synonym: { readonly means: string | readonly string[] } | { readonly says: string }) =>
    "says" in synonym
      ? synonym.says
      : [synonym.means]
          .flat()
          .map((one) => `\`${one}\``)
          .join(", ");
  return [
    ...Object.entries(COMMAND_SYNONYMS).map(([name, synonym]): [string, string] => [name, meaning(synonym)]),
    ["ties, slerp and other methods", methodAsCommand("ties")],
    ...Object.entries(FLAG_SYNONYMS).map(([name, synonym]): [string, string] => [dashed(name), meaning(synonym)]),
    ["Q4_K_M", "`q4_k_m`; the case of choices does not count"],
    ...Object.entries(CHOICE_SYNONYMS).map(([name, meaning]): [string, string] => [
      name,
      `\`${meaning}\`, where \`${name}\` is not a choice itself`,
    ]),
  ];
}
