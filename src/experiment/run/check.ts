import { stat, statfs } from "node:fs/promises";
import { availableParallelism, totalmem } from "node:os";
import { dirname } from "node:path";
import {
  canonicalJson,
  exists,
  formatBytes,
  groupBy,
  LayergraftError,
  messageOf,
  plural,
  RecipeError,
} from "../../core/index.js";
import { loadChatTemplate, loadTokenizer } from "../../engine/index.js";
import { chatProtocolOf, choiceNotes } from "../../evaluate/index.js";
import { checkLlama, type ExportOutlook } from "../../llama/index.js";
import { planRecipe, type RecipeInput } from "../../merge/index.js";
import type { Problem } from "../../settings/index.js";
import { commandRunner } from "../execute/slurm-commands.js";
import { splitItems } from "../plan/compare-configurations.js";
import { isSearched } from "../plan/configurations.js";
import { type Member, membersNamed, membersOf, placesOf, sourcesIn } from "../plan/expert-names.js";
import type { Variant } from "../plan/matrix.js";
import type { InspectedPlan } from "../plan/plan-file.js";
import { inLanguages, namingRecipe, requestOf, tasksFor, tasksOfAverage } from "../plan/plan-models.js";
import { decidingTask, type ExperimentPlan, type ExpertGroup, languagesOf, runnerOf } from "../plan/plan-schema.js";
import { laterMerges } from "../plan/rounds.js";
import { checkedRecipes } from "../plan/spaces.js";
import { settleTraining, trainingRun } from "../plan/training-runs.js";
import type { TaskFacts } from "../steps/facts.js";
import { ReadFacts } from "../steps/facts-reader.js";
import { LLAMA, type TaskRequest } from "../steps/step.js";
import { contentDigest } from "./identical-merges.js";

/** A variant, and what is there of its base. */
export interface CheckedVariant extends Variant {
  /** If the base has a chat template, with chat protocols where the plan names none. */
  readonly plan: ExperimentPlan;
  /** Sizes of the base; if it is not on this machine, those that the plan assumes. */
  readonly base: { readonly parameters: number; readonly bytes: number; readonly layers: number } | undefined;
  /** The export of the base, where llama.cpp runs the models. */
  readonly gguf: ExportOutlook | undefined;
}

/** What a plan names, and whether it can run. */
export interface CheckedWorld extends Pick<CheckedVariant, "base" | "gguf"> {
  readonly facts: ReadFacts;
  /** Problems, each with its line. The experiment must not run while there are any. */
  readonly problems: readonly string[];
  readonly notes: readonly string[];
}

