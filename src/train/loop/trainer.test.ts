// The training loop on a tiny Llama and batches of random tokens.
// @module-tag slow
import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { type ModelSource, openEngine, openModelSource } from "../../engine/index.js";
import { openSafetensors, readTensor } from "../../formats/safetensors/index.js";
import * as writer from "../../formats/safetensors/writer.js";
import { CancelledError, DiskFullError } from "../../kit/errors.js";
import { takeLock } from "../../kit/files/lock.js";
import { Random } from "../../kit/random.js";
import { type OpenedPlan, planRecipe } from "../../merge/index.js";
import { checkRun } from "../run/run-file.js";
import { planLora } from "./lora.js";
import type { TokenBatch } from "./trainable.js";
import { train } from "./trainer.js";
import type { BatchSource, TrainOptions, TrainProgress, TrainResult } from "./training-types.js";

vi.mock(import("../../formats/safetensors/writer.js"), async (original) => ({ ...(await original()) }));

const BASE = join(import.meta.dirname, "../../../test/fixtures/train/runs/base");
const [ROWS, TIME, VOCABULARY] = [2, 10, 47];

let root: string;
let out: string;
let base: OpenedPlan;
let source: ModelSource;
/** What a run leaves that nothing stopped. */
let wanted: Record<string, string>;

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), "layergraft-trainer-"));
  base = await planRecipe({ method: "soup", models: [BASE] });
  source = await openModelSource(base);
  out = join(root, "whole");
  await go();
  wanted = left();
});
afterAll(() => rmSync(root, { recursive: true, force: true }));
let count = 0;
beforeEach(() => {
  out = join(root, `run-${count++}`);
});

/** Random tokens, always the same; every next one is learned. @param first a token to begin with */
function batchOf(name: string, first?: number): TokenBatch {
  const random = Random.of(name, "tokens");
  const ids = Int32Array.from({ length: ROWS * TIME }, (_, i) => (i === 0 && first) || random.below(VOCABULARY));
  return {
    ...{ rows: ROWS, time: TIME, ids, segments: new Int32Array(ids.length).fill(1) },
    positions: ids.map((_, i) => i % TIME),
    labels: ids.map((_, i) => (i % TIME === TIME - 1 ? -1 : (ids[i + 1] as number))),
  };
}

/** Ten batches over and over. */
function batches(name: string, firstOf: (at: number) => number | undefined = () => undefined): BatchSource {
  let at = 0;
  return {
    name,
    next: () => {
      const batch = batchOf(`${name} ${at % 10}`, firstOf(at));
      at++;
      return { ...batch, samples: ROWS, tokens: ROWS * TIME, name: `batch ${at} of ${name}` };
    },
    position: () => ({ at }),
    seek: (position) => {
      at = (position as { at: number }).at;
    },
  };
}

const runOf = (changes: object = {}) =>
  checkRun({
    ...{ base: "base", out: "out", data: "data.jsonl", optimizer: { lr: 5e-3 }, seed: 5, threads: 1 },
    ...{ holdout: { samples: 4 }, checkpoints: { every_samples: 6 }, ...changes },
  });

const settings: TrainOptions["settings"] = {
  ...{ learningRate: 5e-3, steps: 12, evaluateEvery: 4, sequenceLength: TIME, sequencesPerStep: ROWS, notes: [] },
  schedule: { kind: "constant", warmup: 0, decay_share: 0.2, decay_shape: "1-sqrt", floor: 0 },
};

/** Twelve steps, a measurement every second, a checkpoint every third. */
function optionsOf(changes: Partial<TrainOptions> = {}): TrainOptions {
  return {
    ...{
      run: runOf(),
      base,
      source,
      baseName: BASE,
      stopIds: [],
      out,
      settings,
      inputs: { data: { data: "0a1b" }, base: async () => ({}) },
    },
    trained: new Set(
      [...source.tensors.keys()].filter((name) => name.includes(".layers.2.") || name === "lm_head.weight"),
    ),
    streams: [{ batches: batches("data") }],
    holdout: [batchOf("held 1"), batchOf("held 2")],
    ...changes,
  };
}
const go = (changes: Partial<TrainOptions> = {}): Promise<TrainResult> => train(optionsOf(changes));

/** Trains until a step has been made, and is then told to stop. */
async function stopAfter(step: number, changes: Partial<TrainOptions> = {}): Promise<unknown> {
  const controller = new AbortController();
  const onProgress = (progress: TrainProgress) => progress.step === step && controller.abort();
  return go({ ...changes, signal: controller.signal, onProgress }).catch((error: unknown) => error);
}

