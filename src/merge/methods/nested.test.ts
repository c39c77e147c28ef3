// Weights by magnitude and nested recipes against float64 definitions, bit for bit for copies and equal averages.

import { describe, expect, it } from "vitest";
import type { FloatDType, ReadTensor } from "../../../test/support/checkpoints.js";
import {
  Bench,
  expectClosely,
  expectExactly,
  type Formula,
  mean,
  readFolders,
  type Tensors,
  valuesOf,
} from "../../../test/support/merging.js";
import { readFolder, roundTo, toNumbers } from "../../../test/support/numbers.js";
import type { TensorData } from "../../formats/safetensors/index.js";
import { executePlan } from "../output/execute-plan.js";
import { planRecipe } from "../plan/planner.js";

const bench = new Bench();

/** Average over all rows of all deltas of the rows' mean absolute value; rows are input features (method.md). */
function magnitudeOf(expert: Tensors, base: Tensors): number {
  const rows: number[] = [];
  for (const [name, tensor] of expert) {
    const [a, b] = [toNumbers(tensor), toNumbers(base.get(name) as ReadTensor)];
    const delta = a.map((value, i) => Math.abs(value - (b[i] as number)));
    const [out, columns] =
      tensor.shape.length === 1 ? [tensor.shape[0] as number, 1] : (tensor.shape as [number, number]);
    for (let column = 0; column < columns; column++) {
      let total = 0;
      for (let row = 0; row < out; row++) total += delta[row * columns + column] as number;
      rows.push(total / out);
    }
  }
  return rows.reduce((total, row) => total + row, 0) / rows.length;
}

/** A base, and experts that moved from it by different amounts. */
async function family(
  sizes: readonly number[],
  dtype: FloatDType = "F32",
): Promise<{ base: string; experts: string[] }> {
  const base = await bench.model({ dtype });
  const values = await readFolder(base);
  const experts: string[] = [];
  for (const size of sizes) {
    const edit = (tensors: TensorData[]) =>
      tensors.map((tensor, t) => {
        const moved = toNumbers(values.get(tensor.name) as ReadTensor).map(
          (x, i) => x + size * Math.sin(1 + 7 * t + i * i),
        );
        const bytes =
          dtype === "F32"
            ? new Float32Array(moved)
            : Uint16Array.from(
                moved,
                (x) => (new Uint32Array(Float32Array.of(roundTo("BF16", x)).buffer)[0] as number) >>> 16,
              );
        return { ...tensor, data: new Uint8Array(bytes.buffer) };
      });
    experts.push(await bench.model({ dtype, edit }));
  }
  return { base, experts };
}

