// A step as PyTorch makes it: global norm, clipping, AdamW, over PyTorch's own steps in a fixture; and what is left alone.
// Not the arithmetic of single elements: kernels/training.test.ts.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { OptimizerSettings } from "../run/run-schema.js";
import { clipFactor, Optimizer, type Parameter, requireArrays } from "./optimizer.js";

interface FixtureCase {
  lr: number;
  betas: [number, number];
  eps: number;
  decay: number;
  clip: number;
  start: number[];
  steps: { gradient: number[]; norm: number; weights: number[] }[];
}

const path = join(import.meta.dirname, "../../../test/fixtures/train/adamw.json");
const fixture = JSON.parse(readFileSync(path, "utf8")) as FixtureCase[];

const settings: OptimizerSettings = { betas: [0.9, 0.99], eps: 1e-8, decay: 0, decay_all: false, clip: false };

function parameter(optimizer: Optimizer, name: string): Parameter {
  const found = optimizer.parameters.get(name);
  if (!found) throw new Error(name);
  return found;
}

it("refuses a parameter that an array cannot hold", () => {
  // 2^30 elements are 4 GiB.
  const embedding = { name: "embedding", shape: [2 ** 20, 2 ** 10] };
  expect(() => requireArrays([embedding], 2 ** 32)).not.toThrow();
  expect(() => requireArrays([{ name: "small", shape: [3] }, embedding], 2 ** 32 - 1)).toThrow(
    /^embedding has 4\.29 GB as float32, and an array of Node\.js \S+ holds 4\.29 GB\. Leave it out of train/,
  );
});

