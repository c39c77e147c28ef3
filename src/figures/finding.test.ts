// The words of findings; what they are is tested where they are decided.
import { expect, it } from "vitest";
import { listed, nameInWords, sentence } from "./finding.js";

it.each([
  ["base", "base", "the base"],
  ["Llama-3", "base", "Llama-3"],
  ["math", "expert", "the math expert"],
  ["math-expert", "expert", "the math expert"],
  ["layer swap", "swap", "the layer swap"],
  ["soup by magnitude", "average", "soup by magnitude"],
  ["TIES", "merge", "TIES"],
  ["the recipe mine", "merge", "the recipe mine"],
  ["base", "result", "base"],
] as const)("calls %s, a %s, %s", (name, kind, words) => {
  expect(nameInWords({ name, kind })).toBe(words);
});

it("begins sentences with a capital, but for names that are no words", () => {
  expect(
    ["swap any scores", "soup", "qwen2.5 scores", "org/model scores", "“a, b” scores", "über allem"].map(sentence),
  ).toEqual(["Swap any scores", "soup", "qwen2.5 scores", "org/model scores", "“a, b” scores", "Über allem"]);
});

it("lists names, and counts those that are too many", () => {
  expect([[], ["a"], ["a", "b, c"], ["a", "b", "c", "d"]].map((names) => listed(names))).toEqual([
    ...["", "a", "a and “b, c”", "a, b and 2 more"],
  ]);
});
