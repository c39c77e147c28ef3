// Looks at a plan's world before anything runs: models, data, tasks, merges, room on the disk; collects every problem.

import { statfs } from "node:fs/promises";
import { availableParallelism, totalmem } from "node:os";
import { dirname } from "node:path";
import { canonicalJson, exists, formatBytes, groupBy, plural, RecipeError } from "../../core/index.js";
import { planRecipe, type RecipeInput } from "../../merge/index.js";
import type { Problem } from "../../settings/index.js";
import { configurationsOf } from "../plan/configurations.js";
import { bindingsOf, bindRecipe, meaningOf, membersOf, placesOf } from "../plan/expert-names.js";
import type { InspectedPlan } from "../plan/plan-file.js";
import { inLanguages, languagesOf, requestOf, tasksFor } from "../plan/plan-models.js";
import type { ExperimentPlan, Family } from "../plan/plan-schema.js";
import { settleTraining, trainingRun } from "../plan/training-runs.js";
import { ReadFacts } from "../steps/facts-reader.js";
import type { TaskRequest } from "../steps/step.js";

export interface CheckedWorld {
  readonly facts: ReadFacts;
  /** What is missing or wrong, each with its line; nothing may run while there is any. */
  readonly problems: readonly string[];
  /** What a person should know, though it stops nothing. */
  readonly notes: readonly string[];
  /** Sizes of the base: its own, or those that the plan assumes where it is not here. */
  readonly base: { readonly parameters: number; readonly bytes: number; readonly layers: number } | undefined;
}

