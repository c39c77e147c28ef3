// What is handed to TRL: every sequence, label and group by value, and what is refused by name. That its Python really
// trains: test/trl-python.test.ts, and to the weights of plain PyTorch by hand, test/reference/check_trl.py.
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { type ModelSource, openModelSource } from "../../engine/model-source.js";
import { openSafetensors } from "../../formats/safetensors/reader.js";
import { CancelledError, OutputError, RecipeError } from "../../kit/errors.js";
import { planLora } from "../loop/lora.js";
import type { TrainingBatch, TrainingStream } from "../loop/training-types.js";
import { checkRun } from "../run/run-file.js";
import { resolveSelection } from "../run/selection.js";
import { TRL_FILES, type TrlRun, type WriteTrlOptions, writeTrlRun } from "./write.js";

const BASE = join(import.meta.dirname, "../../../test/fixtures/train/runs/base");

let root: string;
let source: ModelSource;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "layergraft-trl-"));
  source = await openModelSource(BASE);
});
afterEach(() => rm(root, { recursive: true, force: true }));

const select = (text: string) => resolveSelection(text, { tensors: source.tensors, layers: 3 });

const weights = () =>
  [...source.tensors.values()].reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0);

/** Two rows: one of a whole width, and one padded, or packed with two samples. */
function batch(number: number, packed = false): TrainingBatch {
  const first = 10 * number;
  const [a, b, c, d] = [first, first + 1, first + 2, first + 3] as const;
  return {
    ...{ rows: 2, time: 4, samples: packed ? 3 : 2, tokens: packed ? 8 : 6, name: `batch ${number}` },
    ids: Int32Array.of(a, b, c, d, a, b, packed ? c : 0, packed ? d : 0),
    labels: Int32Array.of(-1, c, d, -1, b, -1, packed ? d : -1, -1),
    segments: Int32Array.of(1, 1, 1, 1, 1, 1, packed ? 2 : 0, packed ? 2 : 0),
    positions: Int32Array.of(0, 1, 2, 3, 0, 1, 0, packed ? 1 : 0),
  };
}

function stream(name: string, trained?: ReadonlySet<string>, packed = false): TrainingStream {
  let at = 0;
  const batches = {
    ...{ name, next: () => batch(at++, packed), position: () => at },
    seek: (to: unknown) => {
      at = Number(to);
    },
  };
  return { batches, trained };
}

const runOf = (changes: object = {}) =>
  checkRun({
    ...{ base: "b", out: "o", data: "d.jsonl", optimizer: { lr: 1e-3, clip: false }, accumulation: 2, seed: 5 },
    ...{ holdout: { samples: 1 }, checkpoints: { every_samples: 10, keep: "all" }, ...changes },
  });

function training(changes: Partial<TrlRun> = {}): TrlRun {
  return {
    ...{ run: runOf(), source, streams: [stream("data")], trained: select("all"), holdout: [] },
    settings: {
      ...{ learningRate: 1e-3, steps: 3, evaluateEvery: 4, sequenceLength: 4, sequencesPerStep: 4, notes: [] },
      schedule: { kind: "linear", warmup: 1, decay_share: 0.2, decay_shape: "1-sqrt", floor: 0 },
    },
    ...changes,
  };
}

const write = (changes: Partial<TrlRun> = {}, options: Partial<WriteTrlOptions> = {}) =>
  writeTrlRun({ folder: join(root, "run"), training: training(changes), ...options });

const text = (name: string) => readFile(join(root, "run", name), "utf8");
const json = async (name: string) => JSON.parse(await text(name)) as Record<string, unknown>;
const lines = async (name: string) =>
  (await text(name))
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as object);

