// What each operation does, by the library's calls.
import { mkdir, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { MINIATURE_MODELS, writeExample } from "../../demo/index.js";
import { openModelSource } from "../../engine/index.js";
import { readDeclaration } from "../../evaluate/tasks/index.js";
import { parsePlan } from "../../experiment/index.js";
import { loadVerbs } from "../../experiment/verbs/index.js";
import { EXPORT_FORMATS } from "../../export/index.js";
import { digestOf, exists, writeFileAtomically, writeFolder } from "../../kit/files/index.js";
import { LayergraftError, OutputError, usageError } from "../../kit/index.js";
import { loadYaml } from "../../kit/settings/index.js";
import { mostChangedRows } from "../../merge/analysis/index.js";
import { methodReferences } from "../../merge/index.js";
import { parseMergekit } from "../../merge/mergekit/index.js";
import { callVerb, rateVerb, tasksOf } from "../../verbs/shared/index.js";
import { EVALUATIONS } from "../jobs/evaluate.js";
import type { Jobs } from "../jobs/jobs.js";
import { ANALYSIS } from "../jobs/kinds.js";
import { checkJob, verbReference } from "../jobs/verbs.js";
import { experimentOf } from "../project/experiment-plan.js";
import { fileOf, type ProjectFolder, placedIn, recipeFile } from "../project/project.js";
import {
  type Input,
  type JobInput,
  type JobKind,
  type OperationName,
  type Output,
  recipeSource,
} from "../protocol/index.js";
import type { Asker, AskerPool } from "./asker.js";
import { browse } from "./browse.js";
import { choicesOf, compareEvaluations, itemsOf, listAll, matrixOf, renameInEvaluations } from "./evaluations.js";
import { evaluationOf, folderOf } from "./places.js";
import { findingOf } from "./project-finding.js";
import type { Reports } from "./reports.js";
import { keepPixels, readPicture, shareRecipe } from "./share.js";

export interface Context {
  readonly project: ProjectFolder;
  readonly jobs: Jobs;
  readonly experiments: Asker;
  readonly scores: Asker;
  /** Cards and digests of models, and checks of recipes, which may take seconds, or wait for the hub. */
  readonly models: AskerPool;
  readonly checks: Asker;
  readonly reports: Reports;
}

type Handlers = {
  readonly [N in OperationName]: (input: Input<N>, context: Context) => Output<N> | Promise<Output<N>>;
};

/** Seconds for a score, most of which may be those of loading a large model. */
const TIME_TO_SCORE = 1800;
/** Rows of each expert that the detail of a matrix shows. */
const TOP_ROWS = 8;

/** Operations after which all pages read the project again. */
export const CHANGING: ReadonlySet<OperationName> = new Set([
  "project.change",
  "project.example",
  "recipe.write",
  "recipe.rename",
  "recipe.remove",
  "take",
]);

export const HANDLERS: Handlers = {
  "project.read": (_, { project }) => project.read(),
  "project.change": ({ revision, change }, { project }) => project.change(revision, change),
  async "project.example"({ revision }, { project }) {
    const folder = await fileOf(project.folder, "example");
    await writeExample(folder);
    const { base, math, language } = MINIATURE_MODELS;
    const experts = [math, language].map((name) => ({ name, source: join(folder, name) }));
    return project.change(revision, { base: join(folder, base), experts });
  },
  browse: ({ folder }, { project }) => browse(folder ?? dirname(project.folder)),
  inspect: (input, { models }) => models.ask("card", input),
  fingerprints: (input, { models }) => models.ask("fingerprints", input),
  methods: () => ({ methods: methodReferences() }),
  verbs: async () => ({ verbs: (await loadVerbs()).map(verbReference) }),
  "recipe.read": ({ name }, { project }) => project.readRecipe(name),
  "recipe.write": ({ name, text, version }, { project }) => project.writeRecipe(name, text, version),
  async "recipe.rename"({ name, to }, { project }) {
    await project.renameRecipe(name, to, () => renameInEvaluations(project.folder, name, to));
    return {};
  },
  "recipe.remove": ({ name }, { project }) => project.removeRecipe(name).then(() => ({})),
  async "recipe.experiment"({ name, task, force, grid }, { project }) {
    const { settings } = await project.read();
    const { text } = await project.readRecipe(name);
    const { openSettings, yamlText } = await loadYaml();
    const recipe = placedIn(join(project.folder, "recipes"), openSettings(text, "the recipe").value);
    const plan = experimentOf({ name, recipe, settings, task, grid });
    const planPath = `${name}${grid ? ".map" : ""}.plan.yaml`;
    const file = join(project.folder, planPath);
    // A plan with a task that is not one could not run.
    await tasksOf({ tasks: [/\.ya?ml$/i.test(task) ? resolve(project.folder, task) : task] });
    if (!force && (await exists(file))) return { file, plan: planPath, isThere: true };
    const planned = yamlText(plan);
    parsePlan(planned);
    await writeFileAtomically(file, planned);
    return { file, plan: planPath, isThere: false };
  },
  async "recipe.convert"({ text, layers }) {
    // The notes are comments of the recipe.
    const found = await parseMergekit(text, { layers: layers ?? undefined, asMergekit: true });
    if (!found) throw usageError("This is not a mergekit configuration: it has no merge_method.");
    return { recipe: JSON.parse(JSON.stringify(found.recipe)), notes: [...found.notes] };
  },
  take: (input, { project }) => takeFiles(project.folder, input),
  async "recipe.share"({ name, force }, { project, reports }) {
    try {
      const file = await shareRecipe(project.folder, name, { force });
      return { file, url: reports.urlOf(file), isThere: false, picture: await readPicture(file) };
    } catch (error) {
      if (!(error instanceof OutputError && error.where.option === "force")) throw error;
      return { file: error.where.file ?? "", url: "", isThere: true, picture: "" };
    }
  },
  "recipe.picture": ({ name, png }, { project }) => keepPixels(project.folder, name, png).then(() => ({})),
  async "recipe.exportable"({ name }, { project }) {
    const { defaultType, plan, types } = EXPORT_FORMATS.gguf;
    try {
      await plan(
        await openModelSource(await recipeFile(project.folder, name), { folder: project.folder }),
        defaultType,
      );
      return { problem: null, types: [...types] };
    } catch (error) {
      if (error instanceof LayergraftError) return { problem: error.message, types: [...types] };
      throw error;
    }
  },
  async "recipe.score"(input, { project, scores }) {
    scores.cancel();
    const folder = await scores.ask("score", input, TIME_TO_SCORE);
    const found = await evaluationOf(join(project.folder, EVALUATIONS), folder);
    if (!found) throw usageError("The result was removed. Score it again.");
    return found;
  },
  "recipe.check": (input, { checks }) => checks.ask("check", input),
  "experiment.list": (_, { experiments }) => experiments.ask("list", {}),
  async "experiment.read"(input, { experiments, reports }) {
    const found = await experiments.ask("read", input);
    return found && { ...found, reportUrl: found.report === null ? null : reports.urlOf(found.report) };
  },
  "experiment.recipe": async (input, { experiments }) => ({ text: await experiments.ask("recipe", input) }),
  async "job.start"({ kind, input }, { jobs, models }) {
    await checkJob(kind, input);
    const shown = SOURCES[kind]?.(input as never);
    const fingerprints = shown && models.ask("fingerprints", { sources: shown });
    return jobs.start(kind, TITLES[kind](input as never), input, fingerprints);
  },
  "job.cancel": ({ id }, { jobs }) => jobs.cancel(id),
  "job.list": (_, { jobs }) => jobs.list(),
  "analysis.read": async ({ id }, { jobs }) => (await jobs.result(id)) as Output<"analysis.read">,
  async "analysis.rows"({ id, layer, column }, { jobs }) {
    const rows = await mostChangedRows(join(jobs.folderOf(id), ANALYSIS), { layer, column, most: TOP_ROWS });
    return rows.map(({ index, changes }) => ({ index, changes: [...changes] }));
  },
  "evaluation.choices": (_, { project }) => choicesOf(project.folder),
  "evaluation.list": (_, { project }) => listAll(project.folder),
  "evaluation.compare": (input, { project }) => compareEvaluations(input, project.folder),
  "evaluation.finding": (input, { project }) => findingOf(input, project.folder),
  async "evaluation.rate"({ first, second }, { project, reports }) {
    const file = await fileOf(project.folder, "ratings", `${digestOf(`${first} ${second}`).slice(0, 12)}.html`);
    await mkdir(dirname(file), { recursive: true });
    const results = await foldersOf(project.folder, first, second);
    const { page } = await callVerb(rateVerb, { results, page: file }, { force: true });
    return { file, url: reports.urlOf(file, "download"), pairs: page?.pairs ?? 0 };
  },
  async "evaluation.tally"({ first, second, names, saved }, { project }) {
    const results = await foldersOf(project.folder, first, second);
    const { tallies = [] } = await callVerb(rateVerb, {
      results,
      ratings: [typeof saved === "string" ? {} : saved],
      names,
    });
    return { sentences: tallies.map(({ sentence }) => sentence) };
  },
  "evaluation.matrix": (input, { project }) => matrixOf(input, project.folder),
  "evaluation.items": (input, { project }) => itemsOf(input, project.folder),
  "job.result": async ({ id }, { jobs }) => (await jobs.result(id)) as Output<"job.result">,
};

const foldersOf = (project: string, first: string, second: string): Promise<[string, string]> =>
  Promise.all([folderOf(project, first), folderOf(project, second)]);

const TITLES: { readonly [K in JobKind]: (input: JobInput<K>) => string } = {
  verb: ({ verb }) => verb,
  analyze: ({ experts }) => `Changes of ${experts.map(({ name }) => name).join(", ")}`,
  suggest: () => "Suggestions",
  answer: ({ models }) => `Answers of ${models.map(({ name }) => name).join(", ")}`,
  evaluate: ({ models, tasks: [task] }) =>
    `Evaluation of ${models.map(({ name }) => name).join(", ")} on ${basename(task)}`,
  merge: ({ recipe }) => `Merge ${recipe}`,
  export: ({ recipe, out }) => `Export ${recipe} to ${basename(out)}`,
  push: ({ name }) => `Push to ${name}`,
  experiment: ({ plan }) => `Experiment ${plan}`,
};

/** The models and recipes that a job shows something of, which goes stale when they change. Evaluations have digests of their own. */
const SOURCES: { readonly [K in JobKind]?: (input: JobInput<K>) => string[] } = {
  analyze: ({ base, experts }) => [base, ...experts.map(({ source }) => source)],
  suggest: ({ base, task, language }) => [base, task, language],
  answer: ({ models }) => models.map(({ source }) => source),
  merge: ({ recipe }) => [recipeSource(recipe)],
  export: ({ recipe }) => [recipeSource(recipe)],
};

/**
 * Writes a folder of the files, once they are what they should be. A task has its declaration first.
 * @throws LayergraftError if there is a folder of that name, or the files are not a task, or not an evaluation
 */
async function takeFiles(project: string, { kind, name, files }: Input<"take">): Promise<Output<"take">> {
  const folder = kind === "task" ? name : join(EVALUATIONS, name);
  const out = await fileOf(project, folder);
  if (await exists(out)) throw usageError(`${out} exists. Rename one of the two.`);
  await mkdir(dirname(out), { recursive: true });
  await writeFolder(out, `the ${kind}`, async (partial) => {
    for (const file of files) await writeFile(join(partial, file.name), file.text);
    if (kind === "task") await readDeclaration(join(partial, files[0]?.name ?? ""));
    else if (!(await evaluationOf(dirname(partial), partial.slice(dirname(partial).length + 1)))) {
      throw usageError(`${name} is not an evaluation. Choose a folder that layergraft eval wrote.`);
    }
  });
  return { path: kind === "task" ? `${folder}/${files[0]?.name}` : folder };
}
