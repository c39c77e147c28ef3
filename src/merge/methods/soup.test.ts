// Soups against plain arithmetic, and dtypes other than the usual three.

import { describe, expect, it } from "vitest";
import type { ReadTensor } from "../../../test/support/checkpoints.js";
import { Bench, expectExactly, mean, readFolders, weighted } from "../../../test/support/merging.js";
import { readFolder, roundTo, toNumbers } from "../../../test/support/numbers.js";
import type { TensorData } from "../../formats/safetensors/index.js";
import { planRecipe } from "../plan/planner.js";

const bench = new Bench();

describe("soup", () => {
  it.each(["BF16", "F16", "F32"] as const)(
    "of 2, 3 and 5 models is their sum over their number, in %s",
    async (dtype) => {
      const folders = await bench.models(5, { dtype });
      for (const n of [2, 3, 5]) {
        const used = folders.slice(0, n);
        const { tensors } = await bench.merge({ method: "soup", models: used });
        expectExactly(tensors, await readFolders(used), () => mean);
      }
    },
  );

  it.each([[[0.2, 0.3, 0.5]], [[2, -0.5, 1]], [[-1, -2, -4]], [[1e9, 2.5, 1e-9]]])(
    "weighted by %j",
    async (weights) => {
      const folders = await bench.models(3, { dtype: "F32" });
      const recipe = {
        method: "soup",
        models: folders.map((model, i) => ({ model, weight: weights[i] ?? 0 })),
      } as const;
      const formula = weighted(...weights);
      expectExactly((await bench.merge(recipe)).tensors, await readFolders(folders), () => formula);
      const narrow = await bench.merge({ ...recipe, dtype: "bfloat16" });
      expect(narrow.tensors.get("lm_head.weight")?.dtype).toBe("BF16");
      expectExactly(narrow.tensors, await readFolders(folders), () => formula);
    },
  );

  it("treats equal weights of any size as 1, and counts a repeated model each time", async () => {
    const [a = "", b = ""] = await bench.models(2, { dtype: "F32" });
    const sources = await readFolders([a, b]);
    const half = await bench.merge({ method: "soup", models: [a, b].map((model) => ({ model, weight: 0.1 })) });
    expectExactly(half.tensors, sources, () => mean);
    const twice = await bench.merge({ method: "soup", models: [a, b, a] });
    expectExactly(
      twice.tensors,
      sources,
      () =>
        (a = 0, b = 0) =>
          mean(a, b, a),
    );
  });

  it("does not read a model of weight 0", async () => {
    const [a = "", b = ""] = await bench.models(2);
    const nan = (tensors: TensorData[]) => tensors.map((tensor) => ({ ...tensor, data: tensor.data.map(() => 0xff) }));
    const broken = await bench.model({ edit: nan });
    const weighted = (w: number) => [{ model: a, weight: 1 }, ...(w ? [] : [{ model: broken, weight: w }]), b];
    const [without, withZero] = [
      await bench.merge({ method: "soup", models: weighted(1) }),
      await bench.merge({ method: "soup", models: weighted(0) }),
    ];
    expectExactly(withZero.tensors, await readFolders([a, b]), () => mean);
    expect(withZero.bytesRead).toBe(without.bytesRead);
    const alone = await bench.merge({
      method: "soup",
      models: [
        { model: broken, weight: 0 },
        { model: b, weight: 3 },
      ],
    });
    expect([...alone.tensors].map(([, { data }]) => data)).toEqual(
      [...(await readFolder(b)).values()].map((t) => t.data),
    );
  });

  it("of one model is that model, byte for byte", async () => {
    const edit = (tensors: TensorData[]) =>
      tensors.map((tensor) => ({ ...tensor, data: tensor.data.map((byte, i) => (i % 3 ? byte : 0xff)) }));
    const only = await bench.model({ edit });
    const { tensors, bytesRead, bytesWritten } = await bench.merge({
      method: "soup",
      models: [{ model: only, weight: -4 }],
    });
    for (const [name, { data }] of await readFolder(only)) expect(tensors.get(name)?.data, name).toEqual(data);
    expect(bytesRead).toBe(bytesWritten);
  });

  it("rejects weights that sum to zero up to rounding", async () => {
    const folders = await bench.models(3);
    const plan = (weights: number[]) =>
      planRecipe({ method: "soup", models: folders.map((model, i) => ({ model, weight: weights[i] ?? 0 })) });
    for (const weights of [
      [0, 0, 0],
      [1, 1, -2],
      [0.1, 0.2, -0.3],
    ]) {
      await expect(plan(weights), String(weights)).rejects.toThrow(/weights sum to zero/);
    }
    await expect(plan([0.1, 0.2, -0.2999])).resolves.toBeDefined();
  });
});

