// Where a project's results are: in its folder `evaluations`, and in the steps of its experiments.
import { stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { readResults } from "../../evaluate/index.js";
import { type FinishedEvaluation, finishedEvaluations } from "../../experiment/index.js";
import { digestOf } from "../../kit/files/index.js";
import { isAnySystemError, LayergraftError, usageError } from "../../kit/index.js";
import { loadYaml } from "../../kit/settings/index.js";
import { findPlans, placeOf } from "../experiments/find-plans.js";
import { EVALUATIONS, shownScore } from "../jobs/evaluate.js";
import { type Evaluation, evaluation } from "../protocol/index.js";

/** An evaluation of an experiment of the project. */
export interface Experimented extends FinishedEvaluation {
  /** The plan, by its path in the project. */
  readonly plan: string;
  readonly result: Evaluation;
}

/** A finished step of a plan. */
type Finished = FinishedEvaluation & Pick<Experimented, "plan">;

/** Of every experiment in a project; a plan that is not valid has none. */
async function finishedIn(project: string): Promise<Finished[]> {
  const plans = await findPlans(project);
  const found = await Promise.all(
    plans.map(async (plan) => {
      const place = await placeOf(join(project, plan)).catch((error) => {
        if (error instanceof LayergraftError || isAnySystemError(error)) return undefined;
        throw error;
      });
      const finished = place ? await finishedEvaluations(place.out) : [];
      return finished.map((one) => ({ ...one, plan }));
    }),
  );
  return found.flat();
}

export async function experimentsOf(project: string): Promise<Experimented[]> {
  const { yamlText } = await loadYaml();
  const found = await Promise.all(
    (await finishedIn(project)).map(async (one) => {
      const result = await evaluationOf(one.folder, one.results);
      if (!result) return [];
      const { of, kind, model, plan } = one;
      const recipe = typeof model === "string" ? null : yamlText(model);
      const experiment = { plan, entry: of.entry, configuration: of.configuration, kind };
      return [{ ...one, result: { ...result, name: nameOfStep(one), recipe, experiment } }];
    }),
  );
  return found.flat();
}

const OF_STEP = "experiment ";
/** How the page calls the result of a step, whose place is no folder of `evaluations`. */
const nameOfStep = ({ folder }: Pick<Finished, "folder">) => `${OF_STEP}${digestOf(folder).slice(0, 16)}`;

/** The name of the result in a folder. */
export const nameOfFolder = (project: string, folder: string) =>
  dirname(folder) === join(project, EVALUATIONS) ? basename(folder) : nameOfStep({ folder: dirname(folder) });

/**
 * The folder of a result. The protocol has checked its name, which has no separators.
 * @throws LayergraftError code `usage` if it is of a step that is no longer there
 */
export async function folderOf(project: string, name: string): Promise<string> {
  if (!name.startsWith(OF_STEP)) return resolve(project, EVALUATIONS, name);
  const step = (await finishedIn(project)).find((one) => nameOfStep(one) === name);
  if (!step) throw usageError("The experiment no longer has this result. Load the page again.");
  return join(step.folder, step.results);
}

/** Undefined if it is not complete, or not an evaluation. */
export async function evaluationOf(folder: string, name: string): Promise<Evaluation | undefined> {
  const file = join(folder, name, "results.json");
  try {
    const stats = await stat(file);
    if (!stats.isFile()) return undefined;
    const { source, backend, settings, tasks } = await readResults(file);
    const found = {
      ...{ name, source, ended: stats.mtimeMs, isEarlier: false, limit: settings.limit },
      ...{ recipe: null, version: null, experiment: null },
      runner: backend.server === null ? backend.backend : `${backend.server} (${backend.backend})`,
      tasks: tasks.flatMap(({ task, title, protocol, promptsDigest, items, scores: [main] }) => {
        if (!main) return [];
        return { task, title, protocol, prompts: promptsDigest, items, metric: main.title, ...shownScore(main) };
      }),
    };
    // The page refuses all of the list for one result by a stranger, such as one with fewer than no items.
    return evaluation.safeParse(found).data;
  } catch (error) {
    if (error instanceof LayergraftError || isAnySystemError(error)) return undefined;
    throw error;
  }
}
