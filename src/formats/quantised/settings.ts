// What a writer's settings may say: the keys that its page knows, and their values. Anything else is refused by name.

import { isObject } from "../../kit/index.js";

/** Values that a key may have; null counts as a missing key. */
export type Known =
  /** Does not change what stored weights mean. */
  | { readonly is: "any" }
  | { readonly is: "one of"; readonly values: readonly unknown[] }
  | { readonly is: "whole number" | "true or false" | "list of names" | "list of whole numbers" }
  /** Only what says nothing: false, an empty list or an empty object. */
  | { readonly is: "empty" }
  | { readonly is: "fields"; readonly keys: Keys }
  /** Each under a name of its own: of a group, or of a module. */
  | { readonly is: "entries"; readonly of: Known };

export type Keys = Readonly<Record<string, Known>>;

export const any: Known = { is: "any" };
export const whole: Known = { is: "whole number" };
export const flag: Known = { is: "true or false" };
export const sizes: Known = { is: "list of whole numbers" };
export const names: Known = { is: "list of names" };
export const empty: Known = { is: "empty" };
export const oneOf = (...values: readonly unknown[]): Known => ({ is: "one of", values });
export const fields = (keys: Keys): Known => ({ is: "fields", keys });
export const entries = (of: Known): Known => ({ is: "entries", of });
/** Keys that do not change what stored weights mean. */
export const harmless = (...keys: readonly string[]): Keys => Object.fromEntries(keys.map((key) => [key, any]));

/**
 * The first key or value that a page does not know.
 * @returns its path and value, as in `config_groups.group_0.weights.type "uint"`; undefined if all are known
 */
export function unknownIn(known: Known, value: unknown, path = ""): string | undefined {
  if (value === undefined || value === null || known.is === "any") return undefined;
  if (known.is !== "fields" && known.is !== "entries") return isKnown(known, value) ? undefined : shown(path, value);
  if (!isObject(value)) return shown(path, value);
  for (const [key, inner] of Object.entries(value)) {
    const place = path === "" ? key : `${path}.${key}`;
    const own = known.is === "entries" ? known.of : Object.hasOwn(known.keys, key) ? known.keys[key] : undefined;
    if (!own && inner === null) continue;
    const found = own ? unknownIn(own, inner, place) : place;
    if (found !== undefined) return found;
  }
  return undefined;
}

function isKnown(known: Exclude<Known, { is: "any" | "fields" | "entries" }>, value: unknown): boolean {
  if (known.is === "one of") return known.values.some((one) => JSON.stringify(one) === JSON.stringify(value));
  if (known.is === "whole number") return Number.isSafeInteger(value);
  if (known.is === "true or false") return typeof value === "boolean";
  if (known.is === "list of names") return Array.isArray(value) && value.every((one) => typeof one === "string");
  if (known.is === "list of whole numbers") return Array.isArray(value) && value.every(Number.isSafeInteger);
  return (
    value === false ||
    (isObject(value) && Object.keys(value).length === 0) ||
    (Array.isArray(value) && value.length === 0)
  );
}

const shown = (path: string, value: unknown) => {
  const text = JSON.stringify(value);
  return `${path} ${text.length > 60 ? `${text.slice(0, 60)}...` : text}`;
};

/** A key's values in words, for the table of pages. */
export function describeKnown(known: Known): string {
  if (known.is === "one of") return known.values.map((one) => `\`${JSON.stringify(one)}\``).join(", ");
  if (known.is === "fields") {
    return `(${Object.entries(known.keys)
      .map(([key, one]) => `\`${key}\`: ${describeKnown(one)}`)
      .join("; ")})`;
  }
  return known.is === "entries" ? `by name ${describeKnown(known.of)}` : known.is === "any" ? "not read" : known.is;
}
