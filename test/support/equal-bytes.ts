// Arrays of bytes and numbers are compared at once where they are equal: element by element, as expect compares objects, a
// megabyte takes seconds. Unequal ones are left to expect.
import { expect } from "vitest";

/** Shorter lists gain nothing. */
const MANY = 64;

const viewOf = (value: unknown) =>
  ArrayBuffer.isView(value) ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : undefined;

const isPlain = (value: unknown) => (typeof value !== "object" || value === null) && typeof value !== "function";

function areEqual(a: unknown, b: unknown): true | undefined {
  const [one, other] = [viewOf(a), viewOf(b)];
  if (one && other) return Object(a).constructor === Object(b).constructor && one.equals(other) ? true : undefined;
  if (!Array.isArray(a) || !Array.isArray(b) || a.length < MANY || a.length !== b.length) return undefined;
  return a.every((value, i) => isPlain(value) && Object.is(value, b[i])) ? true : undefined;
}

// Test files share the modules of their worker, and expect is one of them.
const DONE = Symbol.for("layergraft.equal-bytes");
if (!(DONE in globalThis)) {
  expect.addEqualityTesters([areEqual]);
  Object.assign(globalThis, { [DONE]: true });
}
