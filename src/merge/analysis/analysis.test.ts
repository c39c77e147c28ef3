// analyzeExperts: every figure against plain float64 arithmetic over the stored values, and rows against PyTorch's.
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  expectAnalysis,
  expectNear,
  expectRows,
  expectSame,
  referenceOf,
  thresholdsBetween,
} from "../../../test/support/analysis-reference.js";
import { encodeValues, type FloatDType, readJson, writeTiny } from "../../../test/support/checkpoints.js";
import { snapshot } from "../../../test/support/command.js";
import { Bench } from "../../../test/support/merging.js";
import { type TensorData, writeSafetensors } from "../../formats/safetensors/index.js";
import { MismatchError, RecipeError } from "../../kit/index.js";
import { type AnalyzeOptions, analyzeExperts } from "./analysis.js";
import { heatmapOf } from "./analysis-views.js";
import { pageData } from "./page-data.js";
import { mostChangedRows } from "./read-analysis.js";
import { parseThreshold, THRESHOLD_PRESETS } from "./thresholds.js";
import { writeAnalysis } from "./write-analysis.js";

const bench = new Bench();
const fixtures = join(import.meta.dirname, "../../../test/fixtures");

// ---- checkpoints ----

const LAYER = "model.layers.0.";
const [Q, K, BIAS, STACK, DOWN, NORM, OTHER] = [
  `${LAYER}self_attn.q_proj.weight`,
  `${LAYER}self_attn.k_proj.weight`,
  `${LAYER}self_attn.k_proj.bias`,
  `${LAYER}mlp.experts.gate_up_proj`,
  "model.layers.1.mlp.down_proj.weight",
  "model.norm.weight",
  `${LAYER}extra.weight`,
];
type Shapes = Record<string, number[]>;

const count = (shape: readonly number[]) => shape.reduce((product, extent) => product * extent, 1);

/** A checkpoint with these tensors; `valuesOf` gives each tensor's values. */
function write(
  shapes: Shapes,
  dtype: FloatDType,
  valuesOf: (name: string, n: number, i: number) => Float32Array,
  more: TensorData[] = [],
): Promise<string> {
  const tensors = Object.entries(shapes).map(([name, shape], i) => {
    const data = encode(valuesOf(name, count(shape), i), dtype);
    return { name, dtype, shape, data };
  });
  const layers = DOWN in shapes ? 2 : 1;
  return writeTiny(bench.next("m"), { layers, modelType: "qwen3_moe", edit: () => [...tensors, ...more] });
}

/** Fast for many values: bfloat16 by cutting off, which is as good as any rounding here. */
function encode(values: Float32Array, dtype: FloatDType): Uint8Array {
  if (dtype === "F16") return encodeValues(values, dtype);
  const bits = new Uint32Array(values.buffer);
  return new Uint8Array((dtype === "F32" ? bits : Uint16Array.from(bits, (x) => x >>> 16)).buffer);
}

/** As times `size`, and fast for millions. */
function floats(n: number, seed: number, size: number): Float32Array {
  const values = new Float32Array(n);
  let state = (seed ^ 0x9e3779b9) >>> 0 || 1;
  for (let i = 0; i < n; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    values[i] = (size * state) / 2 ** 31;
  }
  return values;
}

const baseValues = (seed: number) => (_: string, n: number, i: number) => floats(n, seed * 100 + i, 0.05);

/** The base's values, a third of them unchanged, the others moved by up to `size`. */
const moved =
  (seed: number, of: number, size = 1e-3) =>
  (name: string, n: number, i: number) => {
    const [values, steps] = [baseValues(of)(name, n, i), floats(n, seed * 7919 + i, size)];
    for (let k = 0; k < n; k++) if (k % 3 !== 1) values[k] = (values[k] as number) + (steps[k] as number);
    values[n - 1] = (values[n - 1] as number) + 2 * size; // the largest change, in the last piece
    return values;
  };

const given = (values: number[]) => values.map((value, i) => ({ name: `t${i}`, value }));

