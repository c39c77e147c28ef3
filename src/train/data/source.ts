import { isAbsolute, join } from "node:path";
import { isHubName } from "../../formats/hub/index.js";
import { beginsHere, exists } from "../../kit/files/index.js";
import { didYouMean } from "../../kit/printing/index.js";
import { type Choice, type HubDatasetOptions, hubDataset, hubDatasetBytes } from "./hub/index.js";
import { formatOfName, isPattern, localFiles, matcherOf } from "./read/files.js";
import { DataError } from "./read/row.js";
import { READY_NAMES } from "./ready-sets.js";

export interface SourceDeclaration extends Choice {
  readonly source: string;
  readonly revision?: string | undefined;
}

export interface SourceOptions extends Pick<HubDatasetOptions, "environment" | "signal"> {
  /** Folder that relative paths start from. Default: the working folder. */
  readonly folder?: string | undefined;
}

/** A data set on the Hub, whatever exists here. */
const HUB_PREFIX = /^(hub:|hf:\/\/datasets\/)/;

/**
 * Finds the files of a source: a file or folder of that name, otherwise a pattern, otherwise a data set of the Hub
 * (`organisation/name`; `hub:organisation/name` whatever exists here).
 * @returns their paths, sorted by name
 * @throws DataError if there is none, or local files are declared with fields for the Hub
 */
export async function findSource(
  declaration: SourceDeclaration,
  options: SourceOptions = {},
): Promise<readonly string[]> {
  const place = await placeOf(declaration, options);
  return "files" in place ? place.files : (await hubDataset(place.hub)).files;
}

/**
 * Bytes of a source that are still to be downloaded. Checks that it can be read, and downloads no data.
 * @throws as `findSource`
 */
export async function bytesToDownload(declaration: SourceDeclaration, options: SourceOptions = {}): Promise<number> {
  const place = await placeOf(declaration, options);
  return "files" in place ? 0 : hubDatasetBytes(place.hub);
}

async function placeOf(
  declaration: SourceDeclaration,
  options: SourceOptions,
): Promise<{ readonly files: readonly string[] } | { readonly hub: HubDatasetOptions }> {
  const { source } = declaration;
  const path = options.folder === undefined || isAbsolute(source) ? source : join(options.folder, source);
  const local = HUB_PREFIX.test(source) ? undefined : await findLocal(path, declaration);
  if (local) {
    const field = (["config", "split", "revision"] as const).find((name) => declaration[name] !== undefined);
    if (field === undefined) return { files: local };
    throw new DataError(
      `${source} is a file or folder, which has no ${field}. Remove ${field}, or write hub:${source} for the data set on the Hub.`,
      { file: source, field },
    );
  }
  const name = source.replace(HUB_PREFIX, "");
  // A name such as rows/train.jsonl, or one in a folder that is here, is a missing file rather than a data set.
  const isFileName = formatOfName(name) !== undefined || name.endsWith(".gz");
  const isMeantHere = name === source && (isFileName || (await beginsHere(source, options.folder)));
  if (name === source && (await exists(path)))
    throw new DataError(`${path} is not a regular file. Save the rows as a file.`, { file: path, field: "source" });
  if (!isHubName(name) || isMeantHere) {
    throw new DataError(
      `${path} does not exist. Pass a file, a folder, a data set of the Hub (org/name), or one of ${READY_NAMES.join(", ")}${didYouMean(source, READY_NAMES)}`,
      { file: path, field: "source" },
    );
  }
  const { environment, signal } = options;
  return { hub: { ...declaration, name, environment, signal } };
}

async function findLocal(path: string, { files, exclude }: SourceDeclaration): Promise<string[] | undefined> {
  const all = await localFiles(path);
  if (!all) return undefined;
  const isFolder = all.length !== 1 || all[0] !== path;
  const patterned = files && isFolder && !isPattern(path);
  const found = patterned ? (await Promise.all(files.map((pattern) => localFiles(join(path, pattern))))).flat() : all;
  const excluded = (exclude ?? []).map(matcherOf);
  const kept = [...new Set(found)].flatMap((file) => {
    if (file === undefined) return [];
    const relative = file.startsWith(`${path}/`) ? file.slice(path.length + 1) : file;
    return excluded.some((matches) => matches(relative.replaceAll("\\", "/"))) ? [] : [file];
  });
  if (kept.length > 0) return kept;
  throw new DataError(`${path} has no file that matches ${files?.join(", ") ?? "the source"} and is not excluded`, {
    file: path,
  });
}
