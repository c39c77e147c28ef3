// What is wrong across the fields of a plan, by its text alone.
import { didYouMean, isObject, suggestName } from "../../core/index.js";
import { LIST_FIELDS, recipeProblems, SOURCE_FIELDS } from "../../merge/index.js";
import { formatProblem, type Problem } from "../../settings/index.js";
import { isStepBackend, LLAMA, type TrainStep } from "../steps/step.js";
import { isAdaptive, isSearched, lineField, numberFields } from "./configurations.js";
import { controlledMerges } from "./controls.js";
import { countBindings, type Member, memberNames, membersOf, nameProblems, sourcesIn } from "./expert-names.js";
import { inLanguages, namingRecipe, tasksOfAverage } from "./plan-models.js";
import { type ExperimentPlan, type ExpertGroup, languagesOf, type Merge, type PlannedMerge } from "./plan-schema.js";
import { formatLimit, MAX_CHECKPOINTS, MAX_MODELS, NAME, NAME_RULE, RESERVED } from "./plan-values.js";
import { checkedRecipes } from "./spaces.js";
import { startProblems } from "./starts.js";
import { countCheckpoints, runProblems, settleTraining, trainingRun } from "./training-runs.js";

type Path = readonly PropertyKey[];

/** What is wrong with everything but the experts. @param search the search as it is written, without defaults */
export function fieldProblems(plan: ExperimentPlan, search: unknown): Problem[] {
  const sources = sourcesIn(plan);
  return [
    ...plan.merges.flatMap((merge, i) => mergeProblems(merge, ["merges", i], plan, sources)),
    ...startProblems(plan, sources),
    ...controlProblems(plan),
    ...overlapProblems(plan),
    ...evaluationProblems(plan),
    ...searchProblems(plan, search),
    ...averageProblems(plan),
  ];
}

/** What is wrong with the experts of a plan. */
export function expertProblems(plan: ExperimentPlan): Problem[] {
  const problems: Problem[] = [];
  const add = (path: Path, message: string) => problems.push({ path, message });
  const isReserved = (name: string) => (RESERVED as readonly string[]).includes(name);
  const taken = new Set<string>();
  for (const [group, declared] of Object.entries(plan.experts)) {
    const path = ["experts", group];
    if (!NAME.test(group)) add(path, `its name ${NAME_RULE}`);
    if (isReserved(group)) add(path, `${group} is a reserved name; choose another`);
    for (const name of memberNames(group, declared)) {
      if (!NAME.test(name)) add([...path, "folders", name], `its name ${NAME_RULE}`);
      if (taken.has(name)) add(path, `two experts are named ${name}; rename one`);
      else if (name !== group && (Object.hasOwn(plan.experts, name) || isReserved(name))) {
        add(path, `${name} is also a family or a reserved name; rename the expert`);
      }
      taken.add(name);
    }
    problems.push(...groupProblems(declared, path), ...trainingProblems(plan, declared, path));
  }
  if (taken.size === 0 && plan.merges.length > 0) add(["experts"], "is missing; merges need experts");
  return problems;
}

function groupProblems({ role, language, folders, train, select }: ExpertGroup, path: Path): Problem[] {
  const problems: Problem[] = [];
  const add = (field: Path, message: string) => problems.push({ path: [...path, ...field], message });
  if ((folders === undefined) === (train === undefined)) add([], "must have either folders or train");
  if (role === "language" && language === undefined) {
    add(["language"], "is missing; set it to the language's code in task names, such as sw");
  }
  if (select && !train) add(["select"], "needs train: it chooses among the checkpoints of training runs");
  if (train?.runs && train.seeds) add(["train", "seeds"], "cannot be combined with runs");
  return problems;
}

