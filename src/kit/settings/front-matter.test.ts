import { expect, it } from "vitest";
import { frontMatterOf, frontMatterText } from "./front-matter.js";

it.each([
  ["---\nlicense: mit\n---\n# A\n", { license: "mit" }],
  ["\uFEFF---\r\nlicense: mit\r\n---\r\n", { license: "mit" }],
  ["\n \n---\nlicense: mit\n--- \n", { license: "mit" }],
  ["---\nlicense: yes\n---\n", { license: true }],
  ["---\nlicense: mit\n", {}],
  ["# A\n---\nlicense: mit\n---\n", {}],
  ["---\n- license\n---\n", {}],
  [`---\nx: ${"[".repeat(50_000)}\n---\n`, {}],
  [`---\nx: ${"x".repeat(100_001)}\n---\n`, {}],
])("of %j", async (card, fields) => {
  expect(await frontMatterOf(card)).toEqual(fields);
});

it("is the text between two lines of dashes", () => {
  expect(frontMatterText("---\na: 1\n\nb: 2\n---\nc: 3\n---\n")).toBe("a: 1\n\nb: 2");
});
