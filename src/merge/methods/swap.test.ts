// Algorithm 1 against a plain reference, and properties of every output: copied bytes, files, threads, verification.
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type FloatDType,
  type ReadTensor,
  readJson,
  temporaryFolder,
  writeTiny,
} from "../../../test/support/checkpoints.js";
import { readFolder, roundTo, toNumbers, weightFilesOf } from "../../../test/support/numbers.js";
import { openSafetensors, readTensor, type TensorData, writeSafetensors } from "../../formats/safetensors/index.js";
import { executePlan } from "../output/execute-plan.js";
import { verifyOutput } from "../output/verify.js";
import { planRecipe } from "../plan/planner.js";
import type { RecipeInput } from "../recipe/recipe.js";

const planSwap = (fields: Omit<Extract<RecipeInput, { method: "swap" }>, "method">) =>
  planRecipe({ method: "swap", ...fields });
const temporary = temporaryFolder();
const newFolder = () => mkdtempSync(join(temporary, "case-"));

// ---- the reference ----

/** (w_task * task + w_lang * lang) / (w_task + w_lang), float32; weights equal but for their own rounding are 1. */
function averageOf(task: number, language: number, [wt, wl]: readonly [number, number]): number {
  const f = Math.fround;
  if (Math.abs(wt - wl) <= 1e-12 * Math.abs(wt)) return f(f(task + language) / 2);
  return f(f(f(f(wt) * task) + f(f(wl) * language)) / f(wt + wl));
}

interface Choice {
  readonly layers: number;
  readonly bottom: number;
  readonly bottom_transition: number;
  readonly top_transition: number;
  readonly top: number;
  readonly weights: "equal" | [number, number];
  readonly outside: "average" | "task" | "language";
  readonly norms?: "outside" | undefined;
  readonly parts: "all" | "attention" | "mlp";
}

/** Algorithm 1 for one tensor of a Llama. */
function ownerOf(name: string, c: Choice): "task" | "language" | "average" {
  const match = /^model\.layers\.(\d+)\.(.*)\.weight$/.exec(name);
  if (!match || (c.norms && name.includes("norm"))) return c.outside;
  const l = Number(match[1]);
  const half = /^(self_attn|input_layernorm)/.test(match[2] ?? "") ? "attention" : "mlp";
  if (c.parts !== "all" && c.parts !== half) return "task";
  if (l < c.bottom || l > c.layers - 1 - c.top) return "language";
  if (c.bottom + c.bottom_transition <= l && l <= c.layers - 1 - c.top - c.top_transition) return "task";
  return "average";
}

/** Compares a tensor with what it must be: bytes where it is a copy, else the value of every element. */
function expectTensor(name: string, found: ReadTensor | undefined, sources: readonly ReadTensor[], c: Choice): void {
  const [task, language] = sources as [ReadTensor, ReadTensor];
  if (!found) throw new Error(`${name} is missing`);
  const weights: readonly [number, number] = c.weights === "equal" ? [1, 1] : c.weights;
  let owner = ownerOf(name, c);
  if (owner === "average" && weights[0] === 0) owner = "language";
  if (owner === "average" && weights[1] === 0) owner = "task";
  expect(found.shape, name).toEqual(task.shape);
  const source = owner === "task" ? task : language;
  if (owner !== "average" && source.dtype === found.dtype) {
    expect(Buffer.compare(found.data, source.data), `${name}, copied`).toBe(0);
    return;
  }
  const [a, b] = [toNumbers(task), toNumbers(language)];
  const exact = owner === "average" ? a.map((x, i) => averageOf(x, b[i] as number, weights)) : toNumbers(source);
  const wanted = exact.map((x) => roundTo(found.dtype as FloatDType, x));
  expect(toNumbers(found), `${name}, computed`).toEqual(wanted); // tells -0 from 0
}

// ---- sources ----

