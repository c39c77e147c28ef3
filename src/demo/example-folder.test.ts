// The example folder: the same bytes whenever it is written, what its rows say, and no other folder touched.
// @module-tag slow
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { heldOutProblems, isHeldOut, type Problem } from "../../examples/miniature/world/problems.js";
import { writtenProblem } from "../../examples/miniature/write.js";
import { OutputError } from "../kit/index.js";
import { type ExampleFolder, writeExample } from "./example-folder.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-example-"));
afterAll(() => rmSync(root, { recursive: true }));
const folder = join(root, "example");
let example: ExampleFolder;
beforeAll(async () => {
  example = await writeExample(folder);
});

const digests = (of: string) =>
  Object.fromEntries(
    readdirSync(of, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name))
      .sort()
      .map((file) => [file.slice(of.length + 1), createHash("sha256").update(readFileSync(file)).digest("hex")]),
  );
const rowsIn = (file: string): Record<string, unknown>[] =>
  readFileSync(join(folder, file), "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
const texts = (problems: readonly Problem[], language: "en" | "sw") =>
  problems.map((problem) => writtenProblem(problem)[language]);

describe("the example folder", () => {
  it("has the files that its listing names, and no others", () => {
    expect(example.folder).toBe(folder);
    const named = example.files.flatMap(({ names }) => names);
    expect(new Set(named).size).toBe(named.length);
    expect(readdirSync(folder).sort()).toEqual([...named].sort());
  });

  it("has the same bytes when it is written twice, to another place or over itself", async () => {
    const first = digests(folder);
    expect(Object.keys(first).length).toBeGreaterThan(25);
    // An empty folder is no other's.
    const other = mkdtempSync(join(root, "other-"));
    await writeExample(other);
    expect(digests(other)).toEqual(first);
    writeFileSync(join(folder, "rows.jsonl"), "changed\n");
    writeFileSync(join(folder, "mine.txt"), "mine");
    await writeExample(folder);
    expect(digests(folder)).toEqual({ ...first, "mine.txt": expect.any(String) });
    rmSync(join(folder, "mine.txt"));
  });

  it("has models whose context fits the longest prompts of public benchmarks", () => {
    // MGSM in Telugu with 8 solved problems takes 7,415 tokens before the question, Belebele in German with 5 takes 3,437.
    for (const model of ["base", "math-expert", "swahili-expert"]) {
      const { max_position_embeddings } = JSON.parse(readFileSync(join(folder, model, "config.json"), "utf8"));
      expect(max_position_embeddings).toBeGreaterThan(7415 + 2048);
    }
  });

  it("is not written over another folder", async () => {
    const foreign = join(root, "foreign");
    mkdirSync(foreign);
    writeFileSync(join(foreign, "plan.yaml"), "name: mine\n");
    await expect(writeExample(foreign)).rejects.toThrow(OutputError);
    await expect(writeExample(foreign)).rejects.toThrow(
      /foreign is not empty and has no example in it, but .*\. Choose another/,
    );
    expect(readdirSync(foreign)).toEqual(["plan.yaml"]);
    expect(readFileSync(join(foreign, "plan.yaml"), "utf8")).toBe("name: mine\n");
  });

  it("asks held-out problems, of which none is in the training data", () => {
    const { test } = heldOutProblems(0, { test: 200, development: 0 });
    expect(test.every(isHeldOut)).toBe(true);
    expect(rowsIn("swahili.jsonl").map(({ question }) => question)).toEqual(texts(test, "sw"));
    const quiz = rowsIn("rows.jsonl");
    const asked = (language: string) => quiz.filter((row) => row.language === language).map(({ question }) => question);
    expect(asked("en")).toEqual(texts(test.slice(0, 50), "en"));
    expect(asked("sw")).toEqual(texts(test.slice(0, 50), "sw"));
    const training = new Set(rowsIn("problems.jsonl").map(({ question }) => question));
    expect(rowsIn("problems.jsonl")).toHaveLength(2000);
    expect(texts(test, "en").filter((text) => training.has(text))).toEqual([]);
  });

  it("has four different choices for each quiz problem, one of them right", () => {
    for (const { options, answer, number, question } of rowsIn("rows.jsonl")) {
      const choices = options as string[];
      expect(new Set(choices).size, String(question)).toBe(4);
      const right = choices["ABCD".indexOf(String(answer))] ?? "";
      const [, start, sign, count, result] = /^(\d+) ([+-]) (\d+) = (\d+)\.$/.exec(right) ?? [];
      expect(Number(result)).toBe(number);
      expect(Number(start) + (sign === "+" ? 1 : -1) * Number(count)).toBe(number);
    }
  });

  it("has sentences to translate in both languages", () => {
    const sentences = rowsIn("sentences.jsonl");
    expect(sentences).toHaveLength(50);
    for (const { sw, en } of sentences) {
      expect(sw).toMatch(/^[A-Z][a-z]+ a[a-z]+ .*\.$/);
      expect(en).toMatch(/^[A-Z][a-z]+ [a-z]+ \d+ .*\.$/);
      expect(String(sw).split(" ")[0]).toBe(String(en).split(" ")[0]);
    }
  });
});
