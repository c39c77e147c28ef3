// The files of a path, which is a file, a folder or a pattern, and their formats.
import { readdir, stat } from "node:fs/promises";
import { join, sep } from "node:path";
import picomatch from "picomatch";
import { isFile } from "../../../kit/files/index.js";
import { isSystemError, own } from "../../../kit/index.js";
import { formatSome } from "../../../kit/printing/index.js";
import { arrowFolder, isArrowName } from "./arrow.js";
import { DataError } from "./row.js";

export const FORMATS = ["parquet", "jsonl", "json", "csv", "tsv", "text"] as const;

export type Format = (typeof FORMATS)[number];

const FORMAT_OF_EXTENSION: Readonly<Record<string, Format>> = {
  parquet: "parquet",
  jsonl: "jsonl",
  ndjson: "jsonl",
  json: "json",
  csv: "csv",
  tsv: "tsv",
  txt: "text",
};

/** The format of a file by its name, without `.gz`; undefined for other names. */
export function formatOfName(name: string): Format | undefined {
  const extension = /\.([a-z]+)$/i.exec(name.replace(/\.gz$/i, ""))?.[1]?.toLowerCase();
  return extension === undefined ? undefined : own(FORMAT_OF_EXTENSION, extension);
}

/** Files that libraries write beside data. */
const NOT_DATA = /^(dataset_infos?|dataset_dict|state|config|metadata|\..*)\.json$/i;

export function isDataName(path: string): boolean {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return formatOfName(name) !== undefined && !NOT_DATA.test(name) && !name.startsWith(".") && !/^readme/i.test(name);
}

/**
 * The files of a path: itself, all data files below a folder, or those that a pattern matches, sorted by name. Hidden
 * files and folders are skipped.
 * @returns undefined if nothing of that name exists
 * @throws DataError if a folder has no data file, or a pattern matches none
 */
export async function localFiles(path: string): Promise<string[] | undefined> {
  try {
    const stats = await stat(path);
    if (stats.isFile()) return [path];
    if (stats.isDirectory()) {
      const below = await filesBelow(path);
      const files = below.filter(isDataName).sort();
      if (files.length === 0 && below.some(isArrowName)) throw await arrowFolder(path);
      if (files.length > 0) return files.map((file) => join(path, file));
      const known = Object.keys(FORMAT_OF_EXTENSION).map((extension) => `.${extension}`);
      throw new DataError(`${path} has no data file (${known.join(", ")}, also with .gz)`, { file: path });
    }
  } catch (error) {
    if (!isSystemError(error, "ENOENT") && !isSystemError(error, "ENOTDIR")) throw error;
  }
  return isPattern(path) ? await filesLike(path) : undefined;
}

async function filesLike(pattern: string): Promise<string[]> {
  const parts = pattern.split(/[\\/]/).length > 1 && sep === "\\" ? pattern.split(/[\\/]/) : pattern.split("/");
  const fixed = parts.findIndex(isPattern);
  const root = parts.slice(0, fixed).join("/") || (pattern.startsWith("/") ? "/" : ".");
  const matches = matcherOf(parts.slice(fixed).join("/"));
  let below: string[];
  try {
    below = await filesBelow(root);
  } catch (error) {
    if (isSystemError(error, "ENOENT"))
      throw new DataError(`${pattern}: the folder ${root} does not exist`, { file: root });
    throw error;
  }
  const files = below.filter(matches).sort();
  if (files.length > 0) return files.map((file) => join(root, file));
  throw new DataError(
    `${pattern} matches no file${below.length > 0 ? `; ${root} has ${formatSome(below.sort(), 5)}` : ""}`,
    { file: pattern },
  );
}

/** A wrong pattern such as / ** must end. */
const MAX_ENTRIES = 200_000;

/** Relative paths of all files below a folder, with forward slashes. Links to folders are not followed. */
async function filesBelow(folder: string): Promise<string[]> {
  const found: string[] = [];
  const visit = async (prefix: string): Promise<void> => {
    for (const entry of await readdir(join(folder, prefix), { withFileTypes: true })) {
      if (entry.name.startsWith(".")) continue;
      const path = `${prefix}${entry.name}`;
      if (entry.isDirectory()) await visit(`${path}/`);
      else if (entry.isFile() || (entry.isSymbolicLink() && (await isFile(join(folder, path)).catch(() => false))))
        found.push(path);
      if (found.length > MAX_ENTRIES) {
        throw new DataError(`${folder} has more than ${MAX_ENTRIES} files. Name a folder closer to the data.`, {
          file: folder,
        });
      }
    }
  };
  await visit("");
  return found;
}

// Cards of data sets are written by strangers, and each wildcard multiplies what a match can cost.
const MAX_WILDCARDS = 8;
const MAX_LENGTH = 500;

export function isPattern(text: string): boolean {
  return /[*?[{]/.test(text);
}

/**
 * A test for paths with forward slashes. `**` followed by a slash also matches nothing, so that a pattern of it and a
 * name matches that name at the top too.
 * @throws DataError for a pattern that is too complicated or not valid
 */
export function matcherOf(pattern: string): (path: string) => boolean {
  if (pattern.length > MAX_LENGTH || (pattern.match(/\*+|\?/g)?.length ?? 0) > MAX_WILDCARDS) {
    throw new DataError(`the pattern ${JSON.stringify(pattern.slice(0, 80))} has too many wildcards`);
  }
  try {
    const matches = picomatch(pattern, { dot: true, posix: true, noextglob: true, debug: true });
    return (path) => matches(path);
  } catch (error) {
    throw new DataError(`${JSON.stringify(pattern)} is not a valid pattern`, {}, error);
  }
}
