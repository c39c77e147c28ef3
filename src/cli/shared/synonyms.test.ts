import { CommanderError } from "commander";
import { describe, expect, it } from "vitest";
import { layergraft } from "../../../test/support/command.js";
import { buildProgram } from "../command-line.js";
import { COMMANDS } from "../command-table.js";
import { COMMAND_SYNONYMS, FLAG_SYNONYMS, synonymRows } from "./synonyms.js";

// Loaded before the first test, which would wait for all of them.
for (const name of COMMANDS.keys()) await buildProgram(name, true);

/** Parses a command line without running the command. @returns its options and arguments, or the error */
async function parsed(line: string) {
  const words = line.split(" ");
  const program = await buildProgram(words[0], true);
  const command = program.commands.find((one) => one.name() === words[0]);
  command?.action(() => undefined);
  try {
    await program.parseAsync(words, { from: "user" });
    return { ...command?.opts(), args: command?.args };
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return { message: error.message };
  }
}

const refusal = async (line: string) => (await layergraft(line.split(" "), { cwd: import.meta.dirname })).stderr;

describe("flags of other programs", () => {
  it.each([
    ["generate m --max-tokens 5", "generate m --max-new-tokens 5"],
    ["chat m --n-predict 5", "chat m --max-new-tokens 5"],
    ["generate m --Max_Tokens=5", "generate m --max-new-tokens=5"],
    ["eval m --batch-size 4 --num_fewshot 2 --output o", "eval m --batch 4 --shots 2 --out o"],
    ["train --batch-size 4 --base-model b --output_dir o", "train --batch 4 --base b --out o"],
    ["export m --outfile o --outtype Q4_K_M", "export m --out o --type q4_k_m"],
    ["export m --quantize Q4_K_M --overwrite", "export m --type q4_k_m --force"],
    ["export --model m --out o", "export m --out o"],
    ["generate --model=m -p hi", "generate m -p hi"],
    ["eval m --backend openai:x --model served", "eval m -b openai:x --model served"],
    ["soup --model a --model b --output o", "soup --model a --model b --out o"],
    ["swap --task a --language b --Base_Model c", "swap --task a --language b --base c"],
    [
      "train --model_name_or_path b --dataset_name d --learning_rate 1e-4 --num_train_epochs 2",
      "train --base b --data d --optimizer.lr 1e-4 --epochs 2",
    ],
    [
      "train --max_steps 9 --per_device_train_batch_size 4 --gradient_accumulation_steps 2",
      "train --steps 9 --batch 4 --accumulation 2",
    ],
    ["generate --model m --temp 0.5", "generate m --temperature 0.5"],
    ["serve m --ctx-size 512", "serve m --context 512"],
    ["generate -m m -p hi", "generate m -p hi"],
    ["chat -m m --seed 3", "chat m --seed 3"],
    ["merge --config f.yml --out o", "merge f.yml --out o"],
    ["transplant a --donor b --out o", "transplant a --tokenizer b --out o"],
    ["train r.yaml --dryrun", "train r.yaml --dry-run"],
    ["merge -m f.yml --out o", "merge f.yml --out o"],
    ["merge f.yml o -v", "merge f.yml o --verbose"],
    ["transplant a --tokenizer b --num-threads 2", "transplant a --tokenizer b --threads 2"],
    ["serve m --type Q8_0", "serve m --type q8_0"],
    ["export m --type Q4_K --out o", "export m --type q4_k_m --out o"],
    ["export m --type bf16 --out o", "export m --type bf16 --out o"],
    ["swap --task a --language b --dtype bf16", "swap --task a --language b --dtype bfloat16"],
  ])("%s is %s", async (theirs, ours) => {
    const options = await parsed(theirs);
    expect(options).not.toHaveProperty("message");
    const { args, ...rest } = (await parsed(ours)) as Record<string, unknown>;
    const { args: words, "first argument": _, ...others } = options as Record<string, unknown>;
    expect(others).toEqual(rest);
    expect(words).toEqual(args);
  });

  it.each([
    ["train --lora", "error: Train a LoRA adapter with --method lora.\n"],
    ["generate m --device cpu", "Leave out --device. Models run on the CPU. With --provider cuda, the engine runs"],
    ["soup --device cpu", "error: Leave out --device. Models run on the CPU.\n"],
    ["generate m --max-tokns 5", "did you mean --max-new-tokens?"],
    ["generate m --model n -p hi", "One of them is n, which a flag gives, too."],
    ["tune --lora", "error: unknown option '--lora'\n"],
    ["analyze --model m", "error: unknown option '--model'\n"],
    ["chat m -p hi", "error: chat asks for lines. To ask once: layergraft generate MODEL --chat --prompt TEXT"],
    ["swap --base b --experts a,c", "error: Name the two experts: --task EXPERT --language EXPERT.\n"],
    ["eval m --offline", "error: Leave out --offline. Set HF_HUB_OFFLINE=1 in the environment"],
    ["convert m.yml --out r.yaml", "error: Leave out --out. convert prints the recipe, so redirect it"],
    ["eval m quiz", "Pass a task with --tasks quiz\n"],
    ["generate m -v -p hi", "error: Leave out -v. Progress and notes are printed without it.\n"],
    [
      "transplant a --tokenizer b --weight-scheme barycentric",
      "error: Leave out --weight-scheme. common_interpolation weights",
    ],
    [
      "transplant a --tokenizer b --new-vocab-noise 1",
      "Leave out --new-vocab-noise. Approximated rows are written as they",
    ],
    ["transplant a --tokenizer b --cuda", "Leave out --cuda: not needed: weights are streamed"],
    [
      "extract --base a --model b --no-lazy-unpickle",
      "Leave out --no-lazy-unpickle: not needed: pickled files are never",
    ],
    ["swap --cuda", "unknown option '--cuda'"],
    [
      "neurons X",
      "Missing --language <name=folder>. Write: layergraft neurons --language X=X --language OTHER=FOLDER\n",
    ],
    ["inspect m --lora", "unknown option '--lora'\n"],
    [
      "eval --model m --tasks quiz",
      "Pass a folder, a recipe, or a server's name for a model first: layergraft eval m --tasks quiz",
    ],
    ["export m --type Q4_KM", "did you mean q4_k_m?"],
  ])("%s is answered", async (line, sentence) => {
    expect(await refusal(line)).toContain(sentence);
  });
});