/** Puts what is easily lost into every tensor: -0, infinity, a NaN with a payload, a value beyond float16. */
function withSpecials(dtype: FloatDType): (tensors: TensorData[]) => TensorData[] {
  const patterns = { BF16: [0x8000, 0x7f80, 0xff81, 0x4789], F16: [0x8000, 0x7c00, 0xfc01, 0x7bff], F32: [] }[dtype];
  const wide = [0x80000000, 0x7f800000, 0xffc00123, 0x4788b800];
  return (tensors) =>
    tensors.map((tensor, i) => {
      const data = tensor.data.slice();
      // Each tensor gets one of them, at one place, so that both sides' specials meet numbers and each other.
      if (dtype === "F32") new Uint32Array(data.buffer)[i % 8] = wide[i % 4] as number;
      else new Uint16Array(data.buffer)[i % 8] = patterns[i % 4] as number;
      return { ...tensor, data };
    });
}

const TORCH: Record<FloatDType, string> = { BF16: "bfloat16", F16: "float16", F32: "float32" };

async function expectFiles(out: string, shardSize: number | undefined): Promise<void> {
  const shards = weightFilesOf(out);
  const others = ["README.md", "config.json", "generation_config.json", "layergraft.json", "tokenizer.json"];
  const index = shards.length === 1 ? [] : ["model.safetensors.index.json"];
  expect(readdirSync(out).sort()).toEqual([...others, ...index, ...shards].sort());
  const five = (n: number) => String(n).padStart(5, "0");
  const numbered = shards.map((_, i) => `model-${five(i + 1)}-of-${five(shards.length)}.safetensors`);
  expect(shards.toSorted()).toEqual(shards.length === 1 ? ["model.safetensors"] : numbered);

  const weightMap: Record<string, string> = {};
  let total = 0;
  for (const shard of shards) {
    const { tensors, metadata } = await openSafetensors(join(out, shard));
    const bytes = tensors.reduce((sum, tensor) => sum + tensor.bytes, 0);
    if (tensors.length > 1) expect(bytes).toBeLessThanOrEqual(shardSize ?? 5e9);
    expect(metadata.format).toBe("pt");
    for (const { name } of tensors) weightMap[name] = shard;
    total += bytes;
  }
  if (index.length === 0) return;
  expect(readJson(out, "model.safetensors.index.json")).toEqual({
    metadata: { total_size: total },
    weight_map: weightMap,
  });
}

/** Task and language expert whose embedding has 2.2 million elements: two pieces and dozens of blocks. */
async function tallModels(root: string): Promise<[string, string]> {
  const rows = 280_000;
  const edit = (factor: number) => (tensors: TensorData[]) =>
    tensors.map((tensor) => {
      if (tensor.name !== "model.embed_tokens.weight") return tensor;
      const patterns = Uint16Array.from({ length: rows * 8 }, (_, i) => 0x3c00 + ((i * factor) & 0x83ff));
      return { ...tensor, shape: [rows, 8], data: new Uint8Array(patterns.buffer) };
    });
  const options = { tied: true, layers: 3 };
  return [
    await writeTiny(join(root, "task"), { ...options, seed: 3, edit: edit(40_503) }),
    await writeTiny(join(root, "language"), { ...options, seed: 4, edit: edit(30_011) }),
  ];
}

