// What is wrong across the fields of a plan, by its text alone.

import { isObject } from "../../kit/index.js";
import { formatSome, suggestName } from "../../kit/printing/index.js";
import { formatProblem, type Problem } from "../../kit/settings/index.js";
import { recipeProblems, sourceFieldsOf } from "../../merge/index.js";
import { isStepBackend, LLAMA } from "../steps/step.js";
import { reportProblems } from "./check-report.js";
import { checkedRecipes, isAdaptive, isSearched, lineField, numberFields } from "./configurations.js";
import { controlledMerges } from "./controls.js";
import {
  combinationsOf,
  countBindings,
  type Member,
  meaningOf,
  memberNames,
  membersNamed,
  mentionsIn,
  nameProblems,
  namingRecipe,
  sourcesIn,
  wordsFor,
  wordsOf,
} from "./expert-names.js";
import type { ExperimentPlan, ExpertFamily, Merge, PlannedMerge } from "./plan-schema.js";
import { formatLimit, MAX_MODELS, NAME, NAME_RULE, RESERVED } from "./plan-values.js";
import { maskOf, startsOf } from "./training-runs.js";

type Path = readonly PropertyKey[];
type Problems = Iterable<Problem>;

const problem = (path: Path, message: string): Problem => ({ path, message });

/** What is wrong with everything but the experts. @param search the search as it is written, without defaults */
export function* fieldProblems(plan: ExperimentPlan, search: unknown): Problems {
  const sources = sourcesIn(plan);
  for (const [i, merge] of plan.merges.entries()) yield* mergeProblems(merge, ["merges", i], plan, sources);
  yield* startProblems(plan, sources);
  yield* controlProblems(plan);
  yield* evaluationProblems(plan);
  yield* searchProblems(plan, search);
  yield* reportProblems(plan);
}

/** What is wrong with the experts of a plan. */
export function* expertProblems(plan: ExperimentPlan): Problems {
  const isReserved = (name: string) => (RESERVED as readonly string[]).includes(name);
  const taken = new Set<string>();
  for (const [group, declared] of Object.entries(plan.experts)) {
    const path = ["experts", group];
    if (!NAME.test(group)) yield problem(path, `its name ${NAME_RULE}`);
    if (isReserved(group)) yield problem(path, `${group} is a reserved name; choose another`);
    for (const name of memberNames(group, declared)) {
      if (!NAME.test(name)) yield problem([...path, "folders", name], `its name ${NAME_RULE}`);
      if (taken.has(name)) yield problem(path, `two experts are named ${name}; rename one`);
      else if (name !== group && (Object.hasOwn(plan.experts, name) || isReserved(name))) {
        yield problem(path, `${name} is also a family or a reserved name; rename the expert`);
      }
      taken.add(name);
    }
    yield* groupProblems(declared, path);
  }
  if (taken.size === 0 && plan.merges.length > 0) yield problem(["experts"], "is missing; merges need experts");
}

function* groupProblems({ role, language, folders, train, select }: ExpertFamily, path: Path): Problems {
  if ((folders === undefined) === (train === undefined)) yield problem(path, "must have either folders or train");
  if (role === "language" && language === undefined) {
    const message = "is missing; set it to the language's code in task names, such as sw";
    yield problem([...path, "language"], message);
  }
  if (select && !train) {
    yield problem([...path, "select"], "needs train: it chooses among the checkpoints of training runs");
  }
}

