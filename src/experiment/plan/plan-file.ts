// Reading an experiment's plan: from YAML or JSON, or from a value of the library; all problems at once, with their lines.
// Looks at no checkpoint and no data set; that is check.ts's.

import { dirname } from "node:path";
import { didYouMean, formatSome, RecipeError } from "../../core/index.js";
import { recipeProblems as checkedRecipe, LIST_FIELDS, SOURCE_FIELDS } from "../../merge/index.js";
import {
  type Checked,
  checkSchema,
  checkSettings,
  formatProblem,
  openSettings,
  type Problem,
  parseSettings,
  readSettingsText,
  type SettingsKind,
  type SettingsText,
} from "../../settings/index.js";
import { isStepBackend } from "../steps/step.js";
import { configurationsOf } from "./configurations.js";
import {
  bindingsOf,
  bindRecipe,
  countBindings,
  type Member,
  memberNames,
  membersOf,
  nameProblems,
} from "./expert-names.js";
import {
  type ExperimentPlan,
  type Family,
  inWords,
  isName,
  type Merge,
  MOST_CHECKPOINTS,
  MOST_MODELS,
  NAME_RULE,
  planSchema,
  RESERVED,
} from "./plan-schema.js";
import { countCheckpoints, runProblems, settleTraining, trainingRun } from "./training-runs.js";

/** A plan and where it is. */
export interface LocatedPlan extends Omit<SettingsText, "value"> {
  readonly plan: ExperimentPlan;
  /** The folder that relative paths start from. */
  readonly folder: string;
}

/** A plan that fits the schema, with what is wrong across its fields; it must not run while there is anything. */
export interface InspectedPlan extends LocatedPlan {
  readonly problems: readonly Problem[];
}

/**
 * Reads a plan from a file.
 * @throws {RecipeError} with every problem and its line
 */
export async function readPlan(file: string): Promise<LocatedPlan> {
  const inspected = await inspectPlan(file);
  const { problems } = inspected;
  if (problems.length === 0) return inspected;
  throw new RecipeError(`${file} is not a valid plan:`, inspected.inLines(problems), { file });
}

/**
 * Reads a plan from a file, with its problems, so that what it names can be checked too.
 * @throws {RecipeError} if it breaks the schema, with every problem and its line
 */
export async function inspectPlan(file: string): Promise<InspectedPlan> {
  const text = await readSettingsText(file, "plan");
  const { value, ...places } = openSettings(text, file);
  const { value: plan, problems } = check(value);
  if (!plan) throw new RecipeError(`${file} is not a valid plan:`, places.inLines(problems), { file });
  return { plan, problems, folder: dirname(file), ...places };
}

/** Parses the text of a plan; `file` is for messages. */
export function parsePlan(text: string, file = "plan"): ExperimentPlan {
  return parseSettings(text, file, KIND);
}

/** Checks a plan given as a value. @throws {RecipeError} with every problem */
export function checkPlan(value: unknown): ExperimentPlan {
  return checkSettings(value, KIND);
}

const KIND: SettingsKind<ExperimentPlan> = {
  kind: "plan",
  check: (value) => {
    const checked = check(value);
    return checked.problems.length === 0 ? checked : { problems: checked.problems };
  },
};

/** The plan and what is wrong across its fields; or, if it breaks the schema, only how. */
function check(value: unknown): Checked<ExperimentPlan> {
  const { value: plan, problems: broken } = checkSchema(planSchema, value);
  if (!plan) return { problems: broken };
  const members = membersOf(plan);
  const problems = [
    ...expertProblems(plan, members),
    ...plan.merges.flatMap((merge, i) => mergeProblems(merge, ["merges", i], plan, members)),
    ...evaluationProblems(plan),
  ];
  return { value: plan, problems };
}

function expertProblems(plan: ExperimentPlan, members: readonly Member[]): Problem[] {
  const problems: Problem[] = [];
  const add = (path: readonly PropertyKey[], message: string) => problems.push({ path, message });
  const taken = new Map<string, string>();
  for (const [family, declared] of Object.entries(plan.experts)) {
    const path = ["experts", family];
    if (!isName(family)) add(path, `its name ${NAME_RULE}`);
    if ((RESERVED as readonly string[]).includes(family)) add(path, `${family} is a reserved name; choose another`);
    for (const name of memberNames(family, declared)) {
      const other = taken.get(name);
      if (!isName(name)) add([...path, "folders", name], `a name ${NAME_RULE}`);
      if (other !== undefined)
        add(path, `${name} is the name of an expert of ${other === family ? "this family already" : other}`);
      else if (
        name !== family &&
        (Object.hasOwn(plan.experts, name) || (RESERVED as readonly string[]).includes(name))
      ) {
        add(path, `${name} names an expert and something else; choose another name`);
      }
      taken.set(name, family);
    }
    for (const { at, message } of familyProblems(declared)) add([...path, ...at], message);
    for (const like of [declared.train?.like ?? []].flat()) {
      if (Object.hasOwn(plan.training, like)) continue;
      const hint = didYouMean(like, Object.keys(plan.training));
      add([...path, "train", "like"], `there is no ${like} under training${hint}`);
    }
    problems.push(...trainingProblems(plan, declared, path));
  }
  if (members.length === 0 && plan.merges.length > 0) add(["experts"], "is missing; merges need experts");
  return problems;
}

