import { describe, expect, it } from "vitest";
import { differencesOf } from "../../kit/json.js";
import { requireSameRun } from "./state.js";

const one = { base: "a", data: [{ source: "x", weight: 1 }], optimizer: { lr: 0.1, betas: [0.9, 0.99] }, threads: 2 };

describe("differencesOf", () => {
  it("names each field once, with both values", () => {
    const other = {
      ...{ base: "a", data: [{ source: "x", weight: 2 }, { source: "y" }], seed: 1 },
      ...{ optimizer: { lr: 0.1, betas: [0.9, 0.999] }, threads: 2 },
    };
    expect(differencesOf(one, other)).toEqual([
      { field: "data[0].weight", saved: 1, current: 2 },
      { field: "data[1]", saved: undefined, current: { source: "y" } },
      { field: "optimizer.betas[1]", saved: 0.99, current: 0.999 },
      { field: "seed", saved: undefined, current: 1 },
    ]);
  });
});

describe("requireSameRun", () => {
  const run = (changes: object = {}, inputs: Record<string, string> = { base: "1", "x.jsonl": "2" }) => ({
    configuration: { ...one, ...changes },
    inputs,
  });

  it("ignores fields that no weight depends on", () => {
    expect(() => requireSameRun(run(), run({ threads: 4, out: "elsewhere" }))).not.toThrow();
  });

  it("names all that differs", () => {
    const changed = run({ optimizer: { lr: 0.2, betas: [0.9, 0.99] }, seed: 3 }, { base: "1", "x.jsonl": "3", y: "4" });
    expect(() => requireSameRun(run(), changed)).toThrow(
      /- optimizer\.lr was 0\.1 and is 0\.2\n.*- seed was missing and is 3\n.*- x\.jsonl has changed since\n.*- y was not read before$/,
    );
    expect(() => requireSameRun(run(), run({}, { base: "1" }))).toThrow("x.jsonl is not read any more");
  });
});
