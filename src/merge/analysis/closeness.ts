// How closely a recipe gives the tensors of a model: elements whose bits differ, and by how many roundings.

import type { Checkpoint } from "../../formats/checkpoint/index.js";
import { sameShape } from "../../kit/index.js";
import { Resolver, type Value } from "../../tensor/expressions/index.js";
import { measureAll } from "../../tensor/measurements/index.js";
import {
  resultsByJob,
  runProgram,
  type StreamOptions,
  totalDifferences,
  totalStatistics,
} from "../../tensor/streaming/index.js";
import { compileCompare } from "../output/compile.js";
import { planRecipe } from "../plan/planner.js";
import type { RecipeInput } from "../recipe/recipe.js";
import type { KnownModel } from "./fit-weights.js";

export interface Closeness {
  readonly differing: number;
  /** Of the tensor's dtype, at most, in any element: its deviation over the unit roundoff of the values that are added up. */
  readonly roundings: number;
}

export const NOT_GIVEN: Closeness = { differing: Number.POSITIVE_INFINITY, roundings: Number.POSITIVE_INFINITY };

/** What is added up to a tensor. */
export interface Terms {
  /** Of each model. */
  readonly weights: readonly number[];
  /** Whether a model's values are those of an adapter. */
  readonly isAdapted: boolean;
  /** Root mean square of its elements. */
  readonly size: number;
}

/** Unit roundoff, the largest relative error of one rounding, and the smallest normal number. float64 is merged in float32. */
const ROUNDINGS = {
  BF16: { unit: 2 ** -8, smallest: 2 ** -126 },
  F16: { unit: 2 ** -11, smallest: 2 ** -14 },
  F32: { unit: 2 ** -24, smallest: 2 ** -126 },
  F64: { unit: 2 ** -24, smallest: 2 ** -126 },
} as const;

// No path has a NUL.
const MERGED = "\0merged";
const modelId = (index: number): string => `\0${index}`;

/** Compares the bits that a recipe gives with the merge; where they differ, and its terms are known, it counts roundings. */
export async function compareWith(
  merged: Checkpoint,
  models: readonly KnownModel[],
  recipe: RecipeInput,
  terms: ReadonlyMap<string, Terms>,
  stream: StreamOptions,
): Promise<Map<string, Closeness>> {
  const opened = new Map(models.map(({ source, checkpoint }) => [source, checkpoint]));
  const { plan, sources } = await planRecipe(recipe, { opened });
  const steps = plan.steps.filter(({ tensor, dtype, shape }) => {
    const found = merged.tensors.get(tensor);
    return found?.dtype === dtype && sameShape(found.shape, shape);
  });
  const measured = await measureAll(plan.measurements, sources, stream);
  const program = compileCompare(steps, sources, measured, merged.tensors);
  const results = resultsByJob(await runProgram(program, { ...stream, phase: "comparing" }), program.jobs.length);
  const found = new Map(
    steps.map(({ tensor }, i): [string, Closeness] => {
      const { differing } = totalDifferences(results[i] ?? []);
      return [tensor, { differing, roundings: differing === 0 ? 0 : Number.POSITIVE_INFINITY }];
    }),
  );

  const resolver = new Resolver(
    new Map([...sources, [MERGED, merged], ...models.map(({ checkpoint }, i) => [modelId(i), checkpoint] as const)]),
    measured,
  );
  const counted = steps.flatMap(({ tensor, value, dtype }) => {
    const { weights, isAdapted, size } = terms.get(tensor) ?? {};
    if (!weights || found.get(tensor)?.differing === 0 || !(dtype in ROUNDINGS)) return [];
    const { unit, smallest } = ROUNDINGS[dtype as keyof typeof ROUNDINGS];
    // Changes are taken against the last model before they are weighed, so values count in full, and those of the last always.
    const addends = weights.flatMap((weight, i): Value[] =>
      weight === 0 && i < models.length - 1
        ? []
        : [{ sum: [{ weight: Math.max(1, Math.abs(weight)), value: { source: modelId(i), tensor } }] }],
    );
    // The roundings of a product of matrices are as large as the matrix, also where its element is small.
    const floor = Math.max(smallest, isAdapted && size !== undefined ? size : 0);
    const deviation: Value = { op: "deviation", of: [{ source: MERGED, tensor }, value, ...addends], floor };
    return [{ tensor, unit, job: { kind: "delta" as const, name: tensor, value: resolver.evaluation(deviation) } }];
  });
  if (counted.length === 0) return found;
  const counting = { inputs: resolver.inputs, outputs: [], jobs: counted.map(({ job }) => job) };
  const pieces = resultsByJob(await runProgram(counting, { ...stream, phase: "comparing" }), counted.length);
  for (const [i, { tensor, unit }] of counted.entries()) {
    const { largest, nonFinite } = totalStatistics(pieces[i] ?? []);
    // The deviation itself is rounded to float32.
    const roundings = nonFinite > 0 ? Number.POSITIVE_INFINITY : Math.ceil((largest / unit) * (1 - 1e-6));
    found.set(tensor, { differing: found.get(tensor)?.differing ?? 0, roundings });
  }
  return found;
}
