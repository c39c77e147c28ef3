import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { writeInitialModel } from "../../../examples/miniature/world/untrained-model.js";
import { openCheckpoint } from "../../formats/checkpoint/index.js";
import { checkRun } from "../../train/index.js";
import { FileDigests } from "./file-digests.js";
import { runStepFolder } from "./run-step.js";
import type { TrainStep } from "./step.js";
import type { StepOrder } from "./step-state.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-train-step-"));
afterAll(() => rmSync(root, { recursive: true }));
const at = (...names: string[]) => join(root, ...names);
const KEY = "train-000000000000000000000000000000";
const folder = at("experiment", "steps", KEY);
const ROWS = Array.from({ length: 8 }, (_, i) => `${JSON.stringify({ p: `asha had ${i} bananas .`, r: `${i}` })}\n`);

beforeAll(() => writeInitialModel(at("base"), 1, { layers: 2, width: 16, heads: 2, feedForward: 32 }));

beforeEach(() => prepare());

async function prepare(fields: object = {}): Promise<void> {
  rmSync(at("experiment"), { recursive: true, force: true });
  writeFileSync(at("rows.jsonl"), ROWS.join(""));
  const run = {
    data: { source: "rows.jsonl", map: { prompt: "p", response: "r" } },
    ...{ optimizer: { lr: 1e-3 }, sequence_length: 32, batch: 4, samples: 8, ...fields },
  };
  const digests = new FileDigests();
  const identity = await digests.ofModel(await openCheckpoint(at("base")));
  const data = await digests.ofData(run, checkRun({ ...run, base: "base", out: "out" }), root);
  const step: TrainStep = {
    ...{ kind: "train", key: KEY, name: "math", label: "train math", needs: [], locations: {} },
    ...{ run: { ...run, base: identity }, data },
  };
  const order: StepOrder = {
    ...{ step, folders: { [identity]: at("base") } },
    settings: { folder: root, allowCode: false, threads: 1 },
  };
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "step.json"), JSON.stringify(order));
}

const changeRows = () => writeFileSync(at("rows.jsonl"), ROWS.join("").replace("asha had 3", "asha has 3"));

it("trains on unchanged data, even if their times change", async () => {
  const onProgress = () => utimesSync(at("rows.jsonl"), 1, 1);
  expect(await runStepFolder(folder, { onProgress })).toMatchObject({ kind: "train" });
});

it("does not start with data that changed since they were identified", async () => {
  changeRows();
  await expect(runStepFolder(folder)).rejects.toThrow(/the training data changed since the experiment was started/);
  expect(existsSync(join(folder, "run"))).toBe(false);
});

it("keeps nothing if data or base change meanwhile", async () => {
  await expect(runStepFolder(folder, { onProgress: changeRows })).rejects.toThrow(
    /the training data changed while the step ran, so its result was discarded/,
  );
  expect(existsSync(join(folder, "run"))).toBe(false);
  writeFileSync(at("rows.jsonl"), ROWS.join(""));

  const weights = at("base", "model.safetensors");
  const before = readFileSync(weights);
  const onProgress = () => writeFileSync(weights, Buffer.concat([before.subarray(0, -8), Buffer.alloc(8)]));
  await expect(runStepFolder(folder, { onProgress })).rejects.toThrow(/base changed while the step ran/);
  writeFileSync(weights, before);
  expect(await runStepFolder(folder)).toMatchObject({ kind: "train", checkpoints: [{ samples: 8 }] });
});

it("refuses a warmup that leaves too little of the run, before the first step", async () => {
  await prepare({ packing: true, schedule: { warmup: 3 } });
  await expect(runStepFolder(folder)).rejects.toThrow(
    /^warmup of 3 steps, run of 1 step: the rate ends at 3\.33e-4 of 1e-3 and never falls\. Packing makes few steps/,
  );
  expect(existsSync(join(folder, "run"))).toBe(false);
});

it("keeps the notes of an attempt in the step's folder, calls with each once, and has them in the result", async () => {
  await prepare({ sequence_length: 100_000, save_dtype: "bfloat16", optimizer: { lr: 1e-6 } });
  writeFileSync(join(folder, "notes.txt"), "of the attempt before\n");
  const notes: string[] = [];
  const result = await runStepFolder(folder, { onNote: (note) => notes.push(note) });
  expect(notes).toEqual([
    expect.stringMatching(/^sequence_length is 100000, but the model was trained on at most \d+ positions$/),
    expect.stringMatching(/^saving as bfloat16 keeps \d+\.\d% of the changed elements.*; .+ Set save_dtype: float32/),
  ]);
  expect(result.notes).toEqual(["of the attempt before", ...notes]);
  expect(readFileSync(join(folder, "notes.txt"), "utf8")).toBe(`${["of the attempt before", ...notes].join("\n")}\n`);
});

it("keeps what the verb warns of the data", async () => {
  await prepare({ sequence_length: 11 });
  const { notes } = await runStepFolder(folder);
  expect(notes).toEqual([expect.stringMatching(/examples are longer than 11 tokens and lose their end/)]);
});
