// A plan that breaks its schema, without what breaks it: so that the rest can be judged, and all faults come at once.
// What holds across fields is file.ts's. A plan with faults never runs.
import { closest } from "../../core/format.js";
import { isObject } from "../../core/json.js";
import { type Fault, faultsOfIssues } from "../../core/settings-file.js";
import { planFields } from "./plan-fields.js";
import { type ExperimentPlan, planSchema } from "./plan-schema.js";

export interface SalvagedPlan {
  /** Undefined where too little is left. */
  readonly plan: ExperimentPlan | undefined;
  readonly faults: readonly Fault[];
  /** Whether what stands at a path is as it was written. */
  readonly isSound: (path: readonly PropertyKey[]) => boolean;
  /** Whether it is known which experts there are. */
  readonly knowsExperts: boolean;
}

/** Stands for a model or task that is wrong or missing; nothing is looked for under this name. */
export const UNKNOWN = "(unknown)";

/** What stands where something that is required was wrong, or is missing. */
const STAND_IN: Readonly<Record<string, unknown>> = {
  ...{ base: UNKNOWN, role: "other", by: UNKNOWN, task: UNKNOWN, language: UNKNOWN },
  ...{ tasks: [UNKNOWN], evaluate: { tasks: [UNKNOWN] }, parameters: 1, layers: 1, bytes: 1 },
};

/** What is wrong in one place may hide what is wrong around it, but not often at as many levels as this. */
const MOST_ROUNDS = 8;

/** Takes from a plan what breaks the schema. The value itself stays as it is. */
export function salvagePlan(value: unknown): SalvagedPlan {
  const rest: unknown = isObject(value) ? structuredClone(value) : value;
  const faults: Fault[] = [];
  const taken: (readonly PropertyKey[])[] = [];
  const isSound = (path: readonly PropertyKey[]) =>
    !taken.some((other) => isWithin(path, other) || isWithin(other, path));
  // The schema leaves it away without a word, as it is no name of a field in JavaScript.
  for (const path of takePrototypes(rest)) {
    faults.push({ path, message: "is no name that anything can have; choose another name" });
    taken.push(path);
  }
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const parsed = planSchema.safeParse(rest, { reportInput: true });
    if (parsed.success) {
      return { plan: parsed.data, faults, isSound, knowsExperts: !taken.some(isOfExperts) };
    }
    const before = [...taken];
    for (const fault of faultsOfIssues(parsed.error.issues)) {
      const path = fault.at ?? fault.path;
      // What was taken away is then missing, which is no fault of the plan's.
      if (!before.some((other) => isWithin(path, other))) faults.push(withPlace(fault));
      taken.push(take(rest, path, round));
    }
  }
  return { plan: undefined, faults, isSound, knowsExperts: false };
}

/** Takes away whatever is called `__proto__`. @returns where it stood */
function takePrototypes(value: unknown, path: readonly PropertyKey[] = []): (readonly PropertyKey[])[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const at = [...path, Array.isArray(value) ? Number(key) : key];
    if (key !== "__proto__") return takePrototypes(inner, at);
    delete (value as Record<string, unknown>)[key];
    return [at];
  });
}

/** Whether what was taken may have named experts: a family's folders or runs, or a whole section of an unknown name. */
function isOfExperts([first, , third]: readonly PropertyKey[]): boolean {
  if (first === "experts") return third === undefined || !["role", "language"].includes(String(third));
  return typeof first === "string" && closest(first, ["experts"]) !== undefined;
}

function isWithin(path: readonly PropertyKey[], other: readonly PropertyKey[]): boolean {
  return other.every((key, i) => path[i] === key);
}

/** Takes away what stands at a path, or puts a stand-in there. @returns the path of what has changed */
function take(root: unknown, path: readonly PropertyKey[], round: number): readonly PropertyKey[] {
  const key = path.at(-1);
  const parent = path.slice(0, -1).reduce<unknown>((at, one) => (at as Record<PropertyKey, unknown>)?.[one], root);
  if (key === undefined || typeof parent !== "object" || parent === null) return path;
  // Entries of lists have a place that others are known by: the list goes as a whole, or its entry stays unknown.
  if (Array.isArray(parent)) {
    const isOfTexts = ["tasks", "folders"].includes(String(path.at(-2)));
    if (!isOfTexts || parent[Number(key)] === UNKNOWN) return take(root, path.slice(0, -1), round);
    parent[Number(key)] = UNKNOWN;
    return path;
  }
  const fields = parent as Record<PropertyKey, unknown>;
  const isMissing = !Object.hasOwn(fields, key);
  // Names must differ, and not be empty.
  const standIn =
    key === "name"
      ? `unnamed-${path.map(String).join("-")}-${round}`
      : Object.hasOwn(STAND_IN, key)
        ? STAND_IN[String(key)]
        : undefined;
  if (isMissing && standIn !== undefined) fields[key] = standIn;
  else if (isMissing) return take(root, path.slice(0, -1), round);
  else delete fields[key];
  return path;
}

/** An unknown field's fault with where it belongs, or what it was meant to be. */
function withPlace(fault: Fault): Fault {
  const name = /^unknown field "(.*)"$/.exec(fault.message)?.[1];
  if (name === undefined) return fault;
  const here = patternOf(fault.path);
  const fields = planFields().map(({ field }) => ({ field, leaf: leafOf(field), parent: parentOf(field) }));
  const beside = closest(
    name,
    fields.filter(({ parent }) => parent === here).map(({ leaf }) => leaf),
  );
  if (beside !== undefined) return { ...fault, message: `${fault.message}; did you mean ${beside}?` };
  const elsewhere = [...new Set(fields.filter(({ leaf }) => leaf === name).map(({ parent }) => parent))];
  if (elsewhere.length > 0) {
    const places = elsewhere.slice(0, 2).map((parent) => (parent === "" ? "the top" : parent));
    return { ...fault, message: `${fault.message}; it belongs under ${places.join(" or ")}` };
  }
  const meant = closest(name, [...new Set(fields.map(({ leaf }) => leaf))]);
  const place = fields.find(({ leaf }) => leaf === meant)?.field;
  return place === undefined ? fault : { ...fault, message: `${fault.message}; did you mean ${place}?` };
}

/** `experts.NAME`, as the table of fields writes the place of `experts.math`. */
function patternOf(path: readonly PropertyKey[]): string {
  let pattern = "";
  path.forEach((key, i) => {
    const isNamed = i === 1 && (path[0] === "experts" || path[0] === "training");
    if (typeof key === "number") pattern += "[]";
    else pattern += `${pattern === "" ? "" : "."}${isNamed ? "NAME" : String(key)}`;
  });
  return pattern;
}

function leafOf(field: string): string {
  return field.slice(field.lastIndexOf(".") + 1);
}

function parentOf(field: string): string {
  return field.slice(0, Math.max(0, field.lastIndexOf(".")));
}