function* mergeProblems(merge: PlannedMerge, path: Path, plan: ExperimentPlan, members: readonly Member[]): Problems {
  const { name, recipe, suggest, pairs, grid, configurations } = merge;
  if (plan.merges.filter((one) => one.name === name).length > 1) {
    yield problem([...path, "name"], `several merges are named ${name}; rename them`);
  }
  if (name === "base") yield problem([...path, "name"], "base is a reserved name; choose another");
  if ((recipe === undefined) === (suggest === undefined)) yield problem(path, "must have either recipe or suggest");
  if (suggest && (Object.keys(grid).length > 0 || configurations.length > 0 || merge.default)) {
    const message = "has its own configurations; remove grid, configurations and default";
    yield problem([...path, "suggest"], message);
  }
  yield* figureProblems(merge, path);
  const named = namingRecipe(merge);
  const wrongNames = nameProblems(named, members, [...path, recipe ? "recipe" : "suggest"]);
  const wrong = [...wrongNames, ...sourceProblems(merge, path)];
  if (wrongNames.length === 0) wrong.push(...countProblems(merge, path, plan, members));
  yield* wrong;
  const known = members.flatMap((one) => (one.expertFamily === undefined ? [] : [one.name]));
  if (recipe && wrong.length === 0 && known.length > 0) yield* configurationProblems(merge, path, members);
  for (const [i, pair] of (pairs === "all" ? [] : pairs).entries()) {
    for (const expert of pair.filter((one) => !known.includes(one))) {
      yield problem([...path, "pairs", i], `there is no expert ${expert}${suggestName(expert, known)}`);
    }
  }
}

function* figureProblems(merge: Merge, path: Path): Problems {
  if (merge.figure === undefined || (lineField(merge) !== undefined && merge.configurations.length === 0)) return;
  const several = numberFields(merge).join(" and ");
  const has = several === "" ? "" : `; here ${several} do, so give all but one a single value`;
  const message =
    merge.configurations.length > 0
      ? "line draws a grid; move the values of configurations into the grid"
      : `line needs a grid in which exactly one field has several numbers, such as keep_share: [0.25, 0.5, 1]${has}`;
  yield problem([...path, "figure"], message);
}

/** Fields of configurations that name models. Only the recipe does, because it makes pairs and groups. */
function* sourceProblems(merge: Merge, path: Path): Problems {
  const { grid, configurations, default: standard = {} } = merge;
  // A configuration may set another method.
  const named = new Set([namingRecipe(merge), {}].flatMap(sourceFieldsOf).map(({ field }) => field));
  const message =
    "configurations cannot change the models. Name a family in the recipe to merge each of its experts in turn, or write another merge";
  const listed = configurations.map((fields, i) => [["configurations", i], fields] as const);
  for (const [at, fields] of [[["grid"], grid] as const, ...listed, [["default"], standard] as const]) {
    for (const field of named) {
      if (Object.hasOwn(fields, field)) yield problem([...path, ...at, field], message);
    }
  }
}

/** More models than fit into memory, counted before any is made. */
function* countProblems(
  merge: PlannedMerge,
  path: Path,
  { search }: ExperimentPlan,
  members: readonly Member[],
): Problems {
  const combinations = countBindings(namingRecipe(merge), members);
  const configurations = isAdaptive(merge, search) ? search.budget : merge.all.length;
  const models = combinations * configurations;
  if (models <= MAX_MODELS) return;
  const parts = `${formatLimit(combinations)} combinations of experts, ${formatLimit(configurations)} configurations`;
  const limit = `the limit is ${formatLimit(MAX_MODELS)}. Name fewer experts, or split it`;
  yield problem(path, `makes ${formatLimit(models)} models (${parts}); ${limit}`);
}

/** Problems of the recipe in each of its configurations, every one once. */
function configurationProblems(merge: PlannedMerge, path: Path, members: readonly Member[]): Problems {
  const found = new Map<string, Problem>();
  for (const { fields, bound } of checkedRecipes(merge, members)) {
    for (const one of recipeProblems(bound)) {
      const message = formatProblem(one);
      const [field = ""] = one.path.map(String);
      const inFields = Object.hasOwn(fields, field) ? ["configurations"] : ["recipe"];
      const at = Object.hasOwn(merge.grid, field) ? ["grid", field] : inFields;
      found.set(message, problem([...path, ...at], message));
    }
  }
  return found.values();
}

