// Evaluations of a project: what can be evaluated, what was, and two results item by item.

import { readdir } from "node:fs/promises";
import { dirname, isAbsolute, join, relative } from "node:path";
import { compareFinding } from "../../evaluate/findings/index.js";
import {
  ownPrompt,
  readResults,
  readSamples,
  readVerdicts,
  type StoredSample,
  sharedPrompt,
  sharedPrompts,
} from "../../evaluate/index.js";
import { readDeclaration, TASK_FAMILIES } from "../../evaluate/tasks/index.js";
import { findingText } from "../../figures/index.js";
import { isFile, readBounded, staysIn } from "../../kit/files/index.js";
import { messageOf, own, usageError } from "../../kit/index.js";
import { callVerb, compareVerb } from "../../verbs/shared/index.js";
import { EVALUATIONS, giveResult, noteOf } from "../jobs/evaluate.js";
import { fingerprintsOf } from "../models/fingerprints.js";
import { readSettings, yamlFiles } from "../project/project.js";
import {
  type Choices,
  type ComparedItem,
  type Evaluation,
  evaluationName,
  type Input,
  type Matrix,
  type ResultComparison,
  recipeSource,
} from "../protocol/index.js";
import { evaluationOf, experimentsOf, folderOf } from "./places.js";

const MAX_RESULTS = 500;
/** Characters of a prompt or an answer that the page shows. */
const MAX_TEXT = 20_000;

export async function choicesOf(project: string): Promise<Choices> {
  const files = await taskFiles(project);
  const families = TASK_FAMILIES.filter((family) =>
    // Programs that models write run only where the command line allows it.
    family.names.some((name) => family.open(name, { protocol: [] })?.every(({ executes }) => !executes)),
  ).map(({ name, summary, names }) => ({ name, summary, tasks: [...names] }));
  return { files, families };
}

/** Of the project, and of the folders that it and its models are in. */
async function taskFiles(project: string): Promise<Choices["files"]> {
  const { base, experts } = await readSettings(project);
  const models = [base ?? "", ...experts.map(({ source }) => source)].filter(isAbsolute);
  const folders = new Set([project, ...models].map((path) => dirname(path)).filter((folder) => folder !== project));
  const beside = await Promise.all([...folders].map((folder) => yamlFiles(folder, false).catch(() => [])));
  const paths = [...(await yamlFiles(project)), ...beside.flat()];
  const files = await Promise.all(paths.map((path) => taskFile(project, path)));
  return files.filter((file) => file !== undefined).sort((a, b) => (a.file < b.file ? -1 : 1));
}

/** Bytes of a file that may be a task with a problem. */
const MAX_BYTES = 1_000_000;

async function taskFile(project: string, path: string): Promise<Choices["files"][number] | undefined> {
  const file = relative(project, path);
  // A read of a pipe would wait for its other end.
  if (
    !(await isFile(path).catch(() => false)) ||
    !(await staysIn(path, file.startsWith("..") ? dirname(path) : project))
  )
    return undefined;
  try {
    const { task, title = task } = await readDeclaration(path);
    return { file, title, problem: null };
  } catch (error) {
    const tooLarge = () => usageError(`${path} is too large to be a task`);
    const text = await readBounded(path, MAX_BYTES, tooLarge).then(String, () => "");
    // Plans and recipes are YAML, too.
    if (!/^task:/m.test(text) || !/^(answer|prompt):/m.test(text)) return undefined;
    return { file, title: file, problem: messageOf(error) };
  }
}

export async function listEvaluations(project: string): Promise<Evaluation[]> {
  const folder = join(project, EVALUATIONS);
  const names = (await readdir(folder).catch(() => [])).filter((name) => evaluationName.safeParse(name).success);
  const found = await Promise.all(
    names.slice(0, MAX_RESULTS).map(async (name) => {
      const one = await evaluationOf(folder, name);
      const note = await noteOf(join(folder, name));
      return one ? [{ ...one, source: note?.source ?? one.source, note }] : [];
    }),
  );
  const results = found.flat();
  const digests = await fingerprintsOf([...new Set(results.map(({ source }) => source))], project);
  const texts = new Map<string, string[]>();
  for (const { source, note } of results.toSorted((a, b) => a.ended - b.ended)) {
    const known = texts.get(source) ?? [];
    if (note?.recipe && !known.includes(note.recipe)) texts.set(source, [...known, note.recipe]);
  }
  const dated = results.map(({ note, ...one }) => {
    const isEarlier = note !== undefined && (digests[one.source] ?? note.digest) !== note.digest;
    const recipe = note?.recipe ?? null;
    const version = recipe === null ? null : 1 + (texts.get(one.source) ?? []).indexOf(recipe);
    return { ...one, isEarlier, recipe, version };
  });
  return dated.sort((a, b) => b.ended - a.ended || (a.name < b.name ? -1 : 1));
}

