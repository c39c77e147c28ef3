// Random methods, nested methods, float64 and impossible recipes. Draws are checked by their statistics, kept values
// exactly.
// @module-tag slow
import { readdirSync } from "node:fs";
import { basename } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import type { FloatDType, ReadTensor, TinyOptions } from "../../../test/support/checkpoints.js";
import { snapshot } from "../../../test/support/command.js";
import { Bench } from "../../../test/support/merging.js";
import {
  addChanges,
  type Changes,
  changesOf,
  choose,
  type Expectation,
  expectMerged,
  type Family,
  family,
  type Model,
  magnitude,
  majority,
  mapChanges,
  nearswap,
  placeOf,
  readModel,
  slerp,
  soup,
  type Tensor,
  tensorOf,
  trim,
} from "../../../test/support/method-reference.js";
import { readFolder, toNumbers } from "../../../test/support/numbers.js";
import type { TensorData } from "../../formats/safetensors/index.js";
import { CheckpointError, LayergraftError, RecipeError } from "../../kit/index.js";
import { executePlan } from "../output/execute-plan.js";
import { planRecipe } from "../plan/planner.js";
import type { RecipeInput } from "../recipe/recipe.js";
import { parseRecipe } from "../recipe/recipe-file.js";

const bench = new Bench();

const check = async (recipe: RecipeInput, wanted: Expectation, terms?: number) =>
  expectMerged((await bench.merge(recipe)).tensors, wanted, terms);

const merged = async (recipe: RecipeInput): Promise<Model> => readModel((await bench.merge(recipe)).out);

/** So many standard deviations are seen once in two million figures; some hundred are drawn here. */
const FAR = 5;

function expectShare(what: string, kept: number, n: number, p: number): void {
  const off = (kept - n * p) / Math.sqrt(n * p * (1 - p));
  if (!(Math.abs(off) < FAR)) expect.fail(`${what}: ${kept} of ${n}, ${off} standard deviations from ${p}`);
}

const count = (values: readonly unknown[]) => values.reduce((n: number, value) => n + (value ? 1 : 0), 0);
const total = (values: readonly number[]) => values.reduce((sum, x) => sum + x, 0);
const norm = (values: readonly number[]) => total(values.map(Math.abs));

/** Two draws must agree as often as independent ones do. */
function expectUnrelated(what: string, a: readonly number[], b: readonly number[], p: number): void {
  expectShare(what, count(a.map((x, i) => x === b[i])), a.length, p * p + (1 - p) * (1 - p));
}

/** Result of a random method on changes of 1 everywhere, which shows its draws. */
async function drawn({ base, experts }: Family, model: number, more: object): Promise<Changes> {
  const models = experts.map((expert, i) => ({ model: expert, weight: i === model ? 1 : 0 }));
  const found = await merged({ method: "dare_linear", base, models, rescale: "none", ...more });
  return new Map([...found].map(([name, { values }]) => [name, values]));
}

const ones = (expert: number | "base") => (expert === "base" ? 0 : 1);

