// Steps of a model that learns, against PyTorch and PEFT: loss, gradient norm, rate and, in the end, all weights. Four
// runs of a tiny Llama lie in the repository; LAYERGRAFT_GOLDENS may name a folder that has a further one, training/.
// Not the loop around the steps: that is trainer.test.ts.
// @module-tag slow
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { golden } from "../../../test/support/golden-decoders.js";
import { type ModelSource, openModelSource } from "../../engine/index.js";
import { openCheckpoint } from "../../formats/checkpoint/index.js";
import { openSafetensors, readTensor } from "../../formats/safetensors/index.js";
import { Random } from "../../kit/random.js";
import { planRecipe } from "../../merge/index.js";
import type { OptimizerSettings, Schedule } from "../run/run-schema.js";
import { learningRateFactor } from "../run/schedule.js";
import { resolveSelection } from "../run/selection.js";
import { type LoraPlan, planLora } from "./lora.js";
import { type Masks, measureMasks, planMasks } from "./masks.js";
import { Optimizer } from "./optimizer.js";
import { type TokenBatch, TrainableDecoder, type TrainableOptions } from "./trainable.js";

const RUNS = join(import.meta.dirname, "../../../test/fixtures/train/runs");
const BASE = join(RUNS, "base");
const GOLDEN = join(process.env.LAYERGRAFT_GOLDENS ?? join(RUNS, "none"), "training");

const WITHIN = 1e-4;

/** What the scripts beside the fixtures write. */
interface Settings {
  readonly lr: number;
  readonly betas: readonly [number, number];
  readonly eps: number;
  readonly decay: number;
  readonly clip: number;
  readonly schedule: Schedule["kind"];
  readonly warmup: number;
  readonly decay_share?: number;
  readonly rank?: number;
  readonly alpha?: number;
  readonly parts?: readonly string[];
  readonly share?: number;
}
interface Run {
  readonly settings: Settings;
  readonly steps: number;
  readonly accumulation: number;
  readonly batches: readonly { ids: number[][]; labels: number[][] }[];
  readonly log: readonly { rate: number; loss: number; norm: number; targets: number }[];
}

const readRun = (name: string) => JSON.parse(readFileSync(join(RUNS, `${name}.json`), "utf8")) as Run;

async function floatsOf(path: string): Promise<Map<string, Float32Array>> {
  const file = await openSafetensors(path);
  const floats = file.tensors.filter(({ dtype }) => dtype === "F32");
  const read = async (tensor: (typeof floats)[number]) =>
    [tensor.name, new Float32Array((await readTensor(file, tensor)).slice().buffer)] as const;
  return new Map(await Promise.all(floats.map(read)));
}

/** Rows of a batch as the model takes them: labels are the next token's, -1 for PyTorch's -100. */
function batchOf(ids: readonly number[][], labels: readonly number[][]): TokenBatch {
  const [rows, time] = [ids.length, ids[0]?.length ?? 0];
  return {
    ...{ rows, time, ids: Int32Array.from(ids.flat()), segments: new Int32Array(rows * time).fill(1) },
    positions: Int32Array.from({ length: rows * time }, (_, i) => i % time),
    labels: Int32Array.from(labels.flatMap((row) => [...row.slice(1), -100].map((label) => Math.max(-1, label)))),
  };
}

const optimizerOf = ({ betas, eps, decay, clip }: Settings): OptimizerSettings => ({
  ...{ betas, eps, decay, decay_all: false, clip },
});

interface Opened {
  readonly source: ModelSource;
  readonly model: TrainableDecoder;
  readonly optimizer: Optimizer;
}

async function open(
  folder: string,
  settings: Settings,
  trained: ReadonlySet<string>,
  { lora, masks }: { lora?: LoraPlan; masks?: Masks } = {},
): Promise<Opened> {
  const source = await openModelSource(folder);
  const model = await TrainableDecoder.open(source, { trained, lora, threads: 1 });
  const optimizer = new Optimizer(model.parameters, optimizerOf(settings), masks);
  await model.initialise(optimizer, 0);
  return { source, model, optimizer };
}

