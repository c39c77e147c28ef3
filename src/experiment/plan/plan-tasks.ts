// The tasks that models of a plan are evaluated on, and what runs the models.
import { DEFAULT_TYPE } from "../../export/llama/index.js";
import { LLAMA, type Runner, type TaskRequest } from "../steps/step.js";
import type { ExperimentPlan, PlannedMerge } from "./plan-schema.js";

/** A model, as far as its tasks depend on it. */
export interface AskedModel {
  readonly kind: "base" | "expert" | "merge";
  /** Codes of the languages that `{language}` stands for. */
  readonly languages: readonly string[];
}

/** Tasks that a model is evaluated on, with the language filled in. */
export function tasksFor(
  model: AskedModel & { readonly merge?: Pick<PlannedMerge, "controlOf"> },
  { evaluate: { tasks } }: Pick<ExperimentPlan, "evaluate">,
): TaskRequest[] {
  const isControl = model.merge?.controlOf !== undefined && tasks.some(({ of }) => of.includes("controls"));
  const kind = isControl ? "controls" : ({ base: "base", expert: "experts", merge: "merges" } as const)[model.kind];
  const requests = tasks.flatMap(({ of, ...request }): TaskRequest[] => {
    if (!of.includes(kind)) return [];
    const set = Object.fromEntries(Object.entries(request).filter(([, value]) => value !== undefined));
    const files = inLanguages(request.prompts ?? "", model.languages);
    return inLanguages(request.task, model.languages).map((name, i) => {
      return { ...set, task: name, ...(request.prompts === undefined ? {} : { prompts: files[i] ?? request.prompts }) };
    });
  });
  return requests.filter(({ task }, i) => requests.findIndex((other) => other.task === task) === i);
}

/** The task by which checkpoints are chosen, with the settings that it has under `evaluate`, if any. */
export function requestOf(name: string, plan: ExperimentPlan): TaskRequest {
  const languages = languagesOf(plan);
  const known = (["expert", "merge"] as const).flatMap((kind) => tasksFor({ kind, languages }, plan));
  return known.find(({ task }) => task === name) ?? { task: name };
}

export function languagesOf({ experts }: Pick<ExperimentPlan, "experts">): string[] {
  return [...new Set(Object.values(experts).flatMap(({ language }) => language ?? []))];
}

export function inLanguages(task: string, languages: readonly string[]): string[] {
  return task.includes("{language}") ? languages.map((code) => task.replaceAll("{language}", code)) : [task];
}

/** The tasks of an average, with each language in them. */
export function tasksOfAverage(tasks: readonly string[], plan: Pick<ExperimentPlan, "experts">): string[] {
  return [...new Set(tasks.flatMap((task) => inLanguages(task, languagesOf(plan))))];
}

/** What a list of tasks and averages stands for: each average by its name, each task in each of the languages. */
export function decidingScores(
  by: string | readonly string[],
  plan: Pick<ExperimentPlan, "averages" | "experts">,
  languages: readonly string[],
): { readonly name: string; readonly tasks: readonly string[] }[] {
  return [by].flat().flatMap((one) => {
    const average = plan.averages.find(({ name }) => name === one);
    if (average) return [{ name: one, tasks: tasksOfAverage(average.tasks, plan) }];
    return inLanguages(one, languages).map((name) => ({ name, tasks: [name] }));
  });
}

export function decidingTask({ search, evaluate }: Pick<ExperimentPlan, "search" | "evaluate">): string {
  return search.by ?? evaluate.tasks[0]?.task ?? "";
}

/** The tasks by which configurations of a model are chosen. */
export function decidingTasks(model: AskedModel, plan: ExperimentPlan): TaskRequest[] {
  const names = new Set(inLanguages(decidingTask(plan), model.languages));
  return tasksFor(model, plan).filter(({ task }) => names.has(task));
}

/** What runs the models of a plan. */
export function runnerOf({ evaluate }: Pick<ExperimentPlan, "evaluate">): Runner {
  const { backend, type = DEFAULT_TYPE, chat_template_kwargs: variables } = evaluate;
  return {
    backend,
    ...(backend === LLAMA ? { type } : {}),
    ...(variables === undefined ? {} : { chat_template_kwargs: variables }),
  };
}

/** What runs the models, for people: `engine`, `llama.cpp, q8_0`, `vllm serve {model}`. */
export function describeRunner(plan: Pick<ExperimentPlan, "evaluate">): string {
  const { backend, type } = runnerOf(plan);
  return backend === LLAMA ? `llama.cpp, ${type}` : backend.replace(/^serve:/, "").trim();
}

/** `mgsm_{language}` of `mgsm_sw`, where the variant has no other language. */
export function plannedTask(task: string, plan: ExperimentPlan): string {
  const languages = languagesOf(plan);
  const written = plan.evaluate.tasks.find((one) => inLanguages(one.task, languages).includes(task));
  return languages.length === 1 && written ? written.task : task;
}
