// What layergraft.json cannot hold is refused before anything is measured.
import { expect, test } from "vitest";
import type { Measurement } from "../../tensor/measurements/index.js";
import type { Step } from "../model-plan.js";
import { requireRecordable } from "./journal.js";

/** Factors by column of two models, as WIDEN measures them of stacked experts. */
const columns = (count: number, shape: readonly number[]) =>
  Array.from({ length: count }, (_, i): Measurement => {
    const value = { source: "a", tensor: "t" };
    return {
      kind: "lines",
      id: `${i}`,
      label: "columns",
      values: [value, value],
      shape,
      axis: "columns",
      combine: { by: "x" },
    };
  });

test("factors of a mixture of 30 billion parameters fit, those of 235 billion do not", () => {
  // gate, up and down of Qwen3-30B-A3B, 128 experts in 48 layers, and of Qwen3-235B-A22B, in 94.
  const small = [...columns(96, [128, 768, 2048]), ...columns(48, [128, 2048, 768])];
  const large = [...columns(188, [128, 1536, 4096]), ...columns(94, [128, 4096, 1536])];
  expect(() => requireRecordable("layergraft.json", { measurements: small })).not.toThrow();
  expect(() => requireRecordable("layergraft.json", { measurements: large })).toThrow(
    expect.objectContaining({
      code: "memory",
      message: expect.stringContaining("layergraft.json would have 1.25 GB"),
    }),
  );
});

test("the steps count, too", () => {
  const value = { source: "a", tensor: "t" };
  const step = {
    tensor: "t",
    dtype: "BF16",
    shape: [1],
    layer: 0,
    part: "other",
    origin: [],
    value,
  } as unknown as Step;
  const plan = { steps: new Array<Step>(20_000).fill(step), measurements: [] };
  const bytes = 20_000 * JSON.stringify(step).length;
  expect(() => requireRecordable("layergraft.json", plan, bytes)).not.toThrow();
  expect(() => requireRecordable("layergraft.json", plan, bytes - 1)).toThrow(
    /^layergraft.json would have .* for 20,000 tensors and 0 measured factors/,
  );
});
