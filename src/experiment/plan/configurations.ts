// The configurations of merges: those of grids and lists, and spaces, which are settled before any result is known.
import { isObject, Random } from "../../kit/index.js";
import { type Problem, valueAt } from "../../kit/settings/index.js";
import { recipeProblems } from "../../merge/index.js";
import type { JsonValue } from "../steps/step.js";
import { bindingsOf, bindRecipe, type Member, mentionsIn, nameProblems, sourcesIn } from "./expert-names.js";
import type { Configuration, ExperimentPlan, Merge, PlannedMerge, Search } from "./plan-schema.js";
import { formatLimit } from "./plan-values.js";
import { cellsOf, type Fields, fieldsAt, pointOf, type Space, sizeOf, type Variable } from "./space.js";

/** Whether a search chooses among a merge's configurations. */
export function isSearched(merge: PlannedMerge): boolean {
  const hasChoice = merge.space !== undefined || merge.all.length > 1;
  return merge.suggest !== undefined || (merge.figure === undefined && hasChoice);
}

/** The one field of a merge's grid whose values are several numbers; undefined if there is none, or more than one. */
export function lineField(merge: Merge): string | undefined {
  const [field, ...others] = numberFields(merge);
  return others.length === 0 ? field : undefined;
}

/** The fields of a merge's grid whose values are several numbers. */
export function numberFields({ grid }: Merge): string[] {
  return Object.keys(grid).filter((field) => {
    const values = grid[field] ?? [];
    return new Set(values).size > 1 && values.every((value) => typeof value === "number");
  });
}

/** All configurations of a merge, each once, in the order of the grid. Without a `default`, the first is it. */
export function configurationsOf(merge: Merge): Configuration[] {
  let combined: Record<string, JsonValue>[] = [{}];
  for (const [field, values] of Object.entries(merge.grid)) {
    combined = combined.flatMap((fields) => values.map((value) => ({ ...fields, [field]: value })));
  }
  const hasGrid = Object.keys(merge.grid).length > 0;
  const listed = [...(hasGrid || merge.configurations.length === 0 ? combined : []), ...merge.configurations];
  const all = merge.default === undefined ? listed : [...listed, merge.default];
  const chosen = merge.default ?? listed[0] ?? {};
  return nameConfigurations(all, chosen);
}

/** Names configurations, each once. @param chosen the default */
export function nameConfigurations(all: readonly Fields[], chosen: Fields): Configuration[] {
  const unique = [...new Map(all.map((fields) => [identityOf(fields), fields])).values()];
  // 1 and "1" have the same plain label.
  const counts = new Map<string, number>();
  for (const fields of unique) counts.set(labelOf(fields), (counts.get(labelOf(fields)) ?? 0) + 1);
  return unique.map((fields) => ({
    label: counts.get(labelOf(fields)) === 1 ? labelOf(fields) : labelOf(fields, JSON.stringify),
    fields,
    isDefault: identityOf(fields) === identityOf(chosen),
  }));
}

/** Whether the results of configurations decide which ones follow. */
export function isAdaptive(merge: Merge, { how }: Pick<Search, "how">): boolean {
  return how === "cma-es" && Object.keys(merge.space ?? {}).length > 0;
}

/** Configurations that an adaptive search evaluates at most: a small space has fewer than the budget. */
export function mostEvaluated(merge: PlannedMerge, { budget }: Pick<Search, "budget">): number {
  const { space = {}, all } = merge;
  const isOutside = ({ fields }: Configuration) =>
    identityOf(fieldsAt(space, pointOf(space, fields))) !== identityOf(fields);
  return Math.min(budget, sizeOf(space) + all.filter(isOutside).length);
}

/** A recipe with fields set. A name with dots is the path of an inner field, such as `models.0.weight`. */
export function withFields<T>(recipe: Readonly<Record<string, T>>, fields: Fields): Record<string, T | JsonValue> {
  const set = (all: unknown, [name, value]: [string, JsonValue]) => withValue(all, name.split("."), value);
  return Object.entries(fields).reduce(set, recipe) as Record<string, T | JsonValue>;
}

function withValue(inside: unknown, [first = "", ...rest]: readonly string[], value: JsonValue): unknown {
  const set = (inner: unknown) => (rest.length === 0 ? value : withValue(inner, rest, value));
  if (Array.isArray(inside)) {
    return inside.map((inner: unknown, i) => (String(i) === first ? set(inner) : inner));
  }
  if (inside === undefined) return { [first]: set(undefined) };
  return isObject(inside)
    ? { ...inside, [first]: set(Object.hasOwn(inside, first) ? inside[first] : undefined) }
    : inside;
}

