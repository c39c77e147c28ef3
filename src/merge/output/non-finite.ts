// Infinite and NaN values in what a run writes: those that a source holds, and those that the run made of finite ones.

import type { CheckpointTensor } from "../../formats/checkpoint/index.js";
import { elementCount, groupBy, LayergraftError } from "../../kit/index.js";
import { formatSome, plural } from "../../kit/printing/index.js";
import { leavesOf, type Measured, Resolver, type Sources } from "../../tensor/expressions/index.js";
import {
  type Evaluation,
  isStored,
  type Job,
  type RunResult,
  resultsByJob,
  rowsMatter,
  runProgram,
  type StoredTerm,
  totalStatistics,
} from "../../tensor/streaming/index.js";
import { copied, type WrittenStep } from "./compile.js";

/** Infinite and NaN values of one tensor. */
export interface NonFinite {
  /** A tensor of `model`; without it, of the output. */
  readonly tensor: string;
  /** The source that holds the values, as the recipe names it. Absent for values that the merge made of finite ones. */
  readonly model?: string;
  /** How many values are infinite or NaN. */
  readonly count: number;
}

/** A written tensor with infinite and NaN values, and how many of them have finite stored elements in their place. */
export interface NonFiniteStep {
  readonly step: WrittenStep;
  readonly nonFinite: number;
  readonly made: number;
}

/** The steps with infinite or NaN values, from the results of a program that wrote or copied them. */
export function nonFiniteSteps(
  outcome: RunResult,
  jobs: readonly Job[],
  steps: readonly WrittenStep[],
): NonFiniteStep[] {
  const stepOf = new Map(steps.map((step) => [step.tensor, step]));
  return resultsByJob(outcome, jobs.length).flatMap((pieces, i) => {
    const step = stepOf.get(jobs[i]?.name ?? "");
    const total = (at: number) => pieces.reduce((sum, piece) => sum + (piece[at] ?? 0), 0);
    return step && total(0) > 0 ? [{ step, nonFinite: total(0), made: total(1) }] : [];
  });
}

/**
 * Finds who is to blame for infinite and NaN values. Reads the sources of these tensors once more. Where an element depends on
 * others, as in rows and products of factors, one that a source holds explains all.
 * @throws LayergraftError code `broken-model` if statistics hold them
 */
export async function explainNonFinite(
  found: readonly NonFiniteStep[],
  sources: Sources,
  measured: Measured,
  signal?: AbortSignal,
): Promise<NonFinite[]> {
  const resolver = new Resolver(sources, measured);
  const held = new Map<string, NonFinite>();
  const made: NonFinite[] = [];
  for (const { step, nonFinite, made: unexplained } of found) {
    const stored = storedIn(step, resolver, sources);
    const isCopy = copied(step, resolver) !== undefined;
    const jobs = stored.map(({ value }): Job => ({ kind: "delta", name: "", value }));
    const program = { inputs: resolver.inputs, outputs: [], jobs };
    const pieces = isCopy ? [] : resultsByJob(await runProgram(program, { signal, phase: "checking" }), jobs.length);
    const counts = isCopy ? [nonFinite] : pieces.map((all) => totalStatistics(all).nonFinite);
    for (const [i, { tensor, model, isStatistic }] of stored.entries()) {
      const count = counts[i] ?? 0;
      if (count > 0 && isStatistic) throw brokenStatistics(model, tensor);
      if (count > 0) held.set(`${model} ${tensor}`, { tensor, model, count });
    }
    const spreads = !isCopy && rowsMatter([resolver.evaluation(step.value)]) && counts.some((count) => count > 0);
    if (unexplained > 0 && !spreads) made.push({ tensor: step.tensor, count: unexplained });
  }
  return [...held.values(), ...made];
}

function brokenStatistics(model: string, tensor: string): LayergraftError {
  const message = `${model} holds infinite or NaN statistics of ${tensor}. Measure them again with layergraft measure.`;
  return new LayergraftError("broken-model", message, { tensor });
}

