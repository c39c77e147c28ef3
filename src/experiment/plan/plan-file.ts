// Reading an experiment's plan: from YAML or JSON, or from a value of the library; all faults at once, with their lines.
// Looks at no checkpoint and no data set; that is check.ts's.

import { dirname } from "node:path";
import { didYouMean, formatSome, RecipeError } from "../../core/index.js";
import { recipeFaults as checkedRecipe, LIST_FIELDS, SOURCE_FIELDS } from "../../merge/index.js";
import {
  type Checked,
  checkSchema,
  checkSettings,
  type Fault,
  formatFault,
  openSettings,
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
  nameFaults,
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
import { countCheckpoints, runFaults, settleTraining, trainingRun } from "./training-runs.js";

/** A plan and where it is. */
export interface LocatedPlan extends Omit<SettingsText, "value"> {
  readonly plan: ExperimentPlan;
  /** The folder that relative paths start from. */
  readonly folder: string;
}

/** A plan that fits the schema, with what is wrong across its fields; it must not run while there is anything. */
export interface InspectedPlan extends LocatedPlan {
  readonly faults: readonly Fault[];
}

/**
 * Reads a plan from a file.
 * @throws {RecipeError} with every fault and its line
 */
export async function readPlan(file: string): Promise<LocatedPlan> {
  const inspected = await inspectPlan(file);
  const { faults } = inspected;
  if (faults.length === 0) return inspected;
  throw new RecipeError(`${file} is not a valid plan:`, inspected.inLines(faults), { file });
}

/**
 * Reads a plan from a file, with its faults, so that what it names can be checked too.
 * @throws {RecipeError} if it breaks the schema, with every fault and its line
 */
export async function inspectPlan(file: string): Promise<InspectedPlan> {
  const text = await readSettingsText(file, "plan");
  const { value, ...places } = openSettings(text, file);
  const { value: plan, faults } = check(value);
  if (!plan) throw new RecipeError(`${file} is not a valid plan:`, places.inLines(faults), { file });
  return { plan, faults, folder: dirname(file), ...places };
}

/** Parses the text of a plan; `file` is for messages. */
export function parsePlan(text: string, file = "plan"): ExperimentPlan {
  return parseSettings(text, file, KIND);
}

/** Checks a plan given as a value. @throws {RecipeError} with every fault */
export function checkPlan(value: unknown): ExperimentPlan {
  return checkSettings(value, KIND);
}

const KIND: SettingsKind<ExperimentPlan> = {
  kind: "plan",
  check: (value) => {
    const checked = check(value);
    return checked.faults.length === 0 ? checked : { faults: checked.faults };
  },
};

/** The plan and what is wrong across its fields; or, if it breaks the schema, only how. */
function check(value: unknown): Checked<ExperimentPlan> {
  const { value: plan, faults: broken } = checkSchema(planSchema, value);
  if (!plan) return { faults: broken };
  const members = membersOf(plan);
  const faults = [
    ...expertFaults(plan, members),
    ...plan.merges.flatMap((merge, i) => mergeFaults(merge, ["merges", i], plan, members)),
    ...evaluationFaults(plan),
  ];
  return { value: plan, faults };
}

function expertFaults(plan: ExperimentPlan, members: readonly Member[]): Fault[] {
  const faults: Fault[] = [];
  const add = (path: readonly PropertyKey[], message: string) => faults.push({ path, message });
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
    for (const { at, message } of familyFaults(declared)) add([...path, ...at], message);
    for (const like of [declared.train?.like ?? []].flat()) {
      if (Object.hasOwn(plan.training, like)) continue;
      const hint = didYouMean(like, Object.keys(plan.training));
      add([...path, "train", "like"], `there is no ${like} under training${hint}`);
    }
    faults.push(...trainingFaults(plan, declared, path));
  }
  if (members.length === 0 && plan.merges.length > 0) add(["experts"], "is missing; merges need experts");
  return faults;
}

function familyFaults({ role, language, folders, train, select }: Family): { at: PropertyKey[]; message: string }[] {
  const faults: { at: PropertyKey[]; message: string }[] = [];
  if ((folders === undefined) === (train === undefined))
    faults.push({ at: [], message: "must have either folders or train" });
  if (role === "language" && language === undefined) {
    faults.push({ at: ["language"], message: "is missing; give the code of its language in tasks, such as sw" });
  }
  if (select && !train)
    faults.push({ at: ["select"], message: "chooses among the checkpoints of training runs; it needs train" });
  if (train?.runs && train.seeds) faults.push({ at: ["train", "seeds"], message: "cannot be combined with runs" });
  return faults;
}

/** Faults of the runs that a family trains, each as `layergraft train` would report them. */
function trainingFaults(plan: ExperimentPlan, { train, select }: Family, path: readonly PropertyKey[]): Fault[] {
  if (!train) return [];
  const settled = settleTraining(plan, train);
  const faults = (train.runs ?? [undefined]).flatMap((own, i): Fault[] => {
    const at = own ? ["train", "runs", i] : ["train", "run"];
    const run = trainingRun(settled.run, own, "base");
    const wrong = runFaults(run);
    const messages = wrong.length > 0 ? wrong : checkpointFaults(run, select !== undefined);
    return messages.map((message) => ({ path: [...path, ...at], message }));
  });
  // What is wrong with the common fields is wrong with every run; once is enough.
  return faults.filter(({ message }, i) => faults.findIndex((fault) => fault.message === message) === i);
}

