// What a plan names that must be there before it runs, and where it names it.
import { groupBy } from "../../kit/index.js";
import type { Named } from "../steps/facts.js";
import { inLanguages, requestOf, tasksFor } from "./plan-models.js";
import { type ExperimentPlan, languagesOf } from "./plan-schema.js";
import { settleTraining, trainingRun } from "./training-runs.js";

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
  return Object.entries(plan.experts).flatMap(([group, { train }]) => {
    if (!train) return [];
    const { run } = settleTraining(plan, train);
    return (train.runs ?? [undefined]).map((own, i) => {
      const at = own && "data" in own ? ["runs", i] : ["run", "data"];
      return { run: trainingRun(run, own, "base"), path: ["experts", group, "train", ...at] };
    });
  });
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