describe("figures match plain float64 arithmetic", () => {
  const extent = fc.integer({ min: 1, max: 21 });
  const dtype = fc.constantFrom<FloatDType>("BF16", "F16", "F32");
  const shapes = fc.record({
    [Q]: fc.tuple(extent, extent),
    [K]: fc.tuple(extent, extent),
    [BIAS]: fc.tuple(extent),
    [STACK]: fc.tuple(fc.integer({ min: 1, max: 4 }), extent, extent),
    [DOWN]: fc.tuple(extent, extent),
    [NORM]: fc.tuple(extent),
  });

  it("over any shapes and dtypes, on both axes", async () => {
    const kinds = fc.oneof(
      fc.tuple(dtype, dtype, dtype),
      dtype.map((one): [FloatDType, FloatDType, FloatDType] => [one, one, one]),
    );
    await fc.assert(
      fc.asyncProperty(shapes, kinds, fc.integer({ min: 1, max: 1e6 }), async (drawn, [b, x, y], seed) => {
        const base = await write(drawn as Shapes, b, baseValues(seed));
        const experts = [
          await write(drawn as Shapes, x, moved(seed + 1, seed)),
          await write(drawn as Shapes, y, moved(seed + 2, seed)),
        ];
        for (const rows of ["input", "output"] as const) {
          const reference = await referenceOf([base, ...experts], rows);
          const at = thresholdsBetween(reference);
          const [e0 = "", e1 = ""] = experts;
          const result = await analyzeExperts({ base, experts: { e0, e1 }, rows, thresholds: given(at), threads: 1 });
          expectAnalysis(result, reference, at);
        }
      }),
      { numRuns: 4 },
    );
  });
});

describe("matrices larger than a block and than a piece", { tags: ["slow"] }, () => {
  const large: Shapes = {
    [Q]: [700, 3100],
    [K]: [3, 70_001],
    [BIAS]: [70_000],
    [STACK]: [2, 270, 260],
    [NORM]: [9],
  };

  it("give the same figures, bit-identical on 1, 2 and 3 threads", async () => {
    const base = await write(large, "BF16", baseValues(5));
    const folders = [base, await write(large, "BF16", moved(6, 5)), await write(large, "BF16", moved(7, 5))];
    const experts = { e0: folders[1] as string, e1: folders[2] as string };
    for (const rows of ["input", "output"] as const) {
      const reference = await referenceOf(folders, rows);
      const at = thresholdsBetween(reference);
      const run = (threads: number) => analyzeExperts({ base, experts, rows, thresholds: given(at), threads });
      const one = await run(1);
      expectAnalysis(one, reference, at);
      for (const threads of [2, 3]) expectSame(await run(threads), one);
    }
  });

  it("give the same figures for a long vector of mixed dtypes", async () => {
    const shapes = { [Q]: [2, 9], [BIAS]: [2 ** 21 + 5] };
    const base = await write(shapes, "BF16", baseValues(15));
    const e = await write(shapes, "F32", moved(16, 15));
    const reference = await referenceOf([base, e], "input");
    const run = (threads: number) => analyzeExperts({ base, experts: { e }, thresholds: given([1e-4]), threads });
    const one = await run(1);
    expectAnalysis(one, reference, [1e-4]);
    expectSame(await run(2), one);
  });
});

it("measures a convolution of more kernels than a call takes arguments", async () => {
  const shapes = { [Q]: [2, 9], [OTHER]: [400, 400, 1, 1] };
  const base = await write(shapes, "F32", (_, n) => new Float32Array(n).fill(2));
  const e = await write(shapes, "F32", (_, n) => new Float32Array(n).fill(3));
  const { analysis } = await analyzeExperts({ base, experts: { e } });
  const found = analysis.tensors.find(({ tensor }) => tensor === OTHER)?.experts[0];
  expect(found?.relativeNorm).toBeCloseTo(0.5, 12);
});

