// Compares two evaluations item by item, where both were asked in the same way.

import { dirname } from "node:path";
import { own, RecipeError } from "../core/index.js";
import { bleuFromStatistics } from "./metrics/bleu.js";
import { CHRF_PLUS_PLUS, chrfFromStatistics } from "./metrics/chrf.js";
import { type JudgedSample, readResults, readVerdicts } from "./results/read-results.js";
import type { Results, StoredMetric, TaskResult } from "./results/result-types.js";
import { type Comparison, compareItems } from "./scoring/scores.js";
import type { Metric } from "./tasks/index.js";

export interface CompareResultsOptions {
  /** Folders of results. Differences are those of the second against the first. */
  readonly first: string;
  readonly second: string;
  /** Random seed of the bootstrap. Default: 0. */
  readonly seed?: number | undefined;
  /** Resamples of the bootstrap. Default: 1000. */
  readonly resamples?: number | undefined;
}

export interface TaskComparison {
  readonly task: string;
  readonly title: string;
  readonly protocol: string;
  readonly shots: number;
  readonly comparisons: readonly Comparison[];
}

export interface ResultsComparison {
  readonly first: Results;
  readonly second: Results;
  readonly tasks: readonly TaskComparison[];
  /** Tasks that are not compared, each with the reason. */
  readonly skipped: readonly { readonly task: string; readonly reason: string }[];
}

/** How scores of whole corpora are made of the sums in the verdicts. */
const CORPUS_SCORES: Readonly<Record<string, (sums: readonly number[]) => number>> = {
  bleu: (sums) => bleuFromStatistics(sums).score,
  spbleu: (sums) => bleuFromStatistics(sums).score,
  "chrf++": (sums) => chrfFromStatistics(sums, CHRF_PLUS_PLUS).score,
};

/**
 * Compares two evaluations on the items that both have.
 * @throws RecipeError if a folder has no results, or no task was asked in the same way in both
 */
export async function compareResults(options: CompareResultsOptions): Promise<ResultsComparison> {
  const [first, second] = [await readResults(options.first), await readResults(options.second)];
  const tasks: TaskComparison[] = [];
  const skipped: { task: string; reason: string }[] = [];
  for (const one of first.tasks) {
    const other = second.tasks.find(({ task }) => task === one.task);
    const reason = other ? differenceOf(one, other) : "only in the first";
    if (other && reason === undefined) {
      const [before, after] = [
        await readVerdicts(folderOf(options.first), one.task),
        await readVerdicts(folderOf(options.second), one.task),
      ];
      const changed = changedQuestions(before, after);
      if (changed === 0) tasks.push(compareTask(one, before, after, options));
      else skipped.push({ task: one.task, reason: `${changed} of the items were asked differently` });
    } else skipped.push({ task: one.task, reason: reason ?? "" });
  }
  for (const { task } of second.tasks) {
    if (!first.tasks.some((one) => one.task === task)) skipped.push({ task, reason: "only in the second" });
  }
  if (tasks.length === 0) {
    throw new RecipeError(
      "the two evaluations have no task in common that was asked in the same way:",
      skipped.map(({ task, reason }) => `${task}: ${reason}`),
    );
  }
  return { first, second, tasks, skipped };
}

function folderOf(path: string): string {
  return path.endsWith(".json") ? dirname(path) : path;
}

function differenceOf(one: TaskResult, other: TaskResult): string | undefined {
  if (one.protocol !== other.protocol) return `the protocols are ${one.protocol} and ${other.protocol}`;
  if (one.shots !== other.shots) return `one has ${one.shots} shots, the other ${other.shots}`;
  if (one.judgingDigest !== other.judgingDigest && one.judgingDigest && other.judgingDigest) {
    const signatures = [one, other].map(({ metrics }) =>
      metrics.flatMap(({ signature }) => signature ?? []).join(", "),
    );
    return signatures[0] === signatures[1]
      ? "answers were read or scored in different ways"
      : `the scores are ${signatures.join(" and ")}`;
  }
  return undefined;
}

function changedQuestions(first: readonly JudgedSample[], second: readonly JudgedSample[]): number {
  const asked = new Map(first.map(({ id, asked }) => [id, asked]));
  return second.filter((sample) => asked.has(sample.id) && asked.get(sample.id) !== sample.asked).length;
}

function compareTask(
  { task, title, protocol, shots, metrics }: TaskResult,
  first: readonly JudgedSample[],
  second: readonly JudgedSample[],
  { seed = 0, resamples = 1000 }: CompareResultsOptions,
): TaskComparison {
  const comparisons = metrics.flatMap((metric) => {
    // Only one of the two may have reasoned, or answered in letters.
    if (metric.isAside && !haveCommon(metric.of, first, second)) return [];
    const whole = withScore(metric);
    return whole ? [compareItems(whole, first, second, { seed, resamples })] : [];
  });
  return { task, title, protocol, shots, comparisons };
}

/** Whether an item has this verdict in both. */
function haveCommon(of: string, first: readonly JudgedSample[], second: readonly JudgedSample[]): boolean {
  const has = ({ verdict }: JudgedSample) => verdict != null && own(verdict, of) !== undefined;
  const ids = new Set(first.filter(has).map(({ id }) => id));
  return second.some((sample) => has(sample) && ids.has(sample.id));
}

function withScore(metric: StoredMetric): Metric | undefined {
  if (metric.by !== "corpus") return metric;
  const score = own(CORPUS_SCORES, metric.of);
  return score && { ...metric, score };
}
