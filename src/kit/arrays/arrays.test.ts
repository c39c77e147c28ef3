import { constants } from "node:buffer";
import { afterEach, expect, test } from "vitest";
import { bytesInPieces, extremesOf, largestOf, limitArrays, longestOf, requireArray } from "./index.js";

afterEach(() => limitArrays());

test("an array may be as long as Node.js allows, and an error says how long", () => {
  expect(() => requireArray(constants.MAX_LENGTH, "the embedding")).not.toThrow();
  expect(() => requireArray(constants.MAX_LENGTH + 2, "the embedding")).toThrow(
    expect.objectContaining({ code: "memory", message: expect.stringMatching(/^the embedding needs an array of /) }),
  );
});

test("the bytes of a view come in pieces that share its memory", () => {
  const values = Float32Array.from({ length: 100 }, (_, i) => i).subarray(10);
  limitArrays(32);
  const pieces = [...bytesInPieces(values)];
  expect(pieces.map(({ length }) => length)).toEqual([...new Array(11).fill(32), 8]);
  expect(pieces.every(({ buffer }) => buffer === values.buffer)).toBe(true);
  expect(Buffer.concat(pieces)).toEqual(Buffer.from(values.slice().buffer));
  expect([...bytesInPieces(new Uint8Array())]).toEqual([]);
});

test("extremes of more numbers than a call takes as arguments", () => {
  const numbers = Int32Array.from({ length: 300_000 }, (_, i) => (i * 7919) % 300_007);
  expect(() => Math.max(...numbers)).toThrow(RangeError);
  const sorted = numbers.toSorted();
  expect(extremesOf(numbers)).toEqual([sorted[0], sorted.at(-1)]);
  expect(largestOf([], 3)).toBe(3);
  const texts = Array.from(numbers.subarray(0, 200_000), (number) => ({ length: number }));
  expect(() => Math.max(...texts.map(({ length }) => length))).toThrow(RangeError);
  expect(longestOf(texts)).toBe(numbers.subarray(0, 200_000).toSorted().at(-1));
  expect([longestOf([]), longestOf(["ab"], 3)]).toEqual([0, 3]);
});
