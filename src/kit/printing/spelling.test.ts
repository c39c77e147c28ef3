import { expect, it } from "vitest";
import { closest, suggestName } from "./spelling.js";

it("an unknown name is followed by the closest, else by which there are", () => {
  expect(suggestName("swahlii", ["math", "swahili"])).toBe("; did you mean swahili?");
  expect(suggestName("xyz", ["math", "swahili"])).toBe("; there are math, swahili");
  expect(suggestName("xyz", ["math", "swahili"], ["math"])).toBe("; there are math");
  const many = Array.from({ length: 10 }, (_, i) => `expert-number-${i}`);
  expect(suggestName("xyz", many)).toMatch(/^; there are expert-number-0, .*expert-number-7.* 2 /);
});

it("case does not count, and a word is never its own correction", () => {
  expect(closest("TIES", ["linear", "ties"])).toBe("ties");
  expect(closest("BF16", ["float16", "bfloat16"])).toBe("bfloat16");
  expect(closest("openai", ["OpenAI"])).toBe("OpenAI");
  expect(closest("ties", ["ties"])).toBeUndefined();
});
