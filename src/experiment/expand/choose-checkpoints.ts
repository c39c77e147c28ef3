import { plural } from "../../kit/printing/index.js";
import type { ExperimentPlan, ExpertFamily } from "../plan/plan-schema.js";
import { decidingScores, inLanguages, requestOf, tasksFor } from "../plan/plan-tasks.js";
import { countCheckpoints } from "../plan/training-runs.js";
import type { TrainedCheckpoint } from "../steps/result.js";
import type { TrainStep } from "../steps/step.js";
import type { Facts, Results } from "./facts.js";
import { checkpointModel, type ExpertModel, type PlanModel, type PlannedTrainStep } from "./plan-models.js";
import type { StepList } from "./step-list.js";

export interface Selection {
  readonly expertFamily: string;
  readonly top: number;
  /** Tasks and averages whose mean decides. */
  readonly by: readonly string[];
  /** Of the scores: shares and points as they are, or z-scores over the checkpoints where `by` mixes these. */
  readonly scale: "share" | "points" | "z-score";
  /** `within`: points; `base`: its score, from 0 to 1. */
  readonly guards: readonly { readonly task: string; readonly within: number; readonly base: number | undefined }[];
  /** The best first. Scores are from 0 to 1, or z-scores; `guarded` in the order of the guards; `name` of those that were kept. */
  readonly checkpoints: readonly {
    readonly origin: string;
    readonly score: number;
    readonly guarded: readonly (number | undefined)[];
    readonly refusedBy: readonly string[];
    readonly name?: string;
    /** The kept checkpoint of its run, in whose place it would be. */
    readonly sameAs?: string | undefined;
  }[];
}

/** Scores of the same answers differ in their last bits. */
const TIE = 1e-9;

/** A checkpoint with its mean score, and its scores on the guards. */
interface Candidate {
  readonly step: TrainStep;
  readonly checkpoint: TrainedCheckpoint;
  readonly origin: string;
  /** Of each task or average that decides. */
  readonly scores: readonly number[];
  readonly guarded: readonly number[];
}

interface Scored extends Candidate {
  readonly score: number;
}

/** Base as guards judge it: its own name and no report, because the base may not be evaluated on the task otherwise. */
const GUARDED_BASE = { name: "base (for guards)", isCandidate: true };

/**
 * The best checkpoints of a group's runs, once all are evaluated; until then undefined. Requests what decides.
 * @returns `selection`: how they were chosen
 */
export function selectCheckpoints(
  group: string,
  runs: readonly PlannedTrainStep[],
  base: PlanModel,
  plan: ExperimentPlan,
  steps: StepList,
  results: Results,
  facts: Pick<Facts, "task">,
): { readonly kept: readonly ExpertModel[]; readonly selection: Selection } | undefined {
  const { select, language } = plan.experts[group] as ExpertFamily;
  const rule = select as NonNullable<ExpertFamily["select"]>;
  const languages = language === undefined ? base.languages : [language];
  const requestsFor = (task: string) => inLanguages(task, languages).map((name) => requestOf(name, plan));
  const deciding = decidingScores(rule.by, plan, languages).map(({ name, tasks }) => {
    return { name, requests: tasks.map((task) => requestOf(task, plan)) };
  });
  const tasks = deciding.flatMap(({ requests }) => requests);
  const guards = rule.guards.flatMap(({ task, within }) => requestsFor(task).map((request) => ({ request, within })));
  const judged = { ...base, ...GUARDED_BASE };
  const floors = guards.map(({ request, within }) => ({
    task: request.task,
    within,
    base: steps.score(judged, request),
  }));
  const candidates = runs.flatMap(({ step }) =>
    (results.trained(step.key) ?? []).map((checkpoint) => {
      const name = `${step.name}@${checkpoint.samples}`;
      const model = { ...checkpointModel(name, group, plan, step, checkpoint), isCandidate: true };
      const scores = deciding.map(({ requests }) => meanOf(requests.map((request) => steps.score(model, request))));
      const guarded = guards.map(({ request }) => steps.score(model, request));
      return { step, checkpoint, origin: model.origin ?? "", scores, guarded };
    }),
  );
  const isTrained = runs.every(({ step }) => results.trained(step.key));
  if (!isTrained) {
    const names = [...new Set(guards.map(({ request }) => request.task))].join(", ");
    const what = `scores of checkpoints of ${group}${names === "" ? "" : `, and their guards (${names})`}`;
    const checkpoints = runs.reduce((sum, { settings }) => sum + countCheckpoints(settings), 0);
    steps.wait(what, (tasks.length + guards.length) * checkpoints);
  }
  const isKnown = floors.every(({ base: score }) => score !== undefined);
  if (!isTrained || !isKnown || candidates.some(({ scores, guarded }) => [...scores, ...guarded].includes(undefined))) {
    const reported = tasksFor({ kind: "expert", languages }, plan);
    steps.wait(`scores of the ${rule.top} best of ${group}`, rule.top * reported.length);
    return undefined;
  }
  const scales = new Set(tasks.map((request) => facts.task(request).scale));
  const scale = scales.size > 1 ? "z-score" : ([...scales][0] ?? "share");
  const scored = scoreAll(candidates as readonly Candidate[], scale);
  const { kept, checkpoints } = chooseCheckpoints(group, rule, scored, floors);
  const models = kept.map(({ name, step, checkpoint }) => checkpointModel(name, group, plan, step, checkpoint));
  const by = deciding.map(({ name }) => name);
  return { kept: models, selection: { expertFamily: group, top: rule.top, by, scale, guards: floors, checkpoints } };
}