describe("layer swapping", () => {
  const choice: fc.Arbitrary<Choice> = fc
    .record({
      layers: fc.integer({ min: 1, max: 9 }),
      cuts: fc.array(fc.nat({ max: 9 }), { minLength: 4, maxLength: 4 }),
      weights: fc.oneof(
        fc.constant("equal" as const),
        fc.double({ min: 0.01, max: 50, noNaN: true }).map((w): [number, number] => [w, w]),
        fc.constantFrom<[number, number][]>([0.7, 0.3], [1.5, -0.5], [0, 2], [3, 0], [2, 1]),
        fc.tuple(fc.double({ min: 0.01, max: 9, noNaN: true }), fc.double({ min: 0.01, max: 9, noNaN: true })),
      ),
      outside: fc.constantFrom("average" as const, "task" as const, "language" as const),
      norms: fc.constantFrom(undefined, "outside" as const),
      parts: fc.constantFrom("all" as const, "all" as const, "attention" as const, "mlp" as const),
    })
    .map(({ cuts, ...rest }) => {
      // The sorted cuts divide the depth into five zones; the middle one is the task's.
      const [a = 0, b = 0, c = 0, d = 0] = cuts.map((cut) => Math.min(cut, rest.layers)).sort((x, y) => x - y);
      return { ...rest, bottom: a, bottom_transition: b - a, top_transition: d - c, top: rest.layers - d };
    });
  const dtypes = fc.constantFrom<FloatDType[]>("BF16", "F16", "F32");
  const storage = fc.record({
    taskDType: dtypes,
    languageDType: dtypes,
    dtype: fc.constantFrom("keep" as const, "bfloat16" as const, "float16" as const, "float32" as const),
    tied: fc.boolean(),
    taskShards: fc.constantFrom(undefined, 3000),
    languageShards: fc.constantFrom(undefined, 2000),
    shardSize: fc.constantFrom(undefined, 1, 900, 4000),
    threads: fc.constantFrom(undefined, undefined, 2),
    seed: fc.integer({ min: 1, max: 1000 }),
  });

  it("is algorithm 1 for every tensor, bit for bit, for any depth, options, dtypes and shards", async () => {
    const root = newFolder();
    let run = 0;
    await fc.assert(
      fc.asyncProperty(choice, storage, async ({ layers, ...options }, s) => {
        const at = join(root, String(run++));
        // Two dtypes have none in common to keep.
        const language = s.dtype === "keep" ? s.taskDType : s.languageDType;
        const common = { layers, tied: s.tied };
        const shards = (bytes: number | undefined) => (bytes === undefined ? {} : { shardBytes: bytes });
        const taskFolder = await writeTiny(`${at}-task`, {
          ...{ ...common, seed: s.seed, dtype: s.taskDType, edit: withSpecials(s.taskDType) },
          ...shards(s.taskShards),
        });
        const languageFolder = await writeTiny(`${at}-language`, {
          ...{ ...common, seed: s.seed + 5000, dtype: language, edit: withSpecials(language) },
          ...shards(s.languageShards),
        });
        const plan = await planSwap({
          ...{ ...options, task: taskFolder, language: languageFolder, dtype: s.dtype },
          ...(s.shardSize === undefined ? {} : { shard_size: s.shardSize }),
        });
        const { out } = await executePlan(plan, { out: `${at}-out`, threads: s.threads, allowNonFinite: true });

        const [found, a, b] = await Promise.all([out, taskFolder, languageFolder].map(readFolder));
        if (!found || !a || !b) throw new Error("unreachable");
        expect([...found.keys()].sort()).toEqual([...a.keys()].sort());
        const dtype = s.dtype === "keep" ? s.taskDType : { bfloat16: "BF16", float16: "F16", float32: "F32" }[s.dtype];
        for (const [name, tensor] of found) {
          expect(tensor.dtype).toBe(dtype);
          expectTensor(name, tensor, [a.get(name) as ReadTensor, b.get(name) as ReadTensor], { layers, ...options });
        }
        await expectFiles(out, s.shardSize);
        const config = { ...readJson(taskFolder, "config.json"), torch_dtype: TORCH[dtype as FloatDType] };
        expect(readJson(out, "config.json")).toEqual(config);
        expect(readJson(out, "tokenizer.json")).toEqual({ made_for: s.seed });
        expect(found.has("lm_head.weight")).toBe(!s.tied);
      }),
      { numRuns: 8 },
    );
  });

  it("scales the paper's 5 and 2 of 32 by default", async () => {
    const root = newFolder();
    const table: Record<number, [number, number]> = {};
    for (const layers of [32, 28, 24, 16, 8, 3, 1]) {
      const folder = await writeTiny(join(root, String(layers)), { layers, vocabulary: 2 });
      const { plan } = await planSwap({ task: folder, language: folder });
      const owners = Array.from({ length: layers }, (_, layer) =>
        plan.steps.filter((step) => step.layer === layer).map(({ origin }) => origin.join()),
      );
      const owned = (owner: string) => owners.map((names) => names.every((name) => name === owner));
      const [bottom, task] = [owned("language").indexOf(false), owned("task").filter(Boolean).length];
      table[layers] = [bottom, layers - bottom - task];
      if (plan.recipe.method === "swap") expect([plan.recipe.bottom, plan.recipe.top]).toEqual(table[layers]);
    }
    expect(table).toEqual({ 32: [5, 2], 28: [4, 2], 24: [4, 2], 16: [3, 1], 8: [1, 1], 3: [1, 0], 1: [0, 0] });
  });

  it("takes the paper's smallest and largest configuration in proportion, and other counts before them", async () => {
    const [deep, shallow] = await Promise.all(
      [32, 16].map((layers) => writeTiny(join(newFolder(), `${layers}`), { layers, vocabulary: 2 })),
    );
    const counts = async (folder = "", fields: object) => {
      const { recipe } = (await planSwap({ task: folder, language: folder, ...fields })).plan;
      if (recipe.method !== "swap") throw new Error("not a swap");
      expect(recipe.preset).toBeUndefined();
      return [recipe.bottom, recipe.bottom_transition, recipe.top_transition, recipe.top];
    };
    // Figure 3: b from 3 to 5, u from 0 to 2, transitions from 0 to 2.
    expect(await counts(deep, { preset: "paper-smallest" })).toEqual([3, 0, 0, 0]);
    expect(await counts(deep, { preset: "paper-default" })).toEqual([5, 0, 0, 2]);
    expect(await counts(deep, { preset: "paper-largest" })).toEqual([5, 2, 2, 2]);
    expect(await counts(shallow, { preset: "paper-smallest" })).toEqual([2, 0, 0, 0]);
    expect(await counts(shallow, { preset: "paper-largest" })).toEqual([3, 1, 1, 1]);
    expect(await counts(deep, { preset: "paper-largest", top: 0, bottom_transition: 1 })).toEqual([5, 1, 2, 0]);
    // A zero that is written counts.
    expect(await counts(deep, { preset: "paper-largest", bottom_transition: 0 })).toEqual([5, 0, 2, 2]);
    expect(await counts(shallow, { preset: "paper-largest", top_transition: 0 })).toEqual([3, 1, 0, 1]);
    const both = planSwap({
      task: deep ?? "",
      language: deep ?? "",
      preset: "paper-largest",
      layers: { language: "0" },
    });
    await expect(both).rejects.toThrow(/layers cannot be combined with bottom, top, transitions or a preset/);
  });

  it("refuses more layers than there are, with the numbers", async () => {
    const folder = await writeTiny(join(newFolder(), "m"), { layers: 6 });
    const plan = planSwap({
      ...{ task: folder, language: folder, bottom: 3, bottom_transition: 1 },
      ...{ top_transition: 2, top: 4 },
    });
    await expect(plan).rejects.toThrow(
      /bottom 3 \+ bottom_transition 1 \+ top_transition 2 \+ top 4 is 10, more than the 6 layers/,
    );
    const whole = { task: folder, language: folder, bottom: 3, bottom_transition: 1, top_transition: 1, top: 1 };
    const { steps } = (await planSwap(whole)).plan; // 3 + 1 + 1 + 1 is 6, which is allowed
    expect(new Set(steps.filter(({ origin }) => origin.join() === "task").map(({ layer }) => layer))).toEqual(
      new Set(),
    );
  });

  it("rejects weights that sum to zero or exceed float32", async () => {
    const folder = await writeTiny(join(newFolder(), "m"));
    const plan = (weights: [number, number]) => planSwap({ task: folder, language: folder, weights });
    await expect(plan([1, -1])).rejects.toThrow(/weights sum to zero/);
    await expect(plan([0, 0])).rejects.toThrow(/weights sum to zero/);
    await expect(plan([1e39, 2e39])).rejects.toThrow(/must be 0, or of a size from 1e-9 to 1e9/);
    await expect(plan([1e-46, 2e-46])).rejects.toThrow(/must be 0, or of a size from 1e-9 to 1e9/);
  });

  it.each(["BF16", "F16", "F32"] as const)("copies any bit pattern of %s", async (dtype) => {
    const root = newFolder();
    // Every 16-bit pattern in some place: all NaN payloads, infinities, subnormals, both zeros.
    const edit = (start: number) => (tensors: TensorData[]) => {
      let next = start;
      return tensors.map((tensor) => {
        const patterns = Uint16Array.from({ length: tensor.data.byteLength / 2 }, () => (next += 24_571));
        return { ...tensor, data: new Uint8Array(patterns.buffer) };
      });
    };
    const [task, language] = [join(root, "task"), join(root, "language")];
    await writeTiny(task, { dtype, vocabulary: 4100, edit: edit(1) });
    await writeTiny(language, { dtype, vocabulary: 4100, edit: edit(77) });
    const opened = await planSwap({ task, language, bottom: 1, top: 1, outside: "language" });
    const { out } = await executePlan(opened, { out: join(root, "out") });
    const [found, a, b] = [await readFolder(out), await readFolder(task), await readFolder(language)];
    for (const [name, { data }] of found) {
      const from = /layers\.[12]\./.test(name) ? a : b;
      expect(Buffer.compare(data, from.get(name)?.data ?? new Uint8Array()), name).toBe(0);
    }
    const patterns = [...b.values()].flatMap(({ data }) => [...new Uint16Array(data.slice().buffer)]);
    expect(new Set(patterns).size).toBe(65_536);
  });

  it("writes the same bytes on any number of threads, and with --resume without an earlier run", {
    tags: ["slow"],
  }, async () => {
    const root = newFolder();
    const [task, language] = await tallModels(root);
    const runs = [{ threads: 1 }, { threads: 2 }, { threads: 3 }, { resume: true }, {}];
    const outputs: string[] = [];
    for (const [i, run] of runs.entries()) {
      const opened = await planSwap({ task, language, bottom_transition: 1, weights: [2, 1], shard_size: 1000 });
      const result = await executePlan(opened, { out: join(root, `out${i}`), ...run });
      expect([result.resumed, result.alreadyComplete]).toEqual([false, false]);
      outputs.push(result.out);
    }
    const [first = "", ...others] = outputs;
    const names = readdirSync(first).filter((name) => name !== "README.md"); // its title is the folder's name
    expect(names.length).toBeGreaterThan(9);
    for (const other of others) {
      for (const name of names) {
        const same = Buffer.compare(readFileSync(join(first, name)), readFileSync(join(other, name)));
        expect(same, `${other}/${name}`).toBe(0);
      }
    }
    const [found, a, b] = [await readFolder(first), await readFolder(task), await readFolder(language)];
    const name = "model.embed_tokens.weight";
    const values = (from: Map<string, ReadTensor>) => toNumbers(from.get(name) as ReadTensor);
    const [x, y] = [values(a), values(b)];
    const wrong = values(found).findIndex(
      (value, i) => !Object.is(value, roundTo("BF16", averageOf(x[i] as number, y[i] as number, [2, 1]))),
    );
    expect(wrong).toBe(-1);
  });
});

