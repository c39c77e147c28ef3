// The folders and tasks that a plan names.
import { groupBy } from "../../kit/index.js";
import type { TaskRequest } from "../steps/step.js";
import type { ExperimentPlan } from "./plan-schema.js";
import { decidingScores, inLanguages, languagesOf, requestOf, tasksFor } from "./plan-tasks.js";

/** The folders of experts, each once. */
export function foldersIn(plan: ExperimentPlan) {
  const all = Object.entries(plan.experts).flatMap(([group, { folders }]) =>
    Object.entries(folders ?? {}).map(([key, source]) => {
      const at = Array.isArray(folders) ? Number(key) : key;
      return { group, source, path: ["experts", group, "folders", at] };
    }),
  );
  return [...groupBy(all, ({ source }) => source).values()].flatMap(([first]) => first ?? []);
}

/** Every task that a model may be evaluated on. */
export function tasksIn(
  plan: ExperimentPlan,
): { readonly request: TaskRequest; readonly path: readonly PropertyKey[] }[] {
  const languages = languagesOf(plan);
  const evaluated = plan.evaluate.tasks.flatMap((task, i) => {
    const own = { ...plan, evaluate: { ...plan.evaluate, tasks: [task] } };
    const requests = [
      ...(["base", "expert", "merge"] as const).flatMap((kind) => tasksFor({ kind, languages }, own)),
      ...tasksFor({ kind: "merge", languages, merge: { controlOf: "" } }, own),
    ];
    return requests.map((request) => ({ request, path: ["evaluate", "tasks", i] }));
  });
  const selecting = Object.entries(plan.experts).flatMap(([expertFamily, { select, language }]) =>
    [
      ...decidingScores(select?.by ?? [], plan, language === undefined ? languages : [language]).flatMap(({ tasks }) =>
        tasks.map((task) => ({ task, at: ["by"] })),
      ),
      ...(select?.guards ?? []).map(({ task }, i) => ({ task, at: ["guards", i] })),
    ].flatMap(({ task, at }) =>
      inLanguages(task, language === undefined ? languages : [language]).map((name) => ({
        request: requestOf(name, plan),
        path: ["experts", expertFamily, "select", ...at],
      })),
    ),
  );
  return [...evaluated, ...selecting];
}
