// What parsed JSON is, for those that read it field by field, and mappings whose names come from elsewhere: a tensor may be
// called `__proto__` or `constructor`, as members that every object inherits.

/** Whether a value is an object with fields: no array, not null. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value of a field that a mapping itself has; undefined for what every object inherits. */
export function own<T>(mapping: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(mapping, key) ? mapping[key] : undefined;
}

/** Whether a value nests deeper than a number of levels; one that contains itself does. */
export function isDeeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeperThan(inner, levels - 1));
}
