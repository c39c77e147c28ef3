// The demo's results: rows of its tables, what the layer swap is compared with, and what the models answered.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { plural } from "../../core/index.js";
import { compareItems, type JudgedItem, meanWithError, signFlipTest } from "../../evaluate/index.js";
import { type Analysis, analyzeExperts } from "../../merge/index.js";
import { formatNumber, type Span } from "../../report/index.js";
import type { ExperimentReport, Overview, OverviewBar } from "../report/report-data.js";
import { Sheet } from "../report/score-sheet.js";
import { EVALUATION } from "../steps/run-evaluation.js";
import { NAMES } from "./demo-plan.js";
import { reportedSwaps } from "./reported-swap.js";
import { type DemoResult, folderOf } from "./run-demo.js";

/** A row of all methods; scores from 0 to 1. */
export interface DemoRow extends Pick<OverviewBar, "label" | "detail" | "kind" | "mean" | "low" | "high" | "interval"> {
  /** Mean score on the same problems in English. */
  readonly english: number | undefined;
}

/** A row of the main table. */
export interface MainRow {
  readonly name: "base" | "math expert" | "Swahili expert" | "best average" | "layer swap";
  /** What the model is, in a few words. */
  readonly about: string;
  /** Its row on the Swahili problems. */
  readonly bar: OverviewBar;
  /** Mean score on the same problems in English. */
  readonly english: number | undefined;
}

/** The layer swap against another row, on the same Swahili problems. With several pairs, each problem is their mean. */
export interface Lead {
  /** A row of the main table by its name there, otherwise its label. */
  readonly against: string;
  /** Whether it is a row of the main table. */
  readonly isMain: boolean;
  /** From -1 to 1; positive if the swap is better. */
  readonly difference: number;
  readonly standardError: number;
  /** 95% interval of the difference. */
  readonly interval: Span | undefined;
  /** Two-sided sign-flip test. */
  readonly pValue: number;
}

/** A problem with answers of some models. */
export interface AskedProblem {
  readonly swahili: string;
  readonly english: string;
  readonly gold: number;
  readonly answers: readonly { readonly name: string; readonly text: string; readonly isRight: boolean }[];
}

type Results = Pick<DemoResult, "report" | "status" | "experiment">;

/** Names of tasks in the plan. */
export const TASKS = { sw: "problems_sw.yaml", en: "problems_en.yaml", reading: "reading_sw.yaml" } as const;
const AVERAGES: readonly string[] = ["soup", "soup by magnitude"];

export function overviewOf({ overviews }: ExperimentReport, name: keyof typeof TASKS): Overview | undefined {
  return overviews.find(({ task }) => task === TASKS[name]);
}

/** Mean scores of a task by the label of the row. */
export function scoresOf(report: ExperimentReport, name: keyof typeof TASKS): ReadonlyMap<string, number> {
  return new Map(overviewOf(report, name)?.bars.map(({ label, mean }) => [label, mean]));
}

/** All rows, in the order of the plan. */
export function demoRows(report: ExperimentReport): DemoRow[] {
  const english = scoresOf(report, "en");
  return (overviewOf(report, "sw")?.bars ?? []).map(({ label, detail, kind, mean, low, high, interval }) => ({
    ...{ label, detail, kind, mean, low, high, interval, english: english.get(label) },
  }));
}

/** The main table. A row that the plan no longer has is left out. */
export function mainRows({ report, status }: Pick<Results, "report" | "status">): MainRow[] {
  const bars = overviewOf(report, "sw")?.bars ?? [];
  const english = scoresOf(report, "en");
  const swaps = reportedSwaps(status).map(({ name }) => name);
  const [average] = bars.filter(({ label }) => AVERAGES.includes(label)).toSorted((a, b) => b.mean - a.mean);
  const row = (name: MainRow["name"], about: string, bar: OverviewBar | undefined): MainRow[] =>
    bar ? [{ name, about, bar, english: english.get(bar.label) }] : [];
  return [
    ...row(
      "base",
      "both experts start from it",
      bars.find(({ kind }) => kind === "base"),
    ),
    ...row(
      "math expert",
      "learned mathematics, in English only",
      bars.find(({ label }) => label === NAMES.math),
    ),
    ...row(
      "Swahili expert",
      "learned Swahili, no word problems",
      bars.find(({ label }) => label === NAMES.language),
    ),
    ...row("best average", `${average?.label}: a mean of all weights`, average),
    ...row(
      "layer swap",
      "layers of both experts, not trained",
      bars.find(({ models }) => models.length === swaps.length && models.every((name) => swaps.includes(name))),
    ),
  ];
}

