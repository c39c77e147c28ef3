import { stat, statfs } from "node:fs/promises";
import { availableParallelism, totalmem } from "node:os";
import { dirname } from "node:path";
import { choiceNotes, rendererOf } from "../../evaluate/index.js";
import { chatProtocolOf } from "../../evaluate/tasks/index.js";
import { checkLlama, type ExportOutlook } from "../../export/llama/index.js";
import { canonicalJson, exists } from "../../kit/files/index.js";
import { CheckpointError, groupBy, LayergraftError, RecipeError } from "../../kit/index.js";
import { formatBytes, plural, visible } from "../../kit/printing/index.js";
import type { Problem } from "../../kit/settings/index.js";
import { loadChatTemplate, loadTokenizer } from "../../text/index.js";
import { commandRunner } from "../execute/slurm-commands.js";
import type { TaskFacts } from "../expand/facts.js";
import { isSearched } from "../plan/configurations.js";
import type { Variant } from "../plan/matrix.js";
import type { InspectedPlan } from "../plan/plan-file.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import { decidingTask, inLanguages, languagesOf, runnerOf, tasksOfAverage } from "../plan/plan-tasks.js";
import { splitItems } from "../search/search.js";
import { LLAMA } from "../steps/step.js";
import { checkMerges } from "./check-merges.js";
import { ReadFacts, tasksIn } from "./facts-reader.js";
import { type StepMemory, stepMemory } from "./step-memory.js";

/** A variant, and what is there of its base. */
export interface CheckedVariant extends Variant {
  /** If the base has a chat template, with chat protocols where the plan names none. */
  readonly plan: ExperimentPlan;
  /** Sizes of the base; if it is not on this machine, those that the plan assumes. */
  readonly base: { readonly parameters: number; readonly bytes: number; readonly layers: number } | undefined;
  /** The export of the base, where llama.cpp runs the models. */
  readonly gguf: ExportOutlook | undefined;
  /** Of steps here, where the plan does not say it. */
  readonly memory: StepMemory;
}

/** What a plan names, and whether it can run. */
export interface CheckedWorld extends Pick<CheckedVariant, "base" | "gguf" | "memory"> {
  readonly facts: ReadFacts;
  /** Problems, each with its line. The experiment must not run while there are any. */
  readonly problems: readonly string[];
  readonly notes: readonly string[];
}

/** What is there of a plan's variants, and what they start. */
interface CheckedPlan extends Pick<CheckedWorld, "facts" | "problems" | "notes"> {
  readonly variants: readonly CheckedVariant[];
  readonly programs: readonly PlanProgram[];
}