/** Makes all steps of a run, comparing each; `only` says what learns from a step. */
async function follow({ model, optimizer }: Opened, run: Run, only: (step: number) => ReadonlySet<string> | undefined) {
  const { settings, steps, accumulation, batches, log } = run;
  const { schedule: kind, warmup, decay_share = 0.2 } = settings;
  const schedule: Schedule = { kind, warmup, decay_share, decay_shape: "1-sqrt", floor: 0 };
  for (let step = 0; step < steps; step++) {
    const wanted = log[step] as Run["log"][number];
    let [sum, labels] = [0, 0];
    for (const batch of batches.slice(step * accumulation, (step + 1) * accumulation)) {
      const found = await model.accumulate(batchOf(batch.ids, batch.labels), optimizer, { only: only(step) });
      sum += found.loss;
      labels += found.labels;
    }
    expect(labels).toBe(wanted.targets);
    const learningRate = settings.lr * learningRateFactor(schedule, step, steps);
    const { gradientNorm, applied } = optimizer.step({ learningRate, scale: 1 / labels });
    expect(applied).toBe(true);
    expect(Math.abs(learningRate - wanted.rate)).toBeLessThan(1e-12);
    expect(Math.abs(sum / labels - wanted.loss), `loss of step ${step}`).toBeLessThan(WITHIN);
    expect(Math.abs(gradientNorm - wanted.norm), `norm of step ${step}`).toBeLessThan(WITHIN);
  }
  await model.close();
}

/** The largest distance of what was trained from what PyTorch made of it; names are the same on both sides. */
function farthest(optimizer: Optimizer, wanted: ReadonlyMap<string, Float32Array>): number {
  expect([...optimizer.parameters.keys()].sort()).toEqual([...wanted.keys()].sort());
  const distances = [...optimizer.parameters.values()].flatMap(({ name, weights }) => {
    const theirs = wanted.get(name) ?? new Float32Array();
    expect(weights.length, name).toBe(theirs.length);
    return Array.from(weights, (weight, i) => Math.abs(weight - (theirs[i] as number)));
  });
  return distances.reduce((most, distance) => (distance <= most ? most : distance), 0);
}

describe("ten steps as PyTorch and PEFT make them", () => {
  it("of the weights that another run changed most, and no other bit", async () => {
    const run = readRun("sparse");
    const first = mkdtempSync(join(tmpdir(), "layergraft-sparse-"));
    onTestFinished(() => rmSync(first, { recursive: true }));
    cpSync(BASE, first, { recursive: true });
    cpSync(join(RUNS, "full.safetensors"), join(first, "model.safetensors"));
    const opened = await planRecipe({ method: "task_arithmetic", models: [first], base: BASE });
    const trained = new Set((await openModelSource(BASE)).tensors.keys());
    const plan = planMasks(opened, trained, run.settings.share ?? 0);
    const { model, optimizer, source } = await open(BASE, run.settings, trained, { masks: await measureMasks(plan) });
    await follow({ model, optimizer, source }, run, () => undefined);
    const wanted = await floatsOf(join(RUNS, "sparse.safetensors"));
    expect(farthest(optimizer, wanted)).toBeLessThan(WITHIN);
    let changed = 0;
    for (const [name, start] of await floatsOf(join(BASE, "model.safetensors"))) {
      const found = optimizer.parameters.get(name)?.weights ?? new Float32Array();
      const bits = (values: Float32Array) => new Uint32Array(values.buffer, values.byteOffset, values.length);
      const [a, b, c] = [bits(start), bits(found), bits(wanted.get(name) ?? new Float32Array())];
      // The same weights stay, to the bit, although the others decay.
      for (const [i, before] of a.entries()) {
        expect(b[i] === before, `${name}[${i}]`).toBe(c[i] === before);
        if (b[i] !== before) changed++;
      }
    }
    expect([changed, plan.kept]).toEqual([Math.floor(0.05 * plan.elements), Math.floor(0.05 * plan.elements)]);
  });

  it("of all parameters: linear schedule, decay on matrices, clipping", async () => {
    const run = readRun("full");
    const trained = new Set((await openModelSource(BASE)).tensors.keys());
    const opened = await open(BASE, run.settings, trained);
    const start = await floatsOf(join(BASE, "model.safetensors"));
    expect(farthest(opened.optimizer, start)).toBe(0);
    await follow(opened, run, () => undefined);
    expect(farthest(opened.optimizer, await floatsOf(join(RUNS, "full.safetensors")))).toBeLessThan(WITHIN);
    // Enough to see that something was learned at all.
    expect(farthest(opened.optimizer, start)).toBeGreaterThan(100 * WITHIN);
  });

  it("of factors on two kinds of projections of two layers, rank-stabilised", async () => {
    const run = readRun("lora");
    const base = await openCheckpoint(BASE);
    const chosen = resolveSelection("q_proj and down_proj of layers 0, 2", base);
    const { rank = 0, alpha = 0 } = run.settings;
    const lora = planLora(chosen, base, { rank, alpha, rank_stabilised: true, dropout: 0 });
    expect(lora.scale).toBe(4);
    const opened = await open(BASE, run.settings, chosen, { lora });
    for (const [name, values] of await floatsOf(join(RUNS, "lora-start", "adapter_model.safetensors")))
      opened.optimizer.parameters.get(name)?.weights.set(values);
    await follow(opened, run, () => undefined);
    expect(farthest(opened.optimizer, await floatsOf(join(RUNS, "lora.safetensors")))).toBeLessThan(WITHIN);
  });

  it("of two streams that take turns, each with its part, two batches a step", async () => {
    const run = readRun("partition");
    const base = await openCheckpoint(BASE);
    const parts = (run.settings.parts ?? []).map((part) => resolveSelection(part, base));
    expect(parts).toHaveLength(2);
    const opened = await open(BASE, run.settings, new Set(parts.flatMap((part) => [...part])));
    await follow(opened, run, (step) => parts[step % 2]);
    expect(farthest(opened.optimizer, await floatsOf(join(RUNS, "partition.safetensors")))).toBeLessThan(WITHIN);
  });
});