function meanOf(scores: readonly (number | undefined)[]): number | undefined {
  const known = scores.filter((score) => score !== undefined);
  return known.length === scores.length ? known.reduce((sum, score) => sum + score, 0) / known.length : undefined;
}

/** The mean of each candidate's scores; of different scales, of their z-scores over the candidates. */
function scoreAll(candidates: readonly Candidate[], scale: Selection["scale"]): Scored[] {
  const [first] = candidates;
  const columns = (first?.scores ?? []).map((_, i) => candidates.map(({ scores }) => scores[i] ?? 0));
  const spread = columns.map((values) => {
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    return { mean, deviation: Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length) };
  });
  const standard = (value: number, i: number) => {
    const { mean, deviation } = spread[i] ?? { mean: 0, deviation: 0 };
    return deviation < TIE ? 0 : (value - mean) / deviation;
  };
  return candidates.map((one) => {
    const scores = scale === "z-score" ? one.scores.map(standard) : one.scores;
    return { ...one, score: scores.reduce((sum, value) => sum + value, 0) / scores.length };
  });
}

/**
 * The best checkpoints that pass the guards, named in their order.
 * @param guards floors: the base's score less `within` points
 * @returns `checkpoints`: all of them, the best first
 */
function chooseCheckpoints(
  group: string,
  rule: NonNullable<ExpertFamily["select"]>,
  candidates: readonly Scored[],
  guards: Selection["guards"],
): {
  readonly kept: readonly (Scored & { readonly name: string })[];
  readonly checkpoints: Selection["checkpoints"];
} {
  const refusedBy = ({ guarded }: Candidate) =>
    guards.flatMap(({ task, within, base = 0 }, i) => ((guarded[i] ?? 0) < base - within / 100 - TIE ? [task] : []));
  const ranked = candidates.toSorted((a, b) => b.score - a.score);
  const fit = ranked.filter((one) => refusedBy(one).length === 0);
  const kept = fit
    .filter((one, i) => !rule.one_per_run || fit.findIndex(({ step }) => step.key === one.step.key) === i)
    .slice(0, rule.top);
  const nameOf = (one: Scored) => `${group}-${kept.indexOf(one) + 1}`;
  const sameAs = (one: Scored) => {
    const first = rule.one_per_run ? kept.find(({ step }) => step.key === one.step.key) : undefined;
    return first && nameOf(first);
  };
  return {
    kept: kept.map((one) => ({ ...one, name: nameOf(one) })),
    checkpoints: ranked.map((one) => ({
      origin: one.origin,
      score: one.score,
      guarded: one.guarded,
      refusedBy: refusedBy(one),
      ...(kept.includes(one) ? { name: nameOf(one) } : { sameAs: sameAs(one) }),
    })),
  };
}

const MAX_NAMED = 8;

/**
 * Families of experts that have fewer checkpoints than the plan names.
 * @param missing families and merges of the plan that therefore have no model
 */
export function describeRefusals(selections: readonly Selection[], missing: readonly string[]): string[] {
  const refused = selections.filter((one) => countKept(one) === 0);
  const gone = missing.filter((name) => !refused.some(({ expertFamily }) => expertFamily === name));
  const lacking = selections.filter((one) => refused.includes(one) || (gone.length > 0 && countKept(one) < one.top));
  if (lacking.length === 0) return [];
  const shown = gone.length > MAX_NAMED ? [...gone.slice(0, MAX_NAMED), `${gone.length - MAX_NAMED} more`] : gone;
  return [
    ...lacking.map(describeRefusal),
    ...(gone.length > 0 ? [`Without these checkpoints, there is no model of ${shown.join(", ")}.`] : []),
  ];
}

const countKept = ({ checkpoints }: Selection) => checkpoints.filter(({ name }) => name !== undefined).length;

/** `Guards refused all 6 checkpoints of math (6 by mmlu, 3 by gsm), so math has no model.` */
function describeRefusal(selection: Selection): string {
  const { expertFamily, top, guards, checkpoints } = selection;
  const kept = countKept(selection);
  const by = guards.flatMap(({ task }) => {
    const count = checkpoints.filter(({ refusedBy }) => refusedBy.includes(task)).length;
    return count === 0 ? [] : [`${count} by ${task}`];
  });
  if (kept > 0) {
    const rest = checkpoints.length > kept ? "the others are of the same runs" : "there are no others";
    const why = by.length === 0 ? rest : `guards refused ${by.join(", ")}`;
    return `${expertFamily} has ${kept} of the ${plural(top, "checkpoint")} that the plan names: ${why}.`;
  }
  const all = checkpoints.length === 1 ? "the only checkpoint" : `all ${checkpoints.length} checkpoints`;
  return `Guards refused ${all} of ${expertFamily} (${by.join(", ")}), so ${expertFamily} has no model.`;
}