describe("other dtypes", () => {
  const extra =
    (dtype: TensorData["dtype"], data: Uint8Array, shape: number[]) =>
    (tensors: TensorData[]): TensorData[] => [...tensors, { name: "model.extra", dtype, shape, data }];
  const doubles = (...values: number[]) => new Uint8Array(Float64Array.from(values).buffer);

  it("averages float64 in float32 with a note, and copies it unchanged", async () => {
    const [x, y] = [
      [0.1, 1, 1 / 3],
      [0.3, 2, 1e-20],
    ];
    const a = await bench.model({ edit: extra("F64", doubles(...x), [3]) });
    const b = await bench.model({ edit: extra("F64", doubles(...y), [3]) });
    const soup = (await bench.merge({ method: "soup", models: [a, b] })).tensors.get("model.extra") as ReadTensor;
    const single = (i: number) => (roundTo("F32", x[i] as number) + roundTo("F32", y[i] as number)) / 2;
    expect([soup.dtype, toNumbers(soup)]).toEqual(["F64", [0, 1, 2].map((i) => roundTo("F32", single(i)))]);
    const { plan } = await planRecipe({ method: "soup", models: [a, b] });
    expect(plan.notes).toEqual(["1 tensor is stored in float64 and computed in float32 (model.extra)"]);

    const copied = await planRecipe({ method: "soup", models: [a] });
    expect(copied.plan.notes).toEqual([]);
    const kept = (await bench.merge({ method: "soup", models: [a] })).tensors.get("model.extra") as ReadTensor;
    expect([kept.dtype, toNumbers(kept)]).toEqual(["F64", x]);
  });

  it.each([
    ["I64", 8],
    ["BOOL", 1],
  ] as const)("takes %s from the first, with a note", async (dtype, width) => {
    const filled = (fill: number) => extra(dtype, new Uint8Array(2 * width).fill(fill), [2]);
    const [first = "", second = ""] = [await bench.model({ edit: filled(1) }), await bench.model({ edit: filled(0) })];
    const soup = await planRecipe({ method: "soup", models: [second, first] });
    expect(soup.plan.notes).toEqual(["integer tensors are not averaged but taken from models[0]"]);
    expect(soup.plan.steps.find((step) => step.tensor === "model.extra")).toMatchObject({
      origin: ["models[0]"],
      dtype,
    });
    const { tensors } = await bench.merge({ method: "soup", models: [second, first], dtype: "float32" });
    expect(tensors.get("model.extra")).toEqual({ dtype, shape: [2], data: new Uint8Array(2 * width) });
    const unread = await planRecipe({ method: "soup", models: [{ model: second, weight: 0 }, first] }); // "the first" is one that counts
    expect(unread.plan.steps.find((step) => step.tensor === "model.extra")?.origin).toEqual(["models[1]"]);
    const swap = await planRecipe({ method: "swap", task: first, language: second });
    expect(swap.plan.notes).toEqual(["integer tensors are not averaged but taken from task"]);
    expect(
      (await planRecipe({ method: "swap", task: first, language: second, outside: "language" })).plan.notes,
    ).toEqual([]);
  });

  it("copies float8 and refuses to average it", async () => {
    const edit = (fill: number) => (tensors: TensorData[]) =>
      tensors.map((tensor) =>
        /layers\.[01]\.mlp\.up/.test(tensor.name)
          ? { ...tensor, dtype: "F8_E4M3" as const, data: new Uint8Array(tensor.data.byteLength / 2).fill(fill) }
          : tensor,
      );
    const [task, language] = [await bench.model({ edit: edit(3) }), await bench.model({ edit: edit(200) })];
    const { tensors } = await bench.merge({ method: "swap", task, language, bottom: 1, top: 0 });
    const up = (layer: number) => tensors.get(`model.layers.${layer}.mlp.up_proj.weight`) as ReadTensor;
    expect([up(0).dtype, up(0).data]).toEqual(["F8_E4M3", new Uint8Array(96).fill(200)]);
    expect([up(1).dtype, up(1).data]).toEqual(["F8_E4M3", new Uint8Array(96).fill(3)]);
    await expect(planRecipe({ method: "soup", models: [task, language] })).rejects.toThrow(
      /2 tensors of dtype F8_E4M3 would need arithmetic.*layers\.0\.mlp\.up_proj/,
    );
  });

  it("refuses to average quantised checkpoints", async () => {
    const folders = await bench.models(2, { config: { quantization_config: { quant_method: "hqq" } } });
    await expect(planRecipe({ method: "soup", models: folders })).rejects.toThrow(/quantised \(hqq\)/);
  });
});
