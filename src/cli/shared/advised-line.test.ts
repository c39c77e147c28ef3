import { CommanderError } from "commander";
import { describe, expect, it } from "vitest";
import { buildProgram } from "../command-line.js";
import { COMMANDS } from "../command-table.js";

/** Parses a command line without running the command. @returns the error, or what was parsed */
async function parse(words: readonly string[]) {
  const program = await buildProgram(words[0], true);
  const [command] = program.commands.filter((one) => one.name() === words[0]);
  command?.action(() => undefined);
  try {
    await program.parseAsync([...words], { from: "user" });
    return { message: undefined, options: command?.opts(), args: command?.args };
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return { message: error.message };
  }
}

/** The words of the line that a message advises; none of them has a space here. */
const advised = (message = ""): string[] | undefined => / Write: layergraft (.*)$/.exec(message)?.[1]?.split(" ");

/** Each command with required options, values of which are typed without them, with another option before or after. */
const typed = (
  await Promise.all(
    [...COMMANDS.keys()].map(async (name) => {
      const { commands } = await buildProgram(name, true);
      const { options = [], registeredArguments = [] } = commands.find((one) => one.name() === name) ?? {};
      const mandatory = options.filter((option) => option.mandatory);
      if (mandatory.length === 0) return [];
      const words = ["base", "org/b", "c=0.5", "./d", "e"];
      const rest = options.some(({ long }) => long === "--out") ? ["--out", "base"] : ["--json"];
      return [1, 2, 3].flatMap((more) => {
        const values = words.slice(0, registeredArguments.length + more);
        return [
          [name, ...values, ...rest],
          [name, ...rest, ...values],
          [name, ...values.slice(0, 1), ...rest, ...values.slice(1)],
        ];
      });
    }),
  )
).flat();

describe("the advised line of a command whose required options are missing", () => {
  it.each(typed)("%s %s %s ...", async (...words) => {
    const line = advised((await parse(words)).message);
    // Where the values are too many, or a value cannot be one of the option.
    if (line === undefined) return;
    for (const word of words)
      expect(
        line.some((one) => one === word || one.endsWith(`=${word}`)),
        word,
      ).toBe(true);
    // A choice that is missing stays for the reader.
    const filled = line.map((word) => (word === "KIND" ? "gram" : word));
    expect(await parse(filled)).toMatchObject({ message: undefined });
  });

  it("names sources whose folders have spaces or quotes", async () => {
    const { message } = await parse(["analyze", "the base", "my models/math expert", "Asha's expert"]);
    expect(message).toContain(
      "--base 'the base' --expert 'math-expert=my models/math expert' --expert 'Asha-s-expert=Asha'\\''s expert'",
    );
  });

  it("is there for all commands that take values so, but for a value that is a choice", async () => {
    const lines = await Promise.all(typed.map(async (words) => advised((await parse(words)).message)?.[0]));
    const names = new Set(lines.filter((name) => name !== undefined));
    expect([...names].sort()).toEqual([...new Set(typed.map(([name]) => name))].sort());
  });

  it.each([
    ["soup m m2 --out o", "soup --model m --model m2 --out o"],
    ["soup m --out m", "soup --model m --out m"],
    ["soup --out m m", "soup --model m --out m"],
    ["swap a b", "swap --task a --language b --out FOLDER"],
    ["soup a b --dry-run", "soup --model a --model b --dry-run"],
    ["analyze base math-expert", "analyze --base base --expert math-expert=math-expert"],
    ["analyze a base experts/math", "analyze --base a --expert NAME=base --expert math=experts/math"],
    ["transplant x y --out o", "transplant --tokenizer y x --out o"],
    ["measure m texts.txt o --kind gram", "measure --on texts.txt --out o m --kind gram"],
  ])("%s: %s", async (words, line) => {
    expect(advised((await parse(words.split(" "))).message)?.join(" ")).toBe(line);
  });

  it("is not there where a value would be dropped", async () => {
    expect((await parse(["swap", "a", "b", "c"])).message).toMatch(/Missing --task <source>: [^.]+\.$/);
  });
});
