// What a recipe's result shows against everything else in its project that was asked the same.
import { basename, dirname, join } from "node:path";
import { findingAbout, leadOf } from "../../evaluate/findings/index.js";
import { compareResults } from "../../evaluate/index.js";
import { turned } from "../../evaluate/scoring/index.js";
import { type Finding, findingText } from "../../figures/index.js";
import { usageError } from "../../kit/index.js";
import { EVALUATIONS } from "../jobs/evaluate.js";
import { readSettings } from "../project/project.js";
import type { Evaluation, Input, Output } from "../protocol/index.js";
import { listEvaluations } from "./evaluations.js";
import {
  type Evidence,
  evidenceFor,
  evidenceIn,
  kindOfRecipe,
  modelsOf,
  type ProjectEvidence,
  recipeIn,
  recipeInWords,
} from "./evidence.js";

/** Others that a recipe is compared with: the models of the project, and the highest of the rest. */
const MAX_COMPARED = 40;

/** @param name of the recipe @param result of it */
export async function findInProject(name: string, result: Evaluation, task: Evidence["score"], known: ProjectEvidence) {
  const { project, models } = known;
  const found = await evidenceFor({ name, runner: result.runner, task }, known);
  const isModel = (one: Evidence) => models.some((model) => model.name === one.name && model.colour === one.colour);
  const tried = found.filter((one) => !isModel(one)).toSorted((a, b) => worth(b) - worth(a));
  const others = [...found.filter(isModel), ...tried].slice(0, MAX_COMPARED);
  const own: Evidence = {
    ...{
      name,
      inWords: recipeInWords(name),
      kind: await kindOfRecipe(project, name),
      colour: "own-merge",
      detail: "",
      entry: "",
    },
    ...{ folder: join(project, EVALUATIONS, result.name), score: task },
  };
  const flips = result.isEarlier || others.length === 0 ? [] : await comparedWith(own, others);
  const candidates = [own, ...others].map((one) => ({
    ...one,
    name: one.inWords,
    label: one.inWords,
    score: worth(one),
  }));
  const finding = findingAbout(candidates, {
    ...{ scale: "share", items: task.items, subject: candidates[0] },
    leads: (_, rest) => rest.map((one) => flips[candidates.indexOf(one) - 1]?.lead),
  });
  return { own, others, flips, finding };
}

const worth = ({ score }: Evidence) => score.value ?? 0;

/** The recipe against each of the others, in their order; empty if they are not comparable. */
async function comparedWith(own: Evidence, others: readonly Evidence[]) {
  const results = [own, ...others].map(({ folder }) => folder);
  const { tasks } = await compareResults({ results });
  const compared = tasks.find((one) => one.task === own.score.task)?.comparisons ?? [];
  return compared
    .filter(({ title }) => title === own.score.metric)
    .flatMap((found) => {
      const against = others[found.method - 1];
      // The merge is the first of the comparison, and the second of what is said.
      const one = turned(found);
      return against ? [{ against, one, lead: leadOf(one, against.name) }] : [];
    });
}

/** What a result of a recipe shows on a task; null of another model, and if the recipe has changed since. */
export async function findingOf(
  { result: name, task: taskName }: Input<"evaluation.finding">,
  project: string,
): Promise<Output<"evaluation.finding">> {
  const all = await listEvaluations(project);
  const result = all.find((one) => one.name === name);
  const task = result?.tasks.find((one) => one.task === taskName);
  if (!result || !task) throw usageError(`There is no result ${name} on ${taskName}. Evaluate the recipe again.`);
  const recipe = recipeIn(result.source);
  if (recipe === undefined || result.isEarlier) return null;
  const known = await evidenceIn(project, modelsOf(await readSettings(project)), all);
  const { finding, others } = await findInProject(recipe, result, task, known);
  return { text: findingText(finding), alternative: nameOf(finding, others, project) };
}

/** The alternative's result within `evaluations`; null if it is of an experiment, or there is none. */
function nameOf(finding: Finding | undefined, others: readonly Evidence[], project: string): string | null {
  const { name, detail } = finding?.alternative ?? {};
  const folder = others.find((one) => one.inWords === name && one.detail === detail)?.folder ?? "";
  return dirname(folder) === join(project, EVALUATIONS) ? basename(folder) : null;
}
