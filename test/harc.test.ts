// HARC on two tiny mixtures against a direct solution in float64 (fixtures/statistics/make_routers.py), and what it refuses.
import { cpSync, existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { conjugateGradients } from "../src/engine/conjugate-gradients.js";
import { measureGates, openEngine } from "../src/engine/index.js";
import { writeSafetensors } from "../src/formats/safetensors/index.js";
import { planRecipe, type RecipeInput } from "../src/merge/index.js";
import { executePlan, verifyOutput } from "../src/merge/output/index.js";
import { analyze, soup } from "../src/verbs/index.js";
import { soupVerb } from "../src/verbs/soup.js";
import { encodeValues, type ReadTensor, temporaryFolder } from "./support/checkpoints.js";
import { readTensors } from "./support/decoder-fixtures.js";
import { readFolder, toNumbers } from "./support/numbers.js";

const FIXTURES = join(import.meta.dirname, "fixtures");
const TEXTS = { math: ["t3 t7 t11 t2 t5 t5 t9", "t4 t6"], swahili: ["t12 t3 t8 t1 t0 t13 t7 t7 t2 t19"] } as const;
const folder = temporaryFolder();

const tokenizer = {
  model: {
    type: "WordLevel",
    vocab: Object.fromEntries(Array.from({ length: 20 }, (_, id) => [`t${id}`, id])),
    unk_token: "t0",
  },
  pre_tokenizer: { type: "WhitespaceSplit" },
};

/** The decoder of a fixture with the routers of an expert. */
async function expertOf(name: string, expert: string): Promise<string> {
  const model = join(folder, `${name}-${expert}`);
  if (existsSync(model)) return model;
  const fixture = join(FIXTURES, "decoders", name);
  cpSync(join(fixture, "config.json"), join(model, "config.json"), { recursive: true });
  writeFileSync(join(model, "tokenizer.json"), JSON.stringify({ version: "1.0", added_tokens: [], ...tokenizer }));
  const own = join(FIXTURES, `statistics/${name}-routers.safetensors`);
  const routers: ReturnType<typeof readTensors> = existsSync(own) ? readTensors(own) : new Map();
  const tensors = [...readTensors(join(fixture, "model.safetensors"))].map(([tensor, stored]) => {
    const { shape, values } = routers.get(`${expert}.${tensor}`) ?? stored;
    return { name: tensor, shape, dtype: "F32" as const, data: encodeValues(values, "F32") };
  });
  await writeSafetensors(join(model, "model.safetensors"), tensors, { format: "pt" });
  return model;
}

async function recipeOf(name: string, more: object = {}): Promise<RecipeInput> {
  const [math, swahili] = [await expertOf(name, "math"), await expertOf(name, "swahili")];
  const models = [
    { model: math, texts: [...TEXTS.math] },
    { model: swahili, texts: [...TEXTS.swahili] },
  ];
  return { method: "harc", model: { method: "soup", models: [math, swahili] }, models, ...more };
}

let count = 0;
async function write(recipe: RecipeInput): Promise<{ out: string; tensors: Map<string, ReadTensor> }> {
  const out = join(folder, `out-${++count}`);
  await executePlan(await planRecipe(recipe), { out, gates: measureGates });
  return { out, tensors: await readFolder(out) };
}

const apart = (a: readonly number[], b: readonly number[]) =>
  Math.hypot(...a.map((x, i) => x - (b[i] as number))) / Math.hypot(...b);

describe("calibrated routers", () => {
  // Of softmax over all experts, in two of three layers; and of the chosen, with biases.
  it.each(["qwen3_moe", "gpt_oss"])("of %s solve the system, layer by layer", async (name) => {
    const { out, tensors } = await write(await recipeOf(name));
    const wanted = [...readTensors(join(FIXTURES, `statistics/${name}-routers.safetensors`))].filter(([path]) =>
      path.startsWith("harc."),
    );
    const soup = await write(((await recipeOf(name)) as unknown as { model: RecipeInput }).model);
    for (const [path, { values, shape }] of wanted) {
      const router = path.slice("harc.".length);
      const found = tensors.get(router) as ReadTensor;
      expect(found.shape).toEqual(shape);
      expect(apart(toNumbers(found), values), router).toBeLessThan(2e-5);
      expect(apart(toNumbers(soup.tensors.get(router) as ReadTensor), values), router).toBeGreaterThan(0.05);
      tensors.delete(router);
    }
    // All else is the merge's.
    for (const [path, { data }] of tensors) expect(data, path).toEqual(soup.tensors.get(path)?.data);
    expect((await verifyOutput(out)).deviations).toEqual([]);
  });

  it("are found again where a recipe runs unwritten", async () => {
    const recipe = await recipeOf("qwen3_moe");
    const { out } = await write(recipe);
    const scores = [];
    for (const source of [recipe, out]) {
      const engine = await openEngine(source, { threads: 1 });
      scores.push(await engine.scoreContinuations([{ context: [3, 7], continuation: [11, 2, 5] }]));
      await engine.close();
    }
    expect(scores[0]).toEqual(scores[1]);
  });

  it("are the merge's where the experts have the same", async () => {
    const math = await expertOf("qwen3_moe", "math");
    const models = [TEXTS.math, TEXTS.swahili].map((texts) => ({ model: math, texts: [...texts] }));
    const { tensors } = await write({ method: "harc", model: math, models });
    for (const [path, found] of await readFolder(math)) {
      expect(apart(toNumbers(tensors.get(path) as ReadTensor), toNumbers(found)), path).toBeLessThan(1e-6);
    }
  });

  it("need texts of each model, and experts in the layers", async () => {
    const { method, model, models } = (await recipeOf("qwen3_moe")) as unknown as Record<string, string[]>;
    const bare = { method, model, models: [models?.[0], await expertOf("qwen3_moe", "swahili")] };
    await expect(planRecipe(bare as unknown as RecipeInput)).rejects.toThrow(
      "harc needs texts for each model: write models[1] as { model, texts }.",
    );
    const dense = { method: "harc", model: await expertOf("qwen3", "math"), models: [] as object[] };
    dense.models = [dense.model, dense.model].map((one) => ({ model: one, texts: ["t1"] }));
    await expect(planRecipe(dense as unknown as RecipeInput)).rejects.toThrow(
      "harc calibrates routers, and qwen3-math has none: its layers have no experts.",
    );
    await expect(write(await recipeOf("deepseek_v3"))).rejects.toThrow(
      "harc calibrates routers with softmax, and the merge like deepseek_v3-math routes by sigmoids.",
    );
    const empty = await recipeOf("qwen3_moe");
    (empty as unknown as { models: { texts: string[] }[] }).models[1] = {
      ...(models?.[1] as unknown as { model: string }),
      texts: [""],
    };
    await expect(write(empty)).rejects.toThrow("the texts of expert 2 have no token. Give it others.");
  });
});

describe("conjugate gradients", () => {
  const times = (matrix: readonly (readonly number[])[]) => async (x: Float64Array) =>
    Float64Array.from(matrix, (row) => row.reduce((sum, value, i) => sum + value * (x[i] as number), 0));
  const options = { tolerance: 1e-12, iterations: 100 };

  it("solve a system in as many steps as it has unknowns, and none where it is solved", async () => {
    const x = new Float64Array(2);
    expect(
      await conjugateGradients(
        times([
          [4, 1],
          [1, 3],
        ]),
        Float64Array.of(1, 2),
        x,
        options,
      ),
    ).toBe(2);
    expect(x[0]).toBeCloseTo(1 / 11, 12);
    expect(x[1]).toBeCloseTo(7 / 11, 12);
    expect(
      await conjugateGradients(
        times([
          [4, 1],
          [1, 3],
        ]),
        Float64Array.of(1, 2),
        x,
        { ...options, tolerance: 1e-9 },
      ),
    ).toBe(0);
  });

  it("keep what the matrix maps to 0", async () => {
    // Sums of both are free: only the difference is asked for.
    const x = Float64Array.of(5, 3);
    await conjugateGradients(
      times([
        [1, -1],
        [-1, 1],
      ]),
      Float64Array.of(6, -6),
      x,
      options,
    );
    expect([...x]).toEqual([7, 1]);
  });
});

describe("a dry run on texts", () => {
  const on = ["t3 t7 t11 t2", "t4 t6 t1", "t12 t3 t8 t1 t0", "t13 t7 t7 t2 t19"];

  it("measures how a soup routes, as an analysis of the written soup does", async () => {
    const experts = { math: await expertOf("qwen3_moe", "math"), swahili: await expertOf("qwen3_moe", "swahili") };
    const recipe = { method: "soup", models: Object.values(experts) } as const;
    const { out } = await write(recipe);
    const { routing: wanted } = await analyze({ base: experts.math, experts: { ...experts, soup: out }, on });
    const input = { ...recipe, on, out: join(folder, "not-written") };
    const { routed } = await (soupVerb.plan as NonNullable<typeof soupVerb.plan>).run(input as never, {} as never);
    const { tokens, parents, layers = [], verdict } = routed?.routing ?? {};
    expect([tokens, parents]).toEqual([wanted?.tokens, ["qwen3_moe-math", "qwen3_moe-swahili"]]);
    // Of base, math, swahili and soup: (0,1), (0,2), (0,3), (1,2), (1,3), (2,3).
    expect(layers.map(({ withParents, between }) => [between, ...withParents])).toEqual(
      wanted?.layers.map(({ pairs }) => [pairs[3], pairs[4], pairs[5]]),
    );
    expect(layers.map(({ load, entropy }) => ({ load, entropy }))).toEqual(
      wanted?.layers.map(({ models }) => models[3]),
    );
    expect(new Set(layers.flatMap(({ withParents }) => withParents)).size).toBeGreaterThan(1);
    expect(verdict).toMatch(/^The routing of the merge (holds|is broken)/);
    expect(existsSync(input.out)).toBe(false);
  });

  it("shows no routing of one model, and is refused where the merge would be written", async () => {
    const math = await expertOf("qwen3_moe", "math");
    const input = { models: [math], on, out: join(folder, "not-written") };
    expect((await soupVerb.plan?.run(input as never, {} as never))?.routed).toEqual({});
    await expect(soup(input as never)).rejects.toThrow("on: is for a dry run, which writes nothing");
  });
});
