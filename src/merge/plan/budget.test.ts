// A merge within a budget is the merge of experts whose other blocks are the base's.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { encodeValues, type ReadTensor, seededFloats } from "../../../test/support/checkpoints.js";
import { Bench, readFolders } from "../../../test/support/merging.js";
import { toNumbers } from "../../../test/support/numbers.js";
import { analyzeExperts } from "../analysis/index.js";
import { executePlan, verifyOutput } from "../output/index.js";
import type { RecipeInput } from "../recipe/recipe.js";
import { openPlan } from "./open-plan.js";
import { planRecipe } from "./planner.js";

const bench = new Bench();
const cache = join(bench.folder, "cache");
beforeEach(() => {
  vi.stubEnv("LAYERGRAFT_CACHE", cache);
  mkdirSync(cache, { recursive: true });
  // Of files that were written just now, nothing is kept.
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 10_000 });
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.useRealTimers();
  rmSync(cache, { recursive: true, force: true });
});

/** Rows of a block of a tensor of 8 columns. */
const ROWS = 8192;
/** Its embedding and head have three blocks each, the last one short. */
const LARGE = { vocabulary: 2 * ROWS + 1000 };

/** The base's values, changed by another size in each block and each tensor; some blocks not at all. */
async function expertOf(values: ReadonlyMap<string, ReadTensor>, seed: number): Promise<string> {
  let block = seed;
  return bench.model({
    ...LARGE,
    edit: (tensors) =>
      tensors.map((tensor) => {
        const own = toNumbers(values.get(tensor.name) as ReadTensor);
        const noise = seededFloats(own.length, seed + tensor.name.length);
        for (let at = 0; at < own.length; at += ROWS * 8) {
          const size = (block++ * 7) % 5;
          for (let i = at; i < Math.min(at + ROWS * 8, own.length); i++)
            own[i] = (own[i] ?? 0) + (size * (noise[i] ?? 0)) / 4;
        }
        return { ...tensor, data: encodeValues(own, "BF16") };
      }),
  });
}

/** The expert with the base's bytes in all but the blocks that changed most, up to a share of its bytes. */
async function cut(expert: ReadonlyMap<string, ReadTensor>, base: ReadonlyMap<string, ReadTensor>, budget: number) {
  const matrices = [...expert].filter(([, { shape }]) => shape.length > 1);
  const bytesOf = (tensors: Iterable<ReadTensor>) => [...tensors].reduce((sum, { data }) => sum + data.length, 0);
  const blocks = matrices.flatMap(([name, tensor]) => {
    const step = Math.floor(65_536 / (tensor.shape[1] ?? 1)) * (tensor.shape[1] ?? 1);
    const [x, y] = [tensor, base.get(name) as ReadTensor].map(toNumbers) as [number[], number[]];
    return Array.from({ length: Math.ceil(x.length / step) }, (_, i) => {
      const [from, to] = [i * step, Math.min(x.length, (i + 1) * step)];
      let squares = 0;
      for (let at = from; at < to; at++) squares += ((x[at] ?? 0) - (y[at] ?? 0)) ** 2;
      return { name, from, to, squares };
    });
  });
  let left = budget * bytesOf(expert.values()) - bytesOf(expert.values()) + bytesOf(matrices.map(([, one]) => one));
  const data = new Map([...base].map(([name, one]) => [name, Uint8Array.from(one.data)]));
  for (const [name, one] of expert) if (one.shape.length < 2) data.set(name, Uint8Array.from(one.data));
  let dropped = 0;
  const density = (one: (typeof blocks)[number]) => one.squares / (one.to - one.from);
  for (const one of blocks.sort((a, b) => density(b) - density(a))) {
    const bytes = 2 * (one.to - one.from);
    if (bytes > left || one.squares === 0) dropped += one.squares;
    else {
      left -= bytes;
      const own = expert.get(one.name) as ReadTensor;
      data.get(one.name)?.set(own.data.subarray(2 * one.from, 2 * one.to), 2 * one.from);
    }
  }
  const edit: Parameters<Bench["model"]>[0] = {
    ...LARGE,
    edit: (tensors) => tensors.map((tensor) => ({ ...tensor, data: data.get(tensor.name) as Uint8Array })),
  };
  return { folder: await bench.model(edit), leftOut: dropped / blocks.reduce((sum, one) => sum + one.squares, 0) };
}

