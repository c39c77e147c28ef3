// MagMax against float64, and what its formula says of any changes.
import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { encodeValues } from "../../../test/support/checkpoints.js";
import { Bench } from "../../../test/support/merging.js";
import {
  type Changes,
  each,
  expectMerged,
  type Family,
  family,
  type Model,
} from "../../../test/support/method-reference.js";
import { toNumbers } from "../../../test/support/numbers.js";

const bench = new Bench();

/** Of changes in one element: the largest; of equal ones the last. */
function largest(changes: readonly number[]): number {
  const most = Math.max(...changes.map(Math.abs));
  const near = changes.filter((x) => Math.abs(x) !== most && Math.abs(x) > most * (1 - 2 ** -22));
  if (near.length > 0) throw new RangeError("which one is the largest hangs on rounding");
  return changes.findLast((x) => Math.abs(x) === most) as number;
}

/** base + lambda of the change that is the largest. */
const magmax = (base: Model, changes: readonly Changes[], lambda: (name: string) => number) =>
  each(base, (name, tensor) => {
    const added = tensor.values.map(
      (_, e) => lambda(name) * largest(changes.map((one) => one.get(name)?.[e] as number)),
    );
    const values = tensor.values.map((x, e) => x + (added[e] as number));
    const sizes = tensor.values.map((x, e) => Math.abs(x) + Math.abs(added[e] as number));
    return { ...tensor, values, sizes, how: "near" };
  });

describe.each([
  ["BF16", []],
  ["F16", ["slow"]],
  ["F32", ["slow"]],
] as const)("in %s", (dtype, tags) => {
  let kin: Family;
  beforeAll(async () => {
    kin = await family(bench, [0.3, 0.2, 0.1], { dtype });
  });

  it("takes the largest change of each element", { tags: [...tags] }, async () => {
    const { experts, base, origin, changes } = kin;
    const recipe = { method: "magmax", models: experts, base } as const;
    expectMerged(
      (await bench.merge(recipe)).tensors,
      magmax(origin, changes, () => 0.5),
    );
    const inLayer = (name: string) => (name.includes("layers.1.") ? 1 : 0.25);
    const lambda = [{ layers: 1, value: 1 }, { value: 0.25 }];
    expectMerged((await bench.merge({ ...recipe, lambda })).tensors, magmax(origin, changes, inLayer));
  });
});

/** Models of which one tensor has these values, and the merged values of it. */
async function merged(base: readonly number[], experts: readonly (readonly number[])[]): Promise<number[]> {
  const NAME = "model.norm.weight";
  const models: string[] = [];
  for (const values of [base, ...experts]) {
    const data = encodeValues(values, "F32");
    models.push(
      await bench.model({
        dtype: "F32",
        seed: 1,
        edit: (tensors) => tensors.map((tensor) => (tensor.name === NAME ? { ...tensor, data } : tensor)),
      }),
    );
  }
  const [origin = "", ...others] = models;
  const { tensors } = await bench.merge({ method: "magmax", models: others, base: origin, lambda: 1 });
  return toNumbers(tensors.get(NAME) as never);
}

it("gives a change that no other exceeds, whatever the order of the experts", async () => {
  const change = fc.array(fc.integer({ min: -1000, max: 1000 }), { minLength: 8, maxLength: 8 });
  const experts = fc.array(change, { minLength: 2, maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(experts, async (changes) => {
      const zeros = Array.from({ length: 8 }, () => 0);
      const [found, reversed] = [await merged(zeros, changes), await merged(zeros, changes.toReversed())];
      for (let e = 0; e < 8; e++) {
        const own = changes.map((one) => one[e] as number);
        expect(Math.abs(found[e] as number)).toBe(Math.max(...own.map(Math.abs)));
        expect(own).toContain((found[e] as number) + 0);
        // Of equal sizes the last counts.
        expect((found[e] as number) + 0).toBe(own.findLast((x) => Math.abs(x) === Math.abs(found[e] as number)));
        expect((reversed[e] as number) + 0).toBe(own.find((x) => Math.abs(x) === Math.abs(found[e] as number)));
      }
    }),
    { numRuns: 4 },
  );
});

it("leaves what is not a number for the report", async () => {
  const zeros = Array.from({ length: 8 }, () => 0);
  const broken = zeros.map((_, i) => (i === 3 ? Number.NaN : 1));
  for (const experts of [
    [broken, zeros.map(() => 2)],
    [zeros.map(() => 2), broken],
  ]) {
    expect(await merged(zeros, experts)).toEqual(zeros.map((_, i) => (i === 3 ? Number.NaN : 2)));
  }
});
