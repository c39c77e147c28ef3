// Options of eval and compare that cannot be right: refused before anything is opened, in words that help.
import { Command } from "commander";
import { afterEach, describe, expect, it, vi } from "vitest";
import { LayergraftError } from "../../core/errors.js";
import { addCompareCommand } from "./compare.js";
import { addEvalCommand } from "./eval.js";

afterEach(() => void vi.restoreAllMocks());

/** Runs a command line in this process. @returns what it printed */
async function run(...args: string[]): Promise<string> {
  const program = new Command().exitOverride().configureOutput({ writeErr: () => undefined });
  addEvalCommand(program);
  addCompareCommand(program);
  for (const command of program.commands) command.exitOverride().configureOutput({ writeErr: () => undefined });
  let text = "";
  vi.spyOn(process.stdout, "write").mockImplementation((chunk) => {
    text += String(chunk);
    return true;
  });
  vi.spyOn(process.stderr, "write").mockReturnValue(true);
  try {
    await program.parseAsync(args, { from: "user" });
  } finally {
    vi.restoreAllMocks();
  }
  return text;
}

const SERVER = ["--backend", "openai:http://127.0.0.1:9"];

describe("eval", () => {
  it.each([
    [["eval"], /say what to evaluate/],
    [["eval", "x"], /--tasks mgsm_sw,mbpp; --list/],
    [["eval", "x", "-t", "mmlu", "--resume"], /folder of --out/],
    [["eval", "x", "-t", "mmlu", "--backend", "vllm"], /"vllm" is not known; it is engine, openai:URL/],
    [["eval", "x", "-t", "mmlu", "--backend", "openai:"], /is not known/],
    [["eval", "x", "-t", "mmlu", "--backend", "openai:localhost"], /http:\/\/host:port/],
    [["eval", "x", "-t", "mmlu", "--backend", "serve:vllm serve x"], /\{port\}/],
    [["eval", "x", "-t", "mmlu", ...SERVER, "--tokenizer", "nowhere"], /no tokenizer\.json/],
    [["eval", "x", "-t", "mmlu", ...SERVER, "--api-key-env", "NO_SUCH_KEY"], /no such variable/],
  ] as const)("%j is wrong usage", async (args, message) => {
    const error = await run(...args).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(LayergraftError);
    expect(error).toMatchObject({ code: "usage" });
    expect((error as Error).message).toMatch(message);
  });

  it.each([
    [["--limit", "0"], /at least 1/],
    [["--shots", "many"], /whole number/],
    [["--timeout", "-3"], /number of seconds/],
    [["--format", "html"], /Allowed choices are table, markdown, csv/],
    [["--tasks", "a,,b"], /words with commas/],
  ] as const)("%j is refused while it is read", async (args, message) => {
    await expect(run("eval", "x", "-t", "mmlu", ...args)).rejects.toThrow(message);
  });

  it("wants tasks, protocols and permission that are there", async () => {
    await expect(run("eval", "x", "-t", "mgsm_sv")).rejects.toThrow(/mgsm_sv/);
    await expect(run("eval", "x", "-t", "mmlu", "--protocol", "layergraft/mmlo")).rejects.toThrow(
      /did you mean layergraft\/mmlu/,
    );
    await expect(run("eval", "x", "-t", "mbpp")).rejects.toThrow(/--allow-code/);
    await expect(run("eval", "x", "-t", "mmlu", ...SERVER)).rejects.toThrow(/does not answer/);
  });

  it("lists tasks, suites and protocols", async () => {
    const text = await run("eval", "--list");
    for (const name of ["mgsm_LANGUAGE", "layergraft/mgsm-native-cot@2", "paper_sw", "mbpp"])
      expect(text).toContain(name);
    const json = JSON.parse(await run("eval", "--list", "--json")) as { families: { name: string }[] };
    expect(json.families.map(({ name }) => name)).toEqual(["mgsm", "belebele", "flores", "mbpp", "mmlu"]);
  });
});

describe("compare", () => {
  it("wants two folders of results", async () => {
    await expect(run("compare", "nowhere", "there")).rejects.toThrow(/nowhere has no results of an evaluation/);
    await expect(run("compare", "one")).rejects.toThrow(/missing required argument/);
  });
});