/** Problems of a group's training runs, each as `layergraft train` would report them. */
function trainingProblems(plan: ExperimentPlan, { train, select }: ExpertGroup, path: Path): Problem[] {
  if (!train) return [];
  const unknown = [train.like ?? []].flat().filter((like) => !Object.hasOwn(plan.training, like));
  const settled = settleTraining(plan, train);
  const problems = (train.runs ?? [undefined]).flatMap((own, i): Problem[] => {
    const at = own ? ["train", "runs", i] : ["train", "run"];
    const wrong = runProblems(trainingRun(settled.run, own, "base"));
    const run = trainingRun(settled.run, own, "base", select !== undefined);
    const messages = wrong.length > 0 ? wrong : checkpointProblems(run);
    return messages.map((message) => ({ path: [...path, ...at], message }));
  });
  return [
    ...unknown.map((like) => ({
      path: [...path, "train", "like"],
      message: `there is no ${like} under training${didYouMean(like, Object.keys(plan.training))}`,
    })),
    // A problem of the common fields is a problem of every run.
    ...problems.filter(({ message }, i) => problems.findIndex((problem) => problem.message === message) === i),
  ];
}

function checkpointProblems(run: Record<string, unknown>): string[] {
  const count = countCheckpoints({ run } as Pick<TrainStep, "run">);
  if (count <= MAX_CHECKPOINTS) return [];
  const limit = `${formatLimit(count)} checkpoints; the limit is ${formatLimit(MAX_CHECKPOINTS)}`;
  return [`checkpoints.every_samples: the run would leave ${limit}. Raise it.`];
}

function mergeProblems(merge: PlannedMerge, path: Path, plan: ExperimentPlan, members: readonly Member[]): Problem[] {
  const problems: Problem[] = [];
  const add = (field: Path, message: string) => problems.push({ path: [...path, ...field], message });
  const { recipe, suggest, pairs } = merge;
  if (plan.merges.filter(({ name }) => name === merge.name).length > 1) {
    add(["name"], `several merges are named ${merge.name}; rename them`);
  }
  if (merge.name === "base") add(["name"], "base is a reserved name; choose another");
  if ((recipe === undefined) === (suggest === undefined)) add([], "must have either recipe or suggest");
  if (suggest && (Object.keys(merge.grid).length > 0 || merge.configurations.length > 0 || merge.default)) {
    add(["suggest"], "has its own configurations; remove grid, configurations and default");
  }
  problems.push(...figureProblems(merge, path));
  const named = namingRecipe(merge);
  const wrongNames = nameProblems(named, members, [...path, recipe ? "recipe" : "suggest"]);
  const wrong = [...wrongNames, ...sourceProblems(merge, path)];
  if (wrongNames.length === 0) wrong.push(...countProblems(merge, named, path, plan, members));
  problems.push(...wrong);
  const known = members.flatMap(({ name, family }) => (family === undefined ? [] : [name]));
  if (recipe && wrong.length === 0 && known.length > 0) {
    problems.push(...configurationProblems(merge, path, members));
  }
  for (const [i, pair] of (pairs === "all" ? [] : pairs).entries()) {
    for (const name of pair.filter((one) => !known.includes(one))) {
      add(["pairs", i], `there is no expert ${name}${suggestName(name, known)}`);
    }
  }
  return problems;
}

function figureProblems(merge: Merge, path: Path): Problem[] {
  if (merge.figure === undefined || (lineField(merge) !== undefined && merge.configurations.length === 0)) return [];
  const several = numberFields(merge).join(" and ");
  const has = several === "" ? "" : `; here ${several} do, so give all but one a single value`;
  const message =
    merge.configurations.length > 0
      ? "line draws a grid; move the values of configurations into the grid"
      : `line needs a grid in which exactly one field has several numbers, such as keep_share: [0.25, 0.5, 1]${has}`;
  return [{ path: [...path, "figure"], message }];
}

