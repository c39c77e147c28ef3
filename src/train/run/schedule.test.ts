// Schedules against numbers written out by hand, and what holds of all of them. Not their place in a run.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Schedule } from "./run-schema.js";
import { DECAY_SHAPES, describeSchedule, learningRateFactor, SCHEDULES } from "./schedule.js";

const plain: Schedule = { kind: "linear", warmup: 0, decay_share: 0.2, decay_shape: "1-sqrt", floor: 0 };
const factors = (schedule: Partial<Schedule>, steps: number) =>
  Array.from({ length: steps }, (_, step) => learningRateFactor({ ...plain, ...schedule }, step, steps));

describe("learningRateFactor", () => {
  it("linear: the golden run's formula, to the bit", () => {
    const wanted = Array.from({ length: 20 }, (_, step) => (step < 5 ? (step + 1) / 5 : (20 - step) / (20 - 5)));
    expect(factors({ warmup: 5 }, 20)).toEqual(wanted);
    expect(wanted[5]).toBe(1);
    expect(factors({}, 4)).toEqual([1, 0.75, 0.5, 0.25]);
  });

  it("wsd: warmup, stable, and a decay over the last fifth", () => {
    const found = factors({ kind: "wsd", warmup: 4 }, 20);
    expect(found.slice(0, 5)).toEqual([0.25, 0.5, 0.75, 1, 1]);
    expect(found.slice(4, 17)).toEqual(Array(13).fill(1));
    expect(found.slice(17)).toEqual([0.5, 1 - Math.sqrt(0.5), 1 - Math.sqrt(0.75)]);
    expect(factors({ kind: "wsd", decay_share: 0.5, decay_shape: "linear" }, 8)).toEqual([
      ...[1, 1, 1, 1],
      ...[1, 0.75, 0.5, 0.25],
    ]);
    expect(factors({ kind: "wsd", decay_share: 0.5, decay_shape: "cosine", floor: 0.1 }, 4)[3]).toBeCloseTo(0.55, 12);
    // A warmup that reaches into the decay shortens it.
    expect(factors({ kind: "wsd", decay_share: 0.9, decay_shape: "linear", warmup: 2 }, 4)).toEqual([0.5, 1, 1, 0.5]);
  });

  it("cosine, down to a floor", () => {
    const found = factors({ kind: "cosine", floor: 0.05 }, 4);
    expect(found[0]).toBe(1);
    expect(found[1]).toBeCloseTo(0.05 + 0.95 * (1 + Math.SQRT1_2) * 0.5, 12);
    expect(found[2]).toBeCloseTo(0.525, 12);
  });

  it("constant after its warmup; a warmup longer than the run only rises", () => {
    expect(factors({ kind: "constant", warmup: 2, floor: 0.5 }, 4)).toEqual([0.5, 1, 1, 1]);
    expect(factors({ kind: "linear", warmup: 8 }, 4)).toEqual([0.125, 0.25, 0.375, 0.5]);
  });

  it("always above 0 and at most 1, never rising after the warmup, never below the floor", () => {
    const schedules = fc.record({
      kind: fc.constantFrom(...SCHEDULES),
      warmup: fc.nat({ max: 40 }),
      decay_share: fc.double({ min: 0.001, max: 1, noNaN: true }),
      decay_shape: fc.constantFrom(...DECAY_SHAPES),
      floor: fc.double({ min: 0, max: 1, noNaN: true }),
    });
    fc.assert(
      fc.property(schedules, fc.integer({ min: 1, max: 100 }), (schedule, steps) => {
        const all = factors(schedule, steps);
        all.forEach((factor, step) => {
          expect(factor).toBeGreaterThan(0);
          expect(factor).toBeLessThanOrEqual(1 + 1e-12);
          if (step <= schedule.warmup) return;
          expect(factor).toBeLessThanOrEqual((all[step - 1] ?? 1) + 1e-12);
          expect(factor).toBeGreaterThanOrEqual(schedule.floor - 1e-12);
        });
      }),
      { numRuns: 100 },
    );
  });
});

describe("describeSchedule", () => {
  it("says what is not a default", () => {
    expect(describeSchedule({ ...plain, warmup: 1000 }, 5000)).toBe("linear, 1,000 steps of warmup");
    expect(describeSchedule({ ...plain, kind: "wsd", warmup: 1, floor: 0.1 }, 5000)).toBe(
      "wsd, 1 step of warmup, the last 1,000 steps falling as 1-sqrt, down to 0.1 of the rate",
    );
  });
});
