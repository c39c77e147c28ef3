// Checks a value against a schema: all problems at once, in the terms of YAML, with suggestions for misspelled fields.

import { z } from "zod";
import { isObject } from "../json.js";
import { carryWritten } from "../numbers/index.js";
import { shorten } from "../printing/format.js";
import { removedAdvice } from "../printing/removed.js";
import { closest, didYouMean } from "../printing/spelling.js";
import { type SchemaField, schemaFields } from "./schema-fields.js";

type Path = readonly PropertyKey[];

// Far beyond what a person writes; code that reads settings may recurse so deep.
export const MAX_LEVELS = 100;

/** Problems with a hint: more are not read, and foreign values may have any number. */
const MAX_HINTS = 100;

/** A problem of a value, and its location. */
export interface Problem {
  readonly path: Path;
  /** Its location, if it differs from the path in the message. */
  readonly at?: Path;
  /** The name of an unknown field. */
  readonly unknown?: string;
  readonly message: string;
}

export interface Checked<T> {
  readonly value?: T;
  readonly problems: readonly Problem[];
}

/** `models[0].weight: must be a number` */
export function formatProblem({ path, message }: Problem): string {
  return path.length === 0 ? message : `${formatPath(path)}: ${message}`;
}

/** `models[0].weight` */
export function formatPath(path: Path): string {
  return path
    .map((key, i) => (typeof key === "number" ? `[${key}]` : `${i ? "." : ""}${shorten(String(key))}`))
    .join("");
}

/** Checks a value; the paths of problems begin with `base`. */
export function checkSchema<T extends z.ZodType>(schema: T, value: unknown, base: Path = []): Checked<z.output<T>> {
  const parsed = parseInWords(schema, value);
  if (parsed.success) {
    const lost = lostName(value);
    if (lost) return { problems: [{ path: [...base, ...lost], message: `${LOST} is a reserved name` }] };
    carryWritten(value, parsed.data);
    return { value: parsed.data, problems: [] };
  }
  const problems = problemsOfIssues(parsed.error.issues, []);
  const fields = problems.some(({ unknown }) => unknown !== undefined) ? schemaFields(schema) : [];
  const under = ({ path, at, ...rest }: Problem): Problem => ({
    ...rest,
    path: [...base, ...path],
    ...(at ? { at: [...base, ...at] } : {}),
  });
  const hinted = problems.map((problem, i) => (i < MAX_HINTS ? withHint(problem, fields) : problem));
  return { problems: hinted.map(under) };
}

/** A name that zod drops without a word. */
const LOST = "__proto__";

/** Where a value has that name, to its first hundred levels. */
function lostName(value: unknown, path: Path = []): Path | undefined {
  if (typeof value !== "object" || value === null || path.length > MAX_LEVELS) return undefined;
  if (Object.hasOwn(value, LOST)) return path;
  const entries: readonly [PropertyKey, unknown][] = Array.isArray(value)
    ? [...value.entries()]
    : Object.entries(value);
  for (const [key, inner] of entries) {
    const found = typeof inner === "object" ? lostName(inner, [...path, key]) : undefined;
    if (found) return found;
  }
  return undefined;
}

/** Parses with our messages; for a schema that calls another one. */
export function parseInWords<T extends z.ZodType>(schema: T, value: unknown): z.ZodSafeParseResult<z.output<T>> {
  return schema.safeParse(value, { reportInput: true, error: inWords });
}

/** Suggests the field that an unknown one meant, or the place where it belongs. */
function withHint(problem: Problem, fields: readonly SchemaField[]): Problem {
  const { unknown, path, message } = problem;
  if (unknown === undefined) return problem;
  const removed = removedAdvice("field", unknown) ?? removedAdvice("field", `${String(path.at(-1))}.${unknown}`);
  if (removed !== undefined) return { ...problem, message: `${unknown} ${removed}` };
  const places = fields.map(({ name }) => {
    const keys = name.split(/\.|(?=\[\])/);
    return { leaf: keys.at(-1) ?? "", parent: keys.slice(0, -1) };
  });
  const leavesOf = (some: typeof places) => some.map(({ leaf }) => leaf);
  const siblings = leavesOf(places.filter(({ parent }) => isAt(path, parent)));
  const inNumber = siblings.find((leaf) => leaf === `${unknown}s` || `${leaf}s` === unknown);
  if (inNumber !== undefined) return { ...problem, message: `${message}; did you mean ${inNumber}?` };
  const under = (field: string) => {
    const parents = places.filter(({ leaf }) => leaf === field).map(({ parent }) => parent.join("."));
    return [...new Set(parents.map((name) => name.replaceAll(".[]", "[]") || "the top"))].slice(0, 2).join(" or ");
  };
  if (leavesOf(places).includes(unknown))
    return { ...problem, message: `${message}; it belongs under ${under(unknown)}` };
  const sibling = closest(unknown, siblings);
  if (sibling !== undefined) return { ...problem, message: `${message}; did you mean ${sibling}?` };
  const meant = closest(unknown, leavesOf(places));
  return meant === undefined
    ? problem
    : { ...problem, message: `${message}; did you mean ${meant} under ${under(meant)}?` };
}