describe("thresholds", () => {
  it("a row equal to the threshold is not above it, on either axis", async () => {
    const shapes = { [Q]: [8, 8], [BIAS]: [3] };
    const base = await write(shapes, "BF16", (_, n) => new Float32Array(n));
    const columns = await write(shapes, "BF16", (_, n) => Float32Array.from({ length: n }, (_, i) => (i % 8) / 8));
    const lines = await write(shapes, "BF16", (_, n) => Float32Array.from({ length: n }, (_, i) => (i >> 3) / 8));
    for (const [rows, e] of [
      ["input", columns],
      ["output", lines],
    ] as const) {
      const at = [0.25, 0.2499, 0.2501, 0.875, 0.8749];
      const { analysis } = await analyzeExperts({ base, experts: { e }, rows, thresholds: given(at) });
      const q = analysis.tensors.find(({ tensor }) => tensor === Q)?.experts[0];
      expect(q?.shares).toEqual([5 / 8, 6 / 8, 5 / 8, 0, 1 / 8]);
      expect(q?.relativeNorm).toBeNull(); // the base is zero
    }
  });

  it("auto is the row of an expert's matrices in the layers, of whatever part, that one in eight exceeds", async () => {
    const shapes = { [Q]: [5, 30], [K]: [4, 21], [BIAS]: [7], [DOWN]: [6, 13], [NORM]: [40], [OTHER]: [9, 9] };
    const base = await write(shapes, "F32", baseValues(8));
    // Other tensors move most and must not count.
    const more = (seed: number, size: number) => (name: string, n: number, i: number) =>
      moved(seed, 8, [BIAS, NORM].includes(name) ? 1 : size)(name, n, i);
    const experts = { a: await write(shapes, "F32", more(9, 1e-3)), b: await write(shapes, "F32", more(10, 1e-5)) };
    const { analysis, rows } = await analyzeExperts({ base, experts });
    const [auto] = analysis.thresholds;
    expect(auto?.name).toBe("auto");
    ["a", "b"].forEach((name, i) => {
      const all = [Q, K, DOWN, OTHER].flatMap((tensor) => [...(rows.get(`${name}/${tensor}`) as Float32Array)]);
      expect(all.length).toBe(73);
      expect(all).toContain(auto?.values[i]);
      // One in eight, or one row fewer, as a rank between two rows may be rounded down.
      expect([8, 9]).toContain(all.filter((row) => row > (auto?.values[i] as number)).length);
    });
    expect(auto?.values[0] as number).toBeGreaterThan(10 * (auto?.values[1] as number));
  });

  it.each([
    ["auto", "auto"],
    ["paper", 1.9e-5],
    ["paper-fine", 1e-5],
    ["2.5e-5", 2.5e-5],
  ])("%s is read", (text, value) => expect(parseThreshold(text)).toEqual({ name: text, value }));

  it.each(["", " ", "0", "-1", "NaN", "Infinity", "1e-5x", "toString", "Auto"])("%j is refused", (text) => {
    expect(() => parseThreshold(text)).toThrow(RecipeError);
    expect(() => parseThreshold(text)).toThrow(/neither a positive number nor one of auto, common, paper, paper-fine/);
  });

  it("the presets are the paper's", () => expect(THRESHOLD_PRESETS).toEqual({ paper: 1.9e-5, "paper-fine": 1e-5 }));
});

describe("experts that are adapters or recipes", () => {
  const lora = join(fixtures, "lora");

  it("an adapter equals its merged checkpoint", async () => {
    const source = `${join(lora, "base")}+${join(lora, "adapter")}`;
    const merged = (await bench.merge({ method: "soup", models: [source] })).out;
    for (const rows of ["input", "output"] as const) {
      const base = join(lora, "base");
      const result = await analyzeExperts({ base, experts: { e: source }, rows });
      expectSame(result, await analyzeExperts({ base, experts: { e: merged }, rows }));
      expect(result.analysis.total.experts[0]?.exactZeroShare).toBeLessThan(0.6);
      expect(result.analysis.total.experts[0]?.norm).toBeGreaterThan(1);
    }
  });

  it("a recipe equals its float32 output, and nothing is written", async () => {
    const [base, ...models] = (await bench.models(4)) as [string, ...string[]];
    const recipe = { method: "soup" as const, weights: "magnitude" as const, base, models };
    const written = (await bench.merge({ ...recipe, dtype: "float32" })).out;
    const before = snapshot(bench.folder);
    const found = await analyzeExperts({ base, experts: { e: recipe, one: models[0] as string } });
    expect(snapshot(bench.folder)).toEqual(before);
    expectSame(found, await analyzeExperts({ base, experts: { e: written, one: models[0] as string } }));
    expect(found.analysis.total.pairs[0]?.cosine).toBeGreaterThan(0.3); // the soup holds the one
  });
});

