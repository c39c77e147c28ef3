import { join } from "node:path";
import { usageError, VERSION } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import { type Experiment, type ExperimentStatus, statusOfVariant } from "../experiment.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import { describeRunner, tasksOfAverage } from "../plan/plan-tasks.js";
import { describeTraining } from "../plan/training-runs.js";
import { VALUE } from "../steps/result.js";
import { changeFigures, gridFigures, overlapFigures } from "./grids.js";
import { lineFigures, roundFigures } from "./lines.js";
import { AVERAGE_PROTOCOL, overviews } from "./overview.js";
import { comparisonTable, planTables, pooledTable, type ScoredVariant } from "./plan-tables.js";
import { reportRecipes } from "./recipes.js";
import type {
  CostRow,
  ExperimentReport,
  Flips,
  PlanReport,
  ReportHead,
  ReportVariant,
  ScoreRow,
} from "./report-data.js";
import { type Answers, compareValues, Sheet, scoreOf } from "./score-sheet.js";
import { searchRow } from "./searches.js";
import { publishedTable, selectionTable } from "./selections.js";
import { INTERVALS } from "./tables.js";
import { compareVariants } from "./variants.js";

/** Gathers the report of a finished or unfinished experiment. */
export function gatherReport(experiment: Experiment, status: ExperimentStatus): ExperimentReport {
  if (experiment.variants.length === 0) return gatherPlan(experiment, status, sheetOf(experiment, status));
  const variants = status.variants.map((one): ReportVariant & ScoredVariant => {
    const { plan, id, title, values } = one.variant;
    const own = statusOfVariant(status, one);
    const sheet = sheetOf(one.variant, own);
    return { plan, id, title, values, sheet, report: gatherPlan(one.variant, own, sheet) };
  });
  return {
    kind: "matrix",
    ...headOf(experiment, status),
    base: { name: [...new Set(variants.map(({ plan }) => plan.base))].join(", ") },
    backend: [...new Set(variants.map(({ plan }) => describeRunner(plan)))].join("; "),
    variants: variants.map(({ plan: _, sheet: __, ...variant }) => variant),
    ...compareVariants(variants),
    scores: variants.flatMap(({ values, report }) =>
      report.scores.map((row) => ({ ...row, values, backend: report.backend })),
    ),
    tables: [pooledTable(variants) ?? []].flat(),
  };
}

/** @throws LayergraftError code `usage` if it is of a plan with a matrix, which `what` takes none of */
export function ofPlan(report: ExperimentReport, what: string): PlanReport {
  if (report.kind === "plan") return report;
  throw usageError(`${what} takes a plan without a matrix`);
}

function titleOf({ plan, title }: Experiment): string {
  return [plan.title ?? plan.name, title].filter((part) => part !== "").join(": ");
}

/** What the report of an experiment says first, with a matrix or without. */
function headOf(experiment: Experiment, { counts, steps, expansion, store }: ExperimentStatus) {
  const { done, failed, left, running, waiting } = counts;
  const { name, notes } = experiment.plan;
  return {
    name,
    title: titleOf(experiment),
    notes: notes === undefined ? [] : [notes],
    layergraft: VERSION,
    intervals: INTERVALS,
    progress: { done, failed, left: left + running, waiting },
    warnings: expansion.warnings,
    failures: steps.flatMap(({ step, state }) =>
      state.state === "failed" ? [{ label: step.label, reason: state.reason }] : [],
    ),
    stepNotes: stepNotes(experiment.world.notes, steps, store),
    cost: costOf(steps, store),
  };
}

function sheetOf({ plan, world }: Experiment, { expansion, store }: ExperimentStatus): Sheet {
  const averages = plan.averages.map(({ name, tasks }) => [name, tasksOfAverage(tasks, plan)] as const);
  return new Sheet(expansion, world.facts, store, new Map(averages));
}