const sha256 = (path: string) => createHash("sha256").update(readFileSync(path)).digest("hex");
/** What a run left, by its digest: all but the state, whose number counts how often it was saved. */
function left(folder = out): Record<string, string> {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const files = entries.flatMap((entry): [string, string][] => {
    const path = join(entry.parentPath, entry.name);
    const name = path.slice(folder.length + 1);
    if (entry.isSymbolicLink()) return [[name, readlinkSync(path)]];
    // States are numbered by how often one was saved.
    return entry.isFile() ? [[name.replace(/^state\/state-\d+/, "state"), sha256(path)]] : [];
  });
  return Object.fromEntries(files);
}
const checkpoints = () =>
  readdirSync(out)
    .filter((name) => name.startsWith("checkpoint-"))
    .sort();
const logLines = () =>
  readFileSync(join(out, "log.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, number>);

describe("a run", () => {
  it("logs each step and measurement, and ends with a checkpoint that says how it came about", async () => {
    const seen: TrainProgress[] = [];
    const result = await go({ onProgress: (progress) => seen.push(progress) });
    expect(result).toMatchObject({ steps: 12, samples: 24, tokens: 240, stoppedEarly: false, resumed: false });
    expect([result.last, result.log]).toEqual([join(out, "checkpoint-24"), join(out, "log.jsonl")]);
    const log = logLines();
    expect(
      log.filter((line) => line.loss !== undefined).map(({ step, samples, tokens }) => [step, samples, tokens]),
    ).toEqual(Array.from({ length: 12 }, (_, i) => [i + 1, 2 * i + 2, 20 * i + 20]));
    const measured = log.filter((line) => line.holdoutLoss !== undefined);
    expect(measured.map(({ step }) => step)).toEqual([2, 4, 6, 8, 10, 12]);
    expect(seen.map(({ step, loss, learningRate }) => ({ step, loss, learningRate }))).toEqual(
      log
        .filter(({ loss }) => loss !== undefined)
        .map(({ step, loss, learningRate }) => ({ step, loss, learningRate })),
    );
    // What is shown after a step is what was measured after it, not what the measurement before found.
    expect(seen.at(-1)?.holdoutLoss).toBe(measured.at(-1)?.holdoutLoss);
    expect(seen[1]?.holdoutLoss).toBe(measured[0]?.holdoutLoss);
    expect(seen.every(({ tokensPerSecond, secondsLeft }) => tokensPerSecond > 0 && secondsLeft >= 0)).toBe(true);
    expect(JSON.parse(readFileSync(join(result.last, "training.json"), "utf8"))).toEqual({
      ...{ step: 12, samples: 24, tokens: 240, loss: result.loss, holdoutLoss: measured.at(-1)?.holdoutLoss },
      configuration: runOf(),
    });
    expect(readFileSync(join(result.last, "config.json"))).toEqual(readFileSync(join(BASE, "config.json")));
    expect(log.find(({ step }) => step === 1)?.loss).toBeGreaterThan(log.at(-2)?.loss as number);
  });

  it("names every token that ends an answer in its checkpoints", async () => {
    const { last } = await go({ stopIds: [3, 7] });
    expect(JSON.parse(readFileSync(join(last, "generation_config.json"), "utf8"))).toEqual({ eos_token_id: [3, 7] });
    const engine = await openEngine(last, { threads: 1 });
    expect(await engine.stopIds()).toEqual(expect.arrayContaining([3, 7]));
    await engine.close();
  });

  it("measures what the engine finds in its best checkpoint", async () => {
    const { best, bestLoss } = await go();
    const engine = await openEngine(best ?? "", { threads: 1 });
    const texts = ["held 1", "held 2"].flatMap((name) => {
      const ids = [...batchOf(name).ids];
      return [ids.slice(0, TIME), ids.slice(TIME)];
    });
    const logprobs = (await engine.score(texts)).flat();
    await engine.close();
    expect(logprobs).toHaveLength(4 * (TIME - 1));
    expect(-logprobs.reduce((sum, one) => sum + one, 0) / logprobs.length).toBeCloseTo(bestLoss ?? 0, 4);
  });

  it("stops when the loss on held-out data gets no better, as random tokens learned by heart make it", async () => {
    const run = runOf({ early_stopping: { patience: 3 } });
    const options = { run, settings: { ...settings, steps: 60, learningRate: 2e-2 } };
    const result = await go(options);
    const measured = logLines().filter((line) => line.holdoutLoss !== undefined);
    const losses = measured.map(({ holdoutLoss }) => holdoutLoss as number);
    const least = Math.min(...losses);
    expect(result).toMatchObject({ stoppedEarly: true, bestLoss: least, steps: measured.at(-1)?.step });
    expect(result.steps).toBeLessThan(60);
    // Three measurements after the best, and not one more.
    expect(losses.indexOf(least)).toBe(losses.length - 4);
    const best = measured[losses.length - 4]?.samples as number;
    expect(result.best).toBe(join(out, `checkpoint-${best}`));
    expect([readlinkSync(join(out, "best")), readlinkSync(join(out, "last"))]).toEqual([
      `checkpoint-${best}`,
      `checkpoint-${result.samples}`,
    ]);
    expect(checkpoints()).toEqual([`checkpoint-${best}`, `checkpoint-${result.samples}`].sort());
    // A run that ended so is at its end when it is resumed, too.
    const before = left();
    const again = await go({ ...options, resume: true });
    expect(again).toMatchObject({ stoppedEarly: true, resumed: true, steps: result.steps, best: result.best });
    expect(left()).toEqual(before);
  });

  it.each([
    ["all", [6, 12, 18, 24]],
    ["last", [24]],
  ] as const)("keeps %s", async (keep, samples) => {
    const result = await go({ run: runOf({ checkpoints: { every_samples: 6, keep } }), holdout: [] });
    expect(checkpoints()).toEqual(samples.map((n) => `checkpoint-${n}`).sort());
    expect([result.best, result.last, readlinkSync(join(out, "last"))]).toEqual([
      null,
      join(out, "checkpoint-24"),
      "checkpoint-24",
    ]);
    expect(readdirSync(out).sort()).toEqual([...checkpoints(), "last", "log.jsonl", "state"].sort());
  });

  it("hands over each checkpoint that is due, and waits", async () => {
    const seen: string[] = [];
    const steps: number[] = [];
    await go({
      run: runOf({ checkpoints: { every_samples: 6, keep: "last" } }),
      onProgress: ({ step }) => steps.push(step),
      onCheckpoint: async (folder, { step, steps: all }) => {
        await nextTurn();
        seen.push(`${folder.slice(out.length + 1)} of step ${step} of ${all}, after ${steps.length} steps`);
        expect(existsSync(join(folder, "model.safetensors"))).toBe(true);
      },
    });
    expect(seen).toEqual(
      [3, 6, 9, 12].map((step) => `checkpoint-${2 * step} of step ${step} of 12, after ${step} steps`),
    );
  });

  it("leaves what is not trained as it was, to the bit, and what is reverted in a checkpoint of its own", async () => {
    const isTrained = (name: string) => optionsOf().trained.has(name);
    const revert = new Set([...source.tensors.keys()].filter((name) => name.includes(".layers.2.mlp")));
    const { last, reverted } = await go({ revert, settings: { ...settings, steps: 3 } });
    const [whole, back, before] = await Promise.all([last, reverted ?? "", BASE].map(tensorsOf));
    for (const [name, bytes] of before ?? []) {
      expect(whole?.get(name)?.equals(bytes), name).toBe(!isTrained(name));
      expect(back?.get(name)?.equals(bytes), name).toBe(!isTrained(name) || revert.has(name));
      if (!revert.has(name)) expect(back?.get(name), name).toEqual(whole?.get(name));
    }
    expect(whole?.size).toBe(source.tensors.size);
  });

  it("writes the element type that is asked for, frozen tensors and configuration too", async () => {
    const { last } = await go({ run: runOf({ save_dtype: "bfloat16" }), settings: { ...settings, steps: 1 } });
    const file = await openSafetensors(join(last, "model.safetensors"));
    expect(new Set(file.tensors.map(({ dtype }) => dtype))).toEqual(new Set(["BF16"]));
    expect(readFileSync(join(last, "config.json"), "utf8")).toMatch(/dtype": "bfloat16"/);
    // 1e20 for the learning rate: weights that float32 holds and float16 does not.
    const huge = { ...settings, steps: 1, learningRate: 1e20 };
    out += "-huge";
    await expect(go({ run: runOf({ save_dtype: "float16" }), settings: huge, holdout: [] })).rejects.toThrow(
      /values of lm_head\.weight do not fit float16\. Save as bfloat16 or float32/,
    );
    expect(checkpoints()).toEqual([]);
  });
});

async function tensorsOf(folder: string): Promise<Map<string, Buffer>> {
  const file = await openSafetensors(join(folder, "model.safetensors"));
  const entries = file.tensors.map(async (tensor) => {
    const bytes = await readTensor(file, tensor);
    return [tensor.name, Buffer.from(bytes)] as const;
  });
  return new Map(await Promise.all(entries));
}

describe("a run that is stopped", () => {
  let whole: TrainResult;
  beforeAll(async () => {
    out = join(root, "whole-partition");
    whole = await go(partition());
  });

  const streams = () => [
    { batches: batches("language"), trained: new Set(["model.layers.2.mlp.up_proj.weight", "model.norm.weight"]) },
    { batches: batches("task"), trained: new Set(["model.layers.1.mlp.up_proj.weight", "lm_head.weight"]) },
  ];
  const trained = new Set(streams().flatMap((stream) => [...stream.trained]));
  const partition = () => ({ streams: streams(), trained, run: runOf({ accumulation: 2 }) });

  it.each([1, 4, 6, 11])("after step %i resumes to the same bytes", async (step) => {
    const stopped = await stopAfter(step, partition());
    expect(stopped).toBeInstanceOf(CancelledError);
    expect(stopped).toMatchObject({ message: `stopped after step ${step} of 12`, where: { option: "resume" } });
    if (step === 4) await stopAfter(7, { ...partition(), resume: true }); // and again
    const resumed: number[] = [];
    const result = await go({ ...partition(), resume: true, onResume: (at) => resumed.push(at.step) });
    expect(resumed).toEqual([step === 4 ? 7 : step]);
    expect(left()).toEqual(left(join(root, "whole-partition")));
    expect(result).toMatchObject({ resumed: true, loss: whole.loss, bestLoss: whole.bestLoss, tokens: whole.tokens });
    expect(readdirSync(join(out, "state"))).toHaveLength(1);
  });

  it("with factors, of which some inputs are dropped, resumes to the same bytes", async () => {
    const chosen = new Set([...source.tensors.keys()].filter((name) => /layers\.[12].*q_proj/.test(name)));
    const factors = { rank: 2, alpha: 4, rank_stabilised: false, dropout: 0.3 };
    const lora = () => ({
      trained: chosen,
      lora: planLora(chosen, source, factors),
      run: runOf({ accumulation: 2 }),
    });
    await go(lora());
    const undisturbed = left();
    out += "-stopped";
    await stopAfter(8, lora());
    await go({ ...lora(), resume: true });
    expect(left()).toEqual(undisturbed);
    expect(Object.keys(undisturbed)).toContain("checkpoint-48/adapter_model.safetensors");
  });

  it("is at its end at once when all was done, and cleans up what a kill left behind", async () => {
    cpSync(join(root, "whole"), out, { recursive: true, verbatimSymlinks: true });
    // As if killed between the last state and what follows it.
    for (const name of ["last", "best"]) rmSync(join(out, name));
    cpSync(join(out, "checkpoint-24"), join(out, "checkpoint-18"), { recursive: true });
    cpSync(join(out, "checkpoint-24"), join(out, "checkpoint-30.layergraft-partial"), { recursive: true });
    const result = await go({ resume: true });
    expect(result).toMatchObject({ resumed: true, steps: 12, loss: null });
    expect(left()).toEqual(wanted);
  });

  it("saves its last checkpoint again, from the state, where it is to be saved in another type", async () => {
    await go({ run: runOf({ save_dtype: "bfloat16" }) });
    const result = await go({ run: runOf({ save_dtype: "float32" }), resume: true });
    expect(result).toMatchObject({ resumed: true, steps: 12, last: join(out, "checkpoint-24"), kept: null });
    const ofLast = (all: Record<string, string>) =>
      Object.entries(all).filter(([name]) => name.startsWith("checkpoint-24/"));
    const found = ofLast(left());
    out = join(root, "wide");
    await go({ run: runOf({ save_dtype: "float32" }) });
    expect(found).toEqual(ofLast(left()));
    expect(found.map(([name]) => name)).toContain("checkpoint-24/model.safetensors");
  });

  // transformers #48319: such a run crashed at its end.
  it("resumes without a best checkpoint that was deleted meanwhile", async () => {
    cpSync(join(root, "whole"), out, { recursive: true, verbatimSymlinks: true });
    rmSync(join(out, readlinkSync(join(out, "best"))), { recursive: true });
    const result = await go({ resume: true });
    expect(result).toMatchObject({ resumed: true, best: null, last: join(out, "checkpoint-24") });
    expect(readdirSync(out)).toEqual(["checkpoint-24", "last", "log.jsonl", "state"]);
  });

  it("before its first state starts again", async () => {
    cpSync(join(root, "whole"), out, { recursive: true, verbatimSymlinks: true });
    rmSync(join(out, "state"), { recursive: true });
    // The links are made after the state: a kill in between leaves neither.
    rmSync(join(out, "last"));
    rmSync(join(out, "best"));
    writeFileSync(join(out, "log.jsonl"), '{"step":1,"samp');
    expect(await go({ resume: true })).toMatchObject({ resumed: false });
    expect(left()).toEqual(wanted);
  });

  describe("before its first checkpoint", () => {
    const unhurried = () => ({ run: runOf({ checkpoints: { every_samples: 1000 } }), holdout: [] });
    /** Trains on a clock of which each step takes half a minute, and fails after a step without saving anything more. */
    const failAfter = (step: number, before: () => void = () => {}) => {
      let clock = 0;
      const spy = vi.spyOn(performance, "now").mockImplementation(() => clock);
      const onProgress = (progress: TrainProgress) => {
        clock += 30_000;
        if (progress.step === 1) before();
        if (progress.step === step) throw new Error("killed");
      };
      return go({ ...unhurried(), onProgress }).finally(() => spy.mockRestore());
    };

    it("resumes to the same bytes from a state that was written while it went on", async () => {
      await go(unhurried());
      const undisturbed = left();
      out += "-killed";
      await expect(failAfter(6)).rejects.toThrow("killed");
      expect(checkpoints()).toEqual([]);
      const at: number[] = [];
      await go({ ...unhurried(), resume: true, onResume: ({ step }) => at.push(step) });
      expect(at[0]).toBeGreaterThanOrEqual(1);
      expect(at[0]).toBeLessThan(6);
      expect(left()).toEqual(undisturbed);
    });

    it("says that a state could not be written", async () => {
      const inTheWay = () => writeFileSync(join(out, "state"), "");
      await expect(failAfter(13, inTheWay)).rejects.toMatchObject({
        code: "output",
        message: expect.stringContaining(join(out, "state")),
      });
    });
  });

  it("does not resume with another configuration, other inputs, or without its state", async () => {
    await stopAfter(3);
    const before = left();
    // Digests of a base take minutes, so what is refused without them is refused first.
    const readBase = vi.fn(async () => ({ base: "ffff" }));
    const inputs = { data: { data: "0a1b" }, base: readBase };
    await expect(go({ run: runOf({ optimizer: { lr: 1 } }), inputs, resume: true })).rejects.toThrow(
      /can only resume unchanged.*\n {2}- optimizer\.lr was 0\.005 and is 1$/,
    );
    await expect(go({ inputs })).rejects.toMatchObject({ where: { option: "resume" } });
    await expect(go({ inputs: { ...inputs, data: { data: "ffff" } }, resume: true })).rejects.toThrow(
      /can only resume unchanged.*\n {2}- data has changed since$/,
    );
    expect(readBase).not.toHaveBeenCalled();
    await expect(go({ inputs, resume: true })).rejects.toThrow(/can only resume unchanged.*\n {2}- base /);
    expect(left()).toEqual(before);
    cpSync(join(root, "whole"), `${out}-stateless`, { recursive: true, verbatimSymlinks: true });
    out += "-stateless";
    rmSync(join(out, "state"), { recursive: true });
    await expect(go({ resume: true })).rejects.toMatchObject({ where: { option: "force" } });
  });

  it("is replaced with force, apart from files that are not its own, and only by a run that can start", async () => {
    await stopAfter(7);
    writeFileSync(join(out, "notes.txt"), "mine");
    const before = left();
    const impossible = { trained: new Set(["no.such.tensor"]) };
    await expect(go({ ...impossible, force: true })).rejects.toThrow(/no\.such\.tensor/);
    expect(left()).toEqual(before);
    await go({ force: true, settings: { ...settings, steps: 1 }, holdout: [] });
    expect(Object.keys(left()).filter((name) => !name.includes("/"))).toEqual(
      expect.arrayContaining(["last", "log.jsonl", "notes.txt"]),
    );
    expect(checkpoints()).toEqual(["checkpoint-2"]);
  });
});

describe("what goes wrong", () => {
  /** The base, whose last token is nowhere. */
  async function poisoned(): Promise<Partial<TrainOptions>> {
    const folder = join(root, "poisoned");
    cpSync(BASE, folder, { recursive: true });
    const path = join(folder, "model.safetensors");
    const file = await openSafetensors(path);
    const table = file.tensors.find(({ name }) => name === "model.embed_tokens.weight");
    const bytes = readFileSync(path);
    bytes.writeFloatLE(Number.POSITIVE_INFINITY, (table?.offset ?? 0) + VOCABULARY * 16 * 4);
    writeFileSync(path, bytes);
    const plan = await planRecipe({ method: "soup", models: [folder] });
    return { base: plan, source: await openModelSource(plan) };
  }

  it("a loss that is not a number: the batch is named, and the last good checkpoint stays", async () => {
    const where = await poisoned();
    const one = (at: number) => (at === 7 ? VOCABULARY : undefined);
    const bad = () => ({ ...where, streams: [{ batches: batches("data", one) }] });
    const diverged = /^at step 8 the loss is NaN, in batch 8 of data; the step was not made\. Earlier checkpoints stay/;
    await expect(go(bad())).rejects.toThrow(diverged);
    await expect(go(bad())).rejects.toMatchObject({ code: "output" });
    expect(checkpoints()).toContain("checkpoint-12");
    expect(logLines().filter(({ loss }) => loss !== undefined)).toHaveLength(7);
    const before = left();
    await expect(go({ ...bad(), resume: true })).rejects.toThrow(diverged);
    expect(left()).toEqual(before);
    // Of several batches, only those whose loss it is.
    out += "-two";
    const two = { ...bad(), run: runOf({ accumulation: 2 }) };
    await expect(go(two)).rejects.toMatchObject({
      code: "diverged",
      message: expect.stringMatching(/in batch 8 of data;/),
    });
    // On held-out data it is found out at the first measurement.
    out += "-held";
    const held = { ...where, holdout: [batchOf("held 1", VOCABULARY)] };
    await expect(go(held)).rejects.toThrow(/^after step 2 the held-out loss is NaN\. Earlier checkpoints/);
  });

  it("a full disk at a checkpoint: the former one stays, and the run resumes when there is room", async () => {
    const full = Object.assign(new Error("no space"), { code: "ENOSPC", syscall: "write" });
    const { writeSharded } = writer;
    let writes = 0;
    const spy = vi.spyOn(writer, "writeSharded").mockImplementation((...args) => {
      if (++writes < 5) return writeSharded(...args);
      return writeSharded(...args).then(() => Promise.reject(full));
    });
    const failed = await go().catch((error: unknown) => error);
    spy.mockRestore();
    expect(failed).toBeInstanceOf(DiskFullError);
    expect((failed as Error).message).toMatch(/no room for the checkpoint .*; free some space, then resume/);
    expect(checkpoints().length).toBeGreaterThan(0);
    expect(readdirSync(out).filter((name) => name.endsWith("partial"))).toEqual([]);
    for (const name of checkpoints()) expect(readdirSync(join(out, name))).toContain("model.safetensors");
    await go({ resume: true });
    expect(left()).toEqual(wanted);
  });

  it("another process that uses the folder; a stale lock is taken over", async () => {
    await stopAfter(1);
    const { hostname } = await import("node:os");
    const lock = join(out, ".layergraft-lock");
    const held = await takeLock(out);
    await expect(go({ resume: true })).rejects.toThrow(/is locked by process \d+ on .*; wait for it to finish, or/);
    await held.release();
    writeFileSync(lock, JSON.stringify({ host: hostname(), pid: 999999999, born: "1" }));
    await go({ resume: true });
    expect(readdirSync(out)).not.toContain(".layergraft-lock");
  });

  it("a folder that is not a run, and a base inside the output folder", async () => {
    const inside = join(out, "checkpoint-2");
    await go({ settings: { ...settings, steps: 1 }, holdout: [] });
    const plan = await planRecipe({ method: "soup", models: [inside] });
    const inFolder = { base: plan, source: await openModelSource(plan), force: true };
    await expect(go(inFolder)).rejects.toThrow(/checkpoint-2 is inside the output folder /);
    expect(checkpoints()).toEqual(["checkpoint-2"]);
    out = join(root, "poisoned");
    await expect(go({ force: true })).rejects.toThrow(
      /poisoned is not empty and has no training run in it, but .*\. Choose another folder/,
    );
  });
});
