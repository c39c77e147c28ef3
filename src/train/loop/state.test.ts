// States there and back, to the bit; that a whole one is there whatever happens to the next; and damage, which is named.
// Not a test of a run that resumes: that is the trainer's.
import { mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import * as writer from "../../formats/safetensors/writer.js";
import { DiskFullError } from "../../kit/errors.js";
import { Optimizer } from "./optimizer.js";
import { findState, type Progress, restoreParameters, type StateToWrite, writeState } from "./state.js";

vi.mock(import("../../formats/safetensors/writer.js"), async (original) => ({ ...(await original()) }));

const SHAPES = [
  { name: "model.a.weight", shape: [3, 5] },
  { name: "model.b.weight", shape: [7] },
];
const settings = { betas: [0.9, 0.99], eps: 1e-8, decay: 0, decay_all: false, clip: 1 } as const;
const progress: Progress = {
  ...{ step: 12, samples: 48, tokens: 4096, position: [{ epoch: 1, at: 7 }], logBytes: 321 },
  ...{ best: { score: 1.25, samples: 40 }, sinceBest: 1 },
};

let states: string;
let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "layergraft-state-"));
  states = join(root, "states");
});
afterEach(() => rm(root, { recursive: true, force: true }));

/** An optimizer some steps on; what it holds depends on `seed`. */
function optimizer(seed: number, shapes = SHAPES): Optimizer {
  const one = new Optimizer(shapes, settings);
  for (let step = 0; step < 3; step++) {
    for (const [i, { name, gradient, weights }] of [...one.parameters.values()].entries()) {
      if (step === 0) weights.set(weights.map((_, at) => Math.sin(seed + at + i)));
      gradient.set(gradient.map((_, at) => Math.cos(seed * at + step) / 3));
      if (i === 0 || step > 0) one.wrote(name); // the second makes a step less
    }
    one.step({ learningRate: 0.01 });
  }
  return one;
}

const arraysOf = (one: Optimizer) =>
  [...one.parameters.values()].map(({ name, weights, first, second, steps }) => ({
    name,
    weights,
    first,
    second,
    steps,
  }));

function state(one: Optimizer, changes: Partial<Progress> = {}): StateToWrite {
  const configuration = { base: "org/base", optimizer: { lr: 0.01 } };
  return {
    ...{ progress: { ...progress, ...changes }, configuration, inputs: { base: "0a1b" } },
    parameters: one.parameters.values(),
  };
}