/** The report of a plan without a matrix, or of a variant. */
function gatherPlan(experiment: Experiment, status: ExperimentStatus, sheet: Sheet): PlanReport {
  const { plan, world } = experiment;
  const head = headOf(experiment, status);
  const main = overviews(sheet, plan, world.base?.layers);
  const byModel = sheet.models.map((model) => scoresOf(model, sheet));
  const every = sheet.models.flatMap((model, i) => [...(byModel[i] ?? []), ...averagesOf(model, sheet)]);
  return {
    kind: "plan",
    ...head,
    notes: [...head.notes, ...unansweredNotes(byModel.flat())],
    base: { name: plan.base, parameters: world.base?.parameters, layers: world.base?.layers },
    backend: describeRunner(plan),
    overviews: main,
    tables: [...planTables(sheet, plan), ...[comparisonTable(sheet, plan) ?? []].flat()],
    published: publishedTable(experiment.published, main, plan.evaluate.tasks),
    selections: sheet.expansion.selections.map((selection) => selectionTable(selection, sheet)),
    lines: [roundFigures, lineFigures].flatMap((figuresOf) => figuresOf(sheet, plan)),
    changes: changeFigures(sheet.expansion, status.store),
    overlaps: overlapFigures(sheet.expansion, status.store),
    searches: sheet.expansion.searches.map((search) => searchRow(search, sheet, plan)),
    flips: flips(sheet),
    heatmaps: sheet.expansion.searches.flatMap((search) => gridFigures(sheet, search)),
    scores: every,
    recipes: reportRecipes(sheet, main, { origin: experiment, store: status.store }),
    experts: trainedExperts(sheet, plan),
    ...otherSteps(sheet, status),
  };
}

/** What steps with other verbs wrote and show; nothing of a plan without such steps. */
function otherSteps({ expansion }: Sheet, { store }: ExperimentStatus): Pick<PlanReport, "steps"> {
  const steps = expansion.steps.flatMap((step): NonNullable<PlanReport["steps"]> => {
    const result = store.result(step.key);
    if (step.kind !== "verb" || result?.kind !== "verb") return [];
    const { label, name, verb, key } = step;
    const folder = join("..", "steps", key);
    const wrote = result.out === undefined ? {} : { out: join(folder, result.out) };
    return [{ label, name, verb, value: join(folder, VALUE), ...wrote, figures: result.figures }];
  });
  return steps.length > 0 ? { steps } : {};
}

function trainedExperts({ experts, expansion }: Sheet, plan: ExperimentPlan): PlanReport["experts"] {
  return experts.flatMap(({ name, expertFamily: family, origin, needs }) => {
    const run = expansion.runs.get(needs[0] ?? "")?.settings;
    if (origin === undefined || !run) return [];
    return [{ name, family, from: plan.experts[family]?.train?.from ?? "base", how: describeTraining(run), origin }];
  });
}

/** What reported merges gained and lost against the base and their experts, on each task of both. */
function flips(sheet: Sheet): Flips[] {
  return sheet.merges.flatMap((model) => {
    if (!sheet.isReported(model) || model.merge.controlOf !== undefined) return [];
    return sheet.tasksOf(model.name).flatMap(({ request: { task }, facts }) =>
      ["base", ...model.members].flatMap((against): Flips[] => {
        const [own, other] = [model.name, against].map((name) => sheet.itemMeans([name], task));
        const found = own && other && compareValues(other, own);
        if (!found) return [];
        const { difference, interval, gained, lost, pValue } = found;
        const { title, scale } = facts;
        return [{ model: model.name, against, task: title, scale, difference, interval, gained, lost, pValue }];
      }),
    );
  });
}

/** Notes of the plan, then those of its steps, each once. */
function stepNotes(
  ofPlan: readonly string[],
  steps: ExperimentStatus["steps"],
  store: ExperimentStatus["store"],
): ReportHead["stepNotes"] {
  const found = new Map<string, string[]>(ofPlan.map((note) => [note, []]));
  for (const { step } of steps) {
    for (const note of store.result(step.key)?.notes ?? []) found.set(note, [...(found.get(note) ?? []), step.label]);
  }
  return [...found].map(([note, labels]) => ({ note, steps: labels }));
}

type AnyModel = Sheet["models"][number];

