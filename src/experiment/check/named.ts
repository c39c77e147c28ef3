// What a plan names that must be there before it runs, and where it names it.
import { groupBy } from "../../kit/index.js";
import type { ExperimentPlan, PlannedRun } from "../plan/plan-schema.js";
import { inLanguages, languagesOf, requestOf, tasksFor } from "../plan/plan-tasks.js";
import type { TaskRequest } from "../steps/step.js";

/** Path in the plan. */
interface Located {
  readonly path: readonly PropertyKey[];
}

/** What a plan names, and where. */
export interface Named {
  /** Folders of experts. */
  readonly models: readonly ({ readonly group: string; readonly source: string } & Located)[];
  /** Training runs; the path is that of their data. */
  readonly runs: readonly ({ readonly run: PlannedRun } & Located)[];
  readonly tasks: readonly ({ readonly request: TaskRequest } & Located)[];
}

export function namedIn(plan: ExperimentPlan): Named {
  return { models: foldersIn(plan), runs: runsIn(plan), tasks: tasksIn(plan) };
}

/** The folders of experts, each once. */
function foldersIn(plan: ExperimentPlan): Named["models"] {
  const all = Object.entries(plan.experts).flatMap(([group, { folders }]) =>
    Object.entries(folders ?? {}).map(([key, source]) => {
      const at = Array.isArray(folders) ? Number(key) : key;
      return { group, source, path: ["experts", group, "folders", at] };
    }),
  );
  return [...groupBy(all, ({ source }) => source).values()].flatMap(([first]) => first ?? []);
}

function runsIn(plan: ExperimentPlan): Named["runs"] {
  return Object.entries(plan.experts).flatMap(([group, { train }]) =>
    (train?.runs ?? []).map((run) => ({ run, path: ["experts", group, "train", ...run.dataPath] })),
  );
}

/** Every task that a model may be evaluated on. */
function tasksIn(plan: ExperimentPlan): Named["tasks"] {
  const languages = languagesOf(plan);
  const evaluated = plan.evaluate.tasks.flatMap((task, i) => {
    const own = { ...plan, evaluate: { ...plan.evaluate, tasks: [task] } };
    const requests = [
      ...(["base", "expert", "merge"] as const).flatMap((kind) => tasksFor({ kind, languages }, own)),
      ...tasksFor({ kind: "merge", languages, merge: { controlOf: "" } }, own),
    ];
    return requests.map((request) => ({ request, path: ["evaluate", "tasks", i] }));
  });
  const selecting = Object.entries(plan.experts).flatMap(([expertGroup, { select, language }]) =>
    [
      ...[select?.by ?? []].flat().map((task) => ({ task, at: ["by"] })),
      ...(select?.guards ?? []).map(({ task }, i) => ({ task, at: ["guards", i] })),
    ].flatMap(({ task, at }) =>
      inLanguages(task, language === undefined ? languages : [language]).map((name) => ({
        request: requestOf(name, plan),
        path: ["experts", expertGroup, "select", ...at],
      })),
    ),
  );
  return [...evaluated, ...selecting];
}
