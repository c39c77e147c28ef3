// Weights that the engine computes are in files of the cache beyond a limit: whatever runs a model then has the results of
// the written merge, to the bit, and no message or array holds them.
import {
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { LIMITS } from "../src/engine/blends.js";
import { openStates } from "../src/engine/hidden-states.js";
import { type EngineSource, measureStatistics, openEngine, openModelSource } from "../src/engine/index.js";
import { OnnxModel } from "../src/engine/runtime/onnx.js";
import type { RecipeInput } from "../src/merge/index.js";
import { planRecipe } from "../src/merge/index.js";
import { executePlan } from "../src/merge/output/index.js";
import { Optimizer } from "../src/train/loop/optimizer.js";
import { TrainableDecoder } from "../src/train/loop/trainable.js";
import { temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { VOCABULARY, writeTokenizer } from "./support/engine.js";
import { readFolder } from "./support/numbers.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const CACHE = at("cache");
/** Without those that are being written to the disk, or removed. */
const files = () =>
  (existsSync(join(CACHE, "weights")) ? readdirSync(join(CACHE, "weights")) : []).filter((name) =>
    /\.safetensors$/.test(name),
  );
const settled = () =>
  vi.waitFor(() => expect(readdirSync(join(CACHE, "weights"))).toEqual(files()), { interval: 5, timeout: 20_000 });

/** Bytes of the largest constant that was part of a graph since the test began. */
let largest = 0;
const limit = LIMITS.bytesInMemory;
beforeAll(async () => {
  for (const [i, name] of ["a", "b", "c"].entries()) {
    await writeTiny(at(name), { seed: i + 1, layers: 3, vocabulary: VOCABULARY });
    writeTokenizer(at(name));
  }
  vi.stubEnv("LAYERGRAFT_CACHE", CACHE);
  const initializer = OnnxModel.prototype.initializer;
  vi.spyOn(OnnxModel.prototype, "initializer").mockImplementation(function (this: OnnxModel, ...constant) {
    largest = Math.max(largest, constant[3].byteLength);
    initializer.apply(this, constant);
  });
});
beforeEach(() => {
  LIMITS.bytesInMemory = 0;
  largest = 0;
  // What the last test wrote may still be on its way to the disk.
  rmSync(CACHE, { recursive: true, force: true, maxRetries: 5 });
});
afterEach(() => {
  LIMITS.bytesInMemory = limit;
});
afterAll(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

const soup: RecipeInput = { method: "soup", models: [at("a"), at("b")] };
const swap = (top: number): RecipeInput => ({ method: "swap", task: at("a"), language: at("b"), bottom: 1, top });

const weighted = (a: number, b: number): RecipeInput => ({
  method: "soup",
  models: [
    { model: at("a"), weight: a },
    { model: at("b"), weight: b },
  ],
});

/** The merge as a folder. */
async function written(recipe: RecipeInput): Promise<string> {
  const out = at("written");
  await executePlan(await planRecipe(recipe), { out, force: true });
  return out;
}

const TEXTS = [
  [3, 4, 5, 6],
  [8, 3, 9, 4, 10, 5, 11, 6, 3, 3, 7],
];

async function scores(source: EngineSource, options: Parameters<typeof openEngine>[1] = {}): Promise<number[][]> {
  const engine = await openEngine(source, options);
  try {
    return await engine.score(TEXTS);
  } finally {
    await engine.close();
  }
}

/** What something computes with files, with memory, and with the written merge; the first two must be as the last. */
async function expectSame<T>(compute: (source: EngineSource) => Promise<T>, recipe = soup): Promise<T> {
  const inFile = await compute(recipe);
  expect(files()).toHaveLength(1);
  // Epsilons and the like.
  expect(largest).toBeLessThan(100);
  LIMITS.bytesInMemory = limit;
  const inMemory = await compute(recipe);
  expect(largest).toBeGreaterThan(300);
  const wanted = await compute(await written(recipe));
  expect(inFile).toEqual(wanted);
  expect(inMemory).toEqual(wanted);
  return wanted;
}

describe("the results are those of the written merge", () => {
  it("of answers and scores", async () => {
    const found = await expectSame(scores);
    expect(found).not.toEqual(await scores(at("a")));
  });

  it("of weights that models share", async () => {
    const found = await scores(soup, { shared: true });
    const folder = await written(soup);
    expect(found).toEqual(await scores(folder, { shared: true }));
    const others = await scores(folder);
    for (const [i, logprob] of found.flat().entries()) expect(logprob).toBeCloseTo(others.flat()[i] as number, 4);
    const shared = files();
    expect(shared).toHaveLength(2);
    await scores(soup, { shared: true });
    expect(files()).toEqual(shared);
  });

  it("of hidden states", async () => {
    await expectSame(async (source) => {
      const reader = await openStates(await openModelSource(source), { at: [1, 3], pool: "mean" });
      const states = await reader.read("abc a");
      await reader.close();
      return states;
    });
  });

  it.each(["fisher", "gram"] as const)("of %s", async (kind) => {
    await expectSame(async (source) => {
      await measureStatistics(source, { kind, texts: ["abc a", "cab"], out: at("statistics"), force: true });
      return readFolder(at("statistics"));
    });
  });

  it("of training with frozen weights", async () => {
    // What is trained starts from float32.
    const recipe: RecipeInput = { ...soup, dtype: "float32" };
    await expectSame(async (source) => {
      const trained = new Set(["model.layers.1.mlp.up_proj.weight"]);
      const model = await TrainableDecoder.open(await openModelSource(source), { trained });
      const settings = { betas: [0.9, 0.999], eps: 1e-8, decay: 0, decay_all: false, clip: 1 } as const;
      const optimizer = new Optimizer(model.parameters, settings);
      await model.initialise(optimizer, 0);
      const ids = Int32Array.from([3, 4, 5, 6]);
      const [positions, segments] = [Int32Array.from([0, 1, 2, 3]), new Int32Array(4).fill(1)];
      const labels = Int32Array.from([4, 5, 6, -1]);
      const loss = await model.accumulate({ rows: 1, time: 4, ids, positions, segments, labels }, optimizer);
      const { gradientNorm } = optimizer.step({ learningRate: 0.1, scale: 1 });
      const weights = optimizer.parameters.get([...trained][0] as string)?.weights.slice();
      await model.close();
      return { loss, gradientNorm, weights };
    }, recipe);
  });
});

describe("a file of the cache", () => {
  const times = () => files().map((name) => [name, statSync(join(CACHE, "weights", name)).ino]);

  it("is made once, and shared by models that have tensors in common", async () => {
    const first = await scores(swap(1));
    const made = times();
    expect(made).toHaveLength(1);
    expect(await scores(swap(1))).toEqual(first);
    // The layers of a swap are read in place; the averages outside them are the same.
    expect(await scores(swap(2))).not.toEqual(first);
    expect(times()).toEqual(made);
    // In another element type they are others.
    await scores({ ...swap(1), dtype: "float32" });
    expect(files()).toHaveLength(2);
    // What is missing has a file of its own.
    await scores(weighted(0.3, 0.7));
    expect(files()).toHaveLength(3);
  });

  it("is made again where a source was replaced, though its size and its date are the same", async () => {
    const recipe: RecipeInput = { method: "soup", models: [at("a"), at("again")] };
    await writeTiny(at("again"), { seed: 21, layers: 3, vocabulary: VOCABULARY });
    const file = at("again", "model.safetensors");
    const { atime, mtime } = statSync(file);
    const first = await scores(recipe);
    await writeTiny(at("other"), { seed: 22, layers: 3, vocabulary: VOCABULARY });
    utimesSync(at("other", "model.safetensors"), atime, mtime);
    renameSync(at("other", "model.safetensors"), file);
    const second = await scores(recipe);
    expect(second).not.toEqual(first);
    expect(second).toEqual(await scores(await written(recipe)));
  });

  it("is not left by a run that is stopped, and what a killed one left is replaced", async () => {
    const controller = new AbortController();
    const stopped = openEngine(soup, { signal: controller.signal, onProgress: () => controller.abort() });
    await expect(stopped).rejects.toMatchObject({ code: "cancelled" });
    expect(files()).toEqual([]);
    const wanted = await scores(soup);
    await settled();
    const [name = ""] = files();
    const path = join(CACHE, "weights", name);
    rmSync(path);
    mkdirSync(`${path}.partial`);
    writeFileSync(join(`${path}.partial`, "model.safetensors"), "half of it");
    expect(await scores(soup)).toEqual(wanted);
    await settled();
    expect(files()).toEqual([basename(path)]);
    // Killed before the disk had it: of the right length, with other bytes.
    writeFileSync(path, Buffer.alloc(statSync(path).size));
    mkdirSync(`${path}.partial`);
    expect(await scores(soup)).toEqual(wanted);
    await settled();
  });

  it("is made again where a part of it is missing", async () => {
    const wanted = await scores(soup);
    await settled();
    const path = join(CACHE, "weights", files()[0] as string);
    truncateSync(path, statSync(path).size - 1);
    expect(await scores(soup)).toEqual(wanted);
    expect(files()).toEqual([basename(path)]);
  });

  it("is made again where another process makes room before it is opened", async () => {
    const wanted = await scores(soup);
    await settled();
    let count = 0;
    const encode = OnnxModel.prototype.encode;
    const spy = vi.spyOn(OnnxModel.prototype, "encode").mockImplementation(function (this: OnnxModel, ...graph) {
      if (++count === 1) rmSync(join(CACHE, "weights", files()[0] as string));
      return encode.apply(this, graph);
    });
    expect(await scores(soup)).toEqual(wanted);
    expect(count).toBe(2);
    spy.mockRestore();
  });

  it("is made whatever else is in the folder under such a name", async () => {
    mkdirSync(join(CACHE, "weights", "folder.safetensors"), { recursive: true });
    expect(await scores(soup)).toEqual(await scores(await written(soup)));
    await vi.waitFor(() => expect(readdirSync(join(CACHE, "weights"))).toHaveLength(2), { interval: 5 });
  });

  it("is left out where few bytes are computed", async () => {
    LIMITS.bytesInMemory = limit;
    await scores(soup);
    expect(existsSync(CACHE)).toBe(false);
  });

  it("is refused where its values become infinite", async () => {
    const huge: RecipeInput = { ...weighted(-1, 1.000001), dtype: "float16" };
    await expect(openEngine(huge)).rejects.toMatchObject({ code: "not-finite" });
    expect(files()).toEqual([]);
  });
});