describe("DARE", { tags: ["slow"] }, () => {
  const [EMBED, HEAD] = ["model.embed_tokens.weight", "lm_head.weight"] as const;
  let tall: Family;
  beforeAll(async () => {
    tall = await family(bench, [1, 1], { vocabulary: 4099, elementOf: ones });
  });

  it.each([0.1, 0.5, 0.93])("keeps a share of %d, in every tensor, row and column", async (density) => {
    const draw = await drawn(tall, 0, { density });
    for (const [name, values] of draw) {
      expect(values.filter((x) => x !== 0 && x !== 1)).toEqual([]);
      expectShare(name, count(values), values.length, density);
    }
    const values = draw.get(EMBED) as number[];
    for (let column = 0; column < 8; column++) {
      const own = values.filter((_, i) => i % 8 === column);
      expectShare(`column ${column}`, count(own), own.length, density);
      const next = values.filter((_, i) => i % 8 === (column + 1) % 8);
      expectUnrelated(`columns ${column} and the next`, own, next, density);
    }
    for (let from = 0; from < values.length; from += 4096) {
      const part = values.slice(from, from + 4096);
      expectShare(`from ${from} on`, count(part), part.length, density);
    }
    for (const lag of [1, 2, 3, 4, 8, 16, 1024]) expectUnrelated(`lag ${lag}`, values.slice(lag), values, density);
  });

  it("draws independently for every tensor, model and seed, and repeats a draw", async () => {
    for (const density of [0.5, 0.2]) {
      const [first, again] = [await drawn(tall, 0, { density, seed: 3 }), await drawn(tall, 0, { density, seed: 3 })];
      expect(again).toEqual(first);
      const [second, other] = [await drawn(tall, 1, { density, seed: 3 }), await drawn(tall, 0, { density, seed: 4 })];
      const of = (draw: Changes, name: string) => draw.get(name) as number[];
      for (const name of [EMBED, HEAD]) {
        expectUnrelated(`models, ${name}`, of(first, name), of(second, name), density);
        expectUnrelated(`seeds, ${name}`, of(first, name), of(other, name), density);
      }
      expectUnrelated("tensors", of(first, EMBED), of(first, HEAD), density);
    }
  });

  it("keeps everything at density 1, nothing at 0, and more, not others, at a higher density", async () => {
    const [none, few, many, all] = [0, 0.3, 0.6, 1].map((density) => drawn(tall, 0, { density }));
    for (const [, values] of (await none) as Changes) expect(count(values)).toBe(0);
    for (const [, values] of (await all) as Changes) expect(count(values)).toBe(values.length);
    const more = (await many) as Changes;
    for (const [name, values] of (await few) as Changes) {
      expect(count(values.filter((x, i) => x > (more.get(name)?.[i] as number)))).toBe(0);
    }
  });

  it("keeps the mean of the changes, by the density or by their norm", async () => {
    const { base, experts, origin, changes } = await family(bench, [0.5], { vocabulary: 2003 });
    const method = { method: "dare_linear", base, models: experts, density: 0.25 } as const;
    const [byDensity, byNorm] = [await merged(method), await merged({ ...method, rescale: "norm" })];
    for (const [name, delta] of changes[0]) {
      const after = total(changesOf(byDensity, origin).get(name) as number[]);
      const deviation = Math.sqrt(total(delta.map((x) => (x * x * 0.75) / 0.25)));
      expect(Math.abs(after - total(delta)), name).toBeLessThan(FAR * deviation);
      const kept = norm(changesOf(byNorm, origin).get(name) as number[]);
      if (kept > 0) expect(Math.abs(kept / norm(delta) - 1), name).toBeLessThan(1e-6);
    }
  });

  it.each(["BF16", "F16", "F32"] as const)("drops, rescales, adds and elects (%s)", async (dtype) => {
    const { base, experts, origin, changes } = await family(bench, [0.3, 0.2, 0.1], { dtype });
    const masker = await family(bench, [1, 1, 1], { elementOf: ones });
    const densities = [0.4, 0.4, 0.75];
    const draws: Changes[] = [];
    for (const [i, density] of densities.entries()) draws.push(await drawn(masker, i, { density, seed: 9 }));
    const [a, b, c] = experts;
    // Weights that no sum of coarse changes cancels out with: what is rescaled is rounded, and so is zero.
    const models = [a, { model: b, weight: -0.47 }, { model: c, weight: 0.83, density: 0.75 }];
    const weightOf = (i: number) => [1, -0.47, 0.83][i] as number;
    for (const rescale of ["density", "norm", "none"] as const) {
      const thinned = changes.map((one, i) =>
        mapChanges(one, (values, name) => {
          const kept = values.map((x, e) => x * (draws[i]?.get(name)?.[e] as number));
          const byNorm = norm(kept) > 0 ? norm(values) / norm(kept) : 1;
          const scale = { density: 1 / (densities[i] as number), norm: byNorm, none: 1 }[rescale];
          return kept.map((x) => x * scale);
        }),
      );
      const dare = { base, models, density: 0.4, seed: 9, rescale, lambda: 0.8 };
      const lambda = () => 0.8;
      await check({ method: "dare_linear", ...dare }, addChanges(origin, thinned, { weightOf, lambda }));
      const elected = addChanges(origin, thinned, { weightOf, lambda, elect: { tie: 1 } });
      await check({ method: "dare_ties", ...dare }, elected);
    }
  });
});