describe("writeTrlRun", () => {
  it("writes the sequences in their order, labels where transformers looks for them, no padding", async () => {
    const written = await write();
    expect(written.memory).toEqual({ bfloat16: 8 * weights(), float32: 16 * weights() });
    expect(written).toMatchObject({ sequences: 12, tokens: 36, folder: join(root, "run") });
    const data = await lines(TRL_FILES.data);
    expect(data).toHaveLength(12);
    expect(data.slice(0, 2)).toEqual([
      { input_ids: [0, 1, 2, 3], labels: [-100, -100, 2, 3] },
      { input_ids: [0, 1], labels: [-100, 1] },
    ]);
    expect(data[10]).toEqual({ input_ids: [50, 51, 52, 53], labels: [-100, -100, 52, 53] });
    expect(await json(TRL_FILES.steps)).toEqual({ samples: [4, 8, 12], tokens: [12, 24, 36], rates: [1, 1, 0.5] });
    expect((await readdir(root)).sort()).toEqual(["run"]);
  });

  it("writes all that the script reads", async () => {
    const holdout = [batch(7)];
    const run = runOf({ early_stopping: { patience: 2, least: 0.01 }, threads: 3 });
    await write({ run, holdout, revert: select("layers 1") });
    const found = await json(TRL_FILES.run);
    expect(found).toMatchObject({
      ...{ base: BASE, lora: false, streams: ["data"], steps: 3, batch: 2, sequences_per_step: 4, learning_rate: 1e-3 },
      ...{
        packing: false,
        holdout: true,
        evaluate_every: 4,
        patience: 2,
        least: 0.01,
        checkpoint_every: 10,
        keep: "all",
      },
      ...{ save_dtype: "float32", seed: 5, threads: 3, precision: "auto", gradient_checkpointing: false, pad: 0 },
      optimizer: { betas: [0.9, 0.99], eps: 1e-8, clip: null },
      reverted: [...select("layers 1")],
      configuration: run,
    });
    const groups = found.groups as { decay: number; names: string[]; streams: number[] }[];
    expect(groups.map(({ decay, streams }) => [decay, streams])).toEqual([
      [0.1, [0]],
      [0, [0]],
    ]);
    expect(groups[1]?.names.every((name) => name.includes("norm"))).toBe(true);
    expect(groups.flatMap(({ names }) => names).sort()).toEqual([...select("all")].sort());
    expect(await lines(TRL_FILES.holdout)).toHaveLength(2);
    // What the entry asks of run.json is there.
    const asked = [...(await text(TRL_FILES.entry)).matchAll(/RUN\["(\w+)"\]/g)].map(([, name]) => name);
    expect(asked.filter((name) => !Object.hasOwn(found, name ?? ""))).toEqual([]);
  });

  it("keeps the parts of two streams apart, and takes turns", async () => {
    const [outer, inner] = [select("layers 0, 2"), select("layers 1")];
    const streams = [stream("language", outer), stream("task", inner)];
    await write({ streams, trained: select("layers") });
    const groups = (await json(TRL_FILES.run)).groups as { decay: number; names: string[]; streams: number[] }[];
    expect(groups.map(({ decay, streams: own }) => `${decay} ${own}`).sort()).toEqual(["0 0", "0 1", "0.1 0", "0.1 1"]);
    for (const { names, streams: own } of groups) {
      expect(names.every((name) => (own[0] === 0 ? outer : inner).has(name))).toBe(true);
    }
    const first = (await lines(TRL_FILES.data)).map((line) => (line as { input_ids: number[] }).input_ids[0]);
    // Steps 0 and 2 have batches 0 to 3 of the first stream, step 1 batches 0 and 1 of the second.
    expect(first).toEqual([0, 0, 10, 10, 0, 0, 10, 10, 20, 20, 30, 30]);
  });

  it("gives packed samples their positions", async () => {
    await write({ run: runOf({ packing: true }), streams: [stream("data", undefined, true)] });
    expect((await lines(TRL_FILES.data))[1]).toEqual({
      ...{ input_ids: [0, 1, 2, 3], labels: [-100, 1, -100, 3], position_ids: [0, 1, 0, 1] },
    });
    await expect(
      write({ streams: [stream("data", undefined, true)] }, { folder: join(root, "other") }),
    ).rejects.toThrow("holds several samples");
  });

  it("starts LoRA from the factors that the engine would start from", async () => {
    const plan = planLora(select("q_proj of layers 0-1"), source, {
      ...{ rank: 2, alpha: 4, rank_stabilised: true, dropout: 0.1 },
    });
    const { memory } = await write({ lora: plan });
    // Weights, and for each factor 4 bytes of itself, its gradient and two moments.
    const factors = plan.modules.reduce((sum, one) => sum + 2 * (one.in + one.out), 0);
    expect(memory).toEqual({ bfloat16: 2 * weights() + 16 * factors, float32: 4 * weights() + 16 * factors });
    const { tensors } = await openSafetensors(join(root, "run", TRL_FILES.adapter, "adapter_model.safetensors"));
    const groups = (await json(TRL_FILES.run)).groups as { names: string[] }[];
    expect(groups.flatMap(({ names }) => names).sort()).toEqual(tensors.map(({ name }) => name).sort());
    expect(tensors).toHaveLength(4);
    expect(await json(TRL_FILES.run)).toMatchObject({ lora: true, save_dtype: "float32" });
    const config = await json(join(TRL_FILES.adapter, "adapter_config.json"));
    expect(config).toMatchObject({ r: 2, lora_dropout: 0.1, layers_to_transform: [0, 1] });
  });

  it("writes the configuration of accelerate: alone, and sharded", async () => {
    await write();
    // As PyYAML reads it, for which an unquoted no is false.
    const read = (written: string): unknown => parse(written, { version: "1.1" });
    expect(read(await text(TRL_FILES.accelerate))).toEqual({
      ...{ compute_environment: "LOCAL_MACHINE", distributed_type: "NO", mixed_precision: "no" },
      ...{ num_machines: 1, num_processes: 1, machine_rank: 0, main_training_function: "main" },
    });
    const cluster = { processes: 2, machines: 2, precision: "mixed" as const };
    await write({}, { folder: join(root, "run2"), cluster });
    expect(read(await readFile(join(root, "run2", TRL_FILES.accelerate), "utf8"))).toMatchObject({
      ...{ distributed_type: "FSDP", num_processes: 4, num_machines: 2, mixed_precision: "bf16" },
      fsdp_config: { fsdp_version: 2 },
    });
  });

  it("refuses what TRL cannot follow, all at once", async () => {
    const adapter = join(import.meta.dirname, "../../../test/fixtures/train/runs/lora-start");
    const adapted = await openModelSource(`${BASE}+${adapter}`);
    const mixed = new Map(
      [...adapted.tensors].map(([name, step], i) => [name, { ...step, dtype: i ? step.dtype : "BF16" }] as const),
    );
    const failed = write({ source: { ...adapted, tensors: mixed } }, { cluster: { processes: 3 } });
    await expect(failed).rejects.toThrow(RecipeError);
    await expect(failed).rejects.toThrow(
      /- base: it is made of several checkpoints or has an adapter.*\n.*- batch and accumulation: 3 processes cannot share the 4 sequences.*\n.*- save_dtype: the base has tensors of bfloat16 and float32/,
    );
    expect(await readdir(root)).toEqual([]);
  });

  // Packed by transformers 5.24, their losses differ by up to 1e-2 (test/reference/check_trl_families.py packed).
  it.each(["gpt_oss", "lfm2", "qwen3_next", "granitemoehybrid-rope", "falcon_h1", "nemotron_h"])(
    "refuses packed samples of %s, which transformers does not keep apart",
    async (family) => {
      const one = await openModelSource(join(import.meta.dirname, "../../../test/fixtures/decoders", family));
      const packed = { source: one, trained: new Set<string>(), streams: [stream("data", undefined, true)] };
      await expect(write({ ...packed, run: runOf({ packing: true }) })).rejects.toThrow(
        `packing: transformers does not keep packed samples of ${one.config.modelType} models apart; set it to false`,
      );
      await expect(write({ ...packed, streams: [stream("data")] })).resolves.toBeDefined();
    },
  );

  it("leaves nothing half done, and keeps files that are there", async () => {
    await expect(write({}, { signal: AbortSignal.abort() })).rejects.toThrow(CancelledError);
    expect(await readdir(root)).toEqual([]);
    await mkdir(join(root, "run"));
    await writeFile(join(root, "run", "mine"), "");
    await expect(write()).rejects.toThrow(OutputError);
    expect(await readdir(join(root, "run"))).toEqual(["mine"]);
    await expect(write({}, { force: true })).rejects.toThrow("contains other files (mine), so it is not replaced");
  });

  it("replaces a run that was not trained where it is asked to, and no checkpoints", async () => {
    await mkdir(join(root, "run"));
    await write();
    const files = await readdir(join(root, "run"));
    await expect(write()).rejects.toMatchObject({ where: { option: "force" } });
    await write({}, { force: true });
    expect(await readdir(join(root, "run"))).toEqual(files);
    await mkdir(join(root, "run", "out"));
    await writeFile(join(root, "run", "out", "adapter_model.safetensors"), "");
    await expect(write({}, { force: true })).rejects.toThrow("contains other files (out/adapter_model.safetensors)");
  });
});