function familyProblems({ role, language, folders, train, select }: Family): { at: PropertyKey[]; message: string }[] {
  const problems: { at: PropertyKey[]; message: string }[] = [];
  if ((folders === undefined) === (train === undefined))
    problems.push({ at: [], message: "must have either folders or train" });
  if (role === "language" && language === undefined) {
    problems.push({ at: ["language"], message: "is missing; give the code of its language in tasks, such as sw" });
  }
  if (select && !train)
    problems.push({ at: ["select"], message: "chooses among the checkpoints of training runs; it needs train" });
  if (train?.runs && train.seeds) problems.push({ at: ["train", "seeds"], message: "cannot be combined with runs" });
  return problems;
}

/** Problems of the runs that a family trains, each as `layergraft train` would report them. */
function trainingProblems(plan: ExperimentPlan, { train, select }: Family, path: readonly PropertyKey[]): Problem[] {
  if (!train) return [];
  const settled = settleTraining(plan, train);
  const problems = (train.runs ?? [undefined]).flatMap((own, i): Problem[] => {
    const at = own ? ["train", "runs", i] : ["train", "run"];
    const run = trainingRun(settled.run, own, "base");
    const wrong = runProblems(run);
    const messages = wrong.length > 0 ? wrong : checkpointProblems(run, select !== undefined);
    return messages.map((message) => ({ path: [...path, ...at], message }));
  });
  // What is wrong with the common fields is wrong with every run; once is enough.
  return problems.filter(({ message }, i) => problems.findIndex((problem) => problem.message === message) === i);
}

/** A run that would leave more checkpoints than anybody asks. @param isSelected whether the plan keeps all of them */
function checkpointProblems(run: Record<string, unknown>, isSelected: boolean): string[] {
  const checkpoints = { ...(run.checkpoints as object | undefined), ...(isSelected ? { keep: "all" } : {}) };
  const count = countCheckpoints({ run: { ...run, checkpoints } });
  if (count <= MOST_CHECKPOINTS) return [];
  return [
    `checkpoints.every_samples: would leave ${inWords(count)} checkpoints, and a run may leave ${inWords(MOST_CHECKPOINTS)}; set it higher`,
  ];
}

function mergeProblems(
  merge: Merge,
  path: readonly PropertyKey[],
  plan: ExperimentPlan,
  members: readonly Member[],
): Problem[] {
  const problems: Problem[] = [];
  const add = (at: readonly PropertyKey[], message: string) => problems.push({ path: [...path, ...at], message });
  if (plan.merges.filter(({ name }) => name === merge.name).length > 1)
    add(["name"], `${merge.name} is the name of several merges`);
  if ((merge.recipe === undefined) === (merge.suggest === undefined)) add([], "must have either recipe or suggest");
  const { recipe, suggest, pairs } = merge;
  if (suggest && (Object.keys(merge.grid).length > 0 || merge.configurations.length > 0 || merge.default)) {
    add(["suggest"], "has its own configurations; remove grid, configurations and default");
  }
  // A suggestion names its two experts where a swap has them.
  const named = recipe ?? (suggest ? { method: "swap", ...suggest } : {});
  const wrongNames = nameProblems(named, members, [...path, recipe ? "recipe" : "suggest"]);
  const wrongFields = sourceFieldProblems(merge, path);
  const tooMany = wrongNames.length === 0 ? countProblems(merge, named, path, members) : [];
  problems.push(...wrongNames, ...wrongFields, ...tooMany);
  if (recipe && wrongNames.length + wrongFields.length + tooMany.length === 0 && members.length > 0)
    problems.push(...recipeProblems(merge, recipe, path, members));
  if (pairs !== "all") {
    const known = members.map(({ name }) => name);
    for (const [i, pair] of pairs.entries()) {
      for (const name of pair) {
        if (known.includes(name)) continue;
        const hint = didYouMean(name, known) || `; there are ${formatSome(known, 8)}`;
        add(["pairs", i], `there is no expert ${name}${hint}`);
      }
    }
  }
  return problems;
}

