// Phrases that read as if translated stay out of what people read: README, docs, pages, help and messages.
// To add one, append a line to PHRASES; the test lists the places to reword.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "..");

/** Each phrase, and what to write instead. */
const PHRASES: readonly (readonly [phrase: RegExp, instead: string])[] = [
  [
    /(?<!\bthere )\b(?:is|are|was) no (?!longer\b|more\b|less\b|fewer\b|larger\b|smaller\b|higher\b|lower\b|different\b)/i,
    "is not a",
  ],
  [/\bholds? no\b/i, "has no"],
  [/\b(?:go|goes|going|gone|went) on\b(?! the\b)/i, "continue, resume"],
  [/\banew\b/i, "again"],
  [/\bmend(?:s|ed|ing)?\b/i, "fix"],
  [/\b(?:a|all|its|every|one|first) faults?\b/i, "problem, error"],
  [/\b(?:stands?|stood) (?:in|beside|here|there|on)\b/i, "is in, is stored in"],
  [/\b(?:lies?|lay) (?:in|on|where|outside|beside|there)\b/i, "is in, is stored in"],
  [/\bnothing says\b/i, "missing"],
  [/\b(?:is|are|was) told\b/i, "is reported, is printed"],
  [/\bwho (?:answers|trains)\b/i, "backend, trainer"],
  [/\bwants? to be\b/i, "asks to, must be"],
  [/\bworked on by\b/i, "locked by"],
  [/\b(?:are|is) (?:highest )?alike\b/i, "are tied, are the same"],
  [/\bgo(?:es)? before\b/i, "override"],
  [/\bflatters?\b/i, "is optimistic"],
  [/\bto the (?:last )?bit\b/i, "bit for bit, bit-identical"],
  [/\bat will\b/i, "at any time"],
  [/\bnothing has executed\b|\bexecuted first\b/i, "before you write it"],
  [/\bwhat may pass\b/i, "transient errors"],
  [/\bof the bootstrap \(/i, "bootstrap seed"],
  [/\bas often as\b/i, "repeatable"],
  [/\bin silence\b/i, "silently"],
  [/\bby turns\b/i, "alternating"],
  [/\bhas left in\b|\bstopped run has left\b/i, "an interrupted run"],
  [/\bexists already\b/i, "already exists"],
  [/\bgive (?:another|it|one|them) (?:folder|name|file)\b/i, "choose another"],
  [/\bis not known here\b|\bare known here\b/i, "is not supported"],
  [/\betc\./i, "name all of them, or use such as"],
  [/\bat the end you have\b/i, "what the reader can do, verb first"],
  [/\b(?:says?|see) what comes next\b/i, "follow, read"],
  [/\b(?:looks?|is|are) whole\b/i, "is complete"],
  [/, of which only\b/i, "only the ... it needs"],
  [/\bwas chosen among\b/i, "we picked it from"],
  [/\ba proof that\b/i, "a check that"],
  [/\bwould (?:other|any) [^.?]*\bdo\?/i, "does it matter which"],
  [/\ba kill or a full disk\b/i, "an interrupted run"],
  [/\b(?:one|a) step ahead\b/i, "at step s it has the rate of s + 1"],
  [/\bof equal \w+, the first\b/i, "ties go to the first"],
  [/\bthe length of a row\b/i, "rowLength"],
  [/\boutlives?\b/i, "continue without"],
  [/\bneeds? a flag or a field\b/i, "name the flag or the field"],
];

function textFiles(folder: string, extension: RegExp): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => extension.test(name))
    .map((name) => `${folder}/${name}`);
}

/** The code of a source file without its comments; phrases have spaces, so identifiers never match. */
const withoutComments = (code: string) =>
  code
    .split("\n")
    .map((line) => (/^\s*(?:\/\/|\/?\*)/.test(line) ? "" : line.replace(/\s\/\/ .*$|\/\*\*.*?\*\//g, "")))
    .join("\n");

const PAGES = [
  "README.md",
  ...textFiles("docs", /^(?!reference|site).*\.md$/),
  ...textFiles("assets", /\.(?:html|ya?ml|md)$/),
  ...textFiles("examples", /\.(?:ya?ml|md)$/),
];
const SOURCES = textFiles("src", /(?<!\.test)\.tsx?$/);

/** Where the phrases occur, also across the end of a line. */
function found(file: string, text: string): string[] {
  const joined = text.replace(/(?<=[\w,])\n(?=\w)/g, " ");
  return PHRASES.flatMap(([phrase, instead]) =>
    Array.from(joined.matchAll(new RegExp(phrase, "gi")), (match) => {
      const line = text.slice(0, match.index).split("\n").length;
      return `${file}:${line}: "${match[0]}"; write: ${instead}`;
    }),
  );
}

const read = (file: string) => readFileSync(join(ROOT, file), "utf8");

/** Long flags that the command line declares. */
const FLAGS = new Set(
  SOURCES.filter((file) => file.startsWith("src/cli/")).flatMap((file) =>
    [...read(file).matchAll(/"(?:-\w, )?(--[a-z][\w-]*)[ "]/g)].map(([, flag]) => flag),
  ),
);

/** Flags of layergraft in the strings of a file, other than in a whole command, of layergraft or for a server. */
const flagsIn = (code: string) =>
  withoutComments(code)
    .split("\n")
    .map((line) => line.replace(/\bcommandLine`.*|\b(?:layergraft|vllm) [a-z].*|\buvx --.*|"sbatch".*/, ""))
    .flatMap((line) => line.match(/(?<![\w-])--[a-z][\w-]*/g) ?? [])
    .filter((flag) => FLAGS.has(flag));

describe("flags", () => {
  test("are found in messages, and not in comments and whole commands", () => {
    expect([...FLAGS]).toEqual(expect.arrayContaining(["--out", "--force", "--allow-code", "--json"]));
    expect(flagsIn("const a = `It exists. Pass --force, or another --out.`; // --resume")).toEqual([
      "--force",
      "--out",
    ]);
    expect(flagsIn("const a = commandLine`measure MODEL --out FOLDER`;")).toEqual([]);
  });

  test("are named only by the command line: errors of the library have the option as a field", () => {
    // Pages of the studio show whole commands as lists of words, and Slurm has flags of its own.
    const library = SOURCES.filter((file) => !/^src\/(?:cli|studio\/page|experiment\/execute)\//.test(file));
    expect(library.flatMap((file) => flagsIn(read(file)).map((flag) => `${file}: ${flag}`))).toEqual([]);
  });
});

describe("phrases", () => {
  test("are found in text and in messages, and not in comments", () => {
    expect(found("a.md", "first\nThe run goes on here.")).toEqual([`a.md:2: "goes on"; write: continue, resume`]);
    expect(found("a.md", "first\nThe run goes\non here.")).toEqual([`a.md:2: "goes on"; write: continue, resume`]);
    const code = '// goes on\n/** goes on */\nconst a = "x is no folder, there is no room"; // goes on';
    expect(found("a.ts", withoutComments(code))).toEqual([`a.ts:3: "is no "; write: is not a`]);
  });

  test("do not occur in README, docs and pages", () => {
    expect(PAGES.flatMap((file) => found(file, read(file)))).toEqual([]);
  });

  test("do not occur in messages, help and other strings", () => {
    expect(SOURCES.flatMap((file) => found(file, withoutComments(read(file))))).toEqual([]);
  });
});