describe("weights by magnitude", () => {
  it.each(["F32", "BF16"] as const)("are the inverse of the average row MAV over all tensors (%s)", async (dtype) => {
    const { base, experts } = await family([0.5, 0.1, 0.02], dtype);
    const { tensors, measured } = await bench.merge({ method: "soup", models: experts, base, weights: "magnitude" });
    const sources = await readFolders(experts);
    const [origin] = await readFolders([base]);
    const magnitudes = sources.map((expert) => magnitudeOf(expert, origin as Tensors));
    expect(Object.keys(measured)).toEqual([0, 1, 2].map((i) => `magnitude of models[${i}] against base`));
    Object.values(measured).forEach(([value = 0], i) => {
      const wanted = magnitudes[i] as number;
      expect(Math.abs(value - wanted) / wanted, `models[${i}]`).toBeLessThan(1e-6);
    });
    expect(new Set(magnitudes.map((m) => m.toPrecision(2))).size).toBe(3);
    const inverse = magnitudes.map((m) => 1 / m);
    const total = inverse.reduce((a, b) => a + b);
    expectClosely(
      tensors,
      sources,
      () =>
        (...x) =>
          x.reduce((acc, v, i) => acc + v * (inverse[i] as number), 0) / total,
    );
  });

  it("weight both experts of a swap, and are not measured if nothing is averaged", async () => {
    const { base, experts } = await family([0.3, 0.06]);
    const [task = "", language = ""] = experts;
    const swap = { method: "swap", task, language, base, bottom: 1, top: 0, weights: "magnitude" } as const;
    const sources = await readFolders(experts);
    const origin = await readFolder(base);
    const [mt, ml] = sources.map((expert) => 1 / magnitudeOf(expert, origin)) as [number, number];
    const { tensors } = await bench.merge(swap);
    const blend: Formula = (a, b) => ((a as number) * mt + (b as number) * ml) / (mt + ml);
    const take =
      (side: 0 | 1): Formula =>
      (...x) =>
        x[side] as number;
    const of = (name: string) => (/layers\.0/.test(name) ? take(1) : /layers\.1/.test(name) ? take(0) : blend);
    expectClosely(tensors, sources, of);
    const copied = await planRecipe({ ...swap, outside: "task" });
    expect(copied.plan.measurements).toEqual([]);
  });

  it("are rejected without a base, with an identical base, with a NaN, and together with numbers", async () => {
    const { base, experts } = await family([0.3]);
    const [expert = ""] = experts;
    const nan = await bench.model({
      dtype: "F32",
      edit: ([first, ...rest]) => [
        { ...(first as TensorData), data: (first as TensorData).data.map(() => 0xff) },
        ...rest,
      ],
    });
    const plan = (models: string[]) => planRecipe({ method: "soup", models, base, weights: "magnitude" });
    const run = async (models: string[]) => executePlan(await plan(models), { out: bench.next("out") });
    await expect(planRecipe({ method: "soup", models: experts, weights: "magnitude" })).rejects.toThrow(
      /need the base .*; name it as base/,
    );
    await expect(run([expert, base])).rejects.toThrow(/models\[1\] is identical to the base/);
    await expect(run([expert, nan])).rejects.toThrow(
      /magnitude of models\[1\] against base cannot be measured, .* values in model\.embed_tokens\.weight/,
    );
    const both = planRecipe({ method: "soup", models: [{ model: expert, weight: 2 }], base, weights: "magnitude" });
    await expect(both).rejects.toThrow(/cannot be combined with weights of single models/);
    // A base may be a recipe: this one is the expert itself.
    const itself = {
      method: "soup" as const,
      models: [expert, expert],
      base: { method: "soup", models: [expert] },
      weights: "magnitude" as const,
    };
    await expect(executePlan(await planRecipe(itself), { out: bench.next("out") })).rejects.toThrow(
      /identical to the base/,
    );
  });
});

