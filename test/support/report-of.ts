// Makes the report of a plan whose results a function gives.

import { expandVariants } from "../../src/experiment/expand/expand-variants.js";
import type { Facts, Results } from "../../src/experiment/expand/facts.js";
import type { Experiment, ExperimentStatus } from "../../src/experiment/experiment.js";
import type { Variant } from "../../src/experiment/plan/matrix.js";
import { parseVariants } from "../../src/experiment/plan/plan-file.js";
import type { ExperimentPlan } from "../../src/experiment/plan/plan-schema.js";
import { gatherReport, ofPlan } from "../../src/experiment/report/gather.js";
import { experimentPage } from "../../src/experiment/report/page.js";
import type { ExperimentReport, MatrixReport } from "../../src/experiment/report/report-data.js";
import { Store } from "../../src/experiment/run/store.js";
import type {
  Changed,
  EvaluationResult,
  Overlap,
  SuggestedRecipe,
  TrainedCheckpoint,
} from "../../src/experiment/steps/result.js";
import type { EvaluateStep } from "../../src/experiment/steps/step.js";
import { tablesOf } from "../../src/figures/figures.js";
import { pageMarkdown } from "../../src/figures/page-markdown.js";
import { type Cell, isNumber, type Table } from "../../src/figures/table.js";
import { FakeWorld, fakeFacts } from "./fake-world.js";

/** The cells of a row that are numbers. */
export const numbersOf = (row: readonly Cell[] = []) => row.filter(isNumber);

/** The numbers of the row with a label. */
export const rowOf = (table: Table | undefined, label: string) =>
  numbersOf(table?.rows.find(([first]) => first === label));

/** A report in Markdown. */
export const markdownOf = (report: ExperimentReport) => pageMarkdown(experimentPage(report));

/** The tables of a report that have files. */
export const tablesIn = (report: ExperimentReport) => tablesOf(experimentPage(report));

/** Results of a fake world, and the places of its models. */
class FakeStore extends Store {
  constructor(results: Results) {
    super("/work/small.experiment");
    Object.assign(this, results);
  }
}

/** The results of several worlds, which agree. */
function anyOf(all: readonly Results[]): Results {
  const first = <T>(of: (one: Results) => T | undefined) => all.map(of).find((found) => found !== undefined);
  return {
    trained: (key) => first((one) => one.trained(key)),
    suggested: (key) => first((one) => one.suggested(key)),
    overlap: (key) => first((one) => one.overlap(key)),
    changed: (key) => first((one) => one.changed(key)),
    evaluated: (key) => first((one) => one.evaluated(key)),
  };
}

/** How many of ten items in a row a model gets right. */
export type Strength = (step: EvaluateStep) => number;

export interface ReportOfOptions {
  /** Run to the end; default true. Else every step has failed. */
  readonly isFinished?: boolean;
  /** Run only so many rounds of steps that can run. */
  readonly rounds?: number;
  readonly suggested?: readonly SuggestedRecipe[];
  /** What every pair of experts both changed. */
  readonly overlap?: Overlap;
  /** What every expert changed. */
  readonly changed?: Changed;
  /** What every evaluation measures beside its score. */
  readonly asides?: EvaluationResult["asides"];
  /** Checkpoints of each training run. */
  readonly checkpoints?: readonly TrainedCheckpoint[];
  readonly place?: Partial<Pick<Experiment, "isAsWritten" | "published">>;
  /** Folders of models. */
  readonly folderOf?: (source: string) => string;
  /** Items that a model gives no answer to. */
  readonly isSilent?: (step: EvaluateStep, item: number) => boolean;
  /** Items whose choices are tied. */
  readonly isTied?: (step: EvaluateStep, item: number) => boolean;
}

/** The report of a plan without a matrix, and what the plan amounts to. */
export function reportOf(text: string, strength: Strength, options: ReportOfOptions = {}) {
  const made = madeOf(text, strength, options);
  return { ...made, report: ofPlan(made.report, "reportOf") };
}

/** The same of a plan with a matrix. */
export function matrixOf(text: string, strength: Strength, options: ReportOfOptions = {}) {
  const made = madeOf(text, strength, options);
  if (made.report.kind !== "matrix") throw new Error("the plan has no matrix");
  return { ...made, report: made.report as MatrixReport };
}

function madeOf(
  text: string,
  strength: Strength,
  { isFinished = true, rounds, suggested = [], checkpoints, isSilent = () => false, ...given }: ReportOfOptions = {},
) {
  const worth = (step: EvaluateStep, item: number) =>
    isSilent(step, item) ? null : item % 10 < strength(step) ? 1 : 0;
  const { folderOf = (source) => `/models/${source}` } = given;
  const facts: Facts = {
    ...fakeFacts,
    modelIdentity: (source) => ({ identity: `id:${source}`, folder: folderOf(source) }),
  };
  const options = {
    ...{ worth, suggested, asides: given.asides, overlap: given.overlap, changed: given.changed, facts },
    ...(checkpoints ? { checkpoints } : {}),
    ...(given.isTied ? { isTied: given.isTied } : {}),
  };
  const combinations = parseVariants(text);
  const worlds = combinations.map(({ plan }) => new FakeWorld(plan, options));
  for (const world of worlds) {
    for (let round = 0; round < (rounds ?? 0); round++) world.round();
    if (isFinished && rounds === undefined) world.finish();
  }
  const results = anyOf(worlds.map((world) => world.results));
  const base = { parameters: 1.24e9, bytes: 2.5e9, layers: 16 };
  const out = "/work/small.experiment";
  const place = {
    id: "",
    title: "",
    values: {},
    variants: [],
    file: "plan.yaml",
    planFolder: "/work",
    out,
    isAsWritten: true,
    published: [],
    ...given.place,
  };
  const [first] = combinations as readonly [Variant];
  const experimentOf = (plan: ExperimentPlan) =>
    ({ plan, world: { notes: [], facts, problems: [], base }, ...place }) as unknown as Experiment;
  const own = first.id === "" ? [] : combinations.map((one) => ({ ...experimentOf(one.plan), ...one }));
  const experiment = { ...experimentOf(first.plan), variants: own };
  const { expansion, variants } = expandVariants(own.length > 0 ? own : [experiment], facts, results);
  const steps = expansion.steps.map((step) => ({
    step,
    state: isFinished
      ? { state: "done", attempts: 1, seconds: 2 }
      : { state: "failed", attempts: 1, seconds: 1, reason: "no <memory>" },
  }));
  const counts = {
    done: isFinished ? steps.length : 0,
    failed: isFinished ? 0 : steps.length,
    left: 0,
    running: 0,
    waiting: isFinished ? 0 : 7,
  };
  const store = new FakeStore(results);
  const status = { expansion, variants, steps, counts, store } as unknown as ExperimentStatus;
  return { report: gatherReport(experiment, status), expansion, experiment, status };
}
