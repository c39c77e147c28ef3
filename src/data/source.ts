// The files of a set, wherever they are: on this machine, or on the hub.
import { isAbsolute, join } from "node:path";
import { didYouMean } from "../core/index.js";
import { type Environment, hubDataset, isHubName } from "./hub/index.js";
import { DataError } from "./read/data-error.js";
import { localFiles } from "./read/files.js";
import { isPattern, matcherOf } from "./read/glob.js";
import { READY_NAMES } from "./ready.js";

/** What of a set says where its files are. */
export interface SourceDeclaration {
  readonly source: string;
  readonly config?: string | undefined;
  readonly split?: string | undefined;
  readonly revision?: string | undefined;
  readonly files?: readonly string[] | undefined;
  readonly exclude?: readonly string[] | undefined;
}

export interface SourceOptions {
  /** Folder that relative paths start from. Default: the working directory. */
  readonly folder?: string | undefined;
  readonly environment?: Environment | undefined;
  readonly onProgress?: ((state: { readonly done: number; readonly total: number }) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Files of a source, sorted by name, and the commit if they are the hub's. */
export interface FoundSource {
  readonly files: readonly string[];
  readonly commit: string | undefined;
}

/** Says that the hub is meant, whatever lies in the working directory. */
const HUB_PREFIX = /^(hub:|hf:\/\/datasets\/)/;

/**
 * Finds a source: what exists here under that name, else a pattern, else a data set of the hub (`organisation/name`, or
 * with `hub:` in front whatever exists here).
 * @throws {DataError} if there is neither; fields of the hub beside local files are refused as well
 */
export async function findSource(declaration: SourceDeclaration, options: SourceOptions = {}): Promise<FoundSource> {
  const { source } = declaration;
  const path = options.folder === undefined || isAbsolute(source) ? source : join(options.folder, source);
  const local = HUB_PREFIX.test(source) ? undefined : await findLocal(path, declaration);
  if (local) {
    const field = (["config", "split", "revision"] as const).find((name) => declaration[name] !== undefined);
    if (field === undefined) return { files: local, commit: undefined };
    throw new DataError(
      `${source} is a file or folder here, for which ${field} means nothing; leave it out, or write hub:${source} if the hub is meant`,
      { file: source, field },
    );
  }
  const name = source.replace(HUB_PREFIX, "");
  if (!isHubName(name)) {
    throw new DataError(
      `${path} does not exist. Pass a file, a folder, a data set of the Hub (org/name), or one of ${READY_NAMES.join(", ")}${didYouMean(source, READY_NAMES)}`,
      { file: path, field: "source" },
    );
  }
  const { config, split, revision, files, exclude } = declaration;
  const { environment, onProgress, signal } = options;
  return await hubDataset({ name, config, split, revision, files, exclude, environment, onProgress, signal });
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
  throw new DataError(`${path} has no file left that is not excluded, or none like ${files?.join(", ")}`, {
    file: path,
  });
}
