// Round trips of whole arrays, against plain codecs.
import { describe, expect, it } from "vitest";
import { decode, encode } from "../../test/support/plain-kernels.js";
import { Converter } from "./convert.js";

// More than one block, and not a multiple of a vector.
const COUNT = 32_768 + 21;
const values = Float32Array.from({ length: COUNT }, (_, i) => Math.fround(Math.sin(i) * 10 ** ((i % 12) - 8)));

describe("Converter", () => {
  it.each(["BF16", "F16", "F32"] as const)("%s", (dtype) => {
    const converter = new Converter();
    const { bytes, nonFinite } = converter.encode(dtype, values);
    expect(bytes.length).toBe(COUNT * (dtype === "F32" ? 4 : 2));
    const patterns = dtype === "F32" ? new Uint32Array(bytes.buffer) : new Uint16Array(bytes.buffer);
    expect(patterns.findIndex((pattern, i) => pattern !== encode(dtype, values[i] ?? 0))).toBe(-1);
    expect(nonFinite).toBe(0);
    const back = converter.decode(dtype, bytes);
    expect(back.findIndex((value, i) => !Object.is(value, decode(dtype, patterns[i] ?? 0)))).toBe(-1);
    const into = new Float32Array(COUNT);
    expect(converter.decode(dtype, bytes, into)).toBe(into);
    expect(Buffer.from(into.buffer).equals(Buffer.from(back.buffer))).toBe(true);
  });

  it("counts values that are not finite as they are stored", () => {
    const values = Float32Array.of(1, 70000, 3.4e38, -Infinity, Number.NaN, 65519);
    expect(new Converter().encode("F16", values).nonFinite).toBe(4);
    expect(new Converter().encode("BF16", values).nonFinite).toBe(3);
    expect(new Converter().encode("F32", values).nonFinite).toBe(2);
  });
});
