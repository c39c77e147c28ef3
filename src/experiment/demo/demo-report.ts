// The demo's results: rows of its table, a summary, and the data of its page. Scores and tests are the experiment's.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Analysis, analyzeExperts } from "../../merge/index.js";
import type { MergeModel } from "../plan/plan-models.js";
import type { ExperimentReport, Overview, OverviewBar } from "../report/report-data.js";
import { EVALUATION } from "../steps/run-evaluation.js";
import { NAMES } from "./demo-plan.js";
import { type DemoResult, folderOf } from "./run-demo.js";

/** A row of the table; scores from 0 to 1. */
export interface DemoRow extends Pick<OverviewBar, "label" | "detail" | "kind" | "mean" | "low" | "high" | "interval"> {
  /** Mean score on the same problems in English. */
  readonly english: number | undefined;
}

/** A problem with answers of some models. */
export interface AskedProblem {
  readonly swahili: string;
  readonly english: string;
  readonly gold: number;
  readonly answers: readonly { readonly name: string; readonly text: string; readonly isRight: boolean }[];
}

const percent = (share: number) => `${(100 * share).toFixed(1)}%`;

function overviewOf({ overviews }: ExperimentReport, language: "sw" | "en"): Overview | undefined {
  return overviews.find(({ task }) => task === `problems_${language}.yaml`);
}

/** Rows in the order of the plan. */
export function demoRows(report: ExperimentReport): DemoRow[] {
  const english = new Map(overviewOf(report, "en")?.bars.map(({ label, mean }) => [label, mean]));
  return (overviewOf(report, "sw")?.bars ?? []).map(({ label, detail, kind, mean, low, high, interval }) => ({
    ...{ label, detail, kind, mean, low, high, interval, english: english.get(label) },
  }));
}

/** The swap's score beside the base's and the experts', and which differences are significant. */
export function demoAnswer({ report, status }: Pick<DemoResult, "report" | "status">): string {
  const bars = overviewOf(report, "sw")?.bars ?? [];
  const name = swapModel(status)?.name ?? "";
  const swap = bars.find(({ models }) => models.includes(name));
  const others = bars.filter(({ kind }) => kind === "base" || kind === "expert");
  if (!swap) return "";
  const scores = others.map(({ label, mean }) => `${label} ${percent(mean)}`).join(", ");
  const means = swap.count > 1 ? `Over ${swap.count} pairs of experts, taking` : "Taking";
  const first = `${means} the two bottom layers from the language expert solves ${percent(swap.mean)} of the Swahili problems (${scores}).`;
  // The tests compare two models, not means over pairs.
  if (swap.count > 1) return first;
  const title = overviewOf(report, "sw")?.title;
  const flips = report.flips.filter(({ model, task }) => task === title && model === name);
  const sentence = (text: string, holds: (difference: number, p: number) => boolean) => {
    const names = flips.filter(({ difference, pValue = 1 }) => holds(difference, pValue)).map(({ against }) => against);
    return names.length === 0 ? [] : [`${text} ${names.join(", ")}.`];
  };
  return [
    first,
    ...sentence("Beyond chance, that is better than", (difference, p) => difference > 0 && p < 0.05),
    ...sentence("Too close to call:", (_, p) => p >= 0.05),
    ...sentence("Beyond chance, that is worse than", (difference, p) => difference < 0 && p < 0.05),
  ].join(" ");
}

/** The default swap of the first pair. */
function swapModel({ expansion }: DemoResult["status"]): MergeModel | undefined {
  return expansion.models
    .map(({ model }) => model)
    .find(
      (model): model is MergeModel =>
        "merge" in model && model.merge.name === NAMES.swap && model.configuration.isDefault,
    );
}

/** All problems in Swahili, with the answers of the models of the first pair: base, experts, swap. */
export async function askedProblems({ out, status }: DemoResult): Promise<AskedProblem[]> {
  const rows = await readLines(join(out, "data", "problems.jsonl"));
  const { store, expansion } = status;
  const swap = swapModel(status)?.name ?? "";
  const names = ["base", `${NAMES.math}-1`, `${NAMES.language}-1`, swap];
  const answers = await Promise.all(
    names.map(async (name) => {
      const asked = expansion.models.find(({ model }) => model.name === name);
      const [step] = asked?.tasks.find(({ request }) => request.task === "problems_sw.yaml")?.steps ?? [];
      if (!step) return [];
      const samples = await readLines(join(store.stepFolder(step.key), EVALUATION, "samples-problems_sw.jsonl"));
      return (store.evaluated(step.key)?.items ?? []).map(({ value }, i) => ({
        ...{ name: name === swap ? NAMES.swap : name, isRight: value === 1 },
        text: String(samples[i]?.output ?? ""),
      }));
    }),
  );
  return rows.map(({ sw, en, answer }, i) => ({
    ...{ swahili: String(sw), english: String(en), gold: Number(answer) },
    answers: answers.flatMap((of) => of[i] ?? []),
  }));
}

async function readLines(file: string): Promise<Record<string, unknown>[]> {
  const lines = (await readFile(file, "utf8")).trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** Problems that one model solves and another does not, and vice versa. */
export function gainsAndLosses(
  problems: readonly AskedProblem[],
  name: string,
  against: string,
): { readonly gained: readonly AskedProblem[]; readonly lost: readonly AskedProblem[] } {
  const pairs = problems.map((problem) => {
    const of = (who: string) => problem.answers.filter((answer) => answer.name === who);
    return { ...problem, answers: [...of(name), ...of(against)] };
  });
  const flipped = (right: boolean) =>
    pairs.filter(({ answers: [one, other] }) => one?.isRight === right && other?.isRight === !right);
  return { gained: flipped(true), lost: flipped(false) };
}

/** Data of the page without its heatmap. */
export async function demoPageData(result: DemoResult): Promise<Record<string, unknown>> {
  const { report, pairs, seed, quick, experiment } = result;
  const problems = await askedProblems(result);
  const { gained, lost } = gainsAndLosses(problems, NAMES.swap, `${NAMES.math}-1`);
  const first = gained[0]?.swahili;
  const of = pairs > 1 ? `, ${pairs ** 2} pairs of experts` : "";
  return {
    ...{ rows: demoRows(report), pairs, gained, lost, answer: demoAnswer(result) },
    example: problems.find(({ swahili }) => swahili === first) ?? problems[0],
    parameters: experiment.world.base?.parameters,
    warning: quick ? QUICK_WARNING : "",
    about: `${problems.length} held-out problems, greedy answers, last number compared; seed ${seed}${of}.`,
  };
}

export const QUICK_WARNING =
  "This was a quick demo. A twentieth of the training shows that everything runs, not whether merging works.";

/** Analyzes where the experts of the first pair changed. */
export async function analyzeDemo({ out, status }: DemoResult, signal?: AbortSignal): Promise<Analysis> {
  const experts = {
    math: folderOf(`${NAMES.math}-1`, status),
    language: folderOf(`${NAMES.language}-1`, status),
  };
  return (await analyzeExperts({ base: join(out, "base", "last"), experts, ...(signal ? { signal } : {}) })).analysis;
}