/** Fields of configurations that name models: who is merged is the recipe's to say, by which pairs and groups are made. */
function sourceFieldProblems(
  { grid, configurations, default: standard }: Merge,
  path: readonly PropertyKey[],
): Problem[] {
  const places: readonly (readonly [PropertyKey[], object])[] = [
    [["grid"], grid],
    ...configurations.map((fields, i): [PropertyKey[], object] => [["configurations", i], fields]),
    ...(standard ? [[["default"], standard] as [PropertyKey[], object]] : []),
  ];
  return places.flatMap(([at, fields]) =>
    [...SOURCE_FIELDS, ...LIST_FIELDS]
      .filter((field) => Object.hasOwn(fields, field))
      .map((field) => ({
        path: [...path, ...at, field],
        message:
          "names models, which only a recipe does; name a family in the recipe, which stands for each of its experts in turn, or write a merge for each",
      })),
  );
}

/** More models than anybody asks, counted before any is made. */
function countProblems(
  merge: Merge,
  named: object,
  path: readonly PropertyKey[],
  members: readonly Member[],
): Problem[] {
  const [bindings, configurations] = [countBindings(named, members), configurationsOf(merge).length];
  if (bindings * configurations <= MOST_MODELS) return [];
  const message = `stands for ${inWords(bindings * configurations)} models, ${inWords(bindings)} combinations of experts in ${inWords(configurations)} configurations, and a merge may be ${inWords(MOST_MODELS)}; name fewer experts, or split it`;
  return [{ path: [...path], message }];
}

/** Problems of the recipe in each of its configurations, every one once. */
function recipeProblems(
  merge: Merge,
  recipe: Readonly<Record<string, unknown>>,
  path: readonly PropertyKey[],
  members: readonly Member[],
): Problem[] {
  const found = new Map<string, Problem>();
  const [binding] = bindingsOf(recipe, members);
  for (const { fields } of configurationsOf(merge)) {
    const whole = bindRecipe({ ...recipe, ...fields }, binding ?? new Map(), members, (model) =>
      model === "base" ? "base" : model.name,
    );
    for (const problem of checkedRecipe(whole)) {
      const message = formatProblem(problem);
      const [field = ""] = problem.path.map(String);
      const at = Object.hasOwn(merge.grid, field)
        ? ["grid", field]
        : Object.hasOwn(fields, field)
          ? ["configurations"]
          : ["recipe"];
      found.set(message, { path: [...path, ...at], message });
    }
  }
  return [...found.values()];
}

/** A search by a task that merges are not asked would choose nothing. */
function searchProblems({ merges, evaluate, search }: ExperimentPlan): Problem[] {
  const searched = merges.find((merge) => merge.suggest !== undefined || configurationsOf(merge).length > 1);
  const found = evaluate.tasks.findIndex((task, i) =>
    search.by === undefined ? i === 0 : (typeof task === "string" ? task : task.task) === search.by,
  );
  const deciding = evaluate.tasks[found];
  if (!searched || deciding === undefined || typeof deciding === "string" || deciding.of.includes("merges")) return [];
  const message = `${deciding.task} decides among the configurations of ${searched.name}, and merges are not asked it; add merges to its \`of\`, or name another task in search.by`;
  return [{ path: search.by === undefined ? ["evaluate", "tasks", found] : ["search", "by"], message }];
}

function evaluationProblems(plan: ExperimentPlan): Problem[] {
  const { evaluate, experts, search } = plan;
  const problems: Problem[] = [];
  const names = evaluate.tasks.map((task) => (typeof task === "string" ? task : task.task));
  const hasLanguage = Object.values(experts).some(({ language }) => language !== undefined);
  for (const [i, name] of names.entries()) {
    const path = ["evaluate", "tasks", i];
    const [other] = name.match(/\{(?!language\})[^{}]*\}/) ?? [];
    if (other !== undefined) {
      const message = `only {language} is filled in, and not ${other}; write ${name.replace(other, "{language}")}`;
      problems.push({ path, message });
    }
    if (name.includes("{language}") && !hasLanguage)
      problems.push({ path, message: `${name} needs experts with a language` });
    if (names.indexOf(name) < i) problems.push({ path, message: `${name} is listed twice` });
  }
  if (search.by !== undefined && !names.includes(search.by)) {
    problems.push({ path: ["search", "by"], message: `must be one of the tasks, ${names.join(", ")}` });
  }
  problems.push(...searchProblems(plan));
  if (!isStepBackend(evaluate.backend)) {
    const message =
      "must be engine or serve:COMMAND {model} {port}: an experiment asks many models, so it must start the server itself";
    problems.push({ path: ["evaluate", "backend"], message });
  }
  if (search.how === "halving" && search.choose_on !== "held-out") {
    const message =
      "must be held-out with halving, which does not ask every configuration all of the items; or use how: grid";
    problems.push({ path: ["search", "choose_on"], message });
  }
  return problems;
}
