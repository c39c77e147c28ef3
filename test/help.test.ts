// The help of every command: its lines fit 80 columns, and each entry starts with a noun or a verb.
import { describe, expect, test } from "vitest";
import { layergraft } from "./support/command.js";

const COLUMNS = 80;

/** Words that start a fragment, such as "of the bootstrap" or "whose tokens count". */
const FRAGMENT = /^(?:of|for|what|who|whose|whether|how|where|which|when|with|by|at|that|also|in|on|from|the)\b/i;

const helpOf = async (...args: string[]): Promise<string> => {
  const { stdout, stderr, status } = await layergraft([...args, "--help"], { cwd: import.meta.dirname });
  expect({ stderr, status }).toEqual({ stderr: "", status: 0 });
  return stdout;
};

/** Entries of a help page's lists, by their terms: flags, arguments, commands. */
function entriesOf(help: string): [term: string, text: string][] {
  const joined = help.replace(/\n {12,}(?=\S)/g, " ");
  return [...joined.matchAll(/^ {2}(\S.*?) {2,}(\S.*)$/gm)].map(([, term = "", text = ""]) => [term, text]);
}

const overview = await helpOf();
const groups = [...overview.matchAll(/^(\w+):\n((?: {2}.*\n)+)/gm)].map(
  ([, name = "", list = ""]) =>
    [name, [...list.matchAll(/^ {2}([a-z]+)(?: \[command\]| \*)? {2,}/gm)].map((match) => match[1])] as const,
);
const COMMANDS = groups.flatMap(([name, commands]) => (/Options|Examples|Help/.test(name) ? [] : commands));

test("the overview groups the commands and shows two examples", () => {
  expect(Object.fromEntries(groups)).toEqual({
    Options: [],
    Merge: [
      "swap",
      "soup",
      "revert",
      "merge",
      "transplant",
      "extract",
      "export",
      "verify",
      "push",
      "convert",
      "methods",
    ],
    Look: ["studio", "inspect", "diff", "analyze", "measure", "neurons", "suggest", "explain"],
    Train: ["train"],
    Run: ["generate", "score", "chat", "serve"],
    Evaluate: ["eval", "compare"],
    Experiment: ["experiment", "tune", "example", "demo"],
    Setup: ["init", "doctor", "cache", "completion"],
    Help: ["help"],
    Examples: [],
  });
  for (const [, text] of entriesOf(overview)) expect(text).not.toMatch(/\n/);
  expect(overview.match(/^ {2}layergraft .*$/gm)).toHaveLength(2);
});

test("the overview marks the five commands that most people need", () => {
  expect([...overview.matchAll(/^ {2}([a-z]+) \* /gm)].map(([, name]) => name)).toEqual([
    ...["swap", "analyze", "generate", "eval", "example"],
  ]);
  expect(overview).toContain("\n* Start with these five.\n");
});

describe.each(["", ...COMMANDS])("layergraft %s --help", (command) => {
  test("fits 80 columns, and each entry starts with a noun or a verb", async () => {
    const help = command ? await helpOf(command) : overview;
    expect(help.split("\n").filter((line) => line.length > COLUMNS)).toEqual([]);
    const entries = entriesOf(help);
    expect(entries.length).toBeGreaterThan(1);
    expect(entries.filter(([, text]) => FRAGMENT.test(text))).toEqual([]);
  });
});

test("train and eval group their flags and show choices and defaults", async () => {
  const train = entriesOf(await helpOf("train"));
  expect(Object.fromEntries(train)).toMatchObject({
    "--schedule.kind <value>":
      "shape of the learning rate after the warmup (choices: linear, wsd, cosine, constant; default: linear)",
    "--lora.rank <n>": "width of the factors (default: 64)",
  });
  const evaluation = await helpOf("eval");
  expect(evaluation.match(/^\w.*:$/gm)).toEqual([
    "Arguments:",
    "Tasks:",
    "Sampling:",
    "Output:",
    "Model-written programs (MBPP):",
    "Backend:",
    "Engine:",
    "General:",
  ]);
  expect(Object.fromEntries(entriesOf(evaluation))["--format <format>"]).toBe(
    "output format (choices: table, markdown, csv, latex, hub; default: table)",
  );
});
