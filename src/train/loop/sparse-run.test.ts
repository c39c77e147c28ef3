// Runs of sparse fine-tuning on a tiny Llama, against dense runs and a plain second phase.
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { CancelledError } from "../../core/errors.js";
import { Random } from "../../core/random.js";
import { type ModelSource, openModelSource } from "../../engine/index.js";
import { type OpenedPlan, planRecipe } from "../../merge/index.js";
import { openSafetensors, readTensor } from "../../weights/index.js";
import { adamwCoefficients } from "../../weights/kernels/adamw.js";
import { adamw } from "../../weights/kernels/plain-training.test-util.js";
import { checkRun } from "../run/run-file.js";
import { clipFactor, Optimizer } from "./optimizer.js";
import { type TokenBatch, TrainableDecoder } from "./trainable.js";
import { train } from "./trainer.js";
import type { BatchSource, TrainOptions, TrainResult } from "./training-types.js";

const BASE = join(import.meta.dirname, "../../../test/fixtures/train/runs/base");
const [ROWS, TIME, VOCABULARY, STEPS] = [2, 10, 47, 6];
const KEEP = 0.05;

let root: string;
let base: OpenedPlan;
let source: ModelSource;
let trained: ReadonlySet<string>;

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), "layergraft-sparse-"));
  base = await planRecipe({ method: "soup", models: [BASE] });
  source = await openModelSource(base);
  trained = new Set(
    [...source.tensors.keys()].filter((name) => name.includes(".layers.2.") || name === "lm_head.weight"),
  );
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

function batchOf(at: number): TokenBatch {
  const random = Random.of(`batch ${at}`, "tokens");
  const ids = Int32Array.from({ length: ROWS * TIME }, () => random.below(VOCABULARY));
  return {
    ...{ rows: ROWS, time: TIME, ids, segments: new Int32Array(ids.length).fill(1) },
    positions: ids.map((_, i) => i % TIME),
    labels: ids.map((_, i) => (i % TIME === TIME - 1 ? -1 : (ids[i + 1] as number))),
  };
}

function batches(): BatchSource {
  let at = 0;
  return {
    name: "data",
    next: () => ({ ...batchOf(at++), samples: ROWS, tokens: ROWS * TIME, name: `batch ${at}` }),
    position: () => ({ at }),
    seek: (position) => {
      at = (position as { at: number }).at;
    },
  };
}

const runOf = (changes: object) =>
  checkRun({
    ...{ base: "base", out: "out", data: "data.jsonl", optimizer: { lr: 5e-3, clip: 0.5 }, seed: 5, threads: 1 },
    ...{ save_dtype: "float32", checkpoints: { every_samples: 6 }, holdout: { samples: 2 }, ...changes },
  });

const optionsOf = (name: string, changes: object, more: Partial<TrainOptions> = {}): TrainOptions => ({
  ...{ run: runOf(changes), base, source, baseName: BASE, out: join(root, name), trained, inputs: {} },
  ...{ streams: [{ batches: batches() }], holdout: [batchOf(100)] },
  settings: {
    ...{ learningRate: 5e-3, steps: STEPS, evaluateEvery: 4, sequenceLength: TIME, sequencesPerStep: ROWS, notes: [] },
    schedule: { kind: "linear", warmup: 2, decay_share: 0.2, decay_shape: "1-sqrt", floor: 0 },
  },
  ...more,
});

async function floatsOf(folder: string): Promise<Map<string, Float32Array>> {
  const file = await openSafetensors(join(folder, "model.safetensors"));
  const entries = file.tensors.map(
    async (tensor) => [tensor.name, new Float32Array((await readTensor(file, tensor)).slice().buffer)] as const,
  );
  return new Map(await Promise.all(entries));
}

/** Everything in a folder but the number of its state. */
function left(name: string): Record<string, string> {
  const folder = join(root, name);
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(
    files.map((entry) => {
      const path = join(entry.parentPath, entry.name);
      const digest = createHash("sha256").update(readFileSync(path)).digest("hex");
      return [path.slice(folder.length + 1).replace(/^state\/state-\d+/, "state"), digest];
    }),
  );
}

/** The base in float32, and what a dense run makes of it. */
async function denseRun(): Promise<{ start: Map<string, Float32Array>; dense: TrainResult }> {
  const dense = await train(optionsOf("dense", {}));
  const model = await TrainableDecoder.open(source, { trained, threads: 1 });
  const optimizer = new Optimizer(model.parameters, runOf({}).optimizer);
  await model.initialise(optimizer, 5);
  await model.close();
  return { start: new Map([...optimizer.parameters].map(([name, { weights }]) => [name, weights])), dense };
}

