// What the protocol lets through: names that stay within a folder, and no field that it does not know.
import { basename, join, resolve } from "node:path";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { expert, jobInputs, operations, settings } from "./index.js";

const { name } = expert.shape;

// All planes of Unicode take fast-check seconds to set up.
const SIGNS = fc.constantFrom("a", "é", "数", "😀", "\ud800", "̈", "7", " ", ".", "/", "\\", "-", ":", "\0", "\n");

it("any name that passes is the name of a file in its folder", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.string({ unit: SIGNS }), fc.stringMatching(/^[./\\a\0 -]*$/)), (text) => {
      if (!name.safeParse(text).success) return;
      const file = join("/project/recipes", `${text}.yaml`);
      expect(resolve(file, "..")).toBe("/project/recipes");
      expect(basename(file)).toBe(`${text}.yaml`);
    }),
    { numRuns: 500 },
  );
});

it.each(["", "..", ".hidden", "a/b", "a\\b", "a\0", "a\n", "-rf", "a".repeat(101)])("%j is not a name", (text) => {
  expect(name.safeParse(text).success).toBe(false);
});

it.each(["math", "Swahili 2", "数学", "a.b", "ß_1-x"])("%s is a name", (text) => {
  expect(name.parse(text)).toBe(text);
});

it("an operation takes what it declares, and nothing beside it", () => {
  const fits = (operation: keyof typeof operations, input: unknown) =>
    operations[operation].input.safeParse(input).success;
  expect(fits("analysis.rows", { id: "abc", layer: 3, column: "q" })).toBe(true);
  expect(fits("analysis.rows", { id: "../abc", layer: 3, column: "q" })).toBe(false);
  expect(fits("analysis.rows", { id: "abc", layer: -1, column: "q" })).toBe(false);
  expect(fits("analysis.read", { id: "abc", folder: "/" })).toBe(false);
  expect(fits("job.start", { kind: "analyze", input: { base: "b", experts: [] } })).toBe(false);
  expect(settings.partial().safeParse({ experts: [{ name: "a", source: "" }] }).success).toBe(false);
});

it("results are looked up by names that stay within their folder", () => {
  const fits = (first: string) =>
    operations["evaluation.items"].input.safeParse({ names: [first, "b"], task: "t", metric: "m", ids: ["1"] }).success;
  expect(["quiz-base-0a1b", "mine 2", "数学"].filter(fits)).toHaveLength(3);
  expect(["..", "../a", "a/b", "a\\b", ".hidden", "", "a\0", "x".repeat(201)].filter(fits)).toEqual([]);
});

it("at most a page of items is asked for at once", () => {
  const ids = (count: number) => Array.from({ length: count }, String);
  const fits = (count: number) =>
    operations["evaluation.items"].input.safeParse({ names: ["a", "b"], task: "t", metric: "m", ids: ids(count) })
      .success;
  expect([fits(0), fits(50), fits(51)]).toEqual([true, true, false]);
});

it("jobs of earlier versions are read with the fields of today's", () => {
  const models = [{ name: "base", source: "b" }];
  const evaluated = { models, task: "quiz.yaml", data: null, limit: 5, runner: { backend: "llama", type: "q4_k_m" } };
  expect(jobInputs.evaluate.parse(evaluated)).toEqual({
    ...{ models, tasks: ["quiz.yaml"], limit: 5, backend: "llama", type: "q4_k_m" },
  });
  const answered = { models, prompt: { text: "a", system: "b" }, chat: true, maxNewTokens: 4 };
  expect(jobInputs.answer.parse({ ...answered, runner: { backend: "engine" } })).toEqual({
    ...{ models, prompts: ["a"], system: "b", chat: true, maxNewTokens: 4, backend: "engine" },
  });
  const now = { models, prompts: ["a"], chat: false, topK: 2 };
  expect(jobInputs.answer.parse(now)).toEqual(now);
});