/** A run that would leave more checkpoints than anybody asks. @param isSelected whether the plan keeps all of them */
function checkpointFaults(run: Record<string, unknown>, isSelected: boolean): string[] {
  const checkpoints = { ...(run.checkpoints as object | undefined), ...(isSelected ? { keep: "all" } : {}) };
  const count = countCheckpoints({ run: { ...run, checkpoints } });
  if (count <= MOST_CHECKPOINTS) return [];
  return [
    `checkpoints.every_samples: would leave ${inWords(count)} checkpoints, and a run may leave ${inWords(MOST_CHECKPOINTS)}; set it higher`,
  ];
}

function mergeFaults(
  merge: Merge,
  path: readonly PropertyKey[],
  plan: ExperimentPlan,
  members: readonly Member[],
): Fault[] {
  const faults: Fault[] = [];
  const add = (at: readonly PropertyKey[], message: string) => faults.push({ path: [...path, ...at], message });
  if (plan.merges.filter(({ name }) => name === merge.name).length > 1)
    add(["name"], `${merge.name} is the name of several merges`);
  if ((merge.recipe === undefined) === (merge.suggest === undefined)) add([], "must have either recipe or suggest");
  const { recipe, suggest, pairs } = merge;
  if (suggest && (Object.keys(merge.grid).length > 0 || merge.configurations.length > 0 || merge.default)) {
    add(["suggest"], "has its own configurations; remove grid, configurations and default");
  }
  // A suggestion names its two experts where a swap has them.
  const named = recipe ?? (suggest ? { method: "swap", ...suggest } : {});
  const wrongNames = nameFaults(named, members, [...path, recipe ? "recipe" : "suggest"]);
  const wrongFields = sourceFieldFaults(merge, path);
  const tooMany = wrongNames.length === 0 ? countFaults(merge, named, path, members) : [];
  faults.push(...wrongNames, ...wrongFields, ...tooMany);
  if (recipe && wrongNames.length + wrongFields.length + tooMany.length === 0 && members.length > 0)
    faults.push(...recipeFaults(merge, recipe, path, members));
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
  return faults;
}

/** Fields of configurations that name models: who is merged is the recipe's to say, by which pairs and groups are made. */
function sourceFieldFaults({ grid, configurations, default: standard }: Merge, path: readonly PropertyKey[]): Fault[] {
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
function countFaults(merge: Merge, named: object, path: readonly PropertyKey[], members: readonly Member[]): Fault[] {
  const [bindings, configurations] = [countBindings(named, members), configurationsOf(merge).length];
  if (bindings * configurations <= MOST_MODELS) return [];
  const message = `stands for ${inWords(bindings * configurations)} models, ${inWords(bindings)} combinations of experts in ${inWords(configurations)} configurations, and a merge may be ${inWords(MOST_MODELS)}; name fewer experts, or split it`;
  return [{ path: [...path], message }];
}

/** Faults of the recipe in each of its configurations, every one once. */
function recipeFaults(
  merge: Merge,
  recipe: Readonly<Record<string, unknown>>,
  path: readonly PropertyKey[],
  members: readonly Member[],
): Fault[] {
  const found = new Map<string, Fault>();
  const [binding] = bindingsOf(recipe, members);
  for (const { fields } of configurationsOf(merge)) {
    const whole = bindRecipe({ ...recipe, ...fields }, binding ?? new Map(), members, (model) =>
      model === "base" ? "base" : model.name,
    );
    for (const fault of checkedRecipe(whole)) {
      const message = formatFault(fault);
      const [field = ""] = fault.path.map(String);
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
function searchFaults({ merges, evaluate, search }: ExperimentPlan): Fault[] {
  const searched = merges.find((merge) => merge.suggest !== undefined || configurationsOf(merge).length > 1);
  const found = evaluate.tasks.findIndex((task, i) =>
    search.by === undefined ? i === 0 : (typeof task === "string" ? task : task.task) === search.by,
  );
  const deciding = evaluate.tasks[found];
  if (!searched || deciding === undefined || typeof deciding === "string" || deciding.of.includes("merges")) return [];
  const message = `${deciding.task} decides among the configurations of ${searched.name}, and merges are not asked it; add merges to its \`of\`, or name another task in search.by`;
  return [{ path: search.by === undefined ? ["evaluate", "tasks", found] : ["search", "by"], message }];
}

function evaluationFaults(plan: ExperimentPlan): Fault[] {
  const { evaluate, experts, search } = plan;
  const faults: Fault[] = [];
  const names = evaluate.tasks.map((task) => (typeof task === "string" ? task : task.task));
  const hasLanguage = Object.values(experts).some(({ language }) => language !== undefined);
  for (const [i, name] of names.entries()) {
    const path = ["evaluate", "tasks", i];
    const [other] = name.match(/\{(?!language\})[^{}]*\}/) ?? [];
    if (other !== undefined) {
      const message = `only {language} is filled in, and not ${other}; write ${name.replace(other, "{language}")}`;
      faults.push({ path, message });
    }
    if (name.includes("{language}") && !hasLanguage)
      faults.push({ path, message: `${name} needs experts with a language` });
    if (names.indexOf(name) < i) faults.push({ path, message: `${name} is listed twice` });
  }
  if (search.by !== undefined && !names.includes(search.by)) {
    faults.push({ path: ["search", "by"], message: `must be one of the tasks, ${names.join(", ")}` });
  }
  faults.push(...searchFaults(plan));
  if (!isStepBackend(evaluate.backend)) {
    const message =
      "must be engine or serve:COMMAND {model} {port}: an experiment asks many models, so it must start the server itself";
    faults.push({ path: ["evaluate", "backend"], message });
  }
  if (search.how === "halving" && search.choose_on !== "held-out") {
    const message =
      "must be held-out with halving, which does not ask every configuration all of the items; or use how: grid";
    faults.push({ path: ["search", "choose_on"], message });
  }
  return faults;
}