describe("DELLA", { tags: ["slow"] }, () => {
  /** By element: density - epsilon for the smallest change of a row, density + epsilon for the largest. */
  function probabilities(values: readonly number[], columns: number, density: number, epsilon: number): number[] {
    const result = values.map(() => density);
    for (let from = 0; columns > 1 && from < values.length; from += columns) {
      // Changes that bfloat16 holds alike, once their further bits are cut off, share the mean of their ranks.
      const bits = new Uint32Array(Float32Array.from(values.slice(from, from + columns), Math.abs).buffer);
      const sizes = bits.map((pattern) => pattern >>> 16);
      const sorted = sizes.toSorted();
      for (const [i, size] of sizes.entries()) {
        const rank = (sorted.indexOf(size) + sorted.lastIndexOf(size)) / 2;
        result[from + i] = density - epsilon + (2 * epsilon * rank) / (columns - 1);
      }
    }
    return result;
  }

  it.each([
    [0.5, 0.3],
    [0.3, 0.29],
    [0.8, 0],
  ] as const)("keeps larger changes of a row more often (density %d, epsilon %d)", async (density, epsilon) => {
    const elementOf = (expert: number | "base", t: number, i: number) =>
      expert === "base" ? 0 : (((i + t) * 7919) % 104_729) / 104_729 - 0.4;
    const { base, experts, origin, changes } = await family(bench, [1], { vocabulary: 4099, elementOf });
    const found = await merged({ method: "della_linear", base, models: experts, density, epsilon, seed: 5 });
    for (const name of ["model.embed_tokens.weight", "lm_head.weight"]) {
      const delta = changes[0].get(name) as number[];
      const p = probabilities(delta, 8, density, epsilon);
      const after = changesOf(found, origin).get(name) as number[];
      for (const probability of new Set(p)) {
        const own = after.filter((_, i) => p[i] === probability);
        expectShare(`probability ${probability}`, count(own), own.length, probability);
      }
      after.forEach((x, i) => {
        // The probability is a difference of float32 numbers, so a small one is known to fewer digits.
        const kept = (delta[i] as number) / (p[i] as number);
        if (x !== 0) expect(Math.abs(x / kept - 1)).toBeLessThan(2 ** -22 + 2 ** -24 / (p[i] as number));
      });
      const deviation = Math.sqrt(total(delta.map((x, i) => (x * x * (1 - (p[i] as number))) / (p[i] as number))));
      expect(Math.abs(total(after) - total(delta))).toBeLessThan(FAR * deviation);
    }
  });

  it("keeps the same changes as they are, or with the L1 norm of all", async () => {
    // No base, so that changes are exact.
    const elementOf = (expert: number | "base", t: number, i: number) =>
      expert === "base" ? 0 : (((i + t) * 7919) % 104_729) / 104_729 - 0.4;
    const { base, experts, changes } = await family(bench, [1], { elementOf });
    const method = { method: "della_linear", base, models: experts, density: 0.5, epsilon: 0.2 } as const;
    const [divided, plain, restored] = [
      await merged(method),
      await merged({ ...method, rescale: "none" }),
      await merged({ ...method, rescale: "norm" }),
    ];
    for (const [name, delta] of changes[0]) {
      const kept = tensorOf(plain, name).values;
      expect(kept).toEqual(tensorOf(divided, name).values.map((x, i) => (x === 0 ? 0 : delta[i])));
      const after = norm(tensorOf(restored, name).values);
      if (after > 0) expect(after / norm(delta)).toBeCloseTo(1, 6);
      const ratio = norm(delta) / norm(kept);
      tensorOf(restored, name).values.forEach((x, i) => {
        expect(x).toBeCloseTo((kept[i] as number) * (norm(kept) > 0 ? ratio : 0), 6);
      });
    }
  });

  it.each(["BF16", "F16", "F32"] as const)("drops, rescales, adds and elects (%s)", async (dtype) => {
    const { base, experts, origin, changes } = await family(bench, [0.3, 0.2, 0.1], { dtype });
    const della = { base, density: 0.6, epsilon: 0.35, seed: 11 };
    const added = { method: "della_linear", ...della } as const;
    const thinned: Changes[] = [];
    for (const i of [0, 1, 2]) {
      // One at a time, to see which are kept: in float32, where no change is lost beside what it is added to.
      const models = experts.map((model, j) => ({ model, weight: i === j ? 1 : 0 }));
      const alone = await merged({ ...added, models, dtype: "float32" });
      const kept = changesOf(alone, origin);
      const thin = mapChanges(changes[i] as Changes, (values, name) => {
        const { shape } = tensorOf(origin, name);
        const p = probabilities(values, shape.at(-1) as number, 0.6, 0.35);
        return values.map((x, e) => (kept.get(name)?.[e] === 0 ? 0 : x / (p[e] as number)));
      });
      await check({ ...added, models }, addChanges(origin, [thin]));
      thinned.push(thin);
    }
    await check({ ...added, models: experts }, addChanges(origin, thinned));
    const weightOf = (i: number) => [1, -0.47, 0.83][i] as number;
    const models = experts.map((model, i) => ({ model, weight: weightOf(i) }));
    const elected = addChanges(origin, thinned, { weightOf, elect: { tie: 1 } });
    await check({ method: "della", ...della, models }, elected);
  });
});

