// Encodes blocks and decodes them plainly. The errors to reach are those of llama.cpp's own quantiser for the same values,
// from ggml_quantize_chunk without an importance matrix (ggml-quants.c, November 2026).
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { seededFloats } from "../../test/support/checkpoints.js";
import { decodeBlocks } from "../../test/support/plain-blocks.js";
import { type BlockEncoding, ENCODINGS } from "./encodings.js";
import { Kernels } from "./kernels.js";

const COUNT = 16_384;
const uniform = seededFloats(3 * COUNT, 5);
const sumOf = (i: number) => (uniform[3 * i] ?? 0) + (uniform[3 * i + 1] ?? 0) + (uniform[3 * i + 2] ?? 0);
/** Bell-shaped, as weights are. */
const normal = Float32Array.from({ length: COUNT }, (_, i) => sumOf(i) * 0.03);
/** With long tails, and every other block around a value above zero. */
const skewed = normal.map((x, i) => x ** 3 * 5000 + (i % 64 < 32 ? 0.02 : 0));

/** Root of the mean squared error over that of the values, as llama.cpp encodes them. */
const REFERENCE: Record<BlockEncoding, readonly [normal: number, skewed: number]> = {
  Q8_0: [0.005013, 0.008195],
  Q4_0: [0.080428, 0.10795],
  Q5_0: [0.039605, 0.059807],
  Q5_1: [0.036277, 0.05386],
  Q4_K: [0.068033, 0.089318],
  Q5_K: [0.034622, 0.049169],
  Q6_K: [0.016876, 0.02621],
};
const NAMES = Object.keys(REFERENCE) as BlockEncoding[];

const kernels = new Kernels();
const input = kernels.allocate(COUNT * 4);
const output = kernels.allocate(COUNT * 4);

function encode(encoding: BlockEncoding, values: ArrayLike<number>): { bytes: Uint8Array; broken: number } {
  kernels.floats(input, values.length).set(values);
  const { bytes, broken } = kernels.quantize(encoding, input, output, values.length);
  return { bytes: kernels.bytes(output, bytes).slice(), broken };
}

function relativeError(values: Float32Array, decoded: readonly number[]): number {
  let [error, total] = [0, 0];
  values.forEach((value, i) => {
    error += (value - (decoded[i] ?? Number.NaN)) ** 2;
    total += value ** 2;
  });
  return Math.sqrt(error / total);
}

describe.each(NAMES)("%s", (encoding) => {
  it.each([["normal", normal, 0] as const, ["skewed", skewed, 1] as const])(
    "loses no more than llama.cpp's quantiser on %s values",
    (_, values, which) => {
      const { bytes, broken } = encode(encoding, values);
      expect(bytes.byteLength).toBe((COUNT / ENCODINGS[encoding].elements) * ENCODINGS[encoding].bytes);
      expect(broken).toBe(0);
      const error = relativeError(values, decodeBlocks(encoding, bytes));
      expect(error).toBeLessThan(REFERENCE[encoding][which] * 1.002);
      expect(error).toBeGreaterThan(REFERENCE[encoding][which] * 0.8);
    },
  );

  it("keeps zeros, and values of either sign alone", () => {
    const { elements } = ENCODINGS[encoding];
    expect(decodeBlocks(encoding, encode(encoding, new Float32Array(elements)).bytes)).toEqual(
      Array.from({ length: elements }, () => expect.closeTo(0, 30)),
    );
    for (const value of [3.25, -3.25]) {
      const decoded = decodeBlocks(encoding, encode(encoding, new Float32Array(elements).fill(value)).bytes);
      for (const one of decoded) expect(one / value).toBeCloseTo(1, 1);
    }
  });

  it("counts blocks without a finite scale, and gives the same bytes each time", () => {
    const { elements } = ENCODINGS[encoding];
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 3e38]) {
      const values = Float32Array.from({ length: 3 * elements }, (_, i) => (i === elements + 5 ? bad : 0.1 * (i % 7)));
      const { bytes, broken } = encode(encoding, values);
      expect(broken).toBe(1);
      expect(encode(encoding, values).bytes).toEqual(bytes);
    }
  });
});

it("encodes q8_0 to the bytes of llama.cpp", () => {
  const digest = (values: Float32Array) => createHash("sha256").update(encode("Q8_0", values).bytes).digest("hex");
  expect(digest(normal)).toBe("7d974c65bdb6db0f20f261b4fb421afd297cf5b282bf72b17064576c418af1ef");
  expect(digest(skewed)).toBe("4da12b12f73c373db328ad847486f511d552f12c42c056a1de789e3452af1735");
});