/** What is wrong with what families and merges start from: one model each, and no cycle. */
function* startProblems(plan: ExperimentPlan, sources: readonly Member[]): Problems {
  for (const [group, { train }] of Object.entries(plan.experts)) {
    if (train?.from !== undefined) yield* startProblem(train.from, ["experts", group, "train", "from"], plan, sources);
    const masks = new Set((train?.runs ?? []).map(maskOf));
    for (const mask of masks)
      if (mask !== undefined) yield* startProblem(mask, ["experts", group, "train"], plan, sources);
  }
  for (const [i, { from }] of plan.merges.entries()) {
    if (from !== undefined) yield* startProblem(from, ["merges", i, "from"], plan, sources);
  }
  for (const [i, { recipe }] of plan.merges.entries()) {
    for (const { word, path } of mentionsIn(recipe, ["merges", i, "recipe"])) {
      yield* severalProblem(word, path, plan, sources);
    }
  }
  yield* cycleProblems(plan, sources);
}

function* startProblem(word: string, path: Path, plan: ExperimentPlan, sources: readonly Member[]): Problems {
  const meaning = meaningOf(word, sources);
  const names = meaning?.members.map(({ name }) => name) ?? [];
  if (!meaning) {
    const hint = suggestName(word, wordsFor(sources));
    yield problem(path, `${JSON.stringify(word)} is not an expert or merge of this plan${hint}`);
  } else if (names.length > 1) {
    yield problem(path, `${word} means ${names.length} experts; name one of them: ${formatSome(names, 8)}`);
  } else yield* severalProblem(word, path, plan, sources);
}

/** A merge of several combinations where one model is needed. */
export function* severalProblem(word: string, path: Path, plan: ExperimentPlan, sources: readonly Member[]): Problems {
  const meaning = meaningOf(word, sources);
  const isMerge = meaning?.kind === "one" && meaning.members[0]?.expertFamily === undefined;
  const merge = isMerge ? plan.merges.find(({ name }) => name === word) : undefined;
  if (!merge || countBindings(namingRecipe(merge), sources) > MAX_MODELS) return;
  const { length } = combinationsOf(merge, sources);
  if (length < 2) return;
  const what = `${word} makes models of ${length} combinations of experts, and one is needed here`;
  yield problem(path, `${what}. List one combination in its pairs, or name single experts in its recipe`);
}

/** A family or merge that starts from something, or is made of it. */
interface Dependent {
  readonly name: string;
  readonly path: Path;
  /** Names of what must be there first. */
  readonly words: readonly string[];
}

/** Each cycle once, where the plan first enters it. */
function cycleProblems({ experts, merges }: ExperimentPlan, sources: readonly Member[]): Problems {
  const idOf = ({ name, expertFamily }: Member) =>
    expertFamily === undefined ? `merge ${name}` : `group ${expertFamily}`;
  const dependents = new Map<string, Dependent>();
  for (const [name, { train }] of Object.entries(experts)) {
    const path = ["experts", name, "train", "from"];
    dependents.set(`group ${name}`, { name, path, words: train ? startsOf(train) : [] });
  }
  for (const [i, merge] of merges.entries()) {
    const path = ["merges", i, merge.from ? "from" : "recipe"];
    dependents.set(`merge ${merge.name}`, { name: merge.name, path, words: wordsOf(merge) });
  }
  const done = new Set<string>();
  const problems: Problem[] = [];
  const visit = (id: string, above: readonly string[]) => {
    const dependent = dependents.get(id);
    if (!dependent) return;
    const entered = above.indexOf(id);
    if (entered >= 0) {
      const needs = [...above.slice(entered + 1), id].map((one) => `needs ${dependents.get(one)?.name}`);
      const how = "Start one of them from a model that does not need it";
      problems.push(problem(dependent.path, `${dependent.name} ${needs.join(", which ")}. ${how}`));
    }
    if (done.has(id)) return;
    done.add(id);
    const next = new Set(dependent.words.flatMap((word) => membersNamed(word, sources)).map(idOf));
    for (const one of next) visit(one, [...above, id]);
  };
  for (const id of dependents.keys()) visit(id, []);
  return problems;
}