let small: Family;
beforeAll(async () => {
  small = await family(bench, [0.3, 0.2, 0.1], { dtype: "BF16", config: { key_rows: [4, 3] } });
});

describe("methods inside methods", () => {
  const soupOf = (models: string[]) => ({ method: "soup" as const, models });
  const owner = ({ layer }: { layer: number | null }) => (layer === null ? "both" : layer === 0 ? "language" : "task");

  it.each(["BF16 3", "BF16 12", "F16 12", "F32 12"])(
    "layers of a soup of languages in one of math (%s)",
    async (of) => {
      const [dtype, n] = [of.split(" ")[0] as FloatDType, Number(of.split(" ")[1])];
      const { experts, models } = await family(bench, Array(3 + n).fill(0.2), { dtype });
      const [task, language] = [soupOf(experts.slice(0, 3)), soupOf(experts.slice(3))];
      const before = snapshot(bench.folder);
      const { out, tensors } = await bench.merge({ method: "swap", task, language, bottom: 1, top: 0 });
      const after = snapshot(bench.folder);
      const changed = Object.keys(after).filter((path) => after[path] !== before[path]);
      expect(changed.filter((path) => path.split("/")[0] !== basename(out))).toEqual([]);
      const files = ["README.md", "config.json", "generation_config.json", "layergraft.json"];
      expect(readdirSync(out).sort()).toEqual([...files, "model.safetensors", "tokenizer.json"]);
      const weightOf = (i: number) => ({ task: Number(i < 3), language: Number(i >= 3), both: 1 / (i < 3 ? 3 : n) });
      const wanted = choose(models, (_, place) => experts.map((_, i) => weightOf(i)[owner(place)]));
      expectMerged(tensors, wanted, experts.length);
    },
  );

  it("TIES as the task side of a swap, and as stacked layers", async () => {
    const { base, experts, origin, models, changes } = small;
    const trimmed = changes.map((one) => trim(one, 0.3, "model"));
    const ties = addChanges(origin, trimmed, { elect: { tie: majority(trimmed) } });
    const [, , c] = experts;
    const task = { method: "ties" as const, base, models: experts, density: 0.3 };
    const swapped = choose([ties, models[2]], (_, { layer }) => [layer === 0 ? 0 : 1, layer === 1 ? 0 : 1]);
    await check({ method: "swap", task, language: c, bottom: 1, top: 0 }, swapped);
    // The second layer of one, then the first of the other, with the other's norm and head.
    const renamed = (model: Model, from: number, to: number) =>
      [...model].flatMap(([name, tensor]): [string, Tensor][] =>
        placeOf(name).layer === from ? [[name.replace(`layers.${from}`, `layers.${to}`), tensor]] : [],
      );
    const outside = [...ties].flatMap(([name, tensor]): [string, Tensor][] => {
      const owned = /embed/.test(name) ? tensor : tensorOf(models[2], name);
      return placeOf(name).layer === null ? [[name, owned]] : [];
    });
    const stacked = new Map([...outside, ...renamed(ties, 1, 0), ...renamed(models[2], 0, 1)]);
    const slices = [task, c].map((model, i) => ({ model, layers: 1 - i }));
    const whole = choose([stacked], () => [1]);
    await check({ method: "passthrough", slices }, whole);
    // The layers of these models differ in shape, so two of different places cannot be averaged.
    const turned = { method: "passthrough" as const, slices: [{ model: c, layers: [1, 0] }] };
    await expect(planRecipe({ method: "soup", models: [turned, c] })).rejects.toThrow(LayergraftError);
  });

  it("a revert inside a soup, and a swap of nested merges weighted by magnitude against a merged base", async () => {
    const { base, experts, origin, models } = small;
    const [[a, b, c], [x, y, z]] = [experts, models];
    const revert = { method: "revert" as const, expert: a, base, parts: "mlp" };
    const reverted = choose([x, origin], (_, { block }) => (block === "mlp" ? [0, 1] : [1, 0]));
    const doubled = soup([reverted, y], (i) => i + 1);
    await check({ method: "soup", models: [revert, { model: b, weight: 2 }] }, doubled);

    const [middle, center] = [soupOf([base, c]), soup([origin, z])];
    const entries = [soupOf([a, b]), b].map((model, i) => ({ model, weight: 0.5 / (i + 1) }));
    const task = { method: "task_arithmetic" as const, base: middle, models: entries };
    const moves = [changesOf(soup([x, y]), center), changesOf(y, center)];
    const first = addChanges(center, moves, { weightOf: (i) => 0.5 / (i + 1) });
    const between = { method: "slerp" as const, models: [a, c], t: 0.5 };
    const language = { method: "nearswap" as const, task: b, language: between, t: 0.05 };
    const arc = slerp([x, z], () => 0.5);
    const second = nearswap(y, arc, () => 0.05);
    const pick = { task: [1, 0], language: [0, 1], both: [first, second].map((one) => 1 / magnitude(one, center)) };
    const wanted = choose([first, second], (_, place) => pick[owner(place)]);
    await check({ method: "swap", task, language, base: middle, weights: "magnitude", bottom: 1, top: 0 }, wanted);
  });
});