/** The loss of batches, and the gradients that they add up to, as copies. */
async function learn({ model, optimizer }: Pick<Opened, "model" | "optimizer">, batches: readonly TokenBatch[]) {
  optimizer.clear();
  let [loss, labels] = [0, 0];
  for (const batch of batches) {
    const found = await model.accumulate(batch, optimizer);
    loss += found.loss;
    labels += found.labels;
  }
  const gradients = new Map([...optimizer.parameters].map(([name, { gradient }]) => [name, gradient.slice()]));
  return { loss, labels, gradients };
}

/** The norm of the difference, relative to that of what is wanted. */
function apart(found: ArrayLike<number>, wanted: ArrayLike<number>): number {
  if (found.length !== wanted.length) return Number.POSITIVE_INFINITY;
  const difference = Array.from(wanted, (value, i) => value - (found[i] as number));
  return Math.hypot(...difference) / Math.hypot(...Array.from(wanted));
}

async function openFor(folder: string, options: Partial<TrainableOptions> = {}) {
  const source = await openModelSource(folder);
  const model = await TrainableDecoder.open(source, {
    trained: new Set(source.tensors.keys()),
    threads: 1,
    ...options,
  });
  const optimizer = new Optimizer(model.parameters, optimizerOf(readRun("full").settings));
  await model.initialise(optimizer, 3);
  return { source, model, optimizer };
}

/** Texts of a row each, padded at their ends; every next token is learned. */
function padded(texts: readonly number[][], labels = texts): TokenBatch {
  const time = Math.max(...texts.map(({ length }) => length));
  const of = (none: number, each: (text: number[], row: number) => number[]) =>
    Int32Array.from(texts.flatMap((text, row) => [...each(text, row), ...Array(time - text.length).fill(none)]));
  return {
    ...{ rows: texts.length, time },
    ids: of(0, (text) => text),
    positions: of(0, (text) => text.map((_, i) => i)),
    segments: of(0, (text) => text.map(() => 1)),
    labels: of(-1, (_, row) => [...(labels[row] ?? []).slice(1).map((label) => Math.max(-1, label)), -1]),
  };
}