describe("values that are not finite", () => {
  const shapes: Shapes = { [Q]: [700, 3100], [BIAS]: [11], [STACK]: [3, 6, 7], [DOWN]: [5, 9] };
  const places: [name: string, at: number, value: number][] = [
    [Q, 690 * 3100 + 17, Number.NaN], // in the second piece
    [Q, 690 * 3100 + 18, Number.POSITIVE_INFINITY],
    [BIAS, 4, Number.NEGATIVE_INFINITY],
    [STACK, 2 * 42 + 3 * 7 + 5, Number.NaN],
  ];
  const broken = (name: string, n: number, i: number) => {
    const values = moved(12, 11)(name, n, i);
    for (const [tensor, at, value] of places) if (tensor === name) values[at] = value;
    return values;
  };

  it("are counted, located, reported, and left out of other figures", { tags: ["slow"] }, async () => {
    const dtype = "BF16";
    const base = await write(shapes, dtype, baseValues(11));
    const folders = [base, await write(shapes, dtype, broken), await write(shapes, dtype, moved(13, 11))];
    const experts = { bad: folders[1] as string, good: folders[2] as string };
    const reference = await referenceOf(folders, "input");
    const at = thresholdsBetween(reference);
    const result = await analyzeExperts({ base, experts, thresholds: given(at) });
    expectAnalysis(result, reference, at);
    const { warnings, total } = result.analysis;
    expect(total.experts.map(({ nonFinite }) => nonFinite)).toEqual([4, 0]);
    expect(warnings.length).toBe(3);
    for (const [tensor, n, first] of [
      [Q, 2, 690 * 3100 + 17],
      [BIAS, 1, 4],
      [STACK, 1, 110],
    ] as const) {
      const warning = warnings.find((text) => text.startsWith(`${tensor} of bad has ${n} infinite or NaN change`));
      expect(warning).toContain(`the first at index ${first};`);
    }
    const nans = (name: string) =>
      [...(result.rows.get(name) ?? [])].flatMap((row, i) => (Number.isNaN(row) ? [i] : []));
    expect(nans(`bad/${Q}`)).toEqual([17, 18]);
    expect(nans(`bad/${STACK}`)).toEqual([2 * 7 + 5]);
    expect(nans(`bad/${BIAS}`)).toEqual([0]);
    expect(nans(`good/${Q}`)).toEqual([]);
    expect(pageData(result).cells.map((layers) => layers[0]?.[0]?.rows)).toEqual([3098, 3100]);
  });

  it("changes whose squares exceed float32 are still finite", async () => {
    const small = { [Q]: [4, 5] };
    const base = await write(small, "F32", baseValues(14));
    const e = await write(small, "F32", (_, n) => new Float32Array(n).fill(3e30));
    const { analysis } = await analyzeExperts({ base, experts: { e }, thresholds: given([1e30, 4e30]) });
    expect(analysis.total.experts[0]).toMatchObject({ nonFinite: 0, shares: [1, 0], largest: Math.fround(3e30) });
    expect((analysis.total.experts[0]?.norm as number) / (Math.fround(3e30) * Math.sqrt(20))).toBeCloseTo(1, 6);
    expect(analysis.warnings).toEqual([]);
  });
});