export interface CheckOptions {
  /** Absolute folder of the experiment, which keeps digests. */
  readonly out: string;
  /** Absolute folder of the data sets of evaluation. */
  readonly data?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Looks at everything that a plan names, and reports all problems at once, those of the plan itself first. */
export async function checkWorld(inspected: InspectedPlan, options: CheckOptions): Promise<CheckedWorld> {
  const { plan, folder } = inspected;
  const { out, data, signal } = options;
  // A plan with problems does not run, and bytes are read for what runs.
  const facts = new ReadFacts({ folder, cache: out, data, signal, readsBytes: inspected.problems.length === 0 });
  await facts.readModel(plan.base, ["base"]);
  for (const [name, family] of Object.entries(plan.experts)) await readFamily(name, family, plan, facts);
  for (const { request, path } of requestsOf(plan)) await facts.readTask(request, path);
  const isProblemy = (path: readonly PropertyKey[]) =>
    inspected.problems.some((problem) => isWithin(problem.path, path));
  const found = [
    ...inspected.problems,
    ...facts.problems,
    ...(await dataProblems(data, facts)),
    ...taskProblems(plan, facts),
    ...(await mergeProblems(plan, facts, folder, isProblemy)),
  ];
  const problems = inspected.inLines(found);
  const base = facts.models.get(plan.base) ?? plan.assume;
  if ((await exists(out)) || (await exists(dirname(out)))) await facts.save().catch(() => undefined); // costs time, not truth
  return { facts, problems, notes: machineNotes(plan), base };
}

function isWithin(path: readonly PropertyKey[], other: readonly PropertyKey[]): boolean {
  return other.every((key, i) => path[i] === key);
}

/** What a plan asks of this machine that it does not have; steps share what there is. */
function machineNotes({ executor }: ExperimentPlan): string[] {
  if (executor.kind !== "local") return [];
  const notes: string[] = [];
  const cores = availableParallelism();
  for (const field of ["cores", "total_cores"] as const) {
    const asked = executor[field];
    if (asked === undefined || asked <= cores) continue;
    const more = field === "cores" ? `a step runs on ${cores}` : "steps will share them";
    notes.push(`executor.${field} is ${asked}, and this machine has ${plural(cores, "core")}: ${more}`);
  }
  for (const field of ["memory", "total_memory"] as const) {
    const asked = executor[field];
    if (asked === undefined || asked <= totalmem()) continue;
    notes.push(
      `executor.${field} is ${formatBytes(asked)}, and this machine has ${formatBytes(totalmem())}: a step may end for lack of it`,
    );
  }
  return notes;
}

async function readFamily(name: string, family: Family, plan: ExperimentPlan, facts: ReadFacts): Promise<void> {
  const path = ["experts", name];
  for (const [place, folder] of Object.entries(family.folders ?? {})) {
    const at = Array.isArray(family.folders) ? Number(place) : place;
    await facts.readModel(folder, [...path, "folders", at]);
  }
  if (!family.train) return;
  const { run } = settleTraining(plan, family.train);
  for (const [i, own] of (family.train.runs ?? [undefined]).entries()) {
    const at = own && "data" in own ? ["runs", i] : ["run", "data"];
    await facts.readData(trainingRun(run, own, "base"), [...path, "train", ...at]);
  }
}

/** Every task that any model may be asked, and where the plan says so. */
function requestsOf(plan: ExperimentPlan): { request: TaskRequest; path: readonly PropertyKey[] }[] {
  const languages = languagesOf(plan);
  const asked = plan.evaluate.tasks.flatMap((task, i) => {
    const own = { ...plan, evaluate: { ...plan.evaluate, tasks: [task] } };
    const requests = (["base", "expert", "merge"] as const).flatMap((kind) => tasksFor({ kind, languages }, own));
    return requests.map((request) => ({ request, path: ["evaluate", "tasks", i] }));
  });
  const selecting = Object.entries(plan.experts).flatMap(([family, { select, language }]) =>
    [select?.by ?? []]
      .flat()
      .flatMap((task) => inLanguages(task, language === undefined ? languages : [language]))
      .map((task) => ({ request: requestOf(task, plan), path: ["experts", family, "select", "by"] })),
  );
  return [...asked, ...selecting];
}

/** Data sets that are not in the folder: what is missing of one kind is one problem. */
async function dataProblems(data: string | undefined, facts: ReadFacts): Promise<Problem[]> {
  if (data === undefined || facts.lacking.size === 0) return [];
  const path = ["evaluate", "data"];
  const names = [...facts.lacking.keys()];
  if (!(await exists(data))) {
    return [
      { path, message: `${data} does not exist; ${names.join(", ")} ${names.length === 1 ? "needs" : "need"} it` },
    ];
  }
  return [...groupBy(facts.lacking, ([name]) => /^[a-z]+/i.exec(name)?.[0] ?? name).values()].map((alike) => {
    const [first, ...others] = alike;
    const also = others.length === 0 ? "" : `; nor for ${others.map(([name]) => name).join(", ")}`;
    return { path, message: `${first?.[0]}: ${first?.[1]}${also}` };
  });
}

function taskProblems(plan: ExperimentPlan, facts: ReadFacts): Problem[] {
  const problems: Problem[] = [];
  const executing = [...facts.tasks.values()].filter(({ executes }) => executes);
  if (executing.length > 0 && !plan.evaluate.allow_code) {
    const message = `${executing[0]?.name} executes programs that models write; allow it with evaluate.allow_code: true, or leave it out`;
    problems.push({ path: ["evaluate"], message });
  }
  const isSearched = plan.merges.some((merge) => merge.suggest || configurationsOf(merge).length > 1);
  const [first] = plan.evaluate.tasks;
  const by = plan.search.by ?? (typeof first === "string" ? first : (first?.task ?? ""));
  const deciding = new Set(inLanguages(by, languagesOf(plan)));
  const asked = requestsOf(plan).flatMap(({ request }) =>
    deciding.has(request.task) ? (facts.tasks.get(canonicalJson(request)) ?? []) : [],
  );
  const corpus = asked.find(({ isMean }) => !isMean);
  const single = asked.find(({ items }) => items < 2);
  if (isSearched && single && plan.search.choose_on !== "test") {
    const message = `${single.name} has one item, of which none would be left to compare on; give it more, choose another task, or set choose_on: test`;
    problems.push({ path: ["search", "by"], message });
  }
  if (isSearched && corpus) {
    const message = `${corpus.name} has a score of the whole corpus; configurations are compared item by item, so choose another task`;
    problems.push({ path: ["search", "by"], message });
  }
  return problems;
}

/** Configurations of a merge that cannot be planned, each told by itself. */
const MOST_PROBLEMS = 8;

/** Merges that could not be planned, tried on headers: experts beside the base, and configurations on the base alone. */
async function mergeProblems(
  plan: ExperimentPlan,
  facts: ReadFacts,
  folder: string,
  isProblemy: (path: readonly PropertyKey[]) => boolean,
): Promise<Problem[]> {
  const base = facts.models.get(plan.base);
  if (!base || base.folder.includes("+")) return [];
  const problems: Problem[] = [];
  const attempt = async (path: readonly PropertyKey[], what: string, recipe: RecipeInput) => {
    try {
      await planRecipe(recipe, { folder });
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      problems.push({ path, message: `${what}: ${error.message}` });
    }
  };
  if (plan.merges.length > 0) {
    const used = familiesIn(plan);
    // Whoever aligns vocabularies has reason to.
    const aligned = plan.merges.some(({ recipe }) => recipe?.vocabulary !== undefined) ? { vocabulary: "union" } : {};
    for (const [source, { folder: expert, path }] of facts.models) {
      if (source === plan.base || (path[0] === "experts" && !used.has(String(path[1])))) continue;
      await attempt(path, source, { method: "soup", models: [base.folder, expert], ...aligned } as RecipeInput);
    }
  }
  const members = membersOf(plan);
  for (const [i, merge] of plan.merges.entries()) {
    const { recipe } = merge;
    if (!recipe || isProblemy(["merges", i])) continue;
    const [binding] = bindingsOf(recipe, members);
    const before = problems.length;
    for (const { fields, label } of configurationsOf(merge)) {
      // Every expert has the base's tensors, so the base stands for all of them.
      const whole = bindRecipe({ ...recipe, ...fields }, binding ?? new Map(), members, () => base.folder);
      await attempt(["merges", i], label === "" ? merge.name : `${merge.name}, ${label}`, whole as RecipeInput);
    }
    // One value of a grid that cannot be is a problem of many configurations.
    const more = problems.splice(before + MOST_PROBLEMS).length;
    if (more > 0) {
      const message = `${merge.name}: ${plural(more, "further configuration")} cannot be planned either`;
      problems.push({ path: ["merges", i], message });
    }
  }
  return problems;
}

/** Families of which any merge uses an expert. */
function familiesIn(plan: ExperimentPlan): ReadonlySet<string> {
  const members = membersOf(plan);
  const used = plan.merges.flatMap(({ recipe, suggest }) => [
    ...placesOf(recipe).map(({ word }) => word),
    ...(suggest ? [suggest.task, suggest.language] : []),
  ]);
  return new Set(
    used.flatMap((word) => {
      const meaning = meaningOf(word, members);
      if (meaning?.kind === "one") return meaning.member.family;
      return meaning && "members" in meaning ? meaning.members.map(({ family }) => family) : [];
    }),
  );
}

/**
 * Whether there is room for what the experiment will write.
 * @param bytes that it will still write
 * @returns a problem, or undefined
 */
export async function spaceProblem(out: string, bytes: number): Promise<string | undefined> {
  let folder = out;
  while (!(await exists(folder))) folder = dirname(folder);
  const { bavail, bsize } = await statfs(folder);
  const free = bavail * bsize;
  if (bytes <= free) return undefined;
  return `the experiment will need about ${formatBytes(bytes)} in ${out}, and ${formatBytes(free)} are free there`;
}

/** @throws {RecipeError} with all of them, if there are any */
export function refuseProblems(problems: readonly string[], file: string, what = "cannot run here"): void {
  if (problems.length > 0) throw new RecipeError(`${file} ${what}:`, problems, { file });
}
