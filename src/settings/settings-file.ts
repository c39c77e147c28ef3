// Files that a person writes as YAML or JSON: reading them, and reporting all their problems at once, each with its line.
// Knows no schema; a caller checks the value and says what is wrong with it, and where.

import { dirname } from "node:path";
import { isDeeperThan, isSystemError, RecipeError, readBounded } from "../core/index.js";
import { type Checked, formatProblem, MOST_LEVELS, type Problem } from "./check-schema.js";

// A file of a page is 3 kB; this keeps a wrong argument, such as a weight file, from being read whole.
const MAX_BYTES = 5_000_000;

/**
 * Reads the text of such a file.
 * @param kind what it should be, such as "recipe", for messages
 * @throws {RecipeError} if it is missing, a folder, or too large
 */
export async function readSettingsText(file: string, kind: string): Promise<string> {
  try {
    const tooLarge = () => new RecipeError(`${file} is too large to be a ${kind}`, [], { file });
    return (await readBounded(file, MAX_BYTES, tooLarge)).toString("utf8");
  } catch (error) {
    if (isSystemError(error, "ENOENT")) throw new RecipeError(`${file} does not exist`, [], { file });
    if (isSystemError(error, "EISDIR")) throw new RecipeError(`${file} is a folder; give a ${kind} file`, [], { file });
    throw error;
  }
}

/** A kind of file: what it is called, such as "recipe", and how its value is checked. */
export interface SettingsKind<T> {
  readonly kind: string;
  readonly check: (value: unknown) => Checked<T>;
}

/** What a file says, and where. */
export interface LocatedSettings<T> {
  readonly value: T;
  /** The folder that relative paths of the file start from. */
  readonly folder: string;
  /** The line on which a field stands, such as `models[1].weight`, or the closest that does. */
  readonly lineOf: (field: string) => number | undefined;
}

/** The text of such a file as a value, and where in it things stand. */
export interface SettingsText {
  readonly value: unknown;
  /** Problems with their lines, in the order of the file, each once. */
  readonly inLines: (problems: readonly Problem[]) => readonly string[];
  /** The line on which a path stands, or the closest that does. */
  readonly lineOf: (path: readonly PropertyKey[]) => number | undefined;
}

/** What reads YAML, loaded when it is needed: its library takes as long to load as a small merge takes to plan. */
export const loadYaml = () => import("./yaml.js");

/**
 * Reads such a file and checks it.
 * @throws {RecipeError} with every problem and its line
 */
export async function readSettings<T>(file: string, kind: SettingsKind<T>): Promise<LocatedSettings<T>> {
  const [{ checkedIn, openSettings }, text] = await Promise.all([loadYaml(), readSettingsText(file, kind.kind)]);
  const document = openSettings(text, file);
  return {
    value: checkedIn(document, file, kind),
    folder: dirname(file),
    lineOf: (field) => document.lineOf(pathOf(field)),
  };
}

/** Checks such settings given as a value. @throws {RecipeError} with every problem */
export function checkSettings<T>(value: unknown, { kind, check }: SettingsKind<T>): T {
  if (isDeeperThan(value, MOST_LEVELS)) throw new RecipeError(`the ${kind} nests too deep, or contains itself`);
  const { value: checked, problems } = check(value);
  if (checked !== undefined) return checked;
  throw new RecipeError(`This is not a valid ${kind}:`, problems.map(formatProblem));
}

/** `["models", 1, "weight"]` of `models[1].weight`. */
function pathOf(field: string): PropertyKey[] {
  return field.match(/[^.[\]]+/g)?.map((key) => (/^\d+$/.test(key) ? Number(key) : key)) ?? [];
}
