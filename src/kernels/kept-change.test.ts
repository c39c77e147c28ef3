// What rounding keeps of a change, against bfloat16 by hand and against rounding one value after another.
import { describe, expect, it } from "vitest";
import { Converter } from "./convert.js";
import { describeKept, type KeptChange, losesChange, Rounding } from "./kept-change.js";

const converter = new Converter();

function measured(base: readonly number[] | undefined, exact: readonly number[], dtype: "BF16" | "F16" = "BF16") {
  const rounding = new Rounding(converter);
  const values = Float32Array.from(exact);
  const { bytes } = converter.encode(dtype, values);
  rounding.add(dtype, values, bytes, base && Float32Array.from(base));
  return rounding.result();
}

describe("Rounding", () => {
  it("counts changed elements that stay changed, and how far the change is off", () => {
    // At 1, bfloat16 has steps of 1/128: half a step is a tie to even, the third change rounds up, the last is exact.
    const steps = [0, 0.25, 0.75, 1].map((step) => step / 128);
    const found = measured(
      [1, 1, 1, 1],
      steps.map((step) => 1 + step),
    );
    expect(found).toEqual({
      dtype: "bfloat16",
      elements: 2 / 3,
      error: Math.sqrt((0.25 ** 2 + 0.25 ** 2) / (0.25 ** 2 + 0.75 ** 2 + 1)),
    });
  });

  it("rounds the base, too, so that a base of float32 does not count as changed", () => {
    expect(measured([1.001], [1.002])).toMatchObject({ elements: 0, error: 1 });
    expect(measured([1.001], [1.001])).toMatchObject({ elements: 1, error: 0 });
  });

  it("takes factors of LoRA as changed from zero", () => {
    const found = measured(undefined, [0, 0.1, -3], "F16");
    expect(found).toMatchObject({ dtype: "float16", elements: 1 });
    expect(found?.error).toBeLessThan(2 ** -11);
  });

  it("counts what overflows as lost, and no change where a value is not finite", () => {
    // 70,000 is beyond float16's largest number; 1e-40 is a denormal, of which bfloat16's are multiples of 2^-133.
    expect(measured([0, 0], [70_000, 8], "F16")).toEqual({
      dtype: "float16",
      elements: 0.5,
      error: Math.sqrt(70_000 ** 2 / (70_000 ** 2 + 64)),
    });
    expect(measured([1, 1, 1], [Number.NaN, Number.POSITIVE_INFINITY, 2])).toMatchObject({ elements: 1, error: 0 });
    expect(measured([Number.NaN], [1])).toMatchObject({ elements: 1, error: 0 });
    const denormal = measured([0], [1e-40]);
    expect(denormal?.elements).toBe(1);
    expect(denormal?.error).toBeCloseTo(1 - 2 ** -133 / 1e-40, 4);
  });

  it("counts norms apart, and names them where they keep far less", () => {
    const rounding = new Rounding(converter);
    const add = (from: number, change: number, isNorm: boolean) => {
      const exact = Float32Array.of(from + change, from + 1);
      rounding.add("BF16", exact, converter.encode("BF16", exact).bytes, Float32Array.of(from, from), isNorm);
    };
    add(0.01, 1, false);
    expect(rounding.result()).not.toHaveProperty("norms");
    // Of 256, bfloat16 has every second number: neither a thousandth nor 1 survives, a tie to even.
    add(256, 1e-3, true);
    const found = rounding.result();
    expect(found).toMatchObject({ elements: 0.5, norms: 0 });
    expect(found && describeKept(found)).toMatch(
      /^bfloat16 keeps 50\.0% of the changed elements \(0\.0% of those in norms and biases\); the change is off by/,
    );
    add(0.01, 1, true);
    expect(describeKept(rounding.result() as KeptChange)).not.toContain("norms");
  });

  it("has nothing to report where nothing was rounded", () => {
    const rounding = new Rounding(converter);
    rounding.add("F32", Float32Array.of(1), new Uint8Array(4), Float32Array.of(2));
    expect(rounding.result()).toBeUndefined();
  });

  // The paper's thresholds for its experts are 1.0e-5 and 1.9e-5.
  it("keeps about an eighth of a change of 1e-5 in weights of 0.02", () => {
    const normal = (seed: number) => {
      const next = () => {
        seed = (seed * 48_271) % 0x7fff_ffff;
        return seed / 0x7fff_ffff;
      };
      return () => Math.sqrt(-2 * Math.log(next())) * Math.cos(2 * Math.PI * next());
    };
    const draw = normal(7);
    const base = converter.decode(
      "BF16",
      converter.encode(
        "BF16",
        Float32Array.from({ length: 60_000 }, () => 0.02 * draw()),
      ).bytes,
    );
    const found = measured(
      [...base],
      [...base].map((weight) => weight + 1e-5 * draw()),
    );
    expect(found?.elements).toBeGreaterThan(0.1);
    expect(found?.elements).toBeLessThan(0.3);
    expect(found && losesChange(found)).toBe(true);
    expect(found && describeKept(found)).toMatch(
      /^bfloat16 keeps \d\d\.\d% of the changed elements; the change is off by \d+\.\d%$/,
    );
  });
});