describe("warnings and errors", () => {
  it("an integer tensor is listed as skipped", async () => {
    const ids: TensorData = { name: `${LAYER}ids`, dtype: "I64", shape: [2], data: new Uint8Array(16).fill(1) };
    const base = await write({ [Q]: [3, 4] }, "BF16", baseValues(1), [ids]);
    const e = await write({ [Q]: [3, 4] }, "BF16", moved(2, 1), [{ ...ids, data: new Uint8Array(16).fill(9) }]);
    const { analysis, rows } = await analyzeExperts({ base, experts: { e } });
    expect(analysis.skipped).toEqual([ids.name]);
    expect(analysis.tensors.map(({ tensor }) => tensor)).toEqual([Q]);
    expect([...rows.keys()]).toEqual([`e/${Q}`]);
  });

  it("an expert equal to the base", async () => {
    const [base, other] = (await bench.models(2)) as [string, string];
    const { analysis } = await analyzeExperts({ base, experts: { copy: base, other } });
    expect(analysis.warnings).toEqual(["copy is identical to the base in every tensor"]);
    const zeros = { mean: 0, maximum: 0, largest: 0, norm: 0, relativeNorm: 0, exactZeroShare: 1, shares: [0] };
    expect(analysis.total.experts[0]).toMatchObject(zeros);
    expect(analysis.total.pairs).toEqual([{ cosine: null, conflictShare: 0, overlap: [0] }]);
    expect(analysis.thresholds[0]?.values[0]).toBe(0);
  });

  it("experts that cannot be analysed are rejected", async () => {
    const [base, other] = (await bench.models(2)) as [string, string];
    const deep = await bench.model({ layers: 3 });
    const refused = async (
      experts: AnalyzeOptions["experts"],
      error: new (...args: never[]) => Error,
      text: RegExp,
    ) => {
      const outcome = await analyzeExperts({ base, experts }).catch((thrown: unknown) => thrown);
      expect(outcome).toBeInstanceOf(error);
      expect((outcome as Error).message).toMatch(text);
    };
    await refused({}, RecipeError, /at least one expert/);
    await refused({ base: other }, RecipeError, /"base" is not a name/);
    await refused(
      { a: { method: "soup", weights: "equal", models: [other] }, "a.b": other },
      RecipeError,
      /a\.b could also name a source within a/,
    );
    await refused({ deep }, MismatchError, /base \(.*\) has 2 layers, deep \(.*\) has 3/);
  });
});

it("has a threshold for each expert, as the paper's figure 2, and draws every threshold", async () => {
  const [base, a, b] = (await bench.models(3)) as [string, string, string];
  const asked = (...texts: string[]) =>
    analyzeExperts({ base, experts: { a, b }, thresholds: texts.map(parseThreshold) }).then(({ analysis }) => analysis);
  const own = await asked("a=0.4", "0.3", "b=0.5");
  expect(own.thresholds).toEqual([
    { name: "a=0.4, b=0.5", values: [0.4, 0.5] },
    { name: "0.3", values: [0.3, 0.3] },
  ]);
  const [each, ofA, ofB] = [own, await asked("0.4"), await asked("0.5")].map(({ matrices }) => matrices.experts);
  expect(each?.map(({ shares }) => shares[0])).toEqual([ofA?.[0]?.shares[0], ofB?.[1]?.shares[0]]);
  const { panels, legend } = heatmapOf(own);
  expect(legend).toBe("share of rows above each expert's own threshold");
  expect(panels.map(({ title, subtitle }) => `${title}, ${subtitle}`)).toEqual([
    "a, threshold 4.00e-1",
    "a, threshold 3.00e-1",
    "b, threshold 5.00e-1",
    "b, threshold 3.00e-1",
  ]);
  const [auto] = (await asked("auto")).thresholds;
  expect((await asked("b=0.5")).thresholds[0]?.values).toEqual([auto?.values[0], 0.5]);
  await expect(asked("c=1")).rejects.toThrow('threshold: there is no expert "c"; there are a, b');
  await expect(asked("a=1", "b=1", "a=2")).rejects.toThrow("threshold: a has several; give one for each expert");
});

