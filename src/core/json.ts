// What parsed JSON is, for those that read it field by field.

/** Whether a value is an object with fields: no array, not null. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
