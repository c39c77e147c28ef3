// Work that ends in time, that fails, and that would never end.
import { expect, it } from "vitest";
import { TimeLimitError, withinSeconds } from "./time-limit.js";

it("gives what the work gives, and its errors, also within itself", () => {
  const fault = new TypeError("no");
  expect(withinSeconds(5, () => withinSeconds(5, () => [1]).concat(2))).toEqual([1, 2]);
  expect(() =>
    withinSeconds(5, () => {
      throw fault;
    }),
  ).toThrow(fault);
});

it.each([
  [
    "a loop",
    () => {
      for (;;);
    },
  ],
  ["a regular expression", () => /^(a+)+$/.test(`${"a".repeat(60)}!`)],
])("stops %s", (_, work) => {
  expect(() => withinSeconds(0.05, work)).toThrow(TimeLimitError);
  expect(withinSeconds(5, () => 1)).toBe(1);
});
