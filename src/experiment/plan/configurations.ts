// Configurations of a merge: the combinations of its grid, those listed, and the default. Each sets fields of the recipe.
import type { Json, Merge } from "./plan-schema.js";

export interface Configuration {
  /** `bottom 3, top 1`; empty if it sets nothing. Unique in a merge. */
  readonly label: string;
  readonly fields: Readonly<Record<string, Json>>;
  readonly isDefault: boolean;
}

/** A plan is expanded many times. */
const known = new WeakMap<Merge, readonly Configuration[]>();

/** All configurations of a merge, each once, in the order of the grid. Without a `default`, the first is it. */
export function configurationsOf(merge: Merge): readonly Configuration[] {
  const found = known.get(merge) ?? allOf(merge);
  known.set(merge, found);
  return found;
}

/** Whether a search chooses among a merge's configurations. */
export function isSearched(merge: Merge): boolean {
  return merge.suggest !== undefined || (merge.figure === undefined && configurationsOf(merge).length > 1);
}

/** The one field of a merge's grid whose values are several numbers; undefined if there is none, or more than one. */
export function lineField({ grid }: Merge): string | undefined {
  const [field, ...others] = Object.entries(grid).filter(
    ([, values]) => new Set(values).size > 1 && values.every((value) => typeof value === "number"),
  );
  return others.length === 0 ? field?.[0] : undefined;
}

function allOf(merge: Merge): Configuration[] {
  let combined: Record<string, Json>[] = [{}];
  for (const [field, values] of Object.entries(merge.grid)) {
    combined = combined.flatMap((fields) => values.map((value) => ({ ...fields, [field]: value })));
  }
  const hasGrid = Object.keys(merge.grid).length > 0;
  const listed = [...(hasGrid || merge.configurations.length === 0 ? combined : []), ...merge.configurations];
  const all = merge.default === undefined ? listed : [...listed, merge.default];
  const chosen = merge.default ?? listed[0] ?? {};
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

/** The same for the same fields in any order. */
function identityOf(fields: Readonly<Record<string, Json>>): string {
  return JSON.stringify(Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function labelOf(fields: Readonly<Record<string, Json>>, write: (value: Json) => string = plainly): string {
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