/** Fields of configurations that name models. Only the recipe does, because it makes pairs and groups. */
function sourceProblems({ grid, configurations, default: standard = {} }: Merge, path: Path): Problem[] {
  const places: readonly (readonly [Path, object])[] = [
    [["grid"], grid],
    ...configurations.map((fields, i) => [["configurations", i], fields] as const),
    [["default"], standard],
  ];
  const message =
    "configurations cannot change the models. Name a family in the recipe to merge each of its experts in turn, or write another merge";
  return places.flatMap(([at, fields]) =>
    [...SOURCE_FIELDS, ...LIST_FIELDS]
      .filter((field) => Object.hasOwn(fields, field))
      .map((field) => ({ path: [...path, ...at, field], message })),
  );
}

/** More models than fit into memory, counted before any is made. */
function countProblems(
  merge: PlannedMerge,
  named: object,
  path: Path,
  { search }: ExperimentPlan,
  members: readonly Member[],
): Problem[] {
  const combinations = countBindings(named, members);
  const configurations = isAdaptive(merge, search) ? search.budget : merge.all.length;
  const models = combinations * configurations;
  if (models <= MAX_MODELS) return [];
  const parts = `${formatLimit(combinations)} combinations of experts, ${formatLimit(configurations)} configurations`;
  const message = `makes ${formatLimit(models)} models (${parts}); the limit is ${formatLimit(MAX_MODELS)}. Name fewer experts, or split it`;
  return [{ path, message }];
}

/** Problems of the recipe in each of its configurations, every one once. */
function configurationProblems(merge: PlannedMerge, path: Path, members: readonly Member[]): Problem[] {
  const found = new Map<string, Problem>();
  for (const { fields, bound } of checkedRecipes(merge, members)) {
    for (const problem of recipeProblems(bound)) {
      const message = formatProblem(problem);
      const [field = ""] = problem.path.map(String);
      const inFields = Object.hasOwn(fields, field) ? ["configurations"] : ["recipe"];
      const at = Object.hasOwn(merge.grid, field) ? ["grid", field] : inFields;
      found.set(message, { path: [...path, ...at], message });
    }
  }
  return [...found.values()];
}

/** Fields of a search that only some ways of searching read. */
const READ_BY: Readonly<Record<string, readonly string[]>> = {
  budget: ["random", "cma-es", "halving"],
  rounds: ["halving"],
  keep: ["halving"],
};

/** @param written the search as the plan has it, without defaults */
function searchProblems({ search: { how, budget } }: ExperimentPlan, written: unknown): Problem[] {
  const ignored = Object.keys(isObject(written) ? written : {}).flatMap((field): Problem[] => {
    const readers = READ_BY[field];
    if (!readers || readers.includes(how)) return [];
    const message = `is not used with how: ${how}. Remove it, or set how: ${readers.join(" or ")}`;
    return [{ path: ["search", field], message }];
  });
  const few = how !== "grid" && budget < 2;
  const message = "must be at least 2; a search of one configuration has nothing to choose";
  return [...ignored, ...(few ? [{ path: ["search", "budget"], message }] : [])];
}

function overlapProblems({ overlaps, merges, experts }: ExperimentPlan): Problem[] {
  const members = membersOf({ experts });
  return overlaps.flatMap((pair, i): Problem[] => {
    const path = ["overlaps", i];
    if (pair.includes("base")) return [{ path, message: "must be experts; the base has no changes" }];
    const [task, language] = pair;
    const [wrong] = nameProblems({ method: "swap", task, language }, members, path);
    if (!wrong) return [];
    const merge = pair.find((name) => merges.some((one) => one.name === name));
    return [{ path, message: merge === undefined ? wrong.message : `${merge} is a merge; overlaps take experts` }];
  });
}