describe("gradients", () => {
  // Stored in one tensor what is several; tied; with biases.
  it.each(["phi3", "gemma3", "starcoder2"])("of %s are PyTorch's, by the names of its checkpoint", async (name) => {
    const { folder, rows, labels, padding, loss, gradients } = golden(name);
    const opened = await openFor(folder);
    const found = await learn(opened, [
      padded(
        rows.map((row) => [...row]),
        labels.map((row, i) => row.slice(padding[i])),
      ),
    ]);
    expect(Math.abs(found.loss / found.labels - loss)).toBeLessThan(WITHIN);
    expect([...found.gradients.keys()].sort()).toEqual([...gradients.keys()].sort());
    for (const [tensor, { values }] of gradients) {
      const mean = (found.gradients.get(tensor) ?? new Float32Array()).map((g) => g / found.labels);
      expect(apart(mean, values), tensor).toBeLessThan(WITHIN);
    }
    await opened.model.close();
  });

  const [a, b, c] = [
    [5, 9, 31, 7, 7, 20],
    [40, 3, 12],
    [8, 8, 2, 30],
  ] as [number[], number[], number[]];

  it("are those of each text alone, whether texts are padded, packed into one row, or one after another", async () => {
    const opened = await openFor(BASE);
    const one = await learn(opened, [padded([a, b, c])]);
    expect(one.labels).toBe(5 + 2 + 3);
    const [x, y, z] = [a, b, c].map((text) => padded([text])) as [TokenBatch, TokenBatch, TokenBatch];
    const packed: TokenBatch = {
      ...{ rows: 1, time: 15 },
      ids: Int32Array.of(...a, ...b, ...c, 0, 0),
      positions: Int32Array.of(...x.positions, ...y.positions, ...z.positions, 0, 0),
      segments: Int32Array.of(...a.map(() => 1), ...b.map(() => 2), ...c.map(() => 3), 0, 0),
      labels: Int32Array.of(...x.labels, ...y.labels, ...z.labels, -1, -1),
    };
    for (const batches of [[packed], [x, y, z], [padded([c, b]), x]]) {
      const other = await learn(opened, batches);
      expect(other.labels).toBe(one.labels);
      expect(Math.abs(other.loss - one.loss)).toBeLessThan(1e-4);
      for (const [name, gradient] of one.gradients)
        expect(apart(other.gradients.get(name) ?? [], gradient), name).toBeLessThan(1e-5);
    }
    await opened.model.close();
  });

  it("are only of what is trained, and what is not has none to give", async () => {
    const opened = await openFor(BASE, {
      trained: new Set(["model.layers.2.mlp.up_proj.weight", "model.norm.weight"]),
    });
    expect(opened.model.parameters).toEqual([
      { name: "model.layers.2.mlp.up_proj.weight", shape: [24, 16] },
      { name: "model.norm.weight", shape: [16] },
    ]);
    const whole = await openFor(BASE);
    const [some, all] = [await learn(opened, [padded([a])]), await learn(whole, [padded([a])])];
    expect(some.loss).toBeCloseTo(all.loss, 5);
    for (const [name, gradient] of some.gradients)
      expect(apart(gradient, all.gradients.get(name) ?? [])).toBeLessThan(1e-5);
    await Promise.all([opened.model.close(), whole.model.close()]);
    await expect(openFor(BASE, { trained: new Set(["model.norm.weight", "vision.weight"]) })).rejects.toThrow(
      /cannot be trained, because they are outside its decoder:\n {2}- vision\.weight/,
    );
  });

  it("of a batch with nothing to learn are none", async () => {
    const opened = await openFor(BASE);
    const batch = { ...padded([a]), labels: new Int32Array(6).fill(-1) };
    expect(await opened.model.accumulate(batch, opened.optimizer)).toEqual({ loss: 0, labels: 0 });
    expect(await opened.model.evaluate(batch, opened.optimizer)).toEqual({ loss: 0, labels: 0 });
    expect(opened.optimizer.step({ learningRate: 1 })).toEqual({ gradientNorm: 0, applied: true });
    await opened.model.close();
  });

  it("of factors with dropout depend on the chance that is given, and measuring drops nothing", async () => {
    const base = await openCheckpoint(BASE);
    const settings = { rank: 4, alpha: 8, rank_stabilised: false };
    const lora = (dropout: number) => planLora(resolveSelection("o_proj", base), base, { ...settings, dropout });
    const [half, none] = [await openFor(BASE, { lora: lora(0.5) }), await openFor(BASE, { lora: lora(0) })];
    const batch = padded([a, c]);
    const gradientsOf = async ({ model, optimizer }: typeof half, seed?: number) => {
      optimizer.clear();
      const random = seed === undefined ? undefined : Random.of(seed, "test");
      await model.accumulate(batch, optimizer, { random });
      return [...optimizer.parameters.values()]
        .filter(({ name }) => name.includes("lora_B"))
        .map((p) => p.gradient.slice());
    };
    const whole = await gradientsOf(none);
    expect(whole).toHaveLength(3);
    expect(apart((await gradientsOf(half))[0] ?? [], whole[0] ?? [])).toBeLessThan(1e-5);
    const first = await gradientsOf(half, 1);
    expect(await gradientsOf(half, 1)).toEqual(first);
    expect(await gradientsOf(half, 2)).not.toEqual(first);
    // What is kept is scaled up, so the mean over many draws is the gradient without dropout; B being zero, B's is linear.
    const sums = whole.map((gradient) => new Float64Array(gradient.length));
    for (let seed = 0; seed < 80; seed++)
      for (const [i, gradient] of (await gradientsOf(half, seed)).entries())
        for (const [at, value] of gradient.entries()) (sums[i] as Float64Array)[at] = (sums[i]?.[at] ?? 0) + value / 80;
    for (const [i, sum] of sums.entries()) expect(apart(sum, whole[i] ?? [])).toBeLessThan(0.3);
    const [dropped, kept] = [half, none].map(({ model, optimizer }) => model.evaluate(batch, optimizer));
    expect((await dropped)?.loss).toBeCloseTo((await kept)?.loss ?? 0, 4);
    await Promise.all([half.model.close(), none.model.close()]);
  });
});

