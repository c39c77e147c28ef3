// Work that ends in time, that fails, and that would never end. text/hostile.test.ts has what takes all memory.
import { expect, it } from "vitest";
import { GuardError, guarded } from "./index.js";

const call = guarded<typeof import("./patterns.js")>("#guarded-patterns");

it("gives what the function gives, and its errors", () => {
  expect(call("test", ["^a+$", "", "aaa"])).toBe(true);
  expect(call("lastMatch", ["a(b)?", "gu", "ab a"])).toEqual(["a", undefined]);
  expect(() => call("test", ["(", "", ""])).toThrow(SyntaxError);
});

it("ends what takes too long, and works on", () => {
  expect(() => call("test", ["^(a+)+$", "", `${"a".repeat(60)}!`], 0.2)).toThrow(
    new GuardError("took longer than 0.2 s"),
  );
  expect(call("test", ["a", "", "a"])).toBe(true);
});
