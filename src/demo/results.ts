// What the demo found: its rows, how far the swap leads each, and how models answered the shown problems.
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { highest, isAbove } from "../evaluate/findings/index.js";
import { samplesFile } from "../evaluate/index.js";
import { EVALUATION, type RunEvent, type Store } from "../experiment/index.js";
import { candidateOf, type OverviewBar, type PlanReport, rowFinding, Sheet } from "../experiment/report/index.js";
import { type Finding, findingWords, formatNumber, type Lead, listed, sentence } from "../figures/index.js";
import { Random } from "../kit/index.js";
import type { DemoResult } from "./run-demo.js";
import { reportedSwaps } from "./swap.js";

export const NAMES = { swap: "layer swap", math: "math", language: "swahili" } as const;
export const EXPERTS = { task: "math expert", language: "Swahili expert" } as const;
const RANDOM = `random layers, control of ${NAMES.swap}`;
export const TASKS = { sw: "problems_sw.yaml", en: "problems_en.yaml" } as const;

/** A row of the main table; scores from 0 to 1. */
export interface MainRow {
  readonly name: string;
  /** What the model is, in a few words. */
  readonly about: string;
  /** Its row of the report on the Swahili problems. */
  readonly bar: OverviewBar;
  /** Mean score on the same problems in English. */
  readonly english: number | undefined;
  /** How far the layer swap is above it; undefined for the swap itself. */
  readonly lead?: Lead | undefined;
}

type Results = Pick<DemoResult, "report" | "status" | "experiment">;

const barsOf = ({ overviews }: PlanReport, name: keyof typeof TASKS): readonly OverviewBar[] =>
  overviews.find(({ task }) => task === TASKS[name])?.bars ?? [];

/** The main table, the layer swap last. A row that the plan no longer has is left out. */
export function mainRows({ report, status, experiment }: Results): MainRow[] {
  const bars = barsOf(report, "sw");
  const english = new Map(barsOf(report, "en").map(({ label, mean }) => [label, mean]));
  const best = (kind: OverviewBar["kind"]) =>
    highest(bars.flatMap((bar) => (bar.kind === kind ? [{ ...bar, score: bar.mean }] : [])));
  const [average, merge] = [best("average"), best("merge")];
  const expert = (family: string) => bars.find(({ kind, label }) => kind === "expert" && label === family);
  const swap = swapIn(bars, status);
  const random = bars.find(({ kind, label }) => kind === "control" && label === RANDOM);
  const found: readonly (readonly [name: string, about: string, bar: OverviewBar | undefined])[] = [
    ["base", "both experts start from it", best("base")],
    [EXPERTS.task, "learned mathematics, in English only", expert(NAMES.math)],
    [EXPERTS.language, "learned Swahili, no word problems", expert(NAMES.language)],
    ["best average", `${average?.label}: a mean of all weights`, average],
    ["best other merge", otherName(merge, status), merge],
    ["random layers", random ? `mean of ${random.count} draws, ${span(random)}` : "", random],
    ["layer swap", "layers of both experts, not trained", swap],
  ];
  const rows = found.flatMap(([name, about, bar]) =>
    bar ? [{ name, about, bar, english: english.get(bar.label) }] : [],
  );
  if (!swap) return rows;
  const leads = new Map(demoFinding({ report, status, experiment })?.leads.map((lead) => [lead.over, lead]));
  return rows.map((row) => ({ ...row, lead: leads.get(row.bar.label) }));
}

/** The row of the swap that the demo reports. */
function swapIn<R extends Pick<OverviewBar, "models">>(rows: readonly R[], status: Results["status"]): R | undefined {
  const swaps = reportedSwaps(status).map(({ name }) => name);
  return rows.find(({ models }) => models.length === swaps.length && models.every((name) => swaps.includes(name)));
}

/** `TIES, density 0.5` */
function otherName(bar: OverviewBar | undefined, { expansion }: Results["status"]): string {
  const model = expansion.models.find((asked) => asked.model.name === bar?.models[0])?.model;
  if (!model || !("merge" in model)) return bar?.label ?? "";
  return [model.merge.name, model.configuration.label].filter((part) => part !== "").join(", ");
}

export function allRows({ report }: Pick<Results, "report">) {
  const english = new Map(barsOf(report, "en").map(({ label, mean }) => [label, mean]));
  return barsOf(report, "sw").map(({ label, detail, kind, mean, low, high, interval }) => {
    return { label, detail, kind, mean, low, high, interval, english: english.get(label) };
  });
}

/** `from 1.6 to 79.6` */
function span({ low, high }: OverviewBar): string {
  const [from, to] = [low, high].map((value) => formatNumber({ value, scale: "share" }));
  return `from ${from} to ${to}`;
}

const percent = (value: number) => `${formatNumber({ value, scale: "share" })}%`;

/** What the demo found on the Swahili problems, about the swap; undefined if the plan no longer has it. */
export function demoFinding({ report, status, experiment }: Results): Finding | undefined {
  const bars = barsOf(report, "sw").map((bar) => candidateOf({ row: namedRow(bar), mean: bar.mean }));
  const swap = swapIn(bars, status);
  const sheet = new Sheet(status.expansion, experiment.world.facts, status.store);
  return swap && rowFinding(TASKS.sw, bars, sheet, swap);
}

/** Experts by what the demo calls them. */
const namedRow = (bar: OverviewBar) => ({ ...bar, entry: EXPERT_OF[bar.entry] ?? bar.entry });

/** Whether the swap is significantly above the best alternative, and above random layers. */
export function isClear(result: Results): boolean {
  const finding = demoFinding(result);
  return finding?.outcome === "above" && !finding.controls.some(({ label }) => label === RANDOM);
}

