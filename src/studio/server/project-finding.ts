// What a recipe's result shows against everything else in its project that was asked the same.
import { join } from "node:path";
import { findingAbout, leadOf } from "../../evaluate/findings/index.js";
import { type MethodComparison, together } from "../../evaluate/index.js";
import { turned } from "../../evaluate/scoring/index.js";
import { type Finding, findingText } from "../../figures/index.js";
import { RecipeError, usageError } from "../../kit/index.js";
import { callVerb, compareVerb } from "../../verbs/shared/index.js";
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
import { nameOfFolder } from "./places.js";

/** Others that a recipe is compared with: the models of the project, and the highest of the rest. */
const MAX_COMPARED = 40;

/** @param name of the recipe @param result of it */
export async function findInProject(name: string, result: Evaluation, task: Evidence["score"], known: ProjectEvidence) {
  const { project, models } = known;
  const found = await evidenceFor({ name, runner: result.runner, task }, known);
  const own: Evidence = {
    name,
    inWords: recipeInWords(name),
    kind: await kindOfRecipe(project, name),
    colour: "own-merge",
    detail: "",
    entry: "",
    folder: join(project, EVALUATIONS, result.name),
    score: task,
  };
  const isModel = (one: Evidence) => models.some((model) => model.name === one.name && model.colour === one.colour);
  const compared = await comparedWith(own, found);
  const tried = compared.filter(({ against }) => !isModel(against));
  const sorted = tried.toSorted((a, b) => worth(b.against) - worth(a.against));
  const kept = [...compared.filter(({ against }) => isModel(against)), ...sorted].slice(0, MAX_COMPARED);
  const pairs = kept.flatMap(({ against, one }) => (one ? [{ against, one }] : []));
  const flips = together(pairs.map(({ one }) => one)).flatMap((one, i) => {
    const against = pairs[i]?.against;
    return against ? [{ against, one, lead: leadOf(one, against.name) }] : [];
  });
  const others = kept.map(({ against }) => against);
  const scale = flips[0]?.one.scale ?? "share";
  const candidates = [own, ...others].map((one) => ({
    ...one,
    name: one.inWords,
    label: one.inWords,
    // Scores of corpora are drawn as shares, too.
    score: scale === "points" ? 100 * worth(one) : worth(one),
  }));
  const leads = new Map(flips.map(({ against, lead }) => [others.indexOf(against), lead]));
  const finding = findingAbout(candidates, {
    scale,
    items: task.items,
    subject: candidates[0],
    leads: (_, rest) => rest.map((one) => leads.get(candidates.indexOf(one) - 1)),
  });
  return { own, others, flips: result.isEarlier ? [] : flips, finding };
}

const worth = ({ score }: Evidence) => score.value ?? 0;

/**
 * The recipe against each of the others. One that was asked more has the score on the recipe's items; it is left out if they are not
 * all among its own.
 */
async function comparedWith(own: Evidence, others: readonly Evidence[]) {
  const all = await Promise.all(
    others.map(async (against) => {
      const one = await compare(own, against);
      if (against.score.items === own.score.items) return [{ against, one }];
      if (one?.items !== own.score.items) return [];
      const value = one.scale === "points" ? one.first / 100 : one.first;
      return [{ against: { ...against, score: { ...against.score, value, low: null, high: null } }, one }];
    }),
  );
  return all.flat();
}

/** Undefined if they were not asked the same. */
async function compare(own: Evidence, against: Evidence): Promise<MethodComparison | undefined> {
  try {
    const { tasks } = await callVerb(compareVerb, { results: [own.folder, against.folder] });
    const { comparisons = [] } = tasks.find(({ task }) => task === own.score.task) ?? {};
    const found = comparisons.find(({ title }) => title === own.score.metric);
    // The merge is the first of the comparison, and the second of what is said.
    return found && turned(found);
  } catch (error) {
    if (error instanceof RecipeError) return undefined;
    throw error;
  }
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

/** The alternative's result; null if there is none. */
function nameOf(finding: Finding | undefined, others: readonly Evidence[], project: string): string | null {
  const { name, detail } = finding?.alternative ?? {};
  const folder = others.find((one) => one.inWords === name && one.detail === detail)?.folder;
  return folder === undefined ? null : nameOfFolder(project, folder);
}