describe("commands of other programs", () => {
  it.each(
    Object.entries(COMMAND_SYNONYMS).flatMap(([word, synonym]) => ("means" in synonym ? [[word, synonym.means]] : [])),
  )("%s is %s", async (word, meant) => {
    const help = async (name: string) => layergraft([name, "--help"], { cwd: import.meta.dirname });
    expect((await help(word ?? "")).stdout).toBe((await help(meant ?? "")).stdout);
    expect((await help((word ?? "").toUpperCase())).status).toBe(0);
  });

  it.each([
    ["version", ""],
    ["quantize m", "Write: layergraft export MODEL --type q4_k_m --out FILE.gguf"],
    ["run m", "layergraft generate MODEL --chat --prompt TEXT"],
    ["TIES", "ties is a merge method. Its fields: layergraft methods ties."],
    ["slerp a b", "slerp is a merge method."],
    ["mergekit-yaml c.yml out", "Write: layergraft merge CONFIG --out FOLDER"],
    ["list", "Tasks: layergraft eval --list."],
    ["report", "layergraft experiment PLAN report"],
    ["llama-quantize m q4_k_m", "layergraft export MODEL --type q4_k_m --out FILE.gguf"],
    ["llama-cli -m x", "layergraft generate MODEL --prompt TEXT"],
    [
      "init RECPIE",
      "'RECPIE' is not a valid <kind>. Allowed choices are recipe, run, plan, task; did you mean recipe?",
    ],
    ["generate m What is this?", "Pass a prompt with --prompt 'What is this?'"],
    ["repart", "unknown command 'repart'; see"],
    ["swpa", "did you mean swap?"],
  ])("%s is answered", async (line, sentence) => {
    const stderr = await refusal(line);
    expect(stderr).toContain(sentence);
    if (sentence === "") expect(stderr).toBe("");
  });

  it("a command is taken in any case", async () => {
    const help = async (...words: string[]) => layergraft(words, { cwd: import.meta.dirname });
    expect((await help("SWAP", "--help")).stdout).toBe((await help("swap", "--help")).stdout);
    expect(await parsed("init Recipe --out x")).not.toHaveProperty("message");
    expect((await help("help", "Merge")).stdout).toBe((await help("help", "merge")).stdout);
  });

  it("no word hides a command or flag of here, and the table has all", () => {
    expect(Object.keys(COMMAND_SYNONYMS).filter((name) => COMMANDS.has(name))).toEqual([]);
    expect(
      Object.keys({ ...COMMAND_SYNONYMS, ...FLAG_SYNONYMS }).filter((name) => name !== name.toLowerCase()),
    ).toEqual([]);
    const words = synonymRows().map(([word]) => word);
    for (const name of Object.keys(COMMAND_SYNONYMS)) expect(words).toContain(name);
    for (const name of Object.keys(FLAG_SYNONYMS)) expect(words).toContain(`${name.length === 1 ? "-" : "--"}${name}`);
  });
});
