// What a run will do, before its data are read whole.
import { describe, expect, it } from "vitest";
import { runOutlook } from "./outlook.js";
import { checkRun } from "./run-file.js";

const LLAMA = { parameters: 8_030_261_248, contextLength: 131_072, dtype: "BF16" };
const outlook = (fields: object, data?: Parameters<typeof runOutlook>[2]) =>
  runOutlook(checkRun({ base: "b", out: "o", data: "rows.jsonl", ...fields }), LLAMA, data);

describe("runOutlook", () => {
  it("knows steps and rates of unpacked samples without their data, and an upper bound of tokens", () => {
    const found = outlook({ preset: "paper/math-2" });
    expect(found).toMatchObject({ sequences: 40_000, steps: 10_000, warmup: 1000, peak: 1e-7, isMost: true });
    expect(found.tokens).toBe(40_000 * 2048);
    expect(found.last).toBeCloseTo(1e-7 / 9000, 15);
    expect([found.rows, found.epochs, found.problem]).toEqual([undefined, undefined, undefined]);
  });

  it("does not guess how many sequences rows are packed into", () => {
    const unknown = outlook({ preset: "paper/swahili-3", packing: true });
    expect([unknown.steps, unknown.warmup, unknown.problem]).toEqual([undefined, undefined, undefined]);
    const data = { rows: 80_000, isLeast: false, tokensPerRow: 98, sequencesPerRow: 98 / 1024 };
    const known = outlook({ preset: "paper/swahili-3", packing: true }, data);
    expect(known).toMatchObject({ rows: 80_000, steps: 479, isMost: false, epochs: expect.closeTo(0.5, 2) });
    expect(known.tokens / 1e6).toBeCloseTo(3.92, 1);
    expect(known.peak).toBeCloseTo(4.79e-8, 12);
    expect(known.problem).toMatch(/^warmup of 1,000 steps, run of 479 steps: the rate ends at 4\.79e-8/);
  });

  it("estimates what a 16-bit type keeps: less of smaller changes, all of float32 and of factors", () => {
    const kept = (fields: object) => outlook({ preset: "paper/swahili-3", ...fields }).kept;
    const [small, large] = [1e-7, 1e-5].map((lr) => kept({ optimizer: { lr } })?.elements ?? 1);
    expect(small).toBeLessThan(0.15);
    expect(large).toBeGreaterThan(0.8);
    expect(kept({ save_dtype: "float16" })?.elements).toBeGreaterThan(small ?? 1);
    // A weight of 0.02 moves by one rounding of 2^-14 where one of 2 does not.
    const kind = { ...LLAMA, weights: Float32Array.of(0.02, 2) };
    const run = checkRun({
      base: "b",
      out: "o",
      data: "rows.jsonl",
      preset: "paper/swahili-3",
      optimizer: { lr: 1e-5 },
    });
    const found = runOutlook(run, kind);
    expect([found.isSampled, found.kept?.elements]).toEqual([true, expect.closeTo(0.5, 1)]);
    expect([kept({ save_dtype: "float32" }), kept({ method: "lora" })]).toEqual([undefined, undefined]);
  });
});
