// Methods that weigh by statistics, against plain float64 references, and inputs that their formulas divide by zero for.
import { copyFileSync, mkdirSync } from "node:fs";
import { basename, join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { encodeValues } from "../../../test/support/checkpoints.js";
import { Bench } from "../../../test/support/merging.js";
import {
  average,
  copy,
  type Expectation,
  each,
  expectMerged,
  type Family,
  family,
  type Model,
  readModel,
  tensorOf,
} from "../../../test/support/method-reference.js";
import { toNumbers } from "../../../test/support/numbers.js";
import { writeSafetensors } from "../../formats/safetensors/index.js";
import { Random } from "../../kit/index.js";
import { planRecipe } from "../plan/planner.js";
import type { RecipeInput } from "../recipe/recipe.js";

const bench = new Bench();
type Statistics = ReadonlyMap<string, { readonly shape: readonly number[]; readonly values: readonly number[] }>;

/** Writes statistics as `layergraft measure` does. */
async function write(model: string, kind: string, statistics: Statistics): Promise<string> {
  const folder = bench.next(kind);
  mkdirSync(folder);
  copyFileSync(join(model, "config.json"), join(folder, "config.json"));
  const tensors = [...statistics].map(([name, { shape, values }]) => {
    return { name, shape, dtype: "F32" as const, data: encodeValues(values, "F32") };
  });
  await writeSafetensors(join(folder, "model.safetensors"), tensors, {
    statistics: kind,
    model: basename(model),
  });
  return folder;
}

/** Positive numbers of very different sizes; for all tensors but the last norm. */
const fisherOf = (model: Model, seed: number): Statistics => {
  const random = Random.of(seed, "fisher");
  return new Map(
    [...model].flatMap(([name, { shape, values }]) =>
      name === "model.norm.weight"
        ? []
        : [[name, { shape, values: values.map(() => Math.fround(10 ** (-8 + 8 * random.float()))) }] as const],
    ),
  );
};

/** Matena and Raffel, equation 4 with a floor. */
function fisher(models: readonly Model[], all: readonly Statistics[], weights: readonly number[], floor: number) {
  return each(models[0] as Model, (name, tensor) => {
    const tensors = models.map((model) => tensorOf(model, name));
    if (!all[0]?.has(name)) return average(tensors, weights);
    const [values, sizes]: [number[], number[]] = [[], []];
    tensor.values.forEach((_, e) => {
      const shares = all.map((one, i) => (weights[i] as number) * Math.max(floor, one.get(name)?.values[e] as number));
      const total = shares.reduce((a, b) => a + b, 0);
      const own = tensors.map(({ values }) => values[e] as number);
      values.push(own.reduce((sum, x, i) => sum + (x * (shares[i] as number)) / total, 0));
      sizes.push(own.reduce((sum, x) => sum + Math.abs(x), 0));
    });
    return { ...tensor, values, sizes, how: "near" };
  });
}

/** Input sizes of the matrices in the layers, from 0 up to very different ones. */
const inputsOf = (model: Model, seed: number): Statistics => {
  const random = Random.of(seed, "inputs");
  const sizes = (n: number) =>
    Array.from({ length: n }, (_, i) => (i === 2 ? 0 : Math.fround(10 ** (2 * random.float()))));
  return statisticsOf(model, (columns) => ({ shape: [columns], values: sizes(columns) }));
};

/** Mean products of random inputs that depend on each other; of the matrices in the layers. */
const gramOf = (model: Model, seed: number): Statistics => {
  const random = Random.of(seed, "gram");
  return statisticsOf(model, (columns) => {
    const inputs = Array.from({ length: 2 * columns }, () => {
      const common = random.float() - 0.5;
      return Array.from({ length: columns }, (_, c) => (1 + c / 9) * (common + random.float() - 0.5));
    });
    const values = Array.from({ length: columns ** 2 }, (_, i) => {
      const [a, b] = [Math.floor(i / columns), i % columns];
      return Math.fround(inputs.reduce((sum, x) => sum + (x[a] as number) * (x[b] as number), 0) / inputs.length);
    });
    return { shape: [columns, columns], values };
  });
};

function statisticsOf(model: Model, make: (columns: number) => { shape: number[]; values: number[] }): Statistics {
  return new Map(
    [...model].flatMap(([name, { shape }]) =>
      /layers\..*_proj\.weight/.test(name) ? [[name, make(shape[1] as number)] as const] : [],
    ),
  );
}

/** Jin et al., equation 2: each row of X solves X sum(G_i) = sum(W_i G_i), by Gauss and Jordan. */
function regmean(models: readonly Model[], all: readonly Statistics[], weights: readonly number[], scale: number) {
  return each(models[0] as Model, (name, tensor) => {
    const tensors = models.map((model) => tensorOf(model, name));
    if (!all[0]?.has(name)) return average(tensors, weights);
    const n = tensor.shape[1] as number;
    const products = all.map((one, i) =>
      one.get(name)?.values.map((x, at) => {
        return (weights[i] as number) * x * (Math.floor(at / n) === at % n ? 1 : scale);
      }),
    );
    const rows = tensor.values.length / n;
    const right = Array.from({ length: rows }, (_, r) =>
      Array.from({ length: n }, (__, c) =>
        tensors.reduce((sum, { values }, i) => {
          for (let k = 0; k < n; k++) sum += (values[r * n + k] as number) * (products[i]?.[k * n + c] as number);
          return sum;
        }, 0),
      ),
    );
    // The sum is symmetric: rows of [sum(G_i), right^T].
    const system = Array.from({ length: n }, (_, c) => [
      ...Array.from({ length: n }, (__, k) => products.reduce((sum, one) => sum + (one?.[c * n + k] as number), 0)),
      ...right.map((row) => row[c] as number),
    ]);
    for (let c = 0; c < n; c++) {
      const best = system.reduce((at, row, r) => {
        return r > c && Math.abs(row[c] as number) > Math.abs(system[at]?.[c] as number) ? r : at;
      }, c);
      [system[c], system[best]] = [system[best] as number[], system[c] as number[]];
      const pivot = system[c] as number[];
      for (const [r, row] of system.entries()) {
        const factor = r === c ? 0 : (row[c] as number) / (pivot[c] as number);
        if (factor !== 0)
          for (let k = c; k < row.length; k++) row[k] = (row[k] as number) - factor * (pivot[k] as number);
      }
    }
    const values = tensor.values.map((_, at) => {
      const [r, c] = [Math.floor(at / n), at % n];
      return (system[c]?.[n + r] as number) / (system[c]?.[c] as number);
    });
    return {
      ...tensor,
      values,
      sizes: values.map((x, e) => tensors.reduce((sum, one) => sum + Math.abs(one.values[e] as number), Math.abs(x))),
      how: "near",
    };
  });
}

/** Nobari et al.: the change times 1 - a (1 - omega). */
function aim(expert: Model, base: Model, inputs: Statistics, omega: number) {
  return each(expert, (name, tensor) => {
    const sizes = inputs.get(name)?.values;
    if (!sizes) return copy(tensor);
    const from = tensorOf(base, name).values;
    const factors = sizes.map((size) => 1 - (size / Math.max(...sizes)) * (1 - omega));
    const changes = tensor.values.map((x, i) => (factors[i % sizes.length] as number) * (x - (from[i] as number)));
    return {
      ...tensor,
      values: changes.map((x, i) => x + (from[i] as number)),
      sizes: tensor.values.map((x, i) => Math.abs(x) + 2 * Math.abs(from[i] as number)),
      how: "near",
    };
  });
}

const check = async (recipe: RecipeInput, wanted: Expectation) =>
  expectMerged((await bench.merge(recipe)).tensors, wanted);

const inDType = (dtype: "BF16" | "F16" | "F32") => () => {
  let kin: Family;
  beforeAll(async () => {
    kin = await family(bench, [0.3, 0.2, 0.1], { dtype });
  });

  it("fisher", async () => {
    const { experts, models } = kin;
    const all = models.map((model, i) => fisherOf(model, i));
    const folders = await Promise.all(all.map((one, i) => write(experts[i] as string, "fisher", one)));
    const entries = experts.map((model, i) => ({ model, statistics: folders[i] as string }));
    await check({ method: "fisher", models: entries }, fisher(models, all, [1, 1, 1], 1e-6));
    const weights = [1, 0.2, 5];
    const weighted = entries.map((entry, i) => ({ ...entry, weight: weights[i] as number }));
    await check({ method: "fisher", models: weighted, floor: 1e-3 }, fisher(models, all, weights, 1e-3));
  });

  it("regmean", async () => {
    const { experts, models } = kin;
    const all = models.map((model, i) => gramOf(model, i));
    const folders = await Promise.all(all.map((one, i) => write(experts[i] as string, "gram", one)));
    const entries = experts.map((model, i) => ({ model, statistics: folders[i] as string }));
    await check({ method: "regmean", models: entries }, regmean(models, all, [1, 1, 1], 0.1));
    // Powers of 2, as products are weighed in float32.
    const weights = [1, 0.25, 4];
    const weighted = entries.map((entry, i) => ({ ...entry, weight: weights[i] as number }));
    await check({ method: "regmean", models: weighted, scale: 1 }, regmean(models, all, weights, 1));
  });

  it("aim", async () => {
    const { experts, models, base, origin } = kin;
    const inputs = inputsOf(origin, 1);
    const statistics = await write(base, "inputs", inputs);
    await check({ method: "aim", expert: experts[0], base, statistics }, aim(models[0], origin, inputs, 0.4));
    const sum = await bench.merge({ method: "soup", models: experts.slice(0, 2), dtype: "float32" });
    const expert = { method: "soup", models: experts.slice(0, 2) } as const;
    const wanted = aim(await readModel(sum.out), origin, inputs, 0.1);
    await check({ method: "aim", expert, base, statistics, omega: 0.1, dtype: "float32" }, wanted);
  });
};

describe("in BF16", inDType("BF16"));
describe("in F32", { tags: ["slow"] }, inDType("F32"));
describe("in F16", { tags: ["slow"] }, inDType("F16"));

describe("degenerate inputs", () => {
  const constant = (value: number) =>
    bench.model({
      dtype: "F32",
      edit: (tensors) =>
        tensors.map((tensor) => {
          return { ...tensor, data: encodeValues(new Array(tensor.data.byteLength / 4).fill(value), "F32") };
        }),
    });
  /** For all tensors but the last norm. */
  const filled = (model: Model, of: (i: number) => number): Statistics =>
    new Map(
      [...fisherOf(model, 0)].map(([name, { shape, values }]) => [
        name,
        { shape, values: values.map((_, i) => of(i)) },
      ]),
    );

  it("fisher: equal models stay bit for bit; without information it is the mean; NaN stays where it is", async () => {
    const [a, b] = [await constant(0.3), await constant(-0.3)];
    const model = await readModel(a);
    const random = await write(a, "fisher", fisherOf(model, 1));
    const none = await write(
      a,
      "fisher",
      filled(model, () => 0),
    );
    const broken = await write(
      a,
      "fisher",
      filled(model, (i) => (i === 1 ? Number.NaN : 1)),
    );
    const merge = async (models: { model: string; statistics: string }[]) =>
      toNumbers((await bench.merge({ method: "fisher", models })).tensors.get("model.embed_tokens.weight") as never);
    const own = toNumbers({ dtype: "F32", data: encodeValues([0.3], "F32") })[0];
    const same = [
      { model: a, statistics: random },
      { model: a, statistics: none },
    ];
    expect(new Set(await merge(same))).toEqual(new Set([own]));
    const opposite = [
      { model: a, statistics: none },
      { model: b, statistics: none },
    ];
    expect(new Set(await merge(opposite))).toEqual(new Set([0]));
    const withBroken = [
      { model: a, statistics: broken },
      { model: b, statistics: none },
    ];
    await expect(merge(withBroken)).rejects.toThrow(`${broken} holds infinite or NaN statistics of model.embed_tokens`);
  });

  it("regmean: equal models stay bit for bit; inputs that no text has, or that repeat others, take the mean; NaN stays in its row", async () => {
    const random = Random.of(1, "weights");
    const drawn = (edit: (x: number, i: number) => number = (x) => x) =>
      bench.model({
        dtype: "F32",
        edit: (tensors) =>
          tensors.map((tensor) => {
            const values = Array.from({ length: tensor.data.byteLength / 4 }, (_, i) => edit(random.float() - 0.5, i));
            return { ...tensor, data: encodeValues(values, "F32") };
          }),
      });
    const [a, b, c] = [await drawn(), await drawn(), await drawn((x, i) => (i === 1 ? Number.NaN : x))];
    const model = await readModel(a);
    const name = "model.layers.1.self_attn.k_proj.weight";
    const n = tensorOf(model, name).shape[1] as number;
    const gram = (seed: number, of: (value: number, i: number, j: number) => number) =>
      new Map(
        [...gramOf(model, seed)].map(([key, { shape, values }]) => {
          const width = shape[1] as number;
          return [key, { shape, values: values.map((x, at) => of(x, Math.floor(at / width), at % width)) }];
        }),
      );
    const [first, second] = [
      await write(
        a,
        "gram",
        gram(1, (x) => x),
      ),
      await write(
        a,
        "gram",
        gram(2, (x) => x),
      ),
    ];
    const merge = async (models: { model: string; statistics: string }[], scale = 0.1) =>
      toNumbers((await bench.merge({ method: "regmean", models, scale })).tensors.get(name) as never);
    const own = tensorOf(model, name).values;
    const equal = [first, second, first].map((statistics) => ({ model: a, statistics }));
    expect(await merge(equal)).toEqual(own);
    // Without any input, and with one that no text has.
    const means = tensorOf(await readModel(b), name).values.map((x, i) => Math.fround((x + (own[i] as number)) / 2));
    const none = await write(
      a,
      "gram",
      gram(1, () => 0),
    );
    const pair = (one: string, other: string, model = b) => [
      { model: a, statistics: one },
      { model, statistics: other },
    ];
    expect(await merge(pair(none, none))).toEqual(means);
    const lacks = (value: number, i: number, j: number) => (i === 3 || j === 3 ? 0 : value);
    const partly = await merge(pair(await write(a, "gram", gram(1, lacks)), await write(a, "gram", gram(2, lacks))));
    for (let row = 3; row < own.length; row += n) expect(partly[row]).toBe(means[row]);
    // One direction alone: what it gives is what each model gives, and the rest is finite.
    const ones = await write(
      a,
      "gram",
      gram(1, () => 1),
    );
    const single = await merge(pair(ones, ones), 1);
    const totals = (values: readonly number[]) => values.slice(0, n).reduce((sum, x) => sum + x, 0);
    expect(single.every(Number.isFinite)).toBe(true);
    expect(totals(single)).toBeCloseTo(totals(means), 5);
    const broken = await merge(pair(first, second, c));
    expect(broken.slice(0, n).every(Number.isNaN)).toBe(true);
    expect(broken.slice(n).every(Number.isFinite)).toBe(true);
  });

  it("aim: without inputs the change is whole", async () => {
    const [a, b] = [await constant(0.5), await constant(0.25)];
    const zeros = statisticsOf(await readModel(b), (columns) => ({ shape: [columns], values: Array(columns).fill(0) }));
    const statistics = await write(b, "inputs", zeros);
    const { tensors } = await bench.merge({ method: "aim", expert: a, base: b, statistics });
    for (const tensor of tensors.values()) expect(new Set(toNumbers(tensor))).toEqual(new Set([0.5]));
  });

  it("refuses statistics of another kind, of another model, and models in their place", async () => {
    const [a = "", b = ""] = await bench.models(2);
    const own = await write(a, "fisher", fisherOf(await readModel(a), 1));
    const plan = (statistics: string) =>
      planRecipe({
        method: "fisher",
        models: [
          { model: a, statistics: own },
          { model: b, statistics },
        ],
      });
    await expect(plan(b)).rejects.toThrow(
      `${basename(b)} has no statistics. Write them with: layergraft measure ${b} --kind fisher --on TEXTS --out FOLDER`,
    );
    const other = await write(a, "gram", fisherOf(await readModel(a), 1));
    await expect(plan(other)).rejects.toThrow(/has statistics of the kind gram/);
    const wide = await bench.model({ vocabulary: 40 });
    const foreign = await write(a, "fisher", fisherOf(await readModel(wide), 1));
    await expect(plan(foreign)).rejects.toThrow(/statistics of models\[1\] have shape/);
    const { plan: made } = await plan(await write(b, "fisher", fisherOf(await readModel(b), 1)));
    expect(made.notes).toEqual([]);
    const { plan: noted } = await plan(own);
    expect(noted.notes).toEqual([
      `${basename(own)} was measured on ${basename(a)}, but is given for ${basename(b)}. Check that they are the same model.`,
    ]);
    expect(made.sources.map(({ id }) => id)).toContain("models[1].statistics");
  });

  it("prints the command that writes missing statistics, of the model that they are for", async () => {
    const [a = "", b = ""] = await bench.models(2);
    const command = (model: string, kind: string) =>
      `does not exist. Write them with: layergraft measure ${model} --kind ${kind} --on TEXTS --out 'not there'`;
    const statistics = "not there";
    for (const [method, kind] of [
      ["fisher", "fisher"],
      ["regmean", "gram"],
    ] as const) {
      const models = [b, a].map((model) => ({ model, statistics }));
      await expect(planRecipe({ method, models })).rejects.toThrow(command(b, kind));
      await expect(
        planRecipe({ method: "slerp", models: [{ method, models }, a], t: 0.5 } as RecipeInput),
      ).rejects.toThrow(command(b, kind));
    }
    const aim = planRecipe({ method: "aim", expert: a, base: b, statistics });
    await expect(aim).rejects.toMatchObject({
      message: `not there ${command(b, "inputs")}`,
      where: { field: "statistics", file: "not there" },
    });
    const inFolder = planRecipe({ method: "aim", expert: a, base: b, statistics }, { folder: a });
    await expect(inFolder).rejects.toThrow(
      `not there does not exist in ${a}, where relative paths start. Write them there with:`,
    );
  });
});
