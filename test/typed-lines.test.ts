// Every command line that layergraft prints can be typed: one function makes them all, and each is parsed here as the
// command itself parses it. Nothing else in src/ may hold such a line.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { CommanderError } from "commander";
import { beforeAll, describe, expect, it } from "vitest";
import { buildProgram } from "../src/cli/command-line.js";
import { COMMANDS } from "../src/cli/command-table.js";
import { FLAG_SYNONYMS } from "../src/cli/shared/synonyms.js";
import { writeExample } from "../src/demo/index.js";
import { commandLine } from "../src/kit/printing/index.js";
import { temporaryFolder } from "./support/checkpoints.js";
import { layergraft } from "./support/command.js";

const SOURCES = join(import.meta.dirname, "../src");
const files = readdirSync(SOURCES, { recursive: true, encoding: "utf8" })
  .filter((name) => /(?<!\.(?:test|d))\.tsx?$/.test(name) && !name.includes("assembly/"))
  .map((name) => ({ name, text: readFileSync(join(SOURCES, name), "utf8") }));

/** What stands for a value of these expressions; others are one word. */
const SAMPLES: Readonly<Record<string, string>> = {
  experts: "math=x --expert language=y",
  kind: "gram",
  "[kind, ...flags.flat()]": "recipe --task x",
  "String(share)": "0.02",
  "String(seed)": "0",
};

// Loaded before the first test, which would wait for all of them.
for (const name of COMMANDS.keys()) await buildProgram(name, true);

/** The words of a template's value: `["--flag"]` where it may be there, a word for each of a list. */
function sampleOf(expression: string): string {
  const flag = /\? \["(--[\w-]+)"\] : \[\]$/.exec(expression)?.[1];
  const list = /^\[([\w., ]+)\]$/.exec(expression)?.[1]?.split(",");
  return flag ?? SAMPLES[expression] ?? list?.map((_, at) => `x${at}`).join(" ") ?? "x";
}

/** The templates of `commandLine` in a text, each with samples for its values. */
function linesIn(text: string): string[] {
  const lines: string[] = [];
  for (const { index, 0: start } of text.matchAll(/commandLine`/g)) {
    let [line, at] = ["", index + start.length];
    while (text[at] !== "`") {
      if (!text.startsWith("${", at)) {
        line += text[at++];
        continue;
      }
      const from = at + 2;
      for (let depth = 0; ; at++) {
        if (text[at] === "{") depth++;
        if (text[at] === "}" && --depth === 0) break;
      }
      line += sampleOf(text.slice(from, at++).trim());
    }
    lines.push(line);
  }
  return lines;
}

const printed = files.flatMap(({ name, text }) => [
  ...(name === join("kit", "printing", "commands.ts") ? [] : linesIn(text)),
  ...[...text.matchAll(/<code>layergraft ([^<{]+)<\/code>/g)].map(([, line = ""]) => line),
]);

/** Parses a line without running it. @returns the error's message */
async function parse(line: string): Promise<string | undefined> {
  const words = [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, word]) => quoted ?? word ?? "");
  if (!COMMANDS.has(words[0] ?? "")) return `no command ${words[0]}`;
  const program = await buildProgram(words[0], true);
  program.commands.find((one) => one.name() === words[0])?.action(() => undefined);
  try {
    await program.parseAsync(words, { from: "user" });
    return undefined;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return error.message;
  }
}

describe("lines that are printed", () => {
  it.each([...new Set(printed)])("layergraft %s", async (line) => {
    expect(await parse(line)).toBeUndefined();
  });

  it("are found", () => {
    expect(printed.length).toBeGreaterThan(30);
  });

  it("are refused by this test where they cannot be typed", async () => {
    expect(await parse("analyze base math-expert")).toContain("Missing --base");
    expect(await parse("merge x --outdir y")).toContain("unknown option");
  });
});

/** A command in a text, with an option, a placeholder, a value or a file after it. */
const RAW = new RegExp(
  `layergraft (?:${[...COMMANDS.keys()].join("|")})\\b[^.,;:\\n\`)]*? (?:--?[a-z]|\\$\\{|[A-Z]{2,}|\\S+\\.(?:yaml|jsonl?)\\b)`,
);
const isComment = (line: string) => /^\s*(?:\/\/|\/?\*)/.test(line);

