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

/** Elements of a super-block that each has a pattern for, between ordinary ones; in two, values are not finite. */
const PATTERNS: readonly ((i: number) => number)[] = [
  () => 0,
  () => -0,
  (i) => (i % 2 ? 1 : -1) * 1.17549435e-37, // github.com/ikawrakow/ik_llama.cpp/pull/1321
  (i) => (normal[i] ?? 0) * 1e-9,
  (i) => (normal[i] ?? 0) * 1e-19,
  (i) => (normal[i] ?? 0) * 1e5,
  (i) => (i % 32 < 16 ? 0 : (normal[i] ?? 0)),
  (i) => 1 + Math.abs(normal[i] ?? 0),
  (i) => -Math.abs(normal[i] ?? 0),
  (i) => (i % 97 === 3 ? 2 : 1e-3 * (normal[i] ?? 0)),
  (i) => (i === 37 ? Number.NEGATIVE_INFINITY : (normal[i] ?? 0)),
  (i) => (i === 37 ? Number.NaN : (normal[i] ?? 0)),
];
const awkward = PATTERNS.flatMap((pattern, at) => [
  ...Array.from({ length: 256 }, (_, i) => pattern(i)),
  ...normal.subarray(at * 256, at * 256 + (at % 2 ? 256 : 0)),
]);

describe.each(NAMES)("%s of awkward values", (encoding) => {
  const { elements, bytes: size } = ENCODINGS[encoding];
  const together = encode(encoding, awkward);

  it("encodes a block the same beside any other", () => {
    let broken = 0;
    for (let at = 0; at < awkward.length; at += elements) {
      const alone = encode(encoding, awkward.slice(at, at + elements));
      const begin = (at / elements) * size;
      expect([at, together.bytes.subarray(begin, begin + size)]).toEqual([at, alone.bytes]);
      broken += alone.broken;
    }
    expect(together.broken).toBe(broken);
  });

  it("keeps every finite block near its values", () => {
    const decoded = decodeBlocks(encoding, together.bytes);
    for (let at = 0; at < awkward.length; at += 256) {
      const values = awkward.slice(at, at + 256);
      if (!values.every(Number.isFinite)) continue;
      const most = values.reduce((high, value) => Math.max(high, Math.abs(value)), 0);
      values.forEach((value, i) => {
        // The smallest float16 scales a block of values below it to zero.
        if (!(Math.abs((decoded[at + i] ?? Number.NaN) - value) <= most * 0.12 + 2 ** -20))
          expect([at + i, decoded[at + i]]).toEqual([at + i, value]);
      });
    }
  });
});

// Minimums are at most 0 in this format, so a ramp above zero keeps less: github.com/ggml-org/llama.cpp/issues/3846.
it.each([
  ["above", 1, 0.008883, 0.032215],
  ["below", -1, 0.002113, 0.00943],
])("encodes a ramp %s zero to Q4_K with the errors that are reported of llama.cpp", (_, sign, mean, most) => {
  const ramp = Float32Array.from({ length: 256 }, (_, i) => (sign * i) / 256);
  const decoded = decodeBlocks("Q4_K", encode("Q4_K", ramp).bytes);
  const errors = ramp.map((value, i) => Math.abs(value - (decoded[i] ?? Number.NaN)));
  expect(errors.reduce((sum, error) => sum + error) / 256).toBeCloseTo(mean, 6);
  expect(Math.max(...errors)).toBeCloseTo(most, 6);
});

/** Of the bytes: q8_0 as llama.cpp writes it, the others as layergraft 2.0.0 did. */
const DIGESTS: Record<BlockEncoding, readonly [normal: string, skewed: string]> = {
  Q8_0: ["7d974c65bdb6db0f", "4da12b12f73c373d"],
  Q4_0: ["d2f05913f6ca30bb", "e2e0b1224804ed20"],
  Q5_0: ["445580bd1478bde1", "e6ffd311c624a18e"],
  Q5_1: ["6f5be251f8e22d52", "4607f7259cd281b4"],
  Q4_K: ["70d736969e53bebd", "2bc0bc30daf26a13"],
  Q5_K: ["2cf9e69403c12f7c", "bf6a95dcce12bd2c"],
  Q6_K: ["de177c431f8b33a2", "21ed37710bef9a91"],
};

it.each(NAMES)("encodes %s to the bytes of earlier versions", (encoding) => {
  const digest = (values: Float32Array) => createHash("sha256").update(encode(encoding, values).bytes).digest("hex");
  expect([normal, skewed].map((values) => digest(values).slice(0, 16))).toEqual(DIGESTS[encoding]);
});
