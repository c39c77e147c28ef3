// Reads YAML and JSON files that people write, and reports all problems at once with their lines.

import { readdir, stat } from "node:fs/promises";
import { dirname, join, normalize } from "node:path";
import { isSystemError, RecipeError, usageError } from "../errors.js";
import { readBounded } from "../files/files.js";
import { isDeeperThan } from "../json.js";
import { didYouMean } from "../printing/spelling.js";
import { type Checked, formatProblem, MAX_LEVELS, type Problem } from "./check-schema.js";
import { folderAdvice, requireSettings } from "./file-kinds.js";

// Well above real files of a few kB; a wrong argument, such as a weight file, is not read whole.
const MAX_BYTES = 5_000_000;

/**
 * Reads the text of a settings file.
 * @param kind its kind for messages, such as "recipe"
 * @throws LayergraftError code `usage` if it is missing, no regular file, or too large
 */
export async function readSettingsText(file: string, kind: string): Promise<string> {
  try {
    const tooLarge = () => {
      requireSettings(file, kind);
      return usageError(`${file} is too large to be a ${kind}`, { file });
    };
    // It is read again: to tell what kind it is, and by every resume.
    const stats = await stat(file);
    if (!stats.isFile() && !stats.isDirectory())
      throw usageError(`${file} is not a regular file. Save the ${kind} as a file.`, { file });
    const bytes = await readBounded(file, MAX_BYTES, tooLarge);
    requireSettings(file, kind);
    // As PowerShell 5 writes text.
    const isUtf16 = bytes[0] === 0xff && bytes[1] === 0xfe;
    return new TextDecoder(isUtf16 ? "utf-16le" : "utf-8").decode(bytes);
  } catch (error) {
    if (isSystemError(error, "ENOENT")) {
      const beside = await readdir(dirname(file)).catch(() => []);
      const hint = didYouMean(
        normalize(file),
        beside.map((name) => join(dirname(file), name)),
      );
      throw usageError(`${file} does not exist${hint}`, { file });
    }
    if (isSystemError(error, "EISDIR"))
      throw usageError(`${file} is a folder; give a ${kind} file${folderAdvice(file, kind)}`, { file });
    throw error;
  }
}

/** A kind of settings file. @param kind its name for messages, such as "recipe" */
export interface SettingsKind<T> {
  readonly kind: string;
  readonly check: (value: unknown) => Checked<T>;
}

/** The checked value of a file. */
export interface LocatedSettings<T> {
  readonly value: T;
  /** The folder of the file, for relative paths. */
  readonly folder: string;
  /** The line of a field, such as `models[1].weight`, or of its closest parent. */
  readonly lineOf: (field: string) => number | undefined;
}

/** The value of a text, with its lines. */
export interface SettingsText {
  readonly value: unknown;
  /** Problems with their lines, in the order of the file, without repetitions. */
  readonly inLines: (problems: readonly Problem[]) => readonly string[];
  /** The line of a path, or of its closest parent. */
  readonly lineOf: (path: readonly PropertyKey[]) => number | undefined;
}

/** What reads YAML, loaded when it is needed: its library takes as long to load as a small merge takes to plan. */
export const loadYaml = () => import("./yaml.js");

/**
 * Reads and checks a settings file.
 * @throws RecipeError with every problem and its line
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

/** Checks settings that are given as a value. @throws RecipeError with every problem */
export function checkSettings<T>(value: unknown, { kind, check }: SettingsKind<T>): T {
  if (isDeeperThan(value, MAX_LEVELS))
    throw new RecipeError(`the ${kind} nests more than ${MAX_LEVELS} levels deep, or contains itself`);
  const { value: checked, problems } = check(value);
  if (checked !== undefined) return checked;
  throw new RecipeError(`This is not a valid ${kind}:`, problems.map(formatProblem));
}

/** `["models", 1, "weight"]` of `models[1].weight`. */
export function pathOf(field: string): PropertyKey[] {
  return field.match(/[^.[\]]+/g)?.map((key) => (/^\d+$/.test(key) ? Number(key) : key)) ?? [];
}