/** Those, and the finished evaluations of the project's experiments, whose recipes are as they were run. */
export async function listAll(project: string): Promise<Evaluation[]> {
  const [own, experimented] = await Promise.all([listEvaluations(project), experimentsOf(project)]);
  return [...own, ...experimented.map(({ result }) => result)];
}

/** Keeps the results of a recipe that has another name now. */
export async function renameInEvaluations(project: string, from: string, to: string): Promise<void> {
  for (const { name, source, recipe } of await listEvaluations(project)) {
    if (source === recipeSource(from) && recipe !== null) {
      await giveResult(join(project, EVALUATIONS, name), recipeSource(to));
    }
  }
}

export async function compareEvaluations(
  { first, second, names }: Input<"evaluation.compare">,
  project: string,
): Promise<ResultComparison> {
  const folders = await Promise.all([first, second].map((name) => folderOf(project, name)));
  const { tasks, skipped } = await callVerb(compareVerb, { results: folders });
  const ids = await Promise.all(tasks.map(({ task }) => commonItems(folders, task)));
  return {
    tasks: tasks.map(({ task, title, protocol, comparisons }, i) => ({
      task,
      title,
      protocol,
      ids: ids[i] ?? [],
      comparisons: comparisons.map((one) => ({
        metric: one.metric,
        title: one.title,
        verdict: findingText(compareFinding(one, names)),
        hasFlips: one.discordance !== undefined,
        gained: [...one.gained],
        lost: [...one.lost],
      })),
    })),
    skipped: skipped.map(({ task, reason }) => ({ task, reason })),
  };
}

/** Items of all results, in the order of the first. */
async function commonItems(folders: readonly string[], task: string): Promise<string[]> {
  const [first = [], ...others] = await Promise.all(
    folders.map(async (folder) => (await readVerdicts(folder, task)).map(({ id }) => id)),
  );
  const known = others.map((ids) => new Set(ids));
  return first.filter((id) => known.every((ids) => ids.has(id)));
}

/** What a verdict is worth by a metric, from 0 to 1; null where it has no such number. */
async function worthIn(folder: string, task: string, metric?: string) {
  const { tasks } = await readResults(folder);
  const { metrics = [], scores: [main] = [] } = tasks.find((one) => one.task === task) ?? {};
  const name = metric ?? main?.metric ?? "";
  const { of = "", scale } = metrics.find((one) => one.name === name) ?? {};
  const worthOf = (verdict: StoredSample["verdict"] | undefined) => {
    const value = verdict ? own(verdict, of) : undefined;
    return typeof value === "number" && scale === "share" ? value : null;
  };
  return { name, worthOf };
}

export async function matrixOf({ names, task }: Input<"evaluation.matrix">, project: string): Promise<Matrix> {
  const folders = await Promise.all(names.map((name) => folderOf(project, name)));
  const { name, worthOf } = await worthIn(folders[0] ?? "", task);
  const [first = [], ...others] = await Promise.all(folders.map((folder) => readVerdicts(folder, task)));
  const known = others.map((all) => new Map(all.map((one) => [one.id, one])));
  const items = first.map(({ id, group = null, verdict }) => {
    const verdicts = [verdict, ...known.map((all) => all.get(id)?.verdict)];
    return { id, group, values: verdicts.map((one) => worthOf(one as StoredSample["verdict"])) };
  });
  return { metric: name, items };
}

export async function itemsOf(
  { names, task, metric, ids }: Input<"evaluation.items">,
  project: string,
): Promise<ComparedItem[]> {
  const wanted = new Set(ids);
  const folders = await Promise.all(names.map((name) => folderOf(project, name)));
  const found = await Promise.all(
    folders.map(async (folder) => new Map((await readSamples(folder, task, wanted)).map((one) => [one.id, one]))),
  );
  // All have the same prompts, or they would not be compared.
  const shared = await sharedPrompts(folders[0] ?? "");
  const { worthOf } = await worthIn(folders[0] ?? "", task, metric);
  return ids.map((id): ComparedItem => {
    const samples = found.map((one) => one.get(id));
    const [sample] = samples.filter((one) => one !== undefined);
    if (!sample) throw usageError(`The results have no item ${id}. Compare them again.`);
    return {
      id,
      prompt: cut(ownPrompt(sample)),
      gold: cut(sample.gold),
      beginning: cut(sharedPrompt(sample, shared)),
      answers: samples.map((one) => ({
        text: cut(answerOf(one)),
        fault: one?.fault ?? null,
        value: worthOf(one?.verdict),
      })),
    };
  });
}

const cut = (text: string) => (text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text);

/** A text, or the choice that was read. */
function answerOf(sample: StoredSample | undefined): string {
  if (!sample) return "";
  if (typeof sample.output === "string") return sample.output;
  const label = sample.reading?.label;
  return typeof label === "string" ? label : "";
}
