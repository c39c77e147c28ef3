// States that a thread writes: of the moment they were taken, one at a time, and problems that reach the run.
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { OutputError } from "../../kit/errors.js";
import { BackgroundStates } from "./background-states.js";
import { Optimizer } from "./optimizer.js";
import { findState, type Progress, restoreParameters } from "./state.js";

const SHAPES = [
  { name: "a", shape: [3, 5] },
  { name: "b", shape: [7] },
];
const settings = { betas: [0.9, 0.99], eps: 1e-8, decay: 0, decay_all: false, clip: 1 } as const;

let root: string;
let states: BackgroundStates;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "layergraft-background-"));
  states = new BackgroundStates(join(root, "states"));
});
afterEach(async () => {
  await states.close();
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  await rm(root, { recursive: true, force: true });
});

const fill = (optimizer: Optimizer, value: number) => {
  for (const { weights, first, second } of optimizer.parameters.values())
    for (const [i, array] of [weights, first, second].entries()) array.fill(value + i);
};

function stateOf(optimizer: Optimizer, step: number) {
  const progress: Progress = {
    ...{ step, samples: step, tokens: step, position: [], logBytes: 0, best: null, sinceBest: 0 },
  };
  return { progress, configuration: {}, inputs: {}, parameters: optimizer.parameters.values() };
}

async function saved(): Promise<{ step: number; weights: number[][] }> {
  const found = await findState(join(root, "states"));
  if (!found) throw new Error("no state");
  const optimizer = new Optimizer(SHAPES, settings);
  await restoreParameters(found, optimizer.parameters);
  const weights = [...optimizer.parameters.values()].flatMap(({ weights, first, second }) =>
    [weights, first, second].map((array) => [...new Set(array)]),
  );
  return { step: found.progress.step, weights };
}

const fail = (problem: unknown) => {
  throw problem;
};

it("writes what was there when it was asked, while the arrays change", async () => {
  const optimizer = new Optimizer(SHAPES, settings);
  for (const step of [1, 2]) {
    fill(optimizer, step);
    await states.write(stateOf(optimizer, step), fail);
    expect(states.isWriting).toBe(true);
    fill(optimizer, -9);
    await states.finish();
    expect(states.isWriting).toBe(false);
    const values = [[step], [step + 1], [step + 2]];
    expect(await saved()).toEqual({ step, weights: [...values, ...values] });
  }
  expect(await readdir(join(root, "states"))).toEqual(["state-2"]);
});

it("waits for a state that is being written before it takes the next", async () => {
  const optimizer = new Optimizer(SHAPES, settings);
  for (const step of [1, 2, 3]) {
    fill(optimizer, step);
    await states.write(stateOf(optimizer, step), fail);
  }
  await states.finish();
  expect((await saved()).step).toBe(3);
});

it("writes at once, without a copy, where LAYERGRAFT_MEMORY leaves no room for one", async () => {
  vi.stubEnv("LAYERGRAFT_MEMORY", "2MB");
  const optimizer = new Optimizer(SHAPES, settings);
  fill(optimizer, 4);
  await states.write(stateOf(optimizer, 1), fail);
  expect(states.isWriting).toBe(false);
  expect((await saved()).weights[0]).toEqual([4]);
});

it("reports what could not be written, and writes the next one", async () => {
  const problems: unknown[] = [];
  const optimizer = new Optimizer(SHAPES, settings);
  await writeFile(join(root, "states"), "");
  await states.write(stateOf(optimizer, 1), (problem) => problems.push(problem));
  await states.finish();
  expect(problems).toMatchObject([{ code: new OutputError("").code }]);
  await rm(join(root, "states"));
  await states.write(stateOf(optimizer, 2), fail);
  await states.finish();
  expect((await saved()).step).toBe(2);
});