describe("verifying a swap", () => {
  async function output(dtype: FloatDType): Promise<string> {
    const root = newFolder();
    const [task, language] = [join(root, "task"), join(root, "language")];
    await writeTiny(task, { seed: 1, dtype });
    await writeTiny(language, { seed: 2, dtype });
    const opened = await planSwap({ task, language, bottom: 1, top: 1, bottom_transition: 1, weights: [0.6, 0.4] });
    return (await executePlan(opened, { out: join(root, "out") })).out;
  }

  async function rewrite(folder: string, edit: (tensors: TensorData[]) => TensorData[]): Promise<void> {
    const path = join(folder, "model.safetensors");
    const file = await openSafetensors(path);
    const tensors: TensorData[] = [];
    for (const { name, dtype, shape, ...at } of file.tensors) {
      tensors.push({ name, dtype, shape, data: await readTensor(file, { name, dtype, shape, ...at }) });
    }
    await writeSafetensors(path, edit(tensors), file.metadata);
  }

  async function flip(folder: string, tensor: string, element: number): Promise<void> {
    const path = join(folder, "model.safetensors");
    const { tensors } = await openSafetensors(path);
    const bytes = readFileSync(path);
    const at = (tensors.find(({ name }) => name === tensor)?.offset as number) + 2 * element;
    bytes[at] = (bytes[at] as number) ^ 1;
    writeFileSync(path, bytes);
  }

  it.each(["BF16", "F32"] as const)(
    "finds nothing in an untouched output (%s), on any number of threads",
    async (dtype) => {
      const out = await output(dtype);
      for (const threads of [undefined, 1, 3]) {
        const found = await verifyOutput(out, { threads });
        expect([found.tensors, found.deviations]).toEqual([39, []]);
      }
    },
  );

  it("finds one flipped bit, in copied, averaged and outside tensors, and says where", async () => {
    for (const [tensor, element] of [
      ["model.layers.0.self_attn.k_proj.weight", 31], // copied from the language expert, its last element
      ["model.layers.1.mlp.gate_proj.weight", 17], // averaged
      ["model.layers.2.input_layernorm.weight", 0], // copied from the task expert
      ["lm_head.weight", 101], // outside
    ] as const) {
      const out = await output("BF16");
      await flip(out, tensor, element);
      const { deviations } = await verifyOutput(out);
      const what = `differs in 1 element, the first at index ${element}`;
      expect(deviations).toEqual([{ tensor, what, differing: 1, first: element }]);
    }
  });

  it("says where in large tensors, copied and averaged, on any number of threads", { tags: ["slow"] }, async () => {
    const root = newFolder();
    const [task, language] = await tallModels(root);
    for (const outside of ["task", "average"] as const) {
      const { out } = await executePlan(await planSwap({ task, language, outside }), {
        out: join(root, `out-${outside}`),
      });
      for (const element of [2_200_003, 2_100_000]) await flip(out, "model.embed_tokens.weight", element);
      for (const threads of [undefined, 3]) {
        expect((await verifyOutput(out, { threads })).deviations).toMatchObject([{ differing: 2, first: 2_100_000 }]);
      }
    }
  });

  it("counts differing elements and names the first", async () => {
    const out = await output("F32");
    await rewrite(out, (tensors) =>
      tensors.map((tensor) => {
        if (tensor.name !== "model.layers.1.mlp.down_proj.weight") return tensor;
        const values = new Float32Array(tensor.data.slice().buffer);
        for (const i of [90, 40, 41]) values[i] = (values[i] as number) + 1;
        return { ...tensor, data: new Uint8Array(values.buffer) };
      }),
    );
    const { deviations } = await verifyOutput(out);
    expect(deviations).toEqual([expect.objectContaining({ differing: 3, first: 40 })]);
    expect(deviations[0]?.tensor).toBe("model.layers.1.mlp.down_proj.weight");
  });

  it("finds a missing, an extra, and a reshaped tensor", async () => {
    const out = await output("BF16");
    await rewrite(out, (tensors) => [
      ...tensors
        .filter(({ name }) => name !== "model.norm.weight")
        .map((tensor) => (tensor.name === "lm_head.weight" ? { ...tensor, shape: [8, 24] } : tensor)),
      { name: "surplus", dtype: "BF16", shape: [1], data: new Uint8Array(2) },
    ]);
    const { deviations } = await verifyOutput(out);
    expect(new Map(deviations.map(({ tensor, what }) => [tensor, what]))).toEqual(
      new Map([
        ["model.norm.weight", "is missing"],
        ["lm_head.weight", "is BF16 [8, 24], planned BF16 [24, 8]"],
        ["surplus", "is not in the plan"],
      ]),
    );
  });
});