describe("writeState and findState", () => {
  it("read a state of 1.0, which had the length of an event file besides", async () => {
    await writeState(states, state(optimizer(1), { eventBytes: 99 } as Partial<Progress>));
    expect((await findState(states))?.progress).toEqual(progress);
  });

  it("give back all of it, to the bit", async () => {
    const before = optimizer(1);
    const folder = await writeState(states, state(before));
    const found = await findState(states);
    if (!found) throw new Error("no state");
    expect(found.folder).toBe(folder);
    expect(found.progress).toEqual(progress);
    expect(found.configuration).toEqual({ base: "org/base", optimizer: { lr: 0.01 } });
    expect(found.inputs).toEqual({ base: "0a1b" });
    const after = optimizer(2);
    expect(arraysOf(after)).not.toEqual(arraysOf(before));
    await restoreParameters(found, after.parameters);
    expect(arraysOf(after)).toEqual(arraysOf(before));
    expect(arraysOf(after).map(({ steps }) => steps)).toEqual([3, 2]);
  });

  it("keep parameters and inputs that are called as members of every object", async () => {
    const shapes = ["__proto__", "constructor"].map((name) => ({ name, shape: [2] }));
    const inputs = JSON.parse('{"__proto__":"0a1b","toString":"2c"}') as Record<string, string>;
    await writeState(states, { ...state(optimizer(1, shapes)), inputs });
    const found = await findState(states);
    if (!found) throw new Error("no state");
    expect(Object.entries(found.inputs).sort()).toEqual([
      ["__proto__", "0a1b"],
      ["toString", "2c"],
    ]);
    const after = optimizer(2, shapes);
    await restoreParameters(found, after.parameters);
    expect(arraysOf(after)).toEqual(arraysOf(optimizer(1, shapes)));
  });

  it("keep the newest, and nothing that was half there", async () => {
    expect(await findState(states)).toBe(undefined);
    await writeState(states, state(optimizer(1), { step: 10 }));
    await writeState(states, state(optimizer(1), { step: 12 }));
    await writeState(states, state(optimizer(1), { step: 11 })); // of a run that went back to an earlier step
    expect(await readdir(states)).toEqual(["state-3"]);
    expect((await findState(states))?.progress.step).toBe(11);
    // What a killed process leaves: a folder that never got its name, and states that were not removed yet.
    await mkdir(join(states, "state-4.layergraft-partial"));
    await writeFile(join(states, "state-4.layergraft-partial", "state.json"), "{");
    await mkdir(join(states, "state-2"));
    expect((await findState(states))?.progress.step).toBe(11);
    await writeState(states, state(optimizer(1), { step: 13 }));
    expect(await readdir(states)).toEqual(["state-4"]);
    expect((await findState(states))?.progress.step).toBe(13);
  });

  it("leave the former state when the disk is full", async () => {
    await writeState(states, state(optimizer(1)));
    const full = Object.assign(new Error("no space"), { code: "ENOSPC", syscall: "write" });
    const spy = vi.spyOn(writer, "writeSafetensors").mockRejectedValueOnce(full);
    const failed = writeState(states, state(optimizer(1), { step: 99 }));
    await expect(failed).rejects.toThrow(DiskFullError);
    await expect(failed).rejects.toThrow(/no room for the state of step 99 .*; free some space, then resume/);
    spy.mockRestore();
    expect(await readdir(states)).toEqual(["state-1"]);
    expect((await findState(states))?.progress.step).toBe(12);
  });

  it("name what is damaged", async () => {
    const folder = await writeState(states, state(optimizer(1)));
    const page = join(folder, "state.json");
    const text = await readFile(page, "utf8");
    await writeFile(page, text.replace('"tokens": 4096', '"tokens": -1'));
    await expect(findState(states)).rejects.toThrow(/state\.json is damaged: progress\.tokens\. Remove/);
    await writeFile(page, text.replace('"version": 1', '"version": 7'));
    await expect(findState(states)).rejects.toThrow(/has version 7, but this layergraft reads version 1/);
    await writeFile(page, text.slice(0, 100));
    await expect(findState(states)).rejects.toThrow(/is not valid JSON/);
    await expect(findState(states)).rejects.toThrow(`. Remove ${folder} to start again.`);
    await writeFile(page, text);
    await truncate(join(folder, "tensors.safetensors"), 500);
    await expect(findState(states)).rejects.toThrow(/tensors\.safetensors is cut off/);
    await expect(findState(states)).rejects.toThrow(`. Remove ${folder} to start again.`);
  });
});

describe("restoreParameters", () => {
  it("takes the state of exactly these parameters, or changes nothing", async () => {
    await writeState(states, state(optimizer(1)));
    const found = await findState(states);
    if (!found) throw new Error("no state");
    const cases: [typeof SHAPES, RegExp][] = [
      [SHAPES.slice(1), /weights.model.a.weight is not trained now/],
      [[...SHAPES, { name: "c", shape: [1] }], /weights.c is missing, first.c is missing/],
      [[{ name: "model.a.weight", shape: [5, 3] }, ...SHAPES.slice(1)], /is F32 \[3, 5\], not F32 \[5, 3\]/],
    ];
    for (const [shapes, message] of cases) {
      const other = optimizer(2, shapes);
      const before = structuredClone(arraysOf(other));
      await expect(restoreParameters(found, other.parameters)).rejects.toThrow(message);
      expect(arraysOf(other)).toEqual(before);
    }
  });
});