it("the page's counts equal the analysis's shares in any order of tensors", async () => {
  const [base, a, b] = (await bench.models(3, { layers: 12, edit: (tensors) => tensors.reverse() })) as [
    string,
    string,
    string,
  ];
  const thresholds = [parseThreshold("auto"), parseThreshold("0.4")];
  const result = await analyzeExperts({ base, experts: { a, b }, thresholds });
  expect(result.analysis.byLayer.map(({ layer }) => layer)).toEqual([...Array(12).keys(), null]);
  const page = pageData(result);
  expect(page.columns).toEqual(["q", "k", "v", "o", "gate", "up", "down"]);
  expect(page.marks.map(({ name }) => name)).toEqual(["auto", "0.4", "common"]);
  expect(page.steps).toEqual([...page.steps].sort((x, y) => x - y));
  // The row of all experts' matrices that an eighth exceeds, as the analysis has it where it is asked for.
  const { analysis: asked } = await analyzeExperts({ base, experts: { a, b }, thresholds: [parseThreshold("common")] });
  const given = [...result.analysis.thresholds, ...asked.thresholds].map(({ values }) => values);
  expect(page.marks.map(({ steps }) => steps.map((step) => page.steps[step]))).toEqual(given);
  const shares = asked.matrices.experts.map(({ rows, shares: [share = 0] }) => rows * share);
  const rows = asked.matrices.experts.reduce((sum, one) => sum + one.rows, 0);
  expect(shares.reduce((sum, above) => sum + above, 0)).toBe(Math.floor(rows / 8));
  page.cells.forEach((layers, expert) => {
    layers.forEach((cells, layer) => {
      cells.forEach((cell, column) => {
        const part = `${page.columns[column]}_proj`;
        const figures = result.analysis.parts.find((p) => p.layer === layer && p.part === part)?.experts[expert];
        const shares = page.marks.map(({ steps }) => (cell?.above[steps[expert] ?? -1] as number) / (cell?.rows ?? 0));
        expect(shares.slice(0, 2)).toEqual(figures?.shares);
      });
    });
  });
  expect(page.pairs.map(({ experts }) => experts)).toEqual([[0, 1]]);
  page.pairs[0]?.cells.forEach((cells, layer) => {
    cells.forEach((cell, column) => {
      const part = `${page.columns[column]}_proj`;
      const { tensor } = result.analysis.tensors.find((one) => one.layer === layer && one.part === part) ?? {};
      const [x, y] = ["a", "b"].map((name) => [...(result.rows.get(`${name}/${tensor}`) as Float32Array)]);
      const both = page.steps.map((step) => x?.filter((value, i) => value > step && (y?.[i] ?? 0) > step).length);
      expect(cell?.both).toEqual(both);
      const { experts, pairs } = result.analysis.parts.find((one) => one.layer === layer && one.part === part) ?? {};
      const pair = pairs?.[0];
      const counts = experts?.map(({ shares, rows }) => Math.round((shares[0] ?? 0) * rows)) ?? [];
      const [own = 0] = cell?.bothAtMarks ?? [];
      const either = (counts[0] ?? 0) + (counts[1] ?? 0) - own;
      expect(either > 0 ? own / either : null).toBe(pair?.overlap[0]);
      expect(cell).toMatchObject({ cosine: pair?.cosine, conflict: pair?.conflictShare });
    });
  });
});

it("rows with infinite changes count for neither expert of a pair", async () => {
  const values = (changes: number[]) => (_: string, n: number) =>
    Float32Array.from({ length: n }, (_, i) => changes[i] ?? 0);
  const one = { [Q]: [1, 4] };
  const base = await write(one, "F32", values([]));
  const a = await write(one, "F32", values([1, Number.POSITIVE_INFINITY, 3, 4]));
  const b = await write(one, "F32", values([4, 3, 2, 0]));
  const page = pageData(await analyzeExperts({ base, experts: { a, b }, thresholds: given([1.5]) }));
  expect(page.cells.map((layers) => layers[0]?.[0]?.above[page.marks[0]?.steps[0] ?? -1])).toEqual([2, 3]);
  expect(page.pairs[0]?.cells[0]?.[0]?.both[page.marks[0]?.steps[0] ?? -1]).toBe(1);
});

it("a written analysis is read again, row by row", async () => {
  const [base, a, b] = (await bench.models(3)) as [string, string, string];
  const result = await analyzeExperts({ base, experts: { a, b } });
  const out = bench.next("analysis");
  await writeAnalysis({ out }, result);
  const { tensor } = result.analysis.tensors.find(({ layer, part }) => layer === 1 && part === "q_proj") ?? {};
  const rows = ["a", "b"].map((name) => [...(result.rows.get(`${name}/${tensor}`) as Float32Array)]) as [
    number[],
    number[],
  ];
  const byLargest = [...rows[0].keys()].sort(
    (i, j) => Math.max(rows[0][j] ?? 0, rows[1][j] ?? 0) - Math.max(rows[0][i] ?? 0, rows[1][i] ?? 0),
  );
  const found = await mostChangedRows(out, { layer: 1, column: "q", most: 100 });
  expect(found).toEqual(byLargest.map((index) => ({ index, changes: rows.map((one) => one[index]) })));
  const top = await mostChangedRows(out, { layer: 1, column: "q", most: 1 });
  expect(new Set(top.map(({ index }) => index))).toEqual(new Set(rows.map((one) => one.indexOf(Math.max(...one)))));
  await expect(mostChangedRows(out, { layer: 99, column: "q", most: 1 })).rejects.toThrow("Layer 99 has no matrix q.");
});