it("trains the weights that a dense run changes most, as a plain loop does, and no other bit", async () => {
  const { start, dense } = await denseRun();
  const after = await floatsOf(dense.last);
  const changes = [...start].flatMap(([name, values]) =>
    Array.from(values, (value, i) => ({ name, i, size: Math.abs(Math.fround((after.get(name)?.[i] ?? 0) - value)) })),
  );
  const kept = Math.round(KEEP * changes.length);
  const largest = changes.toSorted((a, b) => b.size - a.size).slice(0, kept);
  const mask = new Map([...start].map(([name, values]) => [name, new Uint8Array(values.length)]));
  for (const { name, i } of largest) (mask.get(name) as Uint8Array)[i] = 1;

  const result = await train(optionsOf("sparse", { sparse: { keep: KEEP } }));
  expect(result.sparse).toEqual({ kept, of: changes.length });
  expect(result).toMatchObject({ steps: STEPS, samples: STEPS * ROWS });

  // The second phase in plain arithmetic, on every weight alone.
  const model = await TrainableDecoder.open(source, { trained, threads: 1 });
  const optimizer = new Optimizer(model.parameters, runOf({}).optimizer);
  await model.initialise(optimizer, 5);
  for (let step = 0; step < STEPS; step++) {
    optimizer.clear();
    const { labels } = await model.accumulate(batchOf(step), optimizer, { random: Random.of(5, "x") });
    let squares = 0;
    for (const [name, { gradient }] of optimizer.parameters) {
      gradient.forEach((g, i) => {
        if (mask.get(name)?.[i]) squares += g * g;
      });
    }
    const factor = clipFactor(Math.sqrt(squares) / labels, 0.5) / labels;
    // Two steps of warmup, then down to 0 at the end.
    const share = step < 2 ? (step + 1) / 2 : (STEPS - step) / (STEPS - 2);
    for (const [name, parameter] of optimizer.parameters) {
      const before = parameter.weights.slice();
      const settings = { learningRate: 5e-3 * share, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, step: step + 1 };
      const decay = parameter.shape.length > 1 ? 0.1 : 0;
      adamw(parameter, adamwCoefficients({ ...settings, decay, scale: factor }));
      parameter.weights.forEach((_, i) => {
        if (!mask.get(name)?.[i]) parameter.weights[i] = before[i] ?? 0;
      });
    }
  }
  await model.close();
  const ours = await floatsOf(result.last);
  let changed = 0;
  for (const [name, { weights }] of optimizer.parameters) {
    const found = ours.get(name) as Float32Array;
    weights.forEach((value, i) => {
      if (mask.get(name)?.[i]) {
        changed++;
        expect(Math.abs((found[i] ?? 0) - value)).toBeLessThan(2e-6);
      } else if (!Object.is(found[i], start.get(name)?.[i])) throw new Error(`${name}[${i}] changed`);
    });
  }
  expect(changed).toBe(kept);
});

it("that keeps everything is a dense run", async () => {
  const result = await train(optionsOf("all", { sparse: { keep: 1 } }));
  const [ours, theirs] = [await floatsOf(result.last), await floatsOf(join(root, "dense", "last"))];
  for (const [name, values] of theirs) expect(ours.get(name)).toEqual(values);
});

it.each([1, 3, STEPS, STEPS + 1, 2 * STEPS - 1])("resumes after step %i to the same bytes", async (step) => {
  const name = `stopped-${step}`;
  const controller = new AbortController();
  const onProgress = (progress: { readonly step: number; readonly steps: number }) => {
    expect(progress.steps).toBe(2 * STEPS);
    if (progress.step === step) controller.abort();
  };
  const changes = { sparse: { keep: KEEP } };
  const stopped = train(optionsOf(name, changes, { signal: controller.signal, onProgress }));
  await expect(stopped).rejects.toThrow(CancelledError);
  expect(await train(optionsOf(name, changes, { resume: true }))).toMatchObject({ resumed: true, steps: STEPS });
  expect(left(name)).toEqual(left("sparse"));
});

it("does not resume with another share", async () => {
  const resumed = train(optionsOf("sparse", { sparse: { keep: 0.5 } }, { resume: true }));
  await expect(resumed).rejects.toThrow(/sparse\.keep was 0\.05 and is 0\.5/);
});

it("is for full fine-tuning", () => {
  expect(() => runOf({ sparse: { keep: 0.1 }, method: "lora" })).toThrow(/sparse: cannot be used with method: lora/);
  expect(() => runOf({ sparse: { keep: 0 } })).toThrow(/keep/);
});