it.runIf(existsSync(GOLDEN))("twenty steps of the golden run", async () => {
  const { optimizer: o, log } = JSON.parse(readFileSync(join(GOLDEN, "expected.json"), "utf8")) as {
    optimizer: { lr: number; weight_decay: number; betas: [number, number]; eps: number; clip_global_norm: number };
    log: { lr: number; loss: number; grad_norm: number }[];
  };
  const expected = join(GOLDEN, "expected.safetensors");
  const file = await openSafetensors(expected);
  const stored = file.tensors.find(({ name }) => name === "input_ids");
  if (!stored) throw new Error("no tokens");
  const [steps = 0, rows = 0, time = 0] = stored.shape;
  const ids = Array.from(new BigInt64Array((await readTensor(file, stored)).slice().buffer), Number);
  const row = (at: number) => ids.slice(at * time, (at + 1) * time);
  const batches = Array.from({ length: steps }, (_, step) => {
    const own = Array.from({ length: rows }, (_, i) => row(step * rows + i));
    return { ids: own, labels: own };
  });
  const run: Run = {
    ...{ steps, accumulation: 1, batches },
    settings: {
      ...{ lr: o.lr, betas: o.betas, eps: o.eps, decay: o.weight_decay, clip: o.clip_global_norm },
      ...{ schedule: "linear", warmup: 5 },
    },
    log: log.map(({ lr, loss, grad_norm }) => ({ rate: lr, loss, norm: grad_norm, targets: rows * (time - 1) })),
  };
  const source = await openModelSource(GOLDEN);
  const opened = await open(GOLDEN, run.settings, new Set(source.tensors.keys()));
  await follow(opened, run, () => undefined);
  const final = [...(await floatsOf(expected))].filter(([name]) => name.startsWith("final."));
  const wanted = new Map(final.map(([name, values]) => [name.slice("final.".length), values]));
  expect(farthest(opened.optimizer, wanted)).toBeLessThan(WITHIN);
});

// Balanced experts, biases of experts as rows of a table, and a correction that nothing depends on.
it.each(["granitemoe", "gpt_oss", "glm4_moe"])(
  "%s has the gradients of PyTorch, padding and balance included",
  async (name) => {
    const { folder, rows, padding, width, labels, gradients } = golden(name);
    const source = await openModelSource(folder);
    const model = await TrainableDecoder.open(source, { trained: new Set(gradients.keys()), threads: 1 });
    const optimizer = new Optimizer(model.parameters, {
      betas: [0.9, 0.999],
      eps: 1e-8,
      decay: 0,
      decay_all: false,
      clip: false,
    });
    await model.initialise(optimizer, 0);
    const padded = (of: (row: number, at: number) => number) =>
      Int32Array.from(
        rows.flatMap((row, i) => [...Array<number>(padding[i] ?? 0).fill(0), ...row.map((_, at) => of(i, at))]),
      );
    const found = await model.accumulate(
      {
        ...{ rows: rows.length, time: width, ids: padded((row, at) => rows[row]?.[at] ?? 0) },
        ...{ positions: padded((_, at) => at), segments: padded(() => 1) },
        labels: Int32Array.from(labels.flatMap((row) => [...row.slice(1), -100].map((label) => Math.max(-1, label)))),
      },
      optimizer,
    );
    for (const [tensor, { values }] of gradients) {
      const gradient = optimizer.parameters.get(tensor)?.gradient ?? new Float32Array();
      const apart = values.map((value, i) => value - (gradient[i] as number) / found.labels);
      expect(Math.hypot(...apart) / Math.hypot(...values), tensor).toBeLessThan(WITHIN);
    }
    await model.close();
  },
);