/** The swap against each of the other rows, those of the main table first. */
export function leads({ experiment, ...result }: Results): Lead[] {
  const rows = mainRows(result);
  const sheet = new Sheet(result.status.expansion, experiment.world.facts, result.status.store);
  const itemsOf = ({ models }: OverviewBar): JudgedItem[] =>
    [...(sheet.itemMeans(models, TASKS.sw, "all") ?? [])].map(([id, value]) => ({ id, verdict: { value } }));
  const swap = rows.find(({ name }) => name === "layer swap")?.bar;
  if (!swap) return [];
  const own = itemsOf(swap);
  const metric = { name: "value", title: "", of: "value", by: "mean", scale: "share" } as const;
  const shown = new Set(rows.map(({ bar }) => bar));
  const further = (overviewOf(result.report, "sw")?.bars ?? []).filter((bar) => !shown.has(bar));
  return [
    ...rows.map(({ name, bar }) => ({ against: name, bar, isMain: true })),
    ...further.map((bar) => ({ against: bar.label, bar, isMain: false })),
  ].flatMap(({ bar, ...row }): Lead[] => {
    if (bar === swap) return [];
    const others = itemsOf(bar);
    const before = new Map(others.map(({ id, verdict }) => [id, Number(verdict?.value)]));
    const differences = own.flatMap(({ id, verdict }) => Number(verdict?.value) - (before.get(id) ?? Number.NaN));
    const known = differences.filter(Number.isFinite);
    if (known.length === 0) return [];
    const { mean: difference, standardError } = meanWithError(known);
    const { interval } = compareItems(metric, others, own);
    return [{ ...row, difference, standardError, interval, pValue: signFlipTest(known) }];
  });
}

const percent = (value: number) => `${formatNumber({ value, scale: "share" })}%`;

/** Whether a lead could be chance. */
export function isClear({ pValue }: Pick<Lead, "pValue">): boolean {
  return pValue < 0.05;
}

/** `p = 0.359`, `p < 0.001` */
export function describeP({ pValue }: Pick<Lead, "pValue">): string {
  const p = formatNumber({ value: pValue, scale: "probability" });
  return `p ${p.startsWith("<") ? p : `= ${p}`}`;
}

/** `7.3 points more than the best expert, which is beyond chance (standard error 2.1, p < 0.001)` */
function describeLead({ difference, standardError, pValue }: Lead, name: string): string {
  const points = formatNumber({ value: Math.abs(difference), scale: "share" });
  const amount =
    Math.abs(difference) < 1e-9 ? "as many as" : `${points} points ${difference > 0 ? "more" : "fewer"} than`;
  const verdict = isClear({ pValue }) ? "beyond chance" : "too close to tell";
  const error = formatNumber({ value: standardError, scale: "share" });
  return `${amount} ${name}, which is ${verdict} (standard error ${error}, ${describeP({ pValue })})`;
}

/** What happened and how sure it is, in a sentence; empty if the plan no longer has the swap. */
export function demoAnswer(result: Results): string {
  const rows = mainRows(result);
  const swap = rows.find(({ name }) => name === "layer swap");
  if (!swap) return "";
  const { count, mean } = swap.bar;
  const best = (name: string, ...of: MainRow["name"][]) => {
    const [row] = rows.filter((one) => of.includes(one.name)).toSorted((a, b) => b.bar.mean - a.bar.mean);
    return row ? [{ name, row }] : [];
  };
  const rivals = [
    ...best("the base", "base"),
    ...best("the best expert", "math expert", "Swahili expert"),
    ...best("the best average", "best average"),
  ];
  const [rival] = rivals.toSorted((a, b) => b.row.bar.mean - a.row.bar.mean);
  const lead = leads(result).find(({ against }) => against === rival?.row.name);
  const scores = rivals.map(({ name, row }) => `${name.replace("the ", "")} ${percent(row.bar.mean)}`).join(", ");
  const over = count > 1 ? ` averaged over ${plural(count, "pair")},` : "";
  return (
    "A model made of layers from a math expert and a Swahili expert, without further training," +
    `${over} solves ${percent(mean)} of the Swahili word problems (${scores})${lead && rival ? `: ${describeLead(lead, rival.name)}` : ""}.`
  );
}

