import { expect, it } from "vitest";
import { SPLIT_PATTERNS } from "../formats/gguf/index.js";
import { isLinear } from "./linear-expression.js";

const { tekken, o200k, bloom, ...plain } = SPLIT_PATTERNS;

it.each([
  ...Object.values(plain),
  ...[" {2,}", "\\s+", "\\n", "[\\r\\n]", "\\p{N}", "\\p{N}+", "\\p{N}{1,3}", "\\d", "[0-9][0-9][0-9]", "\\s?\\p{L}+"],
  ...[
    "[一-龥ࠀ-一가-퟿]+",
    "\\s?\\p{P}+",
    "\\p{N}{1,2}|\\p{L}+",
    "(?i:'s|'t)?\\p{L}+",
    " ?[^\\s\\p{L}]+[\\r\\n]*",
    "\\.",
  ],
])("%s is linear", (expression) => {
  expect(isLinear(expression)).toBe(true);
});

it.each([
  // What they take of a run of characters grows with its square, or faster.
  ...["a+b", "\\s+$", "\\s*[\\r\\n]+", "a*a*b", "\\p{L}+\\p{L}", "\\s+(?!\\S)", "a{2,}b", "a{0,99}a{0,99}b"],
  ...[
    "(a+)+",
    "(a*)*",
    "([a-z]+)+",
    "(a+)+b",
    "(?:a|aa)+b",
    "(?:a|ab)*",
    "(?:a|b){2}",
    "(a)\\1",
    "[a&&[b]]+",
    "[[a]]+b",
    "a?a?a?a?a?b",
    "a{100000}",
  ],
  // Not known to be.
  ...[
    "a+?",
    "a++",
    "(?=a)b",
    "(?<=a)b",
    "\\bword",
    "\\R",
    "\\X",
    "^a",
    "a$",
    "(?<name>a)",
    "(a",
    "a)",
    "[a",
    "\\",
    "*",
  ],
])("%s is not taken for linear", (expression) => {
  expect(isLinear(expression)).toBe(false);
});

it("whatever is added to one after a repeated character makes it another", () => {
  for (const expression of ["\\p{L}+", "a*", "[^\\s]{1,}"]) {
    expect(isLinear(expression)).toBe(true);
    for (const more of ["b", "b+", "b{2}", "(?:b|c)", "\\d"]) expect(isLinear(expression + more)).toBe(false);
  }
});