interface StoredTensor {
  readonly tensor: string;
  readonly model: string;
  readonly value: Evaluation;
  readonly isStatistic: boolean;
}

/** Each stored tensor that a step reads; factors of adapters by themselves. */
function storedIn({ value }: WrittenStep, resolver: Resolver, sources: Sources): StoredTensor[] {
  return leavesOf(value).flatMap((leaf): StoredTensor[] => {
    const { lowRank } = resolver.tensor(leaf);
    const { source: model = leaf.source, files = [] } = sources.get(leaf.source) ?? {};
    const isStatistic = files[0]?.metadata.statistics !== undefined;
    const whole = resolver.evaluation(leaf);
    const terms = whole.terms.map((term) => (isStored(term) ? withoutFactors(term) : term));
    const factors = lowRank ? [lowRank, ...(lowRank.others ?? [])].flatMap(({ a, b }) => [a, b]) : [];
    return [
      { tensor: leaf.tensor, model, value: { ...whole, terms }, isStatistic },
      ...factors.map((factor): StoredTensor => {
        const elements = elementCount(factor.shape);
        const term = { ...resolver.place({ ...factor, file: (lowRank as LowRank).file }), weight: 1 };
        const factorValue = { terms: [term], divisor: 1, elements, columns: elements };
        return { tensor: factor.name, model, value: factorValue, isStatistic };
      }),
    ];
  });
}

type LowRank = NonNullable<CheckpointTensor["lowRank"]>;

const withoutFactors = ({ lowRank: _, ...term }: StoredTerm): StoredTerm => term;

/**
 * Refuses values that a merge made infinite or NaN of finite ones, unless `allowed`.
 * @param halves whether the written tensors are float16, which has the smallest range
 */
export function requireFinite(
  found: readonly NonFinite[],
  allowed: boolean,
  halves: (tensor: string) => boolean,
): void {
  const made = found.filter(({ model }) => model === undefined);
  if (made.length === 0 || allowed) return;
  const advice = made.every(({ tensor }) => halves(tensor))
    ? "They are beyond the range of float16: choose bfloat16 or float32"
    : "Use smaller weights";
  throw new LayergraftError(
    "not-finite",
    `${countOf(made)} would become infinite or NaN, although the sources are finite there. ${advice}.`,
    { tensor: made[0]?.tensor ?? "", option: "allowNonFinite" },
  );
}

/** One sentence for each source with infinite or NaN values, and one for those that the merge made. */
export function nonFiniteWarnings(found: readonly NonFinite[]): string[] {
  return [...groupBy(found, ({ model }) => model)].map(([model, all]) =>
    model === undefined
      ? `${countOf(all)} became infinite or NaN, although the sources are finite there.`
      : `${model} holds infinite or NaN values, and the output keeps them: ${countOf(all)}.`,
  );
}

/** Such as "3 values in 2 tensors (a: 1, b: 2)". */
function countOf(found: readonly NonFinite[]): string {
  const values = found.reduce((sum, { count }) => sum + count, 0);
  const named = formatSome(found.map(({ tensor, count }) => `${tensor}: ${count}`));
  return `${plural(values, "value")} in ${plural(found.length, "tensor")} (${named})`;
}

/**
 * Refuses values that an encoded file cannot hold.
 * @param name of the model
 * @param advice what to do where the type is to blame
 * @throws LayergraftError code `broken-model`
 */
export function requireEncodable(outcome: RunResult, jobs: readonly Job[], name: string, advice: string): void {
  const results = resultsByJob(outcome, jobs.length);
  const broken = jobs.flatMap((job, i) => (results[i]?.some(([count = 0]) => count > 0) ? [job.name] : []));
  if (broken.length === 0) return;
  throw new LayergraftError(
    "broken-model",
    `${name} has values that are not finite or too large in ${formatSome(broken)}. ${advice}Find the broken weights with layergraft analyze.`,
  );
}
