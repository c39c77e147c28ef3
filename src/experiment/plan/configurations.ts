import { isObject } from "../../core/index.js";
import { type Fields, fieldsAt, pointOf, sizeOf } from "../search/space.js";
import type { Configuration, Json, Merge, PlannedMerge, Search } from "./plan-schema.js";

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
  let combined: Record<string, Json>[] = [{}];
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
export function withFields<T>(recipe: Readonly<Record<string, T>>, fields: Fields): Record<string, T | Json> {
  const set = (all: unknown, [name, value]: [string, Json]) => withValue(all, name.split("."), value);
  return Object.entries(fields).reduce(set, recipe) as Record<string, T | Json>;
}

function withValue(inside: unknown, [first = "", ...rest]: readonly string[], value: Json): unknown {
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

function labelOf(fields: Fields, write: (value: Json) => string = plainly): string {
  return Object.entries(fields)
    .map(([field, value]) => `${field.replaceAll("_", " ")} ${write(value)}`)
    .join(", ");
}

function plainly(value: Json): string {
  if (typeof value !== "object") return String(value);
  if (value === null || Array.isArray(value)) return JSON.stringify(value);
  return Object.entries(value)
    .map(([field, inner]) => `${field} ${plainly(inner)}`)
    .join(", ");
}