describe("the folder of a stranger's analysis is refused where", () => {
  const [tensor, rows] = ["w", { layer: 0, column: "q", most: 1 }];
  const valid = { format: 1, experts: ["e"], tensors: [{ tensor, shape: [2, 1], layer: 0, part: "q_proj" }] };
  const folderOf = async (json: unknown, dtype: "F32" | "BF16" = "F32") => {
    const folder = bench.next("stranger");
    mkdirSync(folder);
    writeFileSync(join(folder, "analysis.json"), JSON.stringify(json));
    const data = encodeValues([1, 2], dtype);
    await writeSafetensors(join(folder, "rows.safetensors"), [{ name: "e/w", dtype, shape: [2], data }]);
    return folder;
  };

  it.each([
    ["another format is named", { ...valid, format: 2 }],
    ["experts are missing", { ...valid, experts: undefined }],
    ["tensors are a text", { ...valid, tensors: "w" }],
    ["a tensor is null", { ...valid, tensors: [null] }],
    ["a part is a number", { ...valid, tensors: [{ ...valid.tensors[0], part: 3 }] }],
  ])("%s", async (_, json) => {
    expect(await mostChangedRows(await folderOf(valid), rows)).toEqual([{ index: 1, changes: [2] }]);
    const refused = mostChangedRows(await folderOf(json), rows);
    await expect(refused).rejects.toThrow(/analysis\.json is not an analysis of this version; measure again$/);
  });

  it("rows have another dtype", async () => {
    const refused = mostChangedRows(await folderOf(valid, "BF16"), rows);
    await expect(refused).rejects.toThrow(/rows\.safetensors does not have the rows of an analysis; measure again$/);
  });

  it("a tensor has more rows than a model may have", async () => {
    const folder = await folderOf(valid);
    const [file, bytes] = [join(folder, "rows.safetensors"), 4_000_000_004];
    const header = Buffer.from(
      JSON.stringify({ "e/w": { dtype: "F32", shape: [bytes / 4], data_offsets: [0, bytes] } }),
    );
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(header.length));
    writeFileSync(file, Buffer.concat([length, header]));
    truncateSync(file, 8 + header.length + bytes);
    await expect(mostChangedRows(folder, rows)).rejects.toThrow(/does not have the rows of an analysis/);
  });

  it.skipIf(process.platform === "win32")("a file is a pipe or a device", async () => {
    for (const make of [
      (file: string) => execFileSync("mkfifo", [file]),
      (file: string) => symlinkSync("/dev/zero", file),
    ]) {
      const folder = await folderOf(valid);
      rmSync(join(folder, "analysis.json"));
      make(join(folder, "analysis.json"));
      await expect(mostChangedRows(folder, rows)).rejects.toThrow(/analysis\.json is not a file$/);
    }
  });
});

describe("PyTorch's and NumPy's rows", () => {
  interface Expected {
    input: number[];
    output: number[];
    largest: number;
    equal: number;
    norm: number;
    relative: number;
  }
  const expected = readJson(fixtures, "analysis/expected.json") as Record<string, Record<string, Expected>>;

  it.each(["bf16", "f16", "f32"])("%s", async (folder) => {
    const [base, e] = ["base", "expert"].map((kind) => join(fixtures, "analysis", folder, kind)) as [string, string];
    const wanted = expected[folder] as Record<string, Expected>;
    for (const axis of ["input", "output"] as const) {
      const { analysis, rows } = await analyzeExperts({ base, experts: { e }, rows: axis });
      expect(analysis.tensors.map(({ tensor }) => tensor).sort()).toEqual(Object.keys(wanted).sort());
      for (const {
        tensor,
        shape,
        experts: [figures],
      } of analysis.tensors) {
        const one = wanted[tensor] as Expected;
        expectRows(rows.get(`e/${tensor}`), one[axis]);
        expect(figures?.largest).toBe(one.largest);
        expect(figures?.exactZeroShare).toBe(one.equal / count(shape));
        expectNear("norm", figures?.norm, one.norm);
        expectNear("relative norm", figures?.relativeNorm, one.relative);
      }
    }
  });
});