describe("recipes inside recipes", () => {
  const owner = (name: string) => (/layers\.0/.test(name) ? "language" : /layers\.1/.test(name) ? "task" : "average");

  it.each(["BF16", "F32"] as const)("swap a soup of three into a soup of three, bit for bit (%s)", async (dtype) => {
    const [math, language] = [await bench.models(3, { dtype }), await bench.models(3, { dtype })];
    const soup = (models: string[]) => ({ method: "soup" as const, models });
    const { tensors } = await bench.merge({
      method: "swap",
      task: soup(math),
      language: soup(language),
      bottom: 1,
      top: 0,
    });
    const formula =
      (name: string): Formula =>
      (...x) =>
        owner(name) === "language" ? mean(...x.slice(3)) : owner(name) === "task" ? mean(...x.slice(0, 3)) : mean(...x);
    expectExactly(tensors, await readFolders([...math, ...language]), formula);
  });

  it("with weights at both levels", async () => {
    const [a = "", b = "", c = "", d = ""] = await bench.models(4);
    const task = {
      method: "soup" as const,
      models: [
        { model: a, weight: 3 },
        { model: b, weight: 1 },
      ],
    };
    const language = {
      method: "soup" as const,
      models: [
        { model: c, weight: -1 },
        { model: d, weight: 3 },
      ],
    };
    const { tensors } = await bench.merge({ method: "swap", task, language, bottom: 1, top: 0, weights: [0.4, 0.6] });
    const formula =
      (name: string): Formula =>
      (a = 0, b = 0, c = 0, d = 0) => {
        const [t, l] = [(3 * a + b) / 4, (3 * d - c) / 2];
        return owner(name) === "language" ? l : owner(name) === "task" ? t : 0.4 * t + 0.6 * l;
      };
    expectClosely(tensors, await readFolders([a, b, c, d]), formula);
  });

  it("nest soups: equal ones become one soup, others keep the inner weights", async () => {
    const [a = "", b = "", c = "", d = ""] = await bench.models(4, { dtype: "F32" });
    const soup = (...models: string[]) => ({ model: { method: "soup" as const, models } });
    const sources = await readFolders([a, b, c, d]);
    const even = await bench.merge({ method: "soup", models: [soup(a, b), soup(c, d)] });
    expectExactly(even.tensors, sources, () => mean);
    const uneven = await bench.merge({ method: "soup", models: [soup(a, b, c), d] });
    expectClosely(
      uneven.tensors,
      sources,
      () =>
        (a = 0, b = 0, c = 0, d = 0) =>
          (a + b + c) / 6 + d / 2,
    );
    const deep = await bench.merge({
      method: "soup",
      models: [{ model: { method: "soup", models: [soup(a, b), c] } }, d],
    });
    expectClosely(
      deep.tensors,
      sources,
      () =>
        (a = 0, b = 0, c = 0, d = 0) =>
          a / 8 + b / 8 + c / 4 + d / 2,
    );
  });

  it("put a swap into a soup, and a soup by magnitude into a swap", async () => {
    const { base, experts } = await family([0.3, 0.1, 0.2]);
    const [a = "", b = "", c = ""] = experts;
    const sources = await readFolders(experts);
    const swap = { method: "swap" as const, task: a, language: b, bottom: 1, top: 0 };
    const inSoup = await bench.merge({ method: "soup", models: [{ model: swap }, c] });
    const half = (x: number, y: number) => (x + y) / 2;
    expectClosely(inSoup.tensors, sources, (name) => (a = 0, b = 0, c = 0) => {
      const inner = { language: b, task: a, average: half(a, b) }[owner(name)];
      return half(inner, c);
    });

    const task = { method: "soup" as const, models: [a, b], base, weights: "magnitude" as const };
    const { tensors, measured } = await bench.merge({
      method: "swap",
      task,
      language: c,
      base,
      bottom: 1,
      top: 0,
      weights: "magnitude",
    });
    const origin = await readFolder(base);
    const [ma = 0, mb = 0, mc = 0] = sources.map((expert) => magnitudeOf(expert, origin));
    const inner = (x: number, y: number) => (x / ma + y / mb) / (1 / ma + 1 / mb);
    const souped = new Map(
      [...(sources[0] as Tensors)].map(([name, tensor]): [string, ReadTensor] => {
        const [x = [], y = []] = valuesOf(name, sources);
        const blended = new Float64Array(x.map((value, i) => inner(value, y[i] as number)));
        return [name, { ...tensor, dtype: "F64", data: new Uint8Array(blended.buffer) }];
      }),
    );
    const ms = magnitudeOf(souped, origin);
    const wanted = [ma, mb, ms, mc];
    expect(Object.keys(measured)).toEqual([
      "magnitude of task.models[0] against task.base",
      "magnitude of task.models[1] against task.base",
      "magnitude of task against base",
      "magnitude of language against base",
    ]);
    Object.values(measured).forEach(([value = 0], i) => {
      expect(Math.abs(value / (wanted[i] as number) - 1)).toBeLessThan(1e-6);
    });
    expectClosely(tensors, sources, (name) => (a = 0, b = 0, c = 0) => {
      const t = inner(a, b);
      return { language: c, task: t, average: (t / ms + c / mc) / (1 / ms + 1 / mc) }[owner(name)];
    });
  });
});