/**
 * How the best merge does that is neither a swap nor an average, in a sentence: the headline names averages only, as the paper
 * does. Empty if the plan has none.
 */
export function otherMerge(result: Results): string {
  const all = overviewOf(result.report, "sw")?.bars ?? [];
  const [best] = all.filter(({ kind }) => kind === "merge").toSorted((a, b) => b.mean - a.mean);
  const lead = leads(result).find(({ against }) => against === best?.label);
  if (!best || !lead) return "";
  const error = formatNumber({ value: lead.standardError, scale: "share" });
  const points = formatNumber({ value: Math.abs(lead.difference), scale: "share" });
  const side = lead.difference < 0 ? "more" : "fewer";
  const [name] = best.label.split(",");
  return `Of the other merges, ${name} does best: ${percent(best.mean)}, ${points} points ${side} than the swap (standard error ${error}).`;
}

/** All problems in Swahili, with the answers of the models of the first pair: base, experts, swap. */
export async function askedProblems({ out, status }: DemoResult): Promise<AskedProblem[]> {
  const rows = await readLines(join(out, "data", "problems.jsonl"));
  const { store, expansion } = status;
  const asked: readonly (readonly [name: string, model: string | undefined])[] = [
    ["base", "base"],
    ["math expert", `${NAMES.math}-1`],
    ["Swahili expert", `${NAMES.language}-1`],
    ["layer swap", reportedSwaps(status)[0]?.name],
  ];
  const answers = await Promise.all(
    asked.map(async ([name, model]) => {
      const tasks = expansion.models.find((one) => one.model.name === model)?.tasks;
      const [step] = tasks?.find(({ request }) => request.task === TASKS.sw)?.steps ?? [];
      if (!step) return [];
      const samples = await readLines(samplesFile(store.stepFolder(step.key)));
      return (store.evaluated(step.key)?.items ?? []).map(({ value }, i) => ({
        ...{ name, isRight: value === 1, text: String(samples[i]?.output ?? "") },
      }));
    }),
  );
  return rows.map(({ sw, en, answer }, i) => ({
    ...{ swahili: String(sw), english: String(en), gold: Number(answer) },
    answers: answers.flatMap((of) => of[i] ?? []),
  }));
}

/** The answers of an evaluation of the Swahili problems, a line each. */
export function samplesFile(stepFolder: string): string {
  return join(stepFolder, EVALUATION, `samples-${TASKS.sw.replace(".yaml", "")}.jsonl`);
}

async function readLines(file: string): Promise<Record<string, unknown>[]> {
  const lines = (await readFile(file, "utf8")).trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** Problems that some models solve and others do not. */
export function solvedBy(
  problems: readonly AskedProblem[],
  { right, wrong }: { readonly right: readonly string[]; readonly wrong: readonly string[] },
): AskedProblem[] {
  return problems.filter(({ answers }) => {
    const all = (names: readonly string[], isRight: boolean) =>
      names.every((name) => answers.some((one) => one.name === name && one.isRight === isRight));
    return all(right, true) && all(wrong, false);
  });
}

export const QUICK_WARNING =
  "This was a quick demo. A twentieth of the training shows that everything runs, not whether merging works.";

/** Analyzes where the experts of the first pair changed. */
export async function analyzeDemo({ out, status }: DemoResult, signal?: AbortSignal): Promise<Analysis> {
  const experts = {
    "math expert": folderOf(`${NAMES.math}-1`, status),
    "Swahili expert": folderOf(`${NAMES.language}-1`, status),
  };
  return (await analyzeExperts({ base: join(out, "base", "last"), experts, ...(signal ? { signal } : {}) })).analysis;
}