export interface CheckOptions {
  /** Absolute folder of the data sets of evaluation. */
  readonly data?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Checks everything that the variants of a plan name. */
export async function checkWorld(
  { variants, problems: before, folder, inLines }: InspectedPlan,
  { data, signal }: CheckOptions,
): Promise<CheckedPlan> {
  // A plan with problems does not run, so its models need not be identified.
  const readsBytes = before.flat().length === 0;
  const facts = new ReadFacts({ folder, data, signal, readsBytes });
  const checked: Awaited<ReturnType<typeof checkVariant>>[] = [];
  for (const [i, variant] of variants.entries()) {
    checked.push(await checkVariant(variant, before[i] ?? [], facts, folder, signal));
  }
  const missing = await dataProblems(data, facts);
  const problems = inLines(checked.map((one) => [...one.problems, ...missing]));
  const notes = (["search", "models", "choices"] as const).flatMap((about) =>
    checked.flatMap((one) => one.notes[about]),
  );
  const [first] = variants as readonly [Variant];
  return {
    facts,
    problems,
    notes: [...(await machineNotes(first.plan)), ...new Set(notes)],
    variants: checked.map(({ variant }) => variant),
    programs: programsOf(variants.map(({ plan }) => plan)),
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

/** @param before problems across its fields */
async function checkVariant(
  written: Variant,
  before: readonly Problem[],
  facts: ReadFacts,
  folder: string,
  signal: AbortSignal | undefined,
) {
  await facts.readModel(written.plan.base, ["base"]);
  const plan = await withChats(written.plan, facts);
  await facts.readAll(plan);
  const tasks = tasksIn(plan).flatMap(({ request }): AskedTask[] => {
    const read = facts.tasks.get(canonicalJson(request));
    return read ? [{ ...read, task: request.task }] : [];
  });
  const hasProblem = (path: readonly PropertyKey[]) =>
    before.some((problem) => path.every((key, i) => problem.path[i] === key));
  const llama = await checkBackend(plan, facts);
  const template = await checkTemplate(plan, facts);
  const merges = await checkMerges(plan, facts, folder, hasProblem, signal);
  const base = facts.models.get(plan.base);
  const memory = plan.executor.kind === "local" ? await stepMemory(plan, base?.checkpoint) : {};
  return {
    variant: { ...written, plan, base: base ?? plan.assume, gguf: llama.gguf, memory },
    problems: [
      ...before,
      ...llama.problems,
      ...template,
      ...facts.takeProblems(),
      ...taskProblems(plan, tasks),
      ...merges.problems,
    ],
    notes: {
      search: searchNotes(plan, tasks),
      models: [...chatNotes(written.plan, plan), ...merges.notes, ...tasks.flatMap(({ notes = [] }) => notes)],
      choices: base ? await choiceWarnings(base.checkpoint.folder, tasks) : [],
    },
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

/** Whether the base's chat template reads the variables that it is given. */
async function checkTemplate({ evaluate, base }: ExperimentPlan, { models }: ReadFacts): Promise<Problem[]> {
  const folder = models.get(base)?.folder;
  if (folder === undefined || evaluate.chat_template_kwargs === undefined) return [];
  try {
    rendererOf(await loadChatTemplate(folder), evaluate.chat_template_kwargs);
    return [];
  } catch (error) {
    if (!(error instanceof LayergraftError)) throw error;
    return [{ path: ["evaluate", "chat_template_kwargs"], message: error.message }];
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
  try {
    const tokenizer = await loadTokenizer(base);
    return tasks.flatMap(({ name, choices = [] }) => choiceNotes(choices, tokenizer).map((note) => `${name}: ${note}`));
  } catch (error) {
    if (error instanceof CheckpointError) return [];
    throw error;
  }
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

const MAX_PROGRAM = 4000;
const MAX_PROGRAMS = 50;

/** A program that a plan starts and that is not layergraft: a person can read it before a plan by a stranger runs. */
export interface PlanProgram {
  readonly when: string;
  /** Its command, or what it is. */
  readonly what: string;
}

/** @param plans of all variants */
function programsOf(plans: readonly ExperimentPlan[]): readonly PlanProgram[] {
  const found = plans.flatMap(({ evaluate, executor, experts }): PlanProgram[] => {
    const { backend, allow_code, unsafe_code } = evaluate;
    const pythons = Object.values(experts).flatMap(({ train }) => train?.trl?.python ?? []);
    const confined = unsafe_code ? "confined only where the kernel can confine them" : "in a sandbox";
    const sbatch = [executor, executor.train, executor.evaluate].flatMap((one) => one?.options ?? []);
    return [
      ...(backend.startsWith("serve:")
        ? [{ when: "For each model", what: backend.slice("serve:".length).trim() }]
        : []),
      ...(allow_code ? [{ when: "For each answer", what: `programs that models write, ${confined}` }] : []),
      ...pythons.map((python) => ({ when: "For training", what: python })),
      ...(executor.kind === "slurm" ? [{ when: "For jobs", what: ["sbatch", ...sbatch].join(" ") }] : []),
      ...(executor.setup === undefined ? [] : [{ when: "Before each job's step", what: executor.setup }]),
    ];
  });
  const distinct = new Map(found.map((one) => [`${one.when} ${one.what}`, one]));
  return [...distinct.values()].slice(0, MAX_PROGRAMS).map(({ when, what }) => ({ when, what: clipProgram(what) }));
}

/** The end of a command may matter most, so it says how much is left out. */
function clipProgram(text: string): string {
  const plain = visible(text);
  const more = plain.length - MAX_PROGRAM;
  return more > 0 ? `${plain.slice(0, MAX_PROGRAM)}… (${more} more characters are in the plan)` : plain;
}