describe("what is advised for a mistake", () => {
  const folder = join(temporaryFolder(), "example");
  beforeAll(() => writeExample(folder));

  it.each([
    "analyze base math-expert",
    "suggest base math-expert swahili-expert",
    "soup math-expert swahili-expert --dry-run",
    "swap math-expert swahili-expert --dry-run",
    "eval --model base --tasks problems.yaml --dry-run",
  ])("%s: the line runs", async (mistake) => {
    const wrong = await layergraft(mistake.split(" "), { cwd: folder });
    expect(wrong.status).toBe(2);
    const [, line = ""] = /(?:Write|first): layergraft (.*)$/m.exec(wrong.stderr) ?? [];
    const dry = mistake.startsWith("eval") ? ["--dry-run"] : [];
    expect(await layergraft([...line.split(" "), ...dry], { cwd: folder })).toMatchObject({ status: 0 });
  });
});

it("no other text in src/ has a command with arguments", () => {
  const raw = files.flatMap(({ name, text }) =>
    text
      .split("\n")
      .filter((line) => RAW.test(line.replaceAll(/<code>.*?<\/code>/g, "")) && !isComment(line))
      .map((line) => `${name}: ${line.trim()}`),
  );
  // Scripts for shells, and a field that holds what a command writes.
  const shells = raw.filter((line) => /^cli\/completion-command\.ts|^merge\/methods\/method\.ts/.test(line));
  expect(raw.filter((line) => !shells.includes(line))).toEqual([]);
});

it("flags that texts advise are flags of a command", async () => {
  const programs = await Promise.all([...COMMANDS.keys()].map((name) => buildProgram(name, true)));
  const flags = new Set(
    programs.flatMap(({ commands }) => commands.flatMap(({ options }) => options.map(({ long }) => long ?? ""))),
  );
  const named = files.flatMap(({ name, text }) =>
    text
      .split("\n")
      .filter((line) => !isComment(line))
      .flatMap((line) =>
        [...line.matchAll(/\b(?:pass|add|needs?|out|another|with|without|one) (--[a-z][\w-]*)/gi)].map(
          ([, flag]) => `${name}: ${flag}`,
        ),
      ),
  );
  expect(named.length).toBeGreaterThan(50);
  const theirs = new Set(Object.keys(FLAG_SYNONYMS).map((name) => `--${name}`));
  const isAnswered = (file: string, flag: string) => file === "cli/shared/synonyms.ts" && theirs.has(flag);
  const unknown = named.filter((one) => {
    const [file = "", flag = ""] = one.split(": ");
    return !flags.has(flag) && !isAnswered(file, flag);
  });
  // The second is of lm-eval, which the text says.
  const others = ["cli/command-line.ts: --help", "evaluate/results/lm-eval.ts: --log_samples"];
  expect(unknown.filter((one) => !others.includes(one))).toEqual([]);
});

it("commands named in texts exist", () => {
  const named = files.flatMap(({ text }) =>
    [...text.matchAll(/\b(?:with|use|run) layergraft ([a-z]+)\b/g)].map(([, name = ""]) => name),
  );
  expect(named.length).toBeGreaterThan(8);
  expect(named.filter((name) => !COMMANDS.has(name))).toEqual([]);
});

it("values are quoted, a list is words, and an empty one is nothing", () => {
  const none: string[] = [];
  expect(commandLine`push ${"my model"} ${"org/m"} ${none}`).toBe("layergraft push 'my model' org/m");
  expect(commandLine`compare ${["a", "it's"]} --ratings FILES`).toBe("layergraft compare a 'it'\\''s' --ratings FILES");
  expect(commandLine`doctor ${"-"}${""}`).toBe("layergraft doctor -''");
  expect(commandLine`soup --model ${["a", "b c"]} --out o`).toBe("layergraft soup --model a --model 'b c' --out o");
  expect(commandLine`studio`).toBe("layergraft studio");
});