export interface CheckOptions {
  /** Absolute folder of the experiment, which has the cache of digests. */
  readonly out: string;
  /** Absolute folder of the data sets of evaluation. */
  readonly data?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Checks everything that the variants of a plan name. */
export async function checkWorld(
  { variants, problems: before, folder, inLines }: InspectedPlan,
  { out, data, signal }: CheckOptions,
): Promise<Pick<CheckedWorld, "facts" | "problems" | "notes"> & { readonly variants: readonly CheckedVariant[] }> {
  // A plan with problems does not run, so its models need not be identified.
  const readsBytes = before.flat().length === 0;
  const facts = new ReadFacts({ folder, cache: out, data, signal, readsBytes });
  const checked: Awaited<ReturnType<typeof checkVariant>>[] = [];
  for (const [i, variant] of variants.entries()) {
    checked.push(await checkVariant(variant, before[i] ?? [], facts, folder));
  }
  const missing = await dataProblems(data, facts);
  const problems = inLines(checked.map((one) => [...one.problems, ...missing]));
  if ((await exists(out)) || (await exists(dirname(out)))) await facts.save().catch(() => undefined); // only a cache
  const notes = [0, 1, 2].flatMap((kind) => checked.flatMap((one) => one.notes[kind] ?? []));
  const [first] = variants as readonly [Variant];
  return {
    facts,
    problems,
    notes: [...(await machineNotes(first.plan)), ...new Set(notes)],
    variants: checked.map(({ variant }) => variant),
  };
}

/** Asks tasks as chats where the base has a template, so that all models of the plan are asked in the same way. */
async function withChats(plan: ExperimentPlan, { models }: ReadFacts): Promise<ExperimentPlan> {
  const base = models.get(plan.base);
  const template = base && (await loadChatTemplate(base.checkpoint.folder).catch(() => undefined));
  if (!template) return plan;
  const tasks = plan.evaluate.tasks.map((task) => ({ ...task, protocol: task.protocol ?? chatProtocolOf(task.task) }));
  return { ...plan, evaluate: { ...plan.evaluate, tasks } };
}

function chatNotes(written: ExperimentPlan, asked: ExperimentPlan): string[] {
  return asked.evaluate.tasks.flatMap(({ task, protocol }, i) =>
    protocol === written.evaluate.tasks[i]?.protocol
      ? []
      : [`${task} is asked as a chat (${protocol}), as the base has a chat template; set protocol to ask otherwise`],
  );
}

/** @param before problems across its fields. @returns `notes`: on searches, on chats and merges, and on choices */
async function checkVariant(written: Variant, before: readonly Problem[], facts: ReadFacts, folder: string) {
  await facts.readModel(written.plan.base, ["base"]);
  const plan = await withChats(written.plan, facts);
  for (const { source, path } of foldersOf(plan)) await facts.readModel(source, path);
  for (const [name, group] of Object.entries(plan.experts)) await readTraining(name, group, plan, facts);
  const requests = requestsOf(plan);
  for (const { request, path } of requests) await facts.readTask(request, path);
  const tasks = requests.flatMap(({ request }): AskedTask[] => {
    const read = facts.tasks.get(canonicalJson(request));
    return read ? [{ ...read, task: request.task }] : [];
  });
  const hasProblem = (path: readonly PropertyKey[]) =>
    before.some((problem) => path.every((key, i) => problem.path[i] === key));
  const llama = await checkBackend(plan, facts);
  const merges = await mergeProblems(plan, facts, folder, hasProblem);
  const base = facts.models.get(plan.base);
  return {
    variant: { ...written, plan, base: base ?? plan.assume, gguf: llama.gguf },
    problems: [...before, ...llama.problems, ...facts.takeProblems(), ...taskProblems(plan, tasks), ...merges.problems],
    notes: [
      searchNotes(plan, tasks),
      [...chatNotes(written.plan, plan), ...merges.notes],
      base ? await choiceWarnings(base.checkpoint.folder, tasks) : [],
    ],
  };
}

/** What was read of a task, and its name in the plan. */
interface AskedTask extends TaskFacts {
  readonly task: string;
}

/** Whether llama.cpp is installed and runs the base, where the plan asks for it. */
async function checkBackend(
  plan: ExperimentPlan,
  { models }: ReadFacts,
): Promise<{ problems: Problem[]; gguf: ExportOutlook | undefined }> {
  const { backend, type } = runnerOf(plan);
  const base = models.get(plan.base);
  if (backend !== LLAMA || !base) return { problems: [], gguf: undefined };
  try {
    return { problems: [], gguf: await checkLlama(base.folder, { type }) };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return { problems: [{ path: ["evaluate", "backend"], message: error.message }], gguf: undefined };
  }
}

/** What a plan's executor lacks on this machine. @param run for tests */
export async function machineNotes({ executor, evaluate }: ExperimentPlan, run = commandRunner()): Promise<string[]> {
  if (executor.kind === "slurm") {
    const missing = await run("sbatch", ["--version"]).then(
      () => [],
      (error: unknown) => (error instanceof LayergraftError ? [error.message] : []),
    );
    const { gpus = executor.gpus, partition = executor.partition } = executor.evaluate ?? {};
    const isGpu = gpus !== undefined || /gpu/i.test(partition ?? "");
    const idle =
      isGpu && evaluate.backend === "engine"
        ? [
            "evaluation steps ask for a GPU, but backend: engine runs on the CPU. Leave the GPU out, or use serve: with a server",
          ]
        : [];
    return [...missing, ...idle];
  }
  const [cores, memory] = [availableParallelism(), totalmem()];
  const resources = [
    ["cores", cores, String, plural(cores, "core")],
    ["total_cores", cores, String, plural(cores, "core")],
    ["memory", memory, formatBytes, formatBytes(memory)],
    ["total_memory", memory, formatBytes, formatBytes(memory)],
  ] as const;
  return resources.flatMap(([field, available, format, has]) => {
    const set = executor[field];
    if (set === undefined || set <= available) return [];
    return [`executor.${field} is ${format(set)}, but this machine has ${has}`];
  });
}

/** A choice by fewer items is mostly chance, whatever the scores. */
const MIN_SEARCHED = 5;

/** The tasks by which configurations are chosen; none if there is no search. */
function decidingIn(plan: ExperimentPlan, tasks: readonly AskedTask[]): readonly AskedTask[] {
  const names = inLanguages(decidingTask(plan), languagesOf(plan));
  return plan.merges.some(isSearched) ? tasks.filter(({ task }) => names.includes(task)) : [];
}

function searchNotes(plan: ExperimentPlan, tasks: readonly AskedTask[]): string[] {
  return decidingIn(plan, tasks).flatMap(({ name, items }) => {
    const seen = splitItems(items, plan.search).rounds.flat().length;
    if (seen >= MIN_SEARCHED) return [];
    return [`the search sees ${seen} of the ${plural(items, "item")} of ${name}. Use more, or its choice is chance`];
  });
}

/** Warnings about choices that the base's tokenizer cannot tell apart. */
async function choiceWarnings(base: string, tasks: readonly AskedTask[]): Promise<string[]> {
  if (!tasks.some(({ choices = [] }) => choices.length > 0)) return [];
  // Servers may have a tokenizer of their own, and the engine reports one that it cannot read.
  const tokenizer = await loadTokenizer(base).catch(() => undefined);
  if (!tokenizer) return [];
  return tasks.flatMap(({ name, choices = [] }) => choiceNotes(choices, tokenizer).map((note) => `${name}: ${note}`));
}

function foldersOf(plan: ExperimentPlan) {
  const all = Object.entries(plan.experts).flatMap(([family, { folders }]) =>
    Object.entries(folders ?? {}).map(([place, source]) => {
      const at = Array.isArray(folders) ? Number(place) : place;
      return { family, source, path: ["experts", family, "folders", at] };
    }),
  );
  return [...groupBy(all, ({ source }) => source).values()].flatMap(([first]) => first ?? []);
}

async function readTraining(
  name: string,
  { train }: ExpertGroup,
  plan: ExperimentPlan,
  facts: ReadFacts,
): Promise<void> {
  const path = ["experts", name];
  if (!train) return;
  const { run } = settleTraining(plan, train);
  for (const [i, own] of (train.runs ?? [undefined]).entries()) {
    const at = own && "data" in own ? ["runs", i] : ["run", "data"];
    const [whole, place] = [trainingRun(run, own, "base"), [...path, "train", ...at]];
    await facts.readData(whole, place);
    await facts.checkData(whole, place);
  }
}

/** Every task that a model may be evaluated on, and its path in the plan. */
function requestsOf(plan: ExperimentPlan): { request: TaskRequest; path: readonly PropertyKey[] }[] {
  const languages = languagesOf(plan);
  const evaluated = plan.evaluate.tasks.flatMap((task, i) => {
    const own = { ...plan, evaluate: { ...plan.evaluate, tasks: [task] } };
    const requests = [
      ...(["base", "expert", "merge"] as const).flatMap((kind) => tasksFor({ kind, languages }, own)),
      ...tasksFor({ kind: "merge", languages, merge: { controlOf: "" } }, own),
    ];
    return requests.map((request) => ({ request, path: ["evaluate", "tasks", i] }));
  });
  const selecting = Object.entries(plan.experts).flatMap(([family, { select, language }]) =>
    [
      ...[select?.by ?? []].flat().map((task) => ({ task, at: ["by"] })),
      ...(select?.guards ?? []).map(({ task }, i) => ({ task, at: ["guards", i] })),
    ].flatMap(({ task, at }) =>
      inLanguages(task, language === undefined ? languages : [language]).map((name) => ({
        request: requestOf(name, plan),
        path: ["experts", family, "select", ...at],
      })),
    ),
  );
  return [...evaluated, ...selecting];
}

/** Data sets that are missing from the folder; sets of one kind are one problem. */
async function dataProblems(data: string | undefined, { missing }: ReadFacts): Promise<Problem[]> {
  if (data === undefined || missing.size === 0) return [];
  const path = ["evaluate", "data"];
  const names = [...missing.keys()];
  if (!(await exists(data))) {
    const need = names.length === 1 ? "needs" : "need";
    return [{ path, message: `${data} does not exist; ${names.join(", ")} ${need} it` }];
  }
  return [...groupBy(missing, ([name]) => /^[a-z]+/i.exec(name)?.[0] ?? name).values()].map((alike) => {
    const [first, ...others] = alike;
    const also = others.length === 0 ? "" : `; also missing for ${others.map(([name]) => name).join(", ")}`;
    return { path, message: `${first?.[0]}: ${first?.[1]}${also}` };
  });
}

function taskProblems(plan: ExperimentPlan, tasks: readonly AskedTask[]): Problem[] {
  const problems: Problem[] = [];
  const add = (path: readonly PropertyKey[], message: string) => problems.push({ path, message });
  const executing = tasks.find(({ executes }) => executes);
  if (executing && !plan.evaluate.allow_code) {
    add(
      ["evaluate"],
      `${executing.name} executes programs that models write. Allow it with evaluate.allow_code: true, or remove the task`,
    );
  }
  for (const [i, { name, tasks: averaged }] of plan.averages.entries()) {
    const names = tasksOfAverage(averaged, plan);
    if (new Set(tasks.filter(({ task }) => names.includes(task)).map(({ scale }) => scale)).size < 2) continue;
    const message = `${name} averages percentages and points, such as BLEU. Write an average for each`;
    add(["averages", i, "tasks"], message);
  }
  const deciding = decidingIn(plan, tasks);
  const single = deciding.find(({ items }) => items < 2);
  if (single && plan.search.choose_on !== "test") {
    const how = "Add items, choose another task, or set choose_on: test";
    add(["search", "by"], `${single.name} has one item, so none is left to compare on. ${how}`);
  }
  const corpus = deciding.find(({ isMean }) => !isMean);
  if (corpus) {
    const why = "has one score for the whole corpus, but configurations are compared item by item";
    add(["search", "by"], `${corpus.name} ${why}; choose another task`);
  }
  return problems;
}

/** Configurations of a merge that are reported one by one. */
const MAX_REPORTED = 8;

/** Plans merges by headers alone: each expert with the base, and each configuration with the base for every expert. */
async function mergeProblems(
  plan: ExperimentPlan,
  facts: ReadFacts,
  folder: string,
  hasProblem: (path: readonly PropertyKey[]) => boolean,
): Promise<{ readonly problems: readonly Problem[]; readonly notes: readonly string[] }> {
  const base = facts.models.get(plan.base);
  if (!base || base.folder.includes("+")) return { problems: [], notes: [] };
  const problems: Problem[] = [];
  const opened = new Map([...facts.models.values()].map((model) => [model.folder, model.checkpoint]));
  const attempt = async (path: readonly PropertyKey[], what: string, recipe: RecipeInput) => {
    try {
      return await planRecipe(recipe, { folder, opened });
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      problems.push({ path, message: `${what}: ${messageOf(error)}` });
      return undefined;
    }
  };
  if (plan.merges.length > 0) {
    const used = groupsIn(plan);
    const aligned = plan.merges.some(({ recipe }) => recipe?.vocabulary !== undefined) ? { vocabulary: "union" } : {};
    for (const { family, source, path } of foldersOf(plan)) {
      const expert = facts.models.get(source);
      if (source === plan.base || !expert || !used.has(family)) continue;
      const pair = { method: "soup", models: [base.folder, expert.folder], ...aligned } as RecipeInput;
      const planned = await attempt(path, source, pair);
      for (const sentence of plan.allow_unrelated ? [] : (planned?.plan.unrelated ?? [])) {
        problems.push({ path, message: `${sentence}. Check the folder, or set allow_unrelated: true` });
      }
    }
  }
  const members = sourcesIn(plan);
  // Every expert and merge has the base's tensors.
  const standIns = new Map(members.map((member) => [{ ...base.checkpoint }, member] as const));
  const folderOf = (model: Member | "base") => (model === "base" ? base.folder : `expert ${model.name}`);
  for (const [checkpoint, member] of standIns) opened.set(folderOf(member), checkpoint);
  const digestOf = contentDigest(plan, facts, base.checkpoint, standIns);
  const made = new Map<string, string>();
  const notes: string[] = [];
  const later = laterMerges(plan);
  for (const [i, merge] of plan.merges.entries()) {
    // A merge of a later round has the problems of the first.
    if (!merge.recipe || later.has(merge.name) || hasProblem(["merges", i])) continue;
    const before = problems.length;
    for (const { label, isDefault, bound } of checkedRecipes(merge, members, folderOf)) {
      const what = label === "" ? merge.name : `${merge.name}, ${label}`;
      const planned = await attempt(["merges", i], what, bound as RecipeInput);
      if (!planned || !isDefault) continue;
      const digest = digestOf(planned);
      const same = made.get(digest);
      made.set(digest, same ?? what);
      if (same !== undefined)
        notes.push(`${what} and ${same} make the same model, tensor by tensor. Remove one, and what only it needs`);
    }
    // One wrong value of a grid is in many configurations.
    const more = problems.splice(before + MAX_REPORTED).length;
    if (more > 0) {
      const message = `${merge.name}: ${plural(more, "further configuration")} cannot be planned either`;
      problems.push({ path: ["merges", i], message });
    }
  }
  return { problems, notes };
}

/** Expert groups that merges name. */
function groupsIn(plan: ExperimentPlan): ReadonlySet<string> {
  const members = membersOf(plan);
  const used = plan.merges.flatMap((merge) => placesOf(namingRecipe(merge)).map(({ word }) => word));
  return new Set(used.flatMap((word) => membersNamed(word, members).flatMap(({ family = [] }) => family)));
}

/** Problems of disks that have less space than the folders on them need. @param needs bytes by absolute folder */
export async function spaceProblems(needs: ReadonlyMap<string, number>): Promise<string[]> {
  const located = await Promise.all(
    [...needs].map(async ([folder, bytes]) => {
      let at = folder;
      while (!(await exists(at))) at = dirname(at);
      return { folder, bytes, at, disk: (await stat(at)).dev };
    }),
  );
  const problems: string[] = [];
  for (const alike of groupBy(located, ({ disk }) => disk).values()) {
    const bytes = alike.reduce((sum, one) => sum + one.bytes, 0);
    const { bavail, bsize } = await statfs(alike[0]?.at ?? "");
    const free = bavail * bsize;
    if (bytes <= free) continue;
    const folders = alike.map(({ folder }) => folder).join(" and ");
    problems.push(
      `the experiment needs about ${formatBytes(bytes)} in ${folders}, but only ${formatBytes(free)} are free`,
    );
  }
  return problems;
}

/** @throws RecipeError with all problems, if there are any */
export function refuseProblems(problems: readonly string[], file: string, what = "cannot run here"): void {
  if (problems.length > 0) throw new RecipeError(`${file} ${what}:`, problems, { file });
}
