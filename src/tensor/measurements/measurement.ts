// A measurement: passes over the weights whose results it combines into numbers or a mask.

import type { CheckpointTensor } from "../../formats/checkpoint/index.js";
import { CheckpointError } from "../../kit/index.js";
import { type Leaf, leavesOf, type Value } from "../expressions/expression.js";
import type { CountJob, Evaluation, Job, Payload, SignsJob } from "../streaming/program.js";
import { type Arithmetic, arithmeticOf } from "../streaming/value-operation.js";

export interface Labelled {
  /** Id by which values refer to the result. */
  readonly id: string;
  /** Displayed name. */
  readonly label: string;
}

/** What a method makes of what was measured, as plain data: a function by its name, and what that takes besides. */
export interface Combine<Measured, Result> {
  readonly by: string;
  /** Only for the compiler. */
  readonly makes?: (measured: Measured) => Result;
}

/** A function that makes results of what was measured. */
export interface Combination<Measured, Given, Result> extends Arithmetic {
  readonly combine: (measured: Measured, given: Given) => Result;
  /** Refers to it in a plan. @param given what JSON can hold */
  readonly with: (given: Given) => Combine<Measured, Result>;
}

export function defineCombination<Measured, Given extends object, Result>(
  name: string,
  combine: Combination<Measured, Given, Result>["combine"],
): Combination<Measured, Given, Result> {
  return { name, combine, with: (given) => ({ by: name, ...given }) };
}

export function combined<Measured, Result>(combine: Combine<Measured, Result>, measured: Measured): Result {
  return arithmeticOf<Combination<Measured, object, Result>>(combine.by, "combine").combine(measured, combine);
}

/** Access of a measurement to the sources. */
export interface Binding {
  readonly evaluation: (value: Value) => Evaluation;
  readonly tensor: (leaf: Leaf) => CheckpointTensor;
  /** Result of an earlier measurement. */
  readonly numbers: (id: string) => readonly number[];
}

/** Combined results of a job: numbers per piece, or the sum of its payloads. */
export type JobTotal = readonly Float64Array[] | Payload | Uint32Array;

export type MeasuringJob = Job | CountJob | SignsJob;

/** One pass over weights. */
export interface Pass {
  readonly jobs: readonly MeasuringJob[];
  /** Called with the total of each job; jobs end in any order. Without it, the totals are kept until the pass ends. */
  readonly onTotal?: (job: number, total: JobTotal) => void;
  /** What the result will begin with, where a sample leaves nothing else unless it misleads. */
  readonly promised?: readonly number[] | undefined;
}

/** Yields passes, gets their totals, and returns the numbers found, or a mask. */
export type Measuring<Result> = Generator<Pass, Result, readonly JobTotal[]>;

/** Error for a quantity that is undefined because a source is not finite. @param value where */
export function notFinite(what: string, value?: Value): CheckpointError {
  const [leaf] = value ? leavesOf(value) : [];
  return new CheckpointError(
    `${what} cannot be measured, as a source has infinite or NaN values ${leaf ? `in ${leaf.tensor}` : "there"}. Find them with layergraft analyze.`,
    leaf ? { tensor: leaf.tensor } : {},
  );
}
