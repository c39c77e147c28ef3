// Order statistics from counts of a multiset, whatever its sample looks like.
import fc from "fast-check";
import { expect, test } from "vitest";
import type { CheckpointTensor } from "../../formats/checkpoint/index.js";
import { type CountJob, countersOf, type Evaluation } from "../streaming/program.js";
import { measureCut } from "./cut.js";
import type { Binding } from "./measurement.js";
import { measureOrder } from "./order-statistics.js";

/** Each value this many times, so that there are enough for a sample. */
const TIMES = 2 ** 15;

function keyOf(x: number): number {
  return (new Uint32Array(Float32Array.of(x).buffer)[0] as number) & 0x7fffffff;
}

/** The counters of a job over values, as pairs. */
function countsOf({ ranges }: CountJob, values: readonly number[], times: number): Uint32Array {
  const counts = new Map<number, number>();
  let first = 0;
  for (const range of ranges) {
    const { from, shift } = range;
    for (const key of values.map(keyOf)) {
      const [bin, rest] = [Math.floor((key - from) / 2 ** shift), (key - from) % 2 ** shift];
      const at = key < from ? 0 : 1 + (shift === 0 ? bin : 2 * bin + Math.sign(rest));
      if (at < countersOf(range)) counts.set(first + at, (counts.get(first + at) ?? 0) + times);
    }
    first += countersOf(range);
  }
  return Uint32Array.from([...counts].sort(([a], [b]) => a - b).flat());
}

/** Runs a measurement over values; returns its result and the number of passes. */
function run(
  measure: typeof measureOrder | typeof measureCut,
  fields: object,
  all: readonly number[],
  sample: readonly number[],
) {
  const binding: Binding = {
    evaluation: (): Evaluation => ({ terms: [], divisor: 1, elements: all.length * TIMES, columns: 1 }),
    tensor: () => ({ file: {} }) as CheckpointTensor,
    numbers: () => [],
  };
  const values = [{ source: "a", tensor: "t" }];
  const steps = measure({ id: "m", label: "m", values, ...fields } as never, binding);
  for (let passes = 0; ; passes++) {
    const step = steps.next();
    if (step.done) return { found: step.value, passes };
    const [job] = step.value.jobs as CountJob[];
    if (job) step.value.onTotal?.(0, job.every ? countsOf(job, sample, 512) : countsOf(job, all, TIMES));
  }
}

const floats = fc.oneof(fc.float({ noNaN: true }), fc.constantFrom(0, -0, 1, Number.POSITIVE_INFINITY));
const lists = fc.array(floats, { minLength: 130, maxLength: 160 });
const anySample = fc.oneof(fc.constant([]), fc.array(floats, { minLength: 1, maxLength: 40 }));

test("ranks are exact with a sample that is like the whole, that misleads, or that is empty", () => {
  fc.assert(
    fc.property(
      lists,
      fc.option(anySample),
      fc.array(fc.double({ min: 0, max: 1.1, noNaN: true })),
      (all, other, at) => {
        const sorted = all.map(Math.abs).sort((a, b) => a - b);
        const ranks = [...at.map((share) => Math.floor(share * all.length * TIMES)), 0];
        const { found } = run(measureOrder, { kind: "order", ranks }, all, other ?? all);
        expect(found).toEqual(ranks.map((rank) => sorted[Math.floor(rank / TIMES)] ?? Number.POSITIVE_INFINITY));
      },
    ),
    { numRuns: 60 },
  );
});

test("the smallest of the largest share counts what is not zero", () => {
  fc.assert(
    fc.property(lists, fc.option(anySample), fc.double({ min: 0.01, max: 1, noNaN: true }), (all, other, share) => {
      const sorted = all.map(Math.abs).sort((a, b) => a - b);
      const kept = Math.floor(share * sorted.filter((x) => x > 0).length * TIMES);
      const least = sorted[Math.floor(sorted.length - kept / TIMES)] ?? Number.POSITIVE_INFINITY;
      const { found } = run(measureCut, { kind: "cut", keep: { share }, of: [], isExact: false }, all, other ?? all);
      const among = (from: number) => sorted.filter((x) => x > 0 && x >= from).length * TIMES;
      expect(found).toEqual([least, Number.POSITIVE_INFINITY, among(least), among(0)]);
    }),
    { numRuns: 60 },
  );
});

test("a good sample saves a pass over everything", () => {
  const all = Array.from({ length: 150 }, (_, i) => 1 + i / 4096);
  const ranks = [30 * TIMES, 120 * TIMES];
  // One over the sample and one over everything; without a sample there are two over everything.
  expect(run(measureOrder, { kind: "order", ranks }, all, all)).toEqual({
    found: [1 + 30 / 4096, 1 + 120 / 4096],
    passes: 2,
  });
  expect(run(measureOrder, { kind: "order", ranks }, all, [])).toEqual({
    found: [1 + 30 / 4096, 1 + 120 / 4096],
    passes: 3,
  });
});

test("round magnitudes need one pass over everything, however wide the counters", () => {
  const all = Array.from({ length: 150 }, (_, i) => 1 + i / 256);
  const ranks = [30 * TIMES, 120 * TIMES];
  expect(run(measureOrder, { kind: "order", ranks }, all, [])).toEqual({
    found: [1 + 30 / 256, 1 + 120 / 256],
    passes: 2,
  });
});