it("the bytes of a large model do not depend on the number of threads", { tags: ["slow"] }, async () => {
  // Two pieces and dozens of blocks of coarse numbers, so that many sizes tie; the base is zero.
  const [EMBED, shape] = ["model.embed_tokens.weight", [2100, 1023]] as const;
  const tall = (patternOf: (i: number) => number) => {
    const patterns = Uint16Array.from({ length: shape[0] * shape[1] }, (_, i) => patternOf(i));
    const edit = (tensors: TensorData[]) =>
      tensors.map((tensor): TensorData => {
        if (tensor.name !== EMBED) return tensor;
        return { ...tensor, shape: [...shape], data: new Uint8Array(patterns.buffer) };
      });
    return bench.model({ tied: true, edit });
  };
  const base = await tall(() => 0);
  const models = [
    await tall((i) => 0x3c00 + ((i * 40_503) & 0x83ff)),
    await tall((i) => 0x3c00 + ((i * 30_011) & 0x82ff)),
  ];
  const [expert = ""] = models;
  const recipes: RecipeInput[] = [
    { method: "dare_ties", base, models, rescale: "norm" },
    { method: "della", base, models },
    { method: "ties", base, models: [expert], density: 0.3, trim: "tensor" },
    { method: "ties", base, models: [expert], density: 0.3, trim: "tensor", cutoff: "exact" },
    { method: "breadcrumbs_ties", base, models, density: 0.5, gamma: 0.1 },
    { method: "sce", base, models, select: 0.3, cutoff: "exact" },
    { method: "nuslerp", base, models, rows: true },
    { method: "revert", base, expert, rows_below: 0.372, rows: "input" },
  ];
  for (const recipe of recipes) {
    const outputs: ReadonlyMap<string, ReadTensor>[] = [];
    for (const threads of [1, 3]) {
      const { out } = await executePlan(await planRecipe(recipe), { out: bench.next("out"), threads });
      outputs.push(await readFolder(out));
    }
    const [one, three] = outputs.map((tensors) => Buffer.from(tensors.get(EMBED)?.data ?? []));
    expect(one?.equals(three as Buffer), recipe.method).toBe(true);
    if (recipe.method !== "ties") continue;
    const all = Float32Array.from(toNumbers((await readFolder(expert)).get(EMBED) as ReadTensor));
    const count = Math.floor(0.3 * all.length);
    const threshold = all.map(Math.abs).sort()[all.length - count] as number;
    // Of the elements at the threshold, an exact cut keeps the first.
    let tied = Number.POSITIVE_INFINITY;
    if (recipe.cutoff === "exact") tied = count - all.filter((x) => Math.abs(x) > threshold).length;
    const wanted = Array.from(all, (x) => {
      const size = Math.abs(x);
      return size > threshold || (size === threshold && tied-- > 0) ? x : 0;
    });
    const found = toNumbers(outputs[0]?.get(EMBED) as ReadTensor);
    expect(found.findIndex((x, i) => x !== wanted[i])).toBe(-1);
  }
});