/** The same for the same fields in any order. */
export function identityOf(fields: Fields): string {
  return JSON.stringify(Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** A field's name in titles and labels. */
export const fieldTitle = (field: string) => field.replaceAll("_", " ");

function labelOf(fields: Fields, write: (value: JsonValue) => string = plainly): string {
  return Object.entries(fields)
    .map(([field, value]) => `${fieldTitle(field)} ${write(value)}`)
    .join(", ");
}

/** A value of a configuration in words. */
export function plainly(value: JsonValue): string {
  if (typeof value !== "object") return String(value);
  if (value === null || Array.isArray(value)) return JSON.stringify(value);
  return Object.entries(value)
    .map(([field, inner]) => `${field} ${plainly(inner)}`)
    .join(", ");
}

/** Coordinates of a space; a search with more needs more configurations than any budget has. */
const MAX_COORDINATES = 200;
/** Draws for each new configuration, as a small space repeats itself. */
const MAX_DRAWS = 100;

/**
 * Settles the spaces of a plan's merges. Where the search draws configurations, they become `configurations`; the grid becomes
 * a part of the space.
 * @returns problems, and the merges; one with a problem has no space
 */
export function settleSpaces(plan: SpacesPlan): {
  readonly merges: readonly PlannedMerge[];
  readonly problems: readonly Problem[];
} {
  const { how } = plan.search;
  const members = sourcesIn(plan);
  const problems: Problem[] = [];
  const merges = plan.merges.map((merge, i) => {
    const { space: given = {}, ...rest } = merge;
    const isDrawn = how === "random" || how === "cma-es";
    const hasSpace = Object.keys(given).length > 0;
    if (!hasSpace && !(isDrawn && Object.keys(merge.grid).length > 0 && merge.figure === undefined)) return rest;
    const own = problemsOf(merge, given, plan, members);
    problems.push(...own.map(({ path, message }) => ({ path: ["merges", i, ...path], message })));
    return own.length > 0 || hasWrongNames(merge, members) ? rest : settled(merge, given, plan, members);
  });
  return { merges: merges.map((one) => ({ ...one, all: configurationsOf(one) })), problems };
}

type SpacesPlan = Pick<ExperimentPlan, "experts" | "search"> & { readonly merges: readonly Merge[] };

/** Configurations to check before a run: those that are known, and the two ends of a space. */
export function checkedConfigurations({ space, all }: PlannedMerge): readonly Configuration[] {
  if (!space) return all;
  const ends = [0, 1].map((x) => fieldsAt(space, Array(cellsOf(space).length).fill(x)));
  return nameConfigurations([...all.map(({ fields }) => fields), ...ends], {});
}

/** The configurations to check, each with its recipe for the first combination of experts. @param to as of `bindRecipe` */
export function checkedRecipes(
  merge: PlannedMerge,
  members: readonly Member[],
  to?: (model: Member | "base") => string,
): (Configuration & { readonly bound: Record<string, unknown> })[] {
  const { recipe = {} } = merge;
  const [binding = new Map()] = bindingsOf(recipe, members);
  return checkedConfigurations(merge).map((configuration) => ({
    ...configuration,
    bound: bindRecipe(withFields(recipe, configuration.fields), binding, members, to),
  }));
}

const hasWrongNames = ({ recipe }: Merge, members: readonly Member[]) =>
  members.length === 0 || nameProblems(recipe, members, []).length > 0;

function settled(merge: Merge, given: Space, { search }: SpacesPlan, members: readonly Member[]): Merge {
  const ranges = Object.entries(given).map(([path, variable]): [string, Variable] => {
    if (!("from" in variable)) return [path, variable];
    return [path, { ...variable, whole: variable.whole ?? isWhole(merge, path, variable, members) }];
  });
  // With halving, a grid is combined with what is drawn.
  const space: Space = { ...merge.grid, ...Object.fromEntries(ranges) };
  // The row without a search is that of a grid that is evaluated whole: the first value of each of its fields.
  const firsts = Object.fromEntries(Object.entries(merge.grid).map(([field, [first]]) => [field, first ?? null]));
  const start = merge.default ?? { ...fieldsAt(space, pointOf(space, {})), ...firsts };
  const listed = [start, ...merge.configurations];
  const configurations = search.how === "cma-es" ? listed : draw(listed, space, search);
  return { ...merge, space: space as NonNullable<Merge["space"]>, grid: {}, configurations: [...configurations] };
}

/** Configurations at random points, after those given, until there are as many as the budget allows. */
function draw(given: readonly Fields[], space: Space, { budget, seed }: Pick<Search, "budget" | "seed">): Fields[] {
  const found = new Map(given.map((fields) => [identityOf(fields), fields]));
  const random = Random.of(seed, "configurations of the search");
  const cells = cellsOf(space);
  for (let tries = 0; found.size < budget && tries < MAX_DRAWS * budget; tries++) {
    const fields = fieldsAt(
      space,
      cells.map((count) => (count === 0 ? random.float() : (random.below(count) + 0.5) / count)),
    );
    found.set(identityOf(fields), fields);
  }
  return [...found.values()];
}

function problemsOf(merge: Merge, space: Space, { search }: SpacesPlan, members: readonly Member[]): Problem[] {
  const { recipe, suggest, grid } = merge;
  const problem = (path: readonly PropertyKey[], message: string): Problem => ({ path, message });
  if (recipe === undefined || suggest !== undefined) return [problem(["space"], "needs a recipe")];
  if (search.how === "grid") {
    return [problem(["space"], "needs search.how: random, cma-es or halving; a grid needs listed values")];
  }
  if (search.how === "cma-es" && sizeOf({ ...grid, ...space }) === 1) {
    return [problem(Object.keys(space).length > 0 ? ["space"] : ["grid"], "has one configuration; list more values")];
  }
  if (merge.figure !== undefined)
    return [problem(["space"], "cannot be drawn as a line; use a grid, or remove figure")];
  const both = Object.keys(space).filter((path) => Object.hasOwn(grid, path));
  if (both.length > 0) return both.map((path) => problem(["space", path], "is also in the grid; keep one of them"));
  const coordinates = cellsOf({ ...grid, ...space }).length;
  if (coordinates > MAX_COORDINATES) {
    return [
      problem(
        ["space"],
        `has ${formatLimit(coordinates)} numbers to choose; the limit is ${formatLimit(MAX_COORDINATES)}`,
      ),
    ];
  }
  if (hasWrongNames(merge, members)) return [];
  return Object.entries(space).flatMap(([path, variable]) => {
    const found = samplesOf(variable).flatMap((value) => valueProblems(merge, path, value as Fields[string], members));
    return [...new Set(found)].slice(0, 1).map((message) => problem(["space", path], message));
  });
}

/** The values at the ends of a range, or those of a list. */
function samplesOf(variable: Variable): readonly unknown[] {
  if (!("from" in variable)) return variable;
  const { from, to, gradient } = variable;
  return [from, to].map((value) => (gradient === undefined ? value : { gradient: Array(gradient).fill(value) }));
}

/** What is wrong with a value of a field, apart from the rest of the recipe. */
function valueProblems(merge: Merge, path: string, value: Fields[string], members: readonly Member[]): string[] {
  const recipe = merge.recipe ?? {};
  const whole = withFields(recipe, { [path]: value });
  if (valueAt(whole, path) !== value) {
    const [, list = "", place = "", field = ""] = /^(\w+)\.(\d+)\.(\w+)$/.exec(path) ?? [];
    const name = valueAt(recipe, `${list}.${place}`);
    if (field !== "" && typeof name === "string") {
      const example = typeof value === "string" ? value : 1;
      return [`${list}.${place} is the name ${name}; write { model: ${name}, ${field}: ${example} } in its place`];
    }
    return [
      `${path} is not a field of the recipe: what is before the last dot must be a mapping, or a place in a list`,
    ];
  }
  const words = (of: object) => JSON.stringify(mentionsIn(of).map(({ word }) => word));
  if (words(whole) !== words(recipe)) return ["configurations cannot change the models. Write another merge"];
  const [binding = new Map()] = bindingsOf(recipe, members);
  const bound = bindRecipe(whole, binding, members);
  const at = path.split(".");
  return recipeProblems(bound)
    .filter((problem) => at.every((part, i) => i >= problem.path.length || String(problem.path[i]) === part))
    .filter((problem) => problem.path.length > 0)
    .map(({ message }) => message);
}

/** Whether a field takes both ends of a range, but no number between whole ones. */
function isWhole(
  merge: Merge,
  path: string,
  { from, to, gradient }: Exclude<Variable, readonly unknown[]>,
  members: readonly Member[],
): boolean {
  if (gradient !== undefined || !Number.isInteger(from) || !Number.isInteger(to)) return false;
  return valueProblems(merge, path, from + 0.5, members).length > 0;
}
