import { expect, it } from "vitest";
import { suggestName } from "./spelling.js";

it("an unknown name is followed by the closest, else by which there are", () => {
  expect(suggestName("swahlii", ["math", "swahili"])).toBe("; did you mean swahili?");
  expect(suggestName("xyz", ["math", "swahili"])).toBe("; there are math, swahili");
  expect(suggestName("xyz", ["math", "swahili"], ["math"])).toBe("; there are math");
  const many = Array.from({ length: 10 }, (_, i) => `expert-number-${i}`);
  expect(suggestName("xyz", many)).toMatch(/^; there are expert-number-0, .*expert-number-7.* 2 /);
});