describe("Optimizer", () => {
  it.each(fixture.map((one, i) => [i, one] as const))("makes PyTorch's steps, case %i", (_, one) => {
    const { lr, betas, eps, decay, clip, start, steps } = one;
    // The fixture's 37 weights as two parameters: the norm is that of both together.
    const optimizer = new Optimizer(
      [
        { name: "a", shape: [3, 5] },
        { name: "b", shape: [22, 1] },
      ],
      { betas, eps, decay, decay_all: false, clip },
    );
    const [a, b] = [parameter(optimizer, "a"), parameter(optimizer, "b")];
    a.weights.set(start.slice(0, 15));
    b.weights.set(start.slice(15));
    for (const wanted of steps) {
      const gradient = Float32Array.from(wanted.gradient);
      // In two halves, as accumulation brings them; the sum is then scaled.
      for (let half = 0; half < 2; half++) {
        optimizer.accumulate("a", gradient.subarray(0, 15));
        optimizer.accumulate("b", gradient.subarray(15));
      }
      const { gradientNorm, applied } = optimizer.step({ learningRate: lr, scale: 0.5 });
      expect(applied).toBe(true);
      expect(gradientNorm / wanted.norm).toBeCloseTo(1, 6);
      [...a.weights, ...b.weights].forEach((w, i) => {
        expect(Math.abs(w - (wanted.weights[i] ?? 0)), `weight ${i}`).toBeLessThan(
          1e-6 * lr + 5e-7 * Math.abs(w) + 1e-9,
        );
      });
    }
    expect([a.steps, b.steps]).toEqual([5, 5]);
  });

  it("decays matrices, and vectors only if told to", () => {
    const moved = (decay_all: boolean) => {
      const shapes = [
        { name: "norm", shape: [4] },
        { name: "matrix", shape: [2, 2] },
      ];
      const optimizer = new Optimizer(shapes, { ...settings, decay: 0.5, decay_all });
      return shapes.map(({ name }) => {
        const { weights } = parameter(optimizer, name);
        weights.fill(1);
        optimizer.accumulate(name, new Float32Array(4));
        optimizer.step({ learningRate: 0.5 });
        return weights[0];
      });
    };
    expect(moved(false)).toEqual([1, 0.75]);
    expect(moved(true)).toEqual([0.75, 0.75]);
  });

  it("leaves what has no gradient as it is: weights, moments, steps", () => {
    const shapes = ["task", "language"].map((name) => ({ name, shape: [1, 2] }));
    const optimizer = new Optimizer(shapes, { ...settings, decay: 0.1 });
    const [task, language] = [parameter(optimizer, "task"), parameter(optimizer, "language")];
    for (const one of [task, language]) one.weights.fill(1);
    optimizer.accumulate("task", Float32Array.of(1, 2));
    expect(optimizer.step({ learningRate: 0.1 }).gradientNorm).toBeCloseTo(Math.sqrt(5), 6);
    optimizer.accumulate("language", Float32Array.of(3, 4));
    expect(optimizer.step({ learningRate: 0.1 }).gradientNorm).toBeCloseTo(5, 6);
    expect(optimizer.step({ learningRate: 0.1 })).toEqual({ gradientNorm: 0, applied: true });
    expect([task.steps, language.steps]).toEqual([1, 1]);
    // The first step of AdamW has the size of the learning rate, whatever the gradient: 1 - 0.1 * 0.1 - 0.1.
    for (const w of [...task.weights, ...language.weights]) expect(w).toBeCloseTo(0.89, 6);
    expect(task.first[1]).toBeCloseTo(0.2, 6);
  });

  it("adds up rows of an embedding, after and before a whole gradient", () => {
    const optimizer = new Optimizer([{ name: "e", shape: [3, 2] }], settings);
    const { gradient } = parameter(optimizer, "e");
    gradient.fill(9); // of a step before
    optimizer.accumulateRows("e", [2, 0, 2], Float32Array.of(1, 2, 3, 4, 5, 6));
    expect([...gradient]).toEqual([3, 4, 0, 0, 6, 8]);
    optimizer.accumulate("e", new Float32Array(6).fill(1));
    expect([...gradient]).toEqual([4, 5, 1, 1, 7, 9]);
    expect(optimizer.target("e")).toBeUndefined();
    optimizer.clear();
    expect(optimizer.target("e")).toBe(gradient);
    gradient.fill(2);
    optimizer.wrote("e");
    expect(optimizer.step({ learningRate: 0 }).gradientNorm).toBeCloseTo(Math.sqrt(24), 6);
  });

  it("changes nothing when a gradient is not finite", () => {
    const optimizer = new Optimizer([{ name: "w", shape: [2, 2] }], { ...settings, clip: 1 });
    const w = parameter(optimizer, "w");
    for (const bad of [Number.NaN, Infinity]) {
      w.weights.fill(1);
      optimizer.accumulate("w", Float32Array.of(0, bad, 0, 0));
      expect(optimizer.step({ learningRate: 0.1 }).applied).toBe(false);
      expect([...w.weights, ...w.first, ...w.second, w.steps]).toEqual([1, 1, 1, 1, ...Array(9).fill(0)]);
    }
  });

  it("steps on the elements of a mask as if they were alone, and leaves the others their bits", () => {
    const all = { betas: [0.9, 0.99], eps: 1e-8, decay: 0.1, decay_all: true, clip: 0.5 } as const;
    const n = 21;
    const inside = [0, 3, 8, 9, 10, 11, 12, 13, 14, 15, 20];
    const mask = Uint8Array.of(0b1001, 0xff, 0b10000);
    const masked = new Optimizer([{ name: "w", shape: [n] }], all, new Map([["w", mask]]));
    const alone = new Optimizer([{ name: "w", shape: [inside.length] }], all);
    const [w, few] = [parameter(masked, "w"), parameter(alone, "w")];
    // A negative zero and a denormal are weights, too.
    const start = Float32Array.from({ length: n }, (_, i) => [-0, 1e-42][i - 1] ?? Math.cos(i));
    const pick = (values: Float32Array) => Float32Array.from(inside, (i) => values[i] as number);
    w.weights.set(start);
    few.weights.set(pick(start));
    for (let step = 0; step < 3; step++) {
      // In quarters, so that the sums of squares do not depend on their order.
      const gradient = Float32Array.from({ length: n }, (_, i) => (((7 * i + 3 * step) % 9) - 4) / 4);
      masked.accumulate("w", gradient);
      alone.accumulate("w", pick(gradient));
      expect(masked.step({ learningRate: 0.01 })).toEqual(alone.step({ learningRate: 0.01 }));
    }
    expect(pick(w.weights)).toEqual(few.weights);
    expect(pick(w.weights).some((x, i) => x === pick(start)[i])).toBe(false);
    for (let i = 0; i < n; i++) if (!inside.includes(i)) expect(Object.is(w.weights[i], start[i]), `${i}`).toBe(true);
  });

  it("knows its parameters", () => {
    const optimizer = new Optimizer([{ name: "w", shape: [2] }], settings);
    expect(() => optimizer.accumulate("v", new Float32Array(2))).toThrow("v is not trained");
    expect(() => optimizer.wrote("v")).toThrow("v is not trained");
    expect(() => optimizer.accumulate("w", new Float32Array(3))).toThrow("has 3 elements");
  });
});

describe("clipFactor", () => {
  it("is PyTorch's", () => {
    expect(clipFactor(4, 0.5)).toBe(0.5 / (4 + 1e-6));
    expect(clipFactor(0.1, 0.5)).toBe(1);
    expect(clipFactor(0, 0.5)).toBe(1);
    expect(clipFactor(100, false)).toBe(1);
  });
});
