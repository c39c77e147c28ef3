// Everything in a project that answered the questions of a result: its models, its recipes, and the merges of its experiments.
import { dirname, join, resolve } from "node:path";
import { type EngineSource, openModelSource } from "../../engine/index.js";
import { kindOfMethod } from "../../evaluate/findings/index.js";
import type { FinishedEvaluation } from "../../experiment/index.js";
import { type ModelKind, ownClass } from "../../figures/index.js";
import { digestOfJson } from "../../kit/files/index.js";
import { isAnySystemError, LayergraftError } from "../../kit/index.js";
import { loadYaml } from "../../kit/settings/index.js";
import { EVALUATIONS, noteOf } from "../jobs/evaluate.js";
import { placedIn, readRecipe } from "../project/project.js";
import { askSame, type Evaluation, recipeSource, type Settings } from "../protocol/index.js";
import { type Experimented, experimentsOf } from "./places.js";

export type TaskScore = Evaluation["tasks"][number];

/** A model of a project as a page calls it, with its colour. */
export interface Named {
  readonly source: string;
  readonly name: string;
  readonly colour: string;
}

/** A result of a model, on the items of that of the page. */
export interface Evidence {
  readonly name: string;
  /** What sentences call it, before articles. */
  readonly inWords: string;
  readonly kind: ModelKind;
  readonly colour: string;
  /** Its configuration, and the experiment that it is from. */
  readonly detail: string;
  /** What it is one of several configurations of. */
  readonly entry: string;
  /** Absolute folder of its results. */
  readonly folder: string;
  readonly score: TaskScore;
}

/** The models of a project by its names, the base first. */
export function modelsOf({ base, experts }: Settings): Named[] {
  return [
    ...(base === null ? [] : [{ source: base, name: "base", colour: "own-base" }]),
    ...experts.map(({ name, source }, i) => ({ source, name, colour: ownClass(i) })),
  ];
}

/** @param all evaluations of the project */
export async function evidenceIn(
  project: string,
  models: readonly Named[],
  all: readonly Evaluation[],
): Promise<ProjectEvidence> {
  const experiments = await experimentsOf(project);
  const [evaluations, earlier] = [false, true].map((is) => all.filter(({ isEarlier }) => isEarlier === is));
  return { project, models, experiments, evaluations: evaluations ?? [], earlier: earlier ?? [] };
}

/** What is evidence beside the result of a recipe. */
export interface ProjectEvidence {
  readonly project: string;
  readonly models: readonly Named[];
  /** Evaluations of the project whose models are as they were then. */
  readonly evaluations: readonly Evaluation[];
  /** Those of recipes that were edited since, or of models that changed. */
  readonly earlier: readonly Evaluation[];
  readonly experiments: readonly Experimented[];
}

/**
 * The results of every other model that was asked the same, or more, and run by the same, the models of the project first. A model that
 * has several, such as an expert that an experiment evaluated, too, has the first.
 */
export async function evidenceFor(
  { name, runner, task }: { readonly name: string; readonly runner: string; readonly task: TaskScore },
  { project, models, evaluations, earlier, experiments }: ProjectEvidence,
): Promise<Evidence[]> {
  const scoreIn = (one: Evaluation) =>
    one.runner === runner ? one.tasks.find((other) => askSame(other, task) || askMore(other, task)) : undefined;
  const own = await Promise.all(
    evaluations.map(async (one) => {
      const score = one.source === recipeSource(name) ? undefined : scoreIn(one);
      const named = score && (await namedIn(project, one.source, models));
      const folder = join(project, EVALUATIONS, one.name);
      return score && named ? [{ ...named, detail: "", entry: named.name, folder, score, model: one.source }] : [];
    }),
  );
  const placed = own.flat().toSorted((a, b) => placeIn(models, a.model) - placeIn(models, b.model));
  const tried = experiments.flatMap(({ of, kind, model, folder, results, plan, result }) => {
    const score = scoreIn(result);
    const detail = [of.configuration, `in ${plan}`].filter((part) => part !== "").join("; ");
    const head = { name: of.entry, inWords: of.entry, kind, colour: kind, detail, entry: of.entry };
    return score ? [{ ...head, folder: join(folder, results), score, model }] : [];
  });
  const versions = await Promise.all(
    earlier.map(async (one) => {
      const score = one.source === recipeSource(name) ? scoreIn(one) : undefined;
      const recipe = score && (await versionOf(project, one));
      if (!recipe) return [];
      const own = {
        name: `${name}, version ${one.version}`,
        inWords: `version ${one.version} of ${recipeInWords(name)}`,
      };
      const head = { ...own, kind: kindOfMethod(recipe.method), colour: "merge", detail: "", entry: own.name };
      return [{ ...head, folder: join(project, EVALUATIONS, one.name), score, model: recipe }];
    }),
  );
  const seen = new Set<string>([(await identityOf(recipeSource(name), project)) ?? ""]);
  const evidence: Evidence[] = [];
  for (const { model, ...one } of [...placed, ...versions.flat(), ...tried]) {
    const identity = (await identityOf(model, project)) ?? JSON.stringify(model);
    if (!seen.has(identity)) evidence.push(one);
    seen.add(identity);
  }
  return evidence;
}

