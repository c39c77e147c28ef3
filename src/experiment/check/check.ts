// Checks everything that a plan names: what it is, then whether it fits.
import { rendererOf } from "../../evaluate/index.js";
import { checkLlama, type ExportOutlook } from "../../export/llama/index.js";
import { LayergraftError } from "../../kit/index.js";
import type { Problem } from "../../kit/settings/index.js";
import { loadChatTemplate } from "../../text/index.js";
import type { Variant } from "../plan/matrix.js";
import type { InspectedPlan } from "../plan/plan-file.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import { runnerOf } from "../plan/plan-tasks.js";
import { LLAMA } from "../steps/step.js";
import { checkMerges } from "./check-merges.js";
import { checkTasks, dataProblems } from "./check-tasks.js";
import { ReadFacts } from "./facts-reader.js";
import { machineNotes } from "./machine.js";
import { type PlanProgram, programsOf } from "./programs.js";
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
  const { plan, tasks: read, problems } = await facts.readPlan(written.plan);
  const base = facts.models.get(plan.base);
  const hasProblem = (path: readonly PropertyKey[]) =>
    before.some((problem) => path.every((key, i) => problem.path[i] === key));
  const llama = await checkBackend(plan, base?.folder);
  const template = await checkTemplate(plan, base?.folder);
  const merges = await checkMerges(plan, facts, folder, hasProblem, signal);
  const tasks = await checkTasks(plan, read, base?.checkpoint.folder);
  const memory = plan.executor.kind === "local" ? await stepMemory(plan, base?.checkpoint) : {};
  return {
    variant: { ...written, plan, base: base ?? plan.assume, gguf: llama.gguf, memory },
    problems: [...before, ...llama.problems, ...template, ...problems, ...tasks.problems, ...merges.problems],
    notes: {
      search: tasks.search,
      models: [...chatNotes(written.plan, plan), ...merges.notes, ...read.flatMap(({ notes = [] }) => notes)],
      choices: tasks.choices,
    },
  };
}

/** Whether llama.cpp is installed and runs the base, where the plan asks for it. */
async function checkBackend(
  plan: ExperimentPlan,
  base: string | undefined,
): Promise<{ problems: Problem[]; gguf: ExportOutlook | undefined }> {
  const { backend, type } = runnerOf(plan);
  if (backend !== LLAMA || base === undefined) return { problems: [], gguf: undefined };
  try {
    return { problems: [], gguf: await checkLlama(base, { type }) };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return { problems: [{ path: ["evaluate", "backend"], message: error.message }], gguf: undefined };
  }
}

/** Whether the base's chat template reads the variables that it is given. */
async function checkTemplate({ evaluate }: ExperimentPlan, folder: string | undefined): Promise<Problem[]> {
  if (folder === undefined || evaluate.chat_template_kwargs === undefined) return [];
  try {
    rendererOf(await loadChatTemplate(folder), evaluate.chat_template_kwargs);
    return [];
  } catch (error) {
    if (!(error instanceof LayergraftError)) throw error;
    return [{ path: ["evaluate", "chat_template_kwargs"], message: error.message }];
  }
}