/** Fields of a search that only some ways of searching read. */
const READ_BY: Readonly<Record<string, readonly string[]>> = {
  budget: ["random", "cma-es", "halving"],
  rounds: ["halving"],
  keep: ["halving"],
};

/** @param written the search as the plan has it, without defaults */
function* searchProblems({ search: { how, budget } }: ExperimentPlan, written: unknown): Problems {
  for (const field of Object.keys(isObject(written) ? written : {})) {
    const readers = READ_BY[field];
    if (!readers || readers.includes(how)) continue;
    const message = `is not used with how: ${how}. Remove it, or set how: ${readers.join(" or ")}`;
    yield problem(["search", field], message);
  }
  const few = "must be at least 2; a search of one configuration has nothing to choose";
  if (how !== "grid" && budget < 2) yield problem(["search", "budget"], few);
}

function* controlProblems({ controls, merges }: ExperimentPlan): Problems {
  if (!controls) return;
  const swaps = controlledMerges({ merges, controls: { ...controls, of: undefined } }).map(({ name }) => name);
  if (swaps.length === 0) {
    yield problem(["controls"], "needs a merge whose recipe has method: swap; add one, or remove controls");
    return;
  }
  for (const [i, name] of (controls.of ?? []).entries()) {
    if (swaps.includes(name)) continue;
    yield problem(["controls", "of", i], `${name} is not a merge with method swap${suggestName(name, swaps)}`);
  }
}

function* evaluationProblems({ evaluate, experts, search, merges }: ExperimentPlan): Problems {
  const names = evaluate.tasks.map(({ task }) => task);
  const hasLanguage = Object.values(experts).some(({ language }) => language !== undefined);
  for (const [i, { task: name, of }] of evaluate.tasks.entries()) {
    const path = ["evaluate", "tasks", i];
    const [other] = name.match(/\{(?!language\})[^{}]*\}/) ?? [];
    if (other !== undefined) {
      yield problem(path, `${other} is not supported; write ${name.replace(other, "{language}")}`);
    }
    if (name.includes("{language}") && !hasLanguage) yield problem(path, `${name} needs experts with a language`);
    const earlier = evaluate.tasks.slice(0, i).filter(({ task }) => task === name);
    if (earlier.some((one) => one.of.some((kind) => of.includes(kind)))) yield problem(path, `${name} is listed twice`);
  }
  if (search.by !== undefined && !names.includes(search.by)) {
    yield problem(["search", "by"], `must be one of the tasks, ${names.join(", ")}`);
  }
  const searched = merges.find(isSearched);
  const found = search.by === undefined ? 0 : names.indexOf(search.by);
  const deciding = evaluate.tasks[found];
  if (searched && deciding && !deciding.of.includes("merges")) {
    const why = `${deciding.task} chooses among the configurations of ${searched.name}, but merges are not evaluated on it`;
    const path = search.by === undefined ? ["evaluate", "tasks", found] : ["search", "by"];
    yield problem(path, `${why}. Add merges to its \`of\`, or set search.by to another task`);
  }
  if (!isStepBackend(evaluate.backend)) {
    const what = "must be engine, llama, or serve:COMMAND {model} {port}";
    yield problem(["evaluate", "backend"], `${what}: an experiment starts a server for each model`);
  }
  if (evaluate.type !== undefined && evaluate.backend !== LLAMA) {
    yield problem(["evaluate", "type"], "needs backend: llama");
  }
  if (search.how === "halving" && search.choose_on !== "held-out") {
    const why = "which does not evaluate every configuration on all items";
    yield problem(["search", "choose_on"], `must be held-out with how: halving, ${why}`);
  }
}
