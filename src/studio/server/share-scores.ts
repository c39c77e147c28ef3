// The scores of a recipe for the page that is shared, beside all that the project knows on the same items.
import { join } from "node:path";
import { readVerdicts } from "../../evaluate/index.js";
import { exampleText, type flipsFigure } from "../../experiment/report/index.js";
import { type Bars, findingVerdict, sentence, type Verdict } from "../../figures/index.js";
import { plural } from "../../kit/printing/index.js";
import { EVALUATIONS } from "../jobs/evaluate.js";
import { type Evaluation, recipeSource } from "../protocol/index.js";
import { itemsOf, listEvaluations } from "./evaluations.js";
import { type Evidence, evidenceIn, type Named, type ProjectEvidence } from "./evidence.js";
import { findInProject } from "./project-finding.js";

const MAX_TASKS = 6;
/** Of other recipes and of experiments, the highest. */
const MAX_BARS = 8;

const CHANGED = "was changed since it was scored on these items, so its score is unknown. Those of its models stay.";

export interface Scored {
  readonly title: string;
  readonly verdict: Verdict;
  readonly notes: readonly string[];
  readonly bars: Bars;
  readonly flips: Parameters<typeof flipsFigure>[1];
}

/**
 * Of each task, the scores on most items, against every other model of the project, its recipes and its experiments that was asked
 * the same. Where the recipe was edited since it was scored, the scores of the others stay.
 */
export async function scoresOf(project: string, name: string, models: readonly Named[]): Promise<Scored[]> {
  const source = recipeSource(name);
  const all = await listEvaluations(project);
  const asked = all
    .filter((one) => one.source === source)
    .flatMap((result) => result.tasks.map((task) => ({ result, task })))
    .sort((a, b) => Number(b.result.isEarlier) - Number(a.result.isEarlier) || a.task.items - b.task.items);
  const byTask = new Map(asked.map((one) => [one.task.task, one]));
  if (byTask.size === 0) return [];
  const known = await evidenceIn(project, models, all);
  return Promise.all(
    [...byTask.values()].slice(0, MAX_TASKS).map(({ result, task }) => scoredTask(name, result, task, all, known)),
  );
}

async function scoredTask(
  name: string,
  result: Evaluation,
  task: Evidence["score"],
  all: readonly Evaluation[],
  known: ProjectEvidence,
): Promise<Scored> {
  const { project, models } = known;
  const { own, others, finding, flips } = await findInProject(name, result, task, known);
  const isOwn = (one: Evidence) => models.some((model) => model.name === one.name && model.colour === one.colour);
  const shown = [...others.filter(isOwn), ...others.filter((one) => !isOwn(one)).slice(0, MAX_BARS)];
  const rows = [...shown, ...(result.isEarlier ? [] : [own])];
  return {
    title: task.title,
    verdict: result.isEarlier
      ? { title: task.title, text: sentence(`${own.inWords} ${CHANGED}`), isOpen: true }
      : findingVerdict(finding, task.title),
    notes: notesOf(name, task, others, all, models),
    bars: {
      title: task.title,
      note: `${task.metric} in percent, on ${task.items} items; ${task.protocol}.${await exampleOf(result.name, task.task, project)}`,
      verdict: "",
      below: others.length > shown.length ? `${plural(others.length - shown.length, "lower result")} not shown.` : "",
      scale: "share",
      rows: rows.flatMap(barOf).map((row, _, bars) => ({
        ...row,
        isBest: finding?.isBest === true && row.kind === own.colour && row === bars.at(-1),
      })),
    },
    flips: flips.flatMap(({ lead, one, against }) => {
      const isShown = shown.some(({ name, detail }) => name === against.name && detail === against.detail);
      const { interval, pValue } = lead;
      const { scale, difference, gained, lost } = one;
      const names = { model: name, against: against.name, task: task.title };
      return isShown ? [{ ...names, scale, difference, interval, gained, lost, pValue }] : [];
    }),
  };
}

function barOf({ name: label, colour: kind, detail, score: { value, low, high } }: Evidence) {
  if (value === null) return [];
  const interval = low === null || high === null ? undefined : { low, high };
  return [{ label, kind, detail, count: 1, isBest: false, mean: value, low: value, high: value, interval }];
}

function notesOf(
  name: string,
  task: Evidence["score"],
  others: readonly Evidence[],
  all: readonly Evaluation[],
  models: readonly Named[],
): string[] {
  const absent = models.filter((one) => !others.some((other) => other.name === one.name)).map((one) => one.name);
  const versions = new Set(
    all.flatMap((one) =>
      one.source === recipeSource(name) && one.tasks.some((other) => other.task === task.task)
        ? (one.recipe ?? [])
        : [],
    ),
  ).size;
  return [
    ...(absent.length > 0
      ? [`${task.title}: not compared with ${absent.join(", ")}, which did not answer these items.`]
      : []),
    ...(versions > 1
      ? [
          `${task.title}: ${versions} versions of the recipe were scored on items of this task. If this one was chosen by them, its score is optimistic.`,
        ]
      : []),
  ];
}

/** The first item, for readers who do not know the task. */
async function exampleOf(name: string, task: string, project: string): Promise<string> {
  const [first] = await readVerdicts(join(project, EVALUATIONS, name), task);
  if (!first) return "";
  const [item] = await itemsOf({ names: [name], task, metric: "", ids: [first.id] }, project);
  return exampleText(item?.prompt ?? "");
}