function averageProblems(plan: ExperimentPlan): Problem[] {
  const { averages, evaluate } = plan;
  const asked = evaluate.tasks.map(({ task }) => task);
  const known = [...asked, ...asked.flatMap((task) => inLanguages(task, languagesOf(plan)))];
  const names = averages.map(({ name }) => name);
  return averages.flatMap(({ name, tasks }, i): Problem[] => {
    const path = ["averages", i];
    const unknown = tasks.flatMap((task, at): Problem[] => {
      if (known.includes(task)) return [];
      const hint = suggestName(task, known, asked);
      return [{ path: [...path, "tasks", at], message: `${task} is not one of the tasks under evaluate${hint}` }];
    });
    const taken = known.includes(name) || names.indexOf(name) < i;
    const few = unknown.length === 0 && tasksOfAverage(tasks, plan).length < 2;
    return [
      ...unknown,
      ...(taken
        ? [{ path: [...path, "name"], message: `${name} is the name of a task or of another average; rename it` }]
        : []),
      ...(few ? [{ path: [...path, "tasks"], message: `${name} is of a single task; list at least two` }] : []),
    ];
  });
}

function controlProblems(plan: ExperimentPlan): Problem[] {
  const { controls, merges } = plan;
  if (!controls) return [];
  const swaps = controlledMerges({ merges, controls: { ...controls, of: undefined } }).map(({ name }) => name);
  if (swaps.length === 0) {
    return [
      { path: ["controls"], message: "needs a merge whose recipe has method: swap; add one, or remove controls" },
    ];
  }
  return (controls.of ?? []).flatMap((name, i) => {
    if (swaps.includes(name)) return [];
    const message = `${name} is not a merge with method swap${suggestName(name, swaps)}`;
    return [{ path: ["controls", "of", i], message }];
  });
}

function evaluationProblems(plan: ExperimentPlan): Problem[] {
  const { evaluate, experts, search } = plan;
  const problems: Problem[] = [];
  const add = (path: Path, message: string) => problems.push({ path, message });
  const names = evaluate.tasks.map(({ task }) => task);
  const hasLanguage = Object.values(experts).some(({ language }) => language !== undefined);
  for (const [i, name] of names.entries()) {
    const path = ["evaluate", "tasks", i];
    const [other] = name.match(/\{(?!language\})[^{}]*\}/) ?? [];
    if (other !== undefined) add(path, `${other} is not supported; write ${name.replace(other, "{language}")}`);
    if (name.includes("{language}") && !hasLanguage) add(path, `${name} needs experts with a language`);
    const { of = [] } = evaluate.tasks[i] ?? {};
    const earlier = evaluate.tasks.slice(0, i).filter(({ task }) => task === name);
    if (earlier.some((one) => one.of.some((kind) => of.includes(kind)))) add(path, `${name} is listed twice`);
  }
  if (search.by !== undefined && !names.includes(search.by)) {
    add(["search", "by"], `must be one of the tasks, ${names.join(", ")}`);
  }
  problems.push(...decidingProblems(plan));
  if (!isStepBackend(evaluate.backend)) {
    add(
      ["evaluate", "backend"],
      "must be engine, llama, or serve:COMMAND {model} {port}: an experiment starts a server for each model",
    );
  }
  if (evaluate.type !== undefined && evaluate.backend !== LLAMA) add(["evaluate", "type"], "needs backend: llama");
  if (search.how === "halving" && search.choose_on !== "held-out") {
    add(
      ["search", "choose_on"],
      "must be held-out with how: halving, which does not evaluate every configuration on all items",
    );
  }
  return problems;
}

/** A search by a task that merges are not evaluated on would choose nothing. */
function decidingProblems({ merges, evaluate, search }: ExperimentPlan): Problem[] {
  const searched = merges.find(isSearched);
  const found = search.by === undefined ? 0 : evaluate.tasks.findIndex(({ task }) => task === search.by);
  const deciding = evaluate.tasks[found];
  if (!searched || !deciding || deciding.of.includes("merges")) return [];
  const message = `${deciding.task} chooses among the configurations of ${searched.name}, but merges are not evaluated on it. Add merges to its \`of\`, or set search.by to another task`;
  return [{ path: search.by === undefined ? ["evaluate", "tasks", found] : ["search", "by"], message }];
}