/** Whether a field's keys match a path. */
function isAt(path: Path, keys: readonly string[]): boolean {
  const fits = (key: string, i: number) =>
    typeof path[i] === "number" ? key === "[]" : key === "NAME" || key === path[i];
  return path.length === keys.length && keys.every(fits);
}

/** Issues as problems; for a union, those of the variant with the deepest problem, which was probably meant. */
function problemsOfIssues(issues: readonly z.core.$ZodIssue[], base: Path): Problem[] {
  return issues.flatMap((issue): Problem[] => {
    const path = [...base, ...issue.path];
    const isMissing = issue.input === undefined && (issue.code === "invalid_type" || issue.code === "invalid_union");
    // A missing method is reported by its choices.
    if (isMissing || (issue.code === "custom" && issue.input === undefined)) return [{ path, message: "is missing" }];
    if (issue.code === "invalid_union" && issue.errors.length > 0) {
      const variants = issue.errors.map((variant) => problemsOfIssues(variant, path));
      const depth = (problems: Problem[]) => Math.max(...problems.map((problem) => problem.path.length));
      const deepest = variants.toSorted((a, b) => depth(b) - depth(a))[0];
      if (deepest && depth(deepest) > path.length) return deepest;
      // An unknown field is reported at the level of the union, and is more precise than it.
      const precise = variants.find((problems) => problems.every(({ unknown }) => unknown !== undefined));
      return precise ?? [{ path, message: `${issue.message}${percentHint(issue.input)}` }];
    }
    if (issue.code !== "unrecognized_keys") return [{ path, message: issue.message }];
    return issue.keys.map((key): Problem => {
      const message = `unknown field ${JSON.stringify(shorten(key))}`;
      return { path, at: [...path, key], unknown: key, message };
    });
  });
}

const KINDS: Readonly<Record<string, string>> = {
  array: "a list",
  tuple: "a list",
  object: "a mapping",
  record: "a mapping",
  map: "a mapping",
  string: "text",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  null: "empty",
};

function kindOf(value: unknown): string | undefined {
  return KINDS[value === null ? "null" : Array.isArray(value) ? "array" : typeof value];
}

/** Choices above this number are not listed where one of them was probably meant. */
const MAX_LISTED = 12;

/** `must be one of a, b, c`, or what a misspelled one of many meant. */
export function choiceProblem(value: unknown, choices: readonly string[]): string {
  const hint = typeof value === "string" ? didYouMean(value, choices) : "";
  if (hint !== "" && choices.length > MAX_LISTED) return `is ${JSON.stringify(shorten(String(value)))}${hint}`;
  return `must be ${choices.length > 1 ? "one of " : ""}${choices.join(", ")}${hint}`;
}

/** `; write 0.2 for 20%`, for a percentage in place of a number. */
function percentHint(value: unknown): string {
  const [, percent] = (typeof value === "string" && /^\s*(\d+(?:\.\d+)?)\s*%\s*$/.exec(value)) || [];
  return percent === undefined ? "" : `; write ${Number((Number(percent) / 100).toPrecision(12))} for ${percent}%`;
}

/** Messages for schemas without their own. */
const inWords: z.core.$ZodErrorMap = (issue) => {
  switch (issue.code) {
    case "invalid_type": {
      const [wanted, found] = [KINDS[issue.expected], kindOf(issue.input)];
      if (wanted === undefined) return undefined;
      return found === undefined ||
        issue.expected === "int" ||
        (issue.expected === "number" && typeof issue.input === "number")
        ? `must be ${wanted}`
        : `must be ${wanted}, not ${found}${wanted === KINDS.number ? percentHint(issue.input) : ""}`;
    }
    case "invalid_value":
      return choiceProblem(issue.input, issue.values.map(String));
    case "too_small":
      if (issue.origin === "string")
        return issue.minimum > 1 ? `must have at least ${issue.minimum} characters` : "must not be empty";
      if (issue.origin === "array")
        return issue.minimum > 1 ? `must list at least ${issue.minimum}` : "must not be empty";
      return `must be ${issue.inclusive === false ? "above" : "at least"} ${issue.minimum}`;
    case "too_big":
      if (issue.origin === "string") return `must have at most ${issue.maximum} characters`;
      if (issue.origin === "array") return `must list at most ${issue.maximum}`;
      return `must be ${issue.inclusive === false ? "below" : "at most"} ${issue.maximum}`;
    case "invalid_union":
      return "must have one of the documented forms";
    default:
      return undefined;
  }
};

/** The schema of a mapping with foreign keys. `z.record` drops the key `__proto__`. */
export function recordOf<T extends z.ZodType>(value: T) {
  const entries = z.map(z.string(), value);
  return z
    .preprocess((json) => (isObject(json) ? new Map(Object.entries(json)) : json), entries)
    .transform((map): Record<string, z.output<T>> => Object.fromEntries(map));
}
