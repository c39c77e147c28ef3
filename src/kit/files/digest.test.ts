// Digests of values: known values, and equal whatever the order of fields.
import { expect, it } from "vitest";
import { canonicalJson, digestOf, digestOfJson, digestOfValue } from "./digest.js";

it("is SHA-256", () => {
  // Source: FIPS 180-2, appendix B.1.
  const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  expect([digestOf("abc"), digestOf(Buffer.from("abc")), digestOfJson("abc") === digestOf('"abc"')]).toEqual([
    abc,
    abc,
    true,
  ]);
});

it("sorts fields at any depth, and no lists", () => {
  const value = JSON.parse('{"b":[{"z":1,"__proto__":2},3],"a":null}');
  expect(canonicalJson({ ...value, c: undefined })).toBe('{"a":null,"b":[{"__proto__":2,"z":1},3]}');
  expect(digestOfValue({ a: 1, b: 2 })).toBe(digestOfValue({ b: 2, a: 1 }));
  expect(digestOfValue([1, 2])).not.toBe(digestOfValue([2, 1]));
});