/** The recipe of a result as it was then; undefined where that is not known, or its models have changed since. */
async function versionOf(project: string, { name, recipe }: Evaluation) {
  if (recipe === null) return undefined;
  const folder = join(project, dirname(recipeSource("")));
  try {
    const { openSettings } = await loadYaml();
    const then = placedIn(folder, openSettings(recipe, name).value) as { readonly method: string };
    const note = await noteOf(join(project, EVALUATIONS, name));
    return (await openModelSource(then as EngineSource, { folder })).digest === note?.digest ? then : undefined;
  } catch (error) {
    if (error instanceof LayergraftError || isAnySystemError(error)) return undefined;
    throw error;
  }
}

/** Whether a result is of more items of a task; whether the same are among them, its samples say. */
const askMore = (one: TaskScore, task: TaskScore) =>
  one.task === task.task && one.protocol === task.protocol && one.metric === task.metric && one.items > task.items;

/** Models of the project have its names, recipes their own; undefined of a model that the project has no longer. */
async function namedIn(
  project: string,
  source: string,
  models: readonly Named[],
): Promise<Pick<Evidence, "name" | "inWords" | "kind" | "colour"> | undefined> {
  const model = models.find((one) => one.source === source);
  if (model) {
    const { name, colour } = model;
    return { name, inWords: name, kind: colour === "own-base" ? "base" : "expert", colour };
  }
  const recipe = recipeIn(source);
  return recipe === undefined
    ? undefined
    : { name: recipe, inWords: recipeInWords(recipe), kind: await kindOfRecipe(project, recipe), colour: "merge" };
}

/** The name of the recipe that a source is; undefined of another source. */
export const recipeIn = (source: string) => /^recipes\/(.+)\.yaml$/.exec(source)?.[1];

export const recipeInWords = (name: string) => (/^recipe\b/i.test(name) ? `the ${name}` : `the recipe ${name}`);

/** By its method; a recipe that cannot be read is a merge. */
export async function kindOfRecipe(project: string, name: string): Promise<ModelKind> {
  try {
    const { openSettings } = await loadYaml();
    const { text } = await readRecipe(project, name);
    return kindOfMethod(String(Object(openSettings(text, name).value).method));
  } catch (error) {
    if (error instanceof LayergraftError || isAnySystemError(error)) return "merge";
    throw error;
  }
}

function placeIn(models: readonly Named[], source: string): number {
  const at = models.findIndex((one) => one.source === source);
  return at < 0 ? models.length : at;
}

/**
 * What identifies a model, however it is written: what each tensor is computed from, by the files of its sources. Undefined of one
 * that cannot be opened here.
 */
async function identityOf(source: EngineSource | FinishedEvaluation["model"], folder: string) {
  try {
    const { tensors, measurements, sources } = await openModelSource(source as EngineSource, { folder });
    const files = [...sources.values()].map((one) => one.files.map(({ path }) => resolve(folder, path)));
    return digestOfJson([[...tensors.values()].map(({ tensor, value }) => [tensor, value]), measurements, files]);
  } catch (error) {
    if (error instanceof LayergraftError || isAnySystemError(error)) return undefined;
    throw error;
  }
}