function modelHead(model: AnyModel, sheet: Sheet): Pick<ScoreRow, "model" | "kind" | "isReported"> {
  const isCandidate = "isCandidate" in model && model.isCandidate === true;
  const isControl = "merge" in model && model.merge.controlOf !== undefined;
  return {
    model: model.name,
    kind: isCandidate ? "candidate" : isControl ? "control" : model.kind,
    isReported: "merge" in model ? sheet.isReported(model) : !isCandidate,
  };
}

function scoresOf(model: AnyModel, sheet: Sheet): ScoreRow[] {
  return sheet.tasksOf(model.name).flatMap((answers): ScoreRow[] => {
    const { request, facts, items, asides } = answers;
    if (items.length === 0) return [];
    const isWhole = items.length === facts.items;
    const cell = isWhole
      ? sheet.cell([model.name], request.task, "all")
      : { value: scoreOf(answers), scale: facts.scale };
    return [
      {
        ...modelHead(model, sheet),
        task: facts.title,
        protocol: facts.protocol,
        cell,
        items: items.length,
        of: facts.items,
        asides,
        unanswered: countUnanswered(answers),
      },
    ];
  });
}

/** The averages of a model whose items are all there. */
function averagesOf(model: AnyModel, sheet: Sheet): ScoreRow[] {
  return [...sheet.averages].flatMap(([task, parts]): ScoreRow[] => {
    const answers = parts.flatMap((part) => sheet.answers(model.name, part) ?? []);
    if (answers.length < parts.length || answers.some(({ items, facts }) => items.length < facts.items)) return [];
    const items = answers.reduce((sum, one) => sum + one.items.length, 0);
    const head = modelHead(model, sheet);
    const cell = head.isReported ? sheet.cell([model.name], task, "all") : plainAverage(model, parts, sheet);
    const unanswered = answers.reduce((sum, one) => sum + countUnanswered(one), 0);
    return [{ ...head, task, protocol: AVERAGE_PROTOCOL, cell, items, of: items, unanswered, asides: [] }];
  });
}

/** Without an interval, whose bootstrap takes long for thousands of models that are not reported. */
function plainAverage(model: AnyModel, parts: readonly string[], sheet: Sheet): ScoreRow["cell"] {
  const cells = parts.map((part) => sheet.cell([model.name], part, "all"));
  const value = cells.reduce((sum, one) => sum + (one.value ?? Number.NaN), 0) / cells.length;
  return { value, scale: cells[0]?.scale ?? "share" };
}

const countUnanswered = ({ items }: Answers) => items.filter(({ value }) => value === null).length;

function unansweredNotes(rows: readonly ScoreRow[]): string[] {
  const lacking = rows.filter(({ unanswered }) => unanswered > 0);
  if (lacking.length === 0) return [];
  const count = lacking.reduce((sum, { unanswered }) => sum + unanswered, 0);
  return [
    `${plural(count, "item")} in ${plural(lacking.length, "score")} had no answer that could be judged, and are left out of means; see "Every score".`,
  ];
}

const COST_NAMES = {
  train: "training",
  analyze: "analyses",
  merge: "written merges",
  evaluate: "evaluations",
  verb: "other commands",
} as const;

function costOf(steps: ExperimentStatus["steps"], store: ExperimentStatus["store"]): ReportHead["cost"] {
  let [mergeSeconds, seconds] = [0, 0];
  const rows = new Map<string, CostRow>();
  for (const { step, state } of steps) {
    if (state.state !== "done") continue;
    const isMerge = step.kind === "evaluate" && typeof step.model !== "string";
    const what = isMerge ? "evaluations of merges" : COST_NAMES[step.kind];
    const { steps: count = 0, seconds: sum = 0 } = rows.get(what) ?? {};
    rows.set(what, { what, steps: count + 1, seconds: sum + state.seconds });
    seconds += state.seconds;
    mergeSeconds += store.evaluated(step.key)?.mergeSeconds ?? 0;
  }
  return { rows: [...rows.values()], mergeSeconds, seconds };
}