const bytesOf = (tensors: ReadonlyMap<string, ReadTensor>) =>
  [...tensors].map(([name, { data }]) => [name, Buffer.from(data).toString("base64")]);

it("writes the merge of experts that are cut to their largest changes", { tags: ["slow"] }, async () => {
  const base = await bench.model(LARGE);
  const [root] = (await readFolders([base])) as [ReadonlyMap<string, ReadTensor>];
  const experts = [await expertOf(root, 1), await expertOf(root, 3)];
  const folders = Object.fromEntries(experts.map((expert, i) => [`expert${i}`, expert]));
  await analyzeExperts({ base, experts: folders });
  const whole = await readFolders(experts);
  const budget = 0.4;
  const cuts = [await cut(whole[0] as never, root, budget), await cut(whole[1] as never, root, budget)];
  for (const method of [{ method: "task_arithmetic" }, { method: "ties", density: 0.3 }]) {
    const recipe = { ...method, models: experts, base, budget } as unknown as RecipeInput & object;
    const merged = await bench.merge(recipe);
    const other = await bench.merge({ ...method, models: cuts.map(({ folder }) => folder), base } as never);
    expect(bytesOf(merged.tensors)).toEqual(bytesOf(other.tensors));

    const opened = await planRecipe(recipe);
    const out = bench.next("out");
    const threaded = await executePlan(opened, { out, allowUnrelated: true, threads: 3 });
    expect(bytesOf((await readFolders([out]))[0] as never)).toEqual(bytesOf(merged.tensors));
    expect(threaded.bytesRead).toBe(merged.bytesRead);
    const size = [...root.values()].reduce((sum, { data }) => sum + data.length, 0);
    const share = merged.bytesRead / (3 * size);
    if (method.method === "task_arithmetic") expect(share).toBeLessThan((1 + 2 * budget) / 3);
    const notes = opened.plan.notes.filter((note) => note.startsWith("budget"));
    const shown = notes.map((note) => Number(/leaves out ([\d.]+)%/.exec(note)?.[1]) / 100);
    expect(shown).toHaveLength(2);
    for (const [i, one] of shown.entries()) expect(one).toBeCloseTo(cuts[i]?.leftOut ?? 0, 2);
  }
});

it("verifies and opens a plan by the blocks that it names, and needs the sizes of changes to make one", async () => {
  const base = await bench.model(LARGE);
  const expert = await expertOf((await readFolders([base]))[0] as never, 2);
  const recipe = { method: "task_arithmetic", models: [expert], base, budget: 0.5 } as const;
  await expect(planRecipe(recipe)).rejects.toThrow(
    /Measure it once, two seconds or more after it was written, with: layergraft analyze --base \S+ --expert/,
  );
  await analyzeExperts({ base, experts: { expert } });
  const [sketch = ""] = readdirSync(join(cache, "sketches"));
  const kept = readFileSync(join(cache, "sketches", sketch), "utf8");
  for (const damaged of [kept.slice(0, -9), kept.replace(/\n.*/s, "\nnull")]) {
    writeFileSync(join(cache, "sketches", sketch), damaged);
    await expect(planRecipe(recipe)).rejects.toThrow(/Measure it once/);
  }
  writeFileSync(join(cache, "sketches", sketch), kept);
  const merged = await bench.write(recipe);
  const saved = JSON.parse(JSON.stringify((await planRecipe(recipe)).plan));
  rmSync(cache, { recursive: true });
  expect((await verifyOutput(merged.out)).verified).toBe(true);
  const again = await executePlan(await openPlan(saved), { out: bench.next("out"), allowUnrelated: true });
  const [a, b] = await readFolders([merged.out, again.out]);
  expect(bytesOf(a as never)).toEqual(bytesOf(b as never));
  await expect(planRecipe({ method: "soup", models: [expert, base], budget: 0.5 })).rejects.toThrow(/has no base/);
});