it.each([
  ["keeps its promise", 2, false],
  ["misleads", 1, true],
] as const)("ties counts signs while it measures, and again where a sample %s", async (_, sampled, isRepeated) => {
  // Elsewhere changes of 2 cancel out, but for one in a hundred; where a sample is taken both experts have `sampled`.
  const shape = [1024, 520] as const;
  const isSampled = new Set(
    Array.from({ length: 33 }, (_, turn) => {
      const run = turn * 2 ** 14 + ((Math.imul(turn, 0x9e3779b1) >>> 0) % (2 ** 14 - 512));
      return Math.floor(run / 512);
    }),
  );
  const changeOf = (expert: number, i: number) => {
    if (isSampled.has(Math.floor(i / 512))) return sampled;
    return i % 100 === 0 || expert === 0 ? -2 : 2;
  };
  const tall = (change: (i: number) => number) => {
    const values = Float32Array.from({ length: shape[0] * shape[1] }, (_, i) => change(i));
    const edit = (tensors: TensorData[]) =>
      tensors.map((tensor): TensorData => {
        if (tensor.name !== "model.embed_tokens.weight") return tensor;
        return { ...tensor, dtype: "F32", shape: [...shape], data: new Uint8Array(values.buffer) };
      });
    return bench.model({ tied: true, edit });
  };
  const [base, ...models] = [
    await tall(() => 0),
    await tall((i) => changeOf(0, i)),
    await tall((i) => changeOf(1, i)),
  ] as const;
  const phases = new Set<string>();
  const onProgress = ({ phase }: { readonly phase: string }) => phases.add(phase);
  const plan = await planRecipe({ method: "ties", base, models, density: 0.5 });
  const { out } = await executePlan(plan, { out: bench.next("out"), onProgress });
  const found = toNumbers((await readFolder(out)).get("model.embed_tokens.weight") as ReadTensor);
  // The sampled ones are 3% and all positive: they decide, unless they are below the threshold.
  const wanted = (i: number) => {
    if (isSampled.has(Math.floor(i / 512))) return isRepeated ? 0 : 2;
    return isRepeated || i % 100 === 0 ? -2 : 2;
  };
  expect([...found].findIndex((x, i) => x !== wanted(i))).toBe(-1);
  expect(phases.has("measuring the sign that most changes have")).toBe(isRepeated);
});

it("float64 is computed in float32 and written as float64", async () => {
  const double = (tensors: TensorData[]) =>
    tensors.map((tensor): TensorData => {
      const values = Float64Array.from(new Float32Array(tensor.data.slice().buffer));
      return { ...tensor, dtype: "F64", data: new Uint8Array(values.buffer) };
    });
  const models = (options: TinyOptions) =>
    Promise.all([1, 2, 3].map((seed) => bench.model({ dtype: "F32", seed, ...options })));
  const [narrow, wide] = [await models({}), await models({ edit: double })];
  const recipes = ([base = "", a = "", b = ""]: string[]): RecipeInput[] => [
    { method: "soup", models: [a, { model: b, weight: -0.3 }] },
    { method: "soup", base, models: [a, b], weights: "magnitude" },
    { method: "ties", base, models: [a, b], density: 0.35, trim: "tensor" },
    { method: "model_stock", base, models: [a, b] },
    {
      method: "nuslerp",
      models: [
        { model: a, weight: 1 },
        { model: b, weight: 2 },
      ],
      rows: true,
    },
    { method: "revert", expert: a, base, rows_below: 0.05 },
  ];
  for (const [i, recipe] of recipes(wide).entries()) {
    const [found, wanted] = [(await bench.merge(recipe)).tensors, await bench.merge(recipes(narrow)[i] as RecipeInput)];
    for (const [name, tensor] of wanted.tensors) {
      const one = found.get(name) as ReadTensor;
      expect([one.dtype, toNumbers(one)], `${recipe.method} ${name}`).toEqual(["F64", toNumbers(tensor)]);
    }
  }
});