/** `Layers drawn at random solve 31.0% on average (10 draws, from 1.6 to 79.6), so it matters which layers are swapped.` */
function describeControl({ bar, lead }: MainRow): string {
  const found = `Layers drawn at random solve ${percent(bar.mean)} on average (${bar.count} draws, ${span(bar)})`;
  return `${found}, so ${isAbove(lead) ? "it matters which layers are swapped" : "any layers would do as well"}.`;
}

/** What happened, in sentences; empty if the plan no longer has the swap. */
export function demoAnswer(result: Results): string {
  const finding = demoFinding(result);
  if (!finding) return "";
  const words = findingWords(finding, { verb: "solves", of: "of the Swahili word problems" });
  // Other layers of the swap are in the table.
  const said = [words.lead, ...(finding.outcome === "above" ? [] : [words.test])].join(" ");
  const rows = mainRows(result);
  const of = (kind: OverviewBar["kind"]) => rows.filter(({ bar }) => bar.kind === kind);
  // The alternative is named already.
  const others = [
    { what: "best average", row: highest(of("average").map(scored)) },
    { what: "better expert", row: highest(of("expert").map(scored)) },
  ].flatMap(({ what, row }) => {
    if (!row || row.bar.label === finding.alternative?.label) return [];
    const name = row.bar.kind === "average" ? row.bar.label : row.name;
    return [`the ${what} (${name}) solves ${percent(row.bar.mean)}`];
  });
  const rest = others.length === 0 ? [] : [sentence(`${listed(others)}.`)];
  return [said, ...rest, ...of("control").map(describeControl)].join(" ");
}

const scored = (row: MainRow) => ({ ...row, kind: row.bar.kind, score: row.bar.mean });

/** How a model answered: the number and the equation are right, only the number is, or neither. */
export type Mark = "right" | "wrong equation" | "wrong";

export const MARKS: Readonly<Record<Mark, string>> = { right: "✓", "wrong equation": "~", wrong: "✗" };
export const MARKS_LEGEND = "✓ right, ~ right number from a wrong equation (counts as solved), ✗ wrong";

export interface Answer {
  readonly text: string;
  readonly mark: Mark;
}

/** A model's answers to the shown problems. */
export interface ModelAnswers {
  /** The model: a row of the main table, or `layer swap, bottom 2, top 1 (default)`. */
  readonly model: string;
  readonly answers: readonly Answer[];
  /** Share of all problems that the model solves. */
  readonly score: number;
}

const SHOWN = 5;

/** A line of `data/problems.jsonl`. */
export interface Problem {
  readonly sw: string;
  readonly en: string;
  readonly answer: number;
  /** The equation that leads to it: `9 - 7 = 2.` */
  readonly solution: string;
}

/** Problems with their indexes among all. They are the same ones always, drawn before any model has answered. */
export async function shownProblems(out: string): Promise<{ index: number; problem: Problem }[]> {
  const lines = (await readFile(join(out, "data", "problems.jsonl"), "utf8")).trimEnd().split("\n");
  const problems = lines.map((line, index) => ({ index, problem: JSON.parse(line) as Problem }));
  return Random.of(0, "shown problems").sample(problems, SHOWN);
}

type Shown = Awaited<ReturnType<typeof shownProblems>>;

/**
 * The answers in the folder of an evaluation of the Swahili problems; undefined if only some were asked. Read at once, so
 * that events keep their order.
 */
function answersIn(stepFolder: string, shown: Shown): Answer[] | undefined {
  const file = join(stepFolder, EVALUATION, samplesFile(TASKS.sw.replace(".yaml", "")));
  const lines = readFileSync(file, "utf8").trimEnd().split("\n");
  const samples = new Map(lines.map((line) => JSON.parse(line)).map((sample) => [sample.id, sample]));
  const idOf = (index: number) => `${index + 1}`;
  if (!shown.every(({ index }) => samples.has(idOf(index)))) return undefined;
  return shown.map(({ index, problem }) => {
    const { output, verdict } = samples.get(idOf(index));
    const text = String(output ?? "").trim();
    const mark = verdict?.exact !== 1 ? "wrong" : text === problem.solution ? "right" : "wrong equation";
    return { text, mark };
  });
}

const EXPERT_OF: Readonly<Record<string, string>> = {
  [NAMES.math]: EXPERTS.task,
  [NAMES.language]: EXPERTS.language,
};

/** The answers of a model whose evaluation on the Swahili problems has just ended; undefined for other events. */
export function evaluatedAnswers(event: RunEvent, store: Store, shown: Shown): ModelAnswers | undefined {
  const { model, task } = event;
  if (event.event !== "done" || event.score === undefined || model === undefined || task !== TASKS.sw) return undefined;
  const { entry, configuration, isDefault } = model;
  const known = isDefault && configuration !== "" ? `${configuration} (default)` : configuration;
  const name = EXPERT_OF[entry] ?? [entry, known].filter((part) => part !== "").join(", ");
  const answers = answersIn(store.stepFolder(event.key), shown);
  return answers && { model: name, answers, score: event.score };
}

/** The answers of the models of the main table, by the names of its rows. */
export function mainAnswers(result: Results, shown: Shown): ModelAnswers[] {
  const { store, expansion } = result.status;
  return mainRows(result).flatMap(({ name, bar }) => {
    const asked = expansion.models.find(({ model }) => model.name === bar.models[0]);
    const [step] = asked?.tasks.find(({ request }) => request.task === TASKS.sw)?.steps ?? [];
    const answers = step && answersIn(store.stepFolder(step.key), shown);
    return answers ? [{ model: name, answers, score: bar.mean }] : [];
  });
}
