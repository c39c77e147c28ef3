// Looks at a plan's world before anything runs: models, data, tasks, merges, room on the disk; collects every fault.
import { readdir, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { RecipeError } from "../../core/errors.js";
import { exists } from "../../core/files.js";
import { formatBytes } from "../../core/format.js";
import { planRecipe, type RecipeInput } from "../../merge/index.js";
import { configurationsOf } from "../plan/configurations.js";
import type { LocatedPlan } from "../plan/file.js";
import { inLanguages, languagesOf, tasksFor } from "../plan/models.js";
import { bindingsOf, bindRecipe, membersOf } from "../plan/names.js";
import type { ExperimentPlan, Family } from "../plan/schema.js";
import { settleTraining, trainingRun } from "../plan/training.js";
import { ReadFacts } from "../steps/facts-reader.js";
import type { TaskRequest } from "../steps/step.js";

export interface CheckedWorld {
  readonly facts: ReadFacts;
  /** What is missing or wrong; nothing may run while there is any. */
  readonly faults: readonly string[];
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

/** Looks at everything that a plan names, and reports all faults at once. */
export async function checkWorld({ plan, folder }: LocatedPlan, options: CheckOptions): Promise<CheckedWorld> {
  const { out, data, signal } = options;
  const facts = new ReadFacts({ folder, cache: out, data, signal });
  await facts.readModel(plan.base, "base");
  for (const [name, family] of Object.entries(plan.experts)) await readFamily(name, family, plan, facts);
  for (const request of requestsOf(plan)) await facts.readTask(request);
  const faults = [...facts.faults, ...taskFaults(plan, facts), ...(await mergeFaults(plan, facts, folder))];
  const base = facts.models.get(plan.base) ?? plan.assume;
  if ((await exists(out)) || (await exists(dirname(out)))) await facts.save().catch(() => undefined); // costs time, not truth
  return { facts, faults, base };
}

async function readFamily(name: string, family: Family, plan: ExperimentPlan, facts: ReadFacts): Promise<void> {
  const folders = Array.isArray(family.folders) ? family.folders : Object.values(family.folders ?? {});
  for (const folder of folders) await facts.readModel(folder, `experts.${name}`);
  if (!family.train) return;
  const { run } = settleTraining(plan, family.train);
  for (const own of family.train.runs ?? [undefined]) {
    await facts.readData(trainingRun(run, own, "base"), `experts.${name}`);
  }
}

/** Every task that any model may be asked. */
function requestsOf(plan: ExperimentPlan): TaskRequest[] {
  const languages = languagesOf(plan);
  const selecting = Object.values(plan.experts).flatMap(({ select, language }) =>
    [select?.by ?? []].flat().flatMap((task) => inLanguages(task, language === undefined ? languages : [language])),
  );
  return [
    ...(["base", "expert", "merge"] as const).flatMap((kind) => tasksFor({ kind, languages }, plan)),
    ...selecting.map((task) => ({ task })),
  ];
}

function taskFaults(plan: ExperimentPlan, facts: ReadFacts): string[] {
  const faults: string[] = [];
  const executing = [...facts.tasks.values()].filter(({ executes }) => executes);
  if (executing.length > 0 && !plan.evaluate.allow_code) {
    faults.push(
      `${executing[0]?.name} executes programs that models write; allow it with evaluate.allow_code: true, or leave it out`,
    );
  }
  const isSearched = plan.merges.some((merge) => merge.suggest || configurationsOf(merge).length > 1);
  const [first] = plan.evaluate.tasks;
  const by = plan.search.by ?? (typeof first === "string" ? first : (first?.task ?? ""));
  const deciding = new Set(inLanguages(by, languagesOf(plan)));
  const corpus = [...facts.tasks.values()].find(({ name, isMean }) => deciding.has(name) && !isMean);
  if (isSearched && corpus) {
    faults.push(
      `search.by: ${corpus.name} has a score of the whole corpus; configurations are compared item by item, so choose another task`,
    );
  }
  return faults;
}

/** Merges that could not be planned, tried on headers: experts beside the base, and configurations on the base alone. */
async function mergeFaults(plan: ExperimentPlan, facts: ReadFacts, folder: string): Promise<string[]> {
  const base = facts.models.get(plan.base);
  if (!base || base.folder.includes("+")) return [];
  const faults = new Set<string>();
  const attempt = async (what: string, recipe: RecipeInput) => {
    try {
      await planRecipe(recipe, { folder });
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      faults.add(`${what}: ${error.message}`);
    }
  };
  if (plan.merges.length > 0) {
    for (const [source, { folder: expert }] of facts.models) {
      if (source !== plan.base) await attempt(source, { method: "soup", models: [base.folder, expert] } as RecipeInput);
    }
  }
  const members = membersOf(plan);
  for (const merge of plan.merges) {
    const { recipe } = merge;
    if (!recipe) continue;
    const [binding] = bindingsOf(recipe, members);
    for (const { fields, label } of configurationsOf(merge)) {
      // Every expert has the base's tensors, so the base stands for all of them.
      const whole = bindRecipe({ ...recipe, ...fields }, binding ?? new Map(), members, () => base.folder);
      await attempt(label === "" ? merge.name : `${merge.name}, ${label}`, whole as RecipeInput);
    }
  }
  return [...faults];
}

/**
 * Whether the experiment has room, beside what it has written already.
 * @param bytes that it will have in the end
 * @returns a fault, or undefined
 */
export async function spaceFault(out: string, bytes: number): Promise<string | undefined> {
  let folder = out;
  while (!(await exists(folder))) folder = dirname(folder);
  const { bavail, bsize } = await statfs(folder);
  const free = bavail * bsize;
  const more = bytes - (folder === out ? await bytesIn(out) : 0);
  if (more <= free) return undefined;
  return `the experiment will need about ${formatBytes(more)} in ${out}, and ${formatBytes(free)} are free there`;
}

/** Bytes of a folder's files; one that has several names is counted once. */
async function bytesIn(folder: string): Promise<number> {
  const sizes = new Map<string, number>();
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const found = await stat(join(entry.parentPath, entry.name)).catch(() => undefined); // gone meanwhile
    if (found) sizes.set(`${found.dev} ${found.ino}`, found.size);
  }
  return [...sizes.values()].reduce((sum, size) => sum + size, 0);
}

/** @throws {RecipeError} with all of them, if there are any */
export function refuseFaults(faults: readonly string[], file: string): void {
  if (faults.length > 0) throw new RecipeError(`${file} cannot run here:`, faults, { file });
}