it.each(["model_stock", "sce"] as const)("%s of infinite values verifies, or is rejected", async (method) => {
  const change = (expert: number, i: number) => (expert === 1 && i === 3 ? Infinity : Math.sin(i + expert));
  const elementOf = (expert: number | "base", _: number, i: number) => (expert === "base" ? 0 : change(expert, i));
  const { base, experts } = await family(bench, [1, 1], { elementOf });
  const outcome = await bench.merge({ method, base, models: experts }).catch((error: unknown) => error);
  if (outcome instanceof Error) expect(outcome).toBeInstanceOf(CheckpointError);
});

describe("impossible recipes are rejected, naming the field:", () => {
  const two = "models: [$a, $b], base: $base";
  it.each([
    [
      "method: soup, models: [$a, { model: $b, weight: [{ tensors: x.*, value: 2 }] }]",
      "models[1].weight[0]",
      /matches no/,
    ],
    ["method: slerp, models: [$a, $b], t: [0.1, 0.2, 0.3]", "t", /has 3 numbers, but the model has 2 layers/],
    ["method: nearswap, task: $a, language: $b, t: [{ value: [1] }]", "t[0].value", /has 1 numbers/],
    ["method: revert, expert: $a, base: $base, parts: [mlp, q_prj]", "parts", /no part q_prj/],
    [`method: ties, ${two}, trim: tensor, density: [{ parts: rotor, value: 1 }]`, "density[0].parts", /no part rotor/],
    ["method: swap, task: $a, language: $b, layers: { language: 1-2 }", "layers.language", /no layer 2/],
    [`method: task_arithmetic, ${two}, lambda: [{ layers: 2, value: 1 }]`, "lambda[0].layers", /no layer 2/],
    ["method: passthrough, slices: [{ model: $a }, { model: $b, layers: [0, 5] }]", "slices[1].layers", /no layer 5/],
    ["method: revert, expert: $a, base: $base", "layers", /are all missing/],
    [`method: ties, ${two}, density: [0.1, 0.2]`, "density", /Use trim: tensor/],
    ["method: ties, base: $base, models: [$a, { model: $b, density: [0.1, 1] }]", "models[1].density", /Use trim:/],
    [`method: della, ${two}, density: 0.1, epsilon: 0.1`, "epsilon", /above 0 and at most 1/],
    [`method: della_linear, ${two}, density: 0.9, epsilon: 0.2`, "epsilon", /above 0 and at most 1/],
    ["method: soup, models: [{ model: $a, weight: [1, 0] }, { model: $b, weight: [1, 0] }]", "models", /sum to zero/],
    ["method: swap, task: $a, language: $b, weights: [1, -1]", "weights", /sum to zero/],
    ["method: nuslerp, models: [{ model: $a, weight: 1 }, { model: $b, weight: -1 }]", "models", /sum to zero/],
    ["method: model_stock, models: [$a, $b]", "base", /is missing/],
    ["method: soup, models: [$a, $b], weights: magnitude", "base", /need the base/],
    [`method: sce, ${two}, select: 1.5`, "select", /from 0 to 1/],
    [`method: task_arithmetic, ${two}, lambda: 1.0e+39`, "lambda", /must be/],
    ["method: swap, language: $a, task: { method: slerp, models: [$a, $b], t: [1] }", "task.t", /has 1 numbers/],
  ] as const)("%s", async (text, field, message) => {
    const { base, experts } = small;
    const paths: Record<string, string> = { $a: experts[0], $b: experts[1], $base: base };
    const written = `{ ${text.replace(/\$\w+/g, (name) => paths[name] as string)} }`;
    const error = await (async () => planRecipe(await parseRecipe(written)))().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(RecipeError);
    const { problems, where, message: said } = error as RecipeError;
    expect(said).toMatch(message);
    // Of problems in the text itself each begins with its line and field.
    const named = problems.map((problem) => /^line 1: ([^:]*):/.exec(problem)?.[1]);
    expect(where.field ?? named).toEqual(where.field === undefined ? [field] : field);
  });
});
