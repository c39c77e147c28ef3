import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { isOutOfMemory, messageOf } from "./errors.js";

/** What V8 throws. */
function thrownBy(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error;
  }
}

it("tells failed allocations from lengths that are wrong", () => {
  const error = thrownBy(() => new ArrayBuffer(2 ** 52));
  expect([error instanceof RangeError, isOutOfMemory(error)]).toEqual([true, true]);
  // As V8 words it under a limit of the address space.
  expect(isOutOfMemory(new RangeError("WebAssembly.Memory(): could not allocate memory"))).toBe(true);
  const wrong = [() => "a".repeat(-1), () => new Float32Array(-1), () => (1).toFixed(200)];
  for (const work of wrong) expect(isOutOfMemory(thrownBy(work))).toBe(false);
  expect(isOutOfMemory(new Error("Array buffer allocation failed"))).toBe(false);
});

it("words errors of the system, and repeats the message of others", () => {
  const missing = thrownBy(() => readFileSync("/no/such/file"));
  expect([missing, new RangeError("too far"), "a text"].map(messageOf)).toEqual([
    "/no/such/file does not exist",
    "too far",
    "a text",
  ]);
});
