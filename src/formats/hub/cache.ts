// The cache of huggingface_hub: blobs by their hash, snapshots of links to them, and refs with the commits of branches and
// tags.

import { copyFile, mkdir, readdir, readFile, stat, symlink } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { exists, writeFileAtomically } from "../../kit/files/index.js";
import { HubError, isSystemError } from "../../kit/index.js";

const COMMIT = /^[0-9a-f]{40}$/;

export function isCommit(text: string): boolean {
  return COMMIT.test(text);
}

export class RepositoryCache {
  readonly folder: string;

  /** @param name `organisation/name` */
  constructor(cache: string, type: "model" | "dataset", name: string) {
    this.folder = join(cache, `${type}s--${name.replaceAll("/", "--")}`);
  }

  /** The file with the content of this hash (git's or SHA-256). */
  blob(hash: string): string {
    return join(this.folder, "blobs", hash);
  }

  snapshot(commit: string, path: string): string {
    return join(this.folder, "snapshots", commit, ...checkedPath(path).split("/"));
  }

  /** The commit of a branch or tag when it was last downloaded. */
  async commitOf(revision: string): Promise<string | undefined> {
    if (isCommit(revision)) return revision;
    try {
      const commit = (await readFile(this.#ref(revision), "utf8")).trim();
      return isCommit(commit) ? commit : undefined;
    } catch (error) {
      if (isSystemError(error, "ENOENT") || isSystemError(error, "ENOTDIR")) return undefined;
      throw error;
    }
  }

  async remember(revision: string, commit: string): Promise<void> {
    if (isCommit(revision) || (await this.commitOf(revision)) === commit) return;
    const file = this.#ref(revision);
    await mkdir(dirname(file), { recursive: true });
    await writeFileAtomically(file, commit);
  }

  /** Links a file of a commit to its blob, or copies the blob where links are not allowed. */
  async link(commit: string, path: string, hash: string): Promise<string> {
    const file = this.snapshot(commit, path);
    await mkdir(dirname(file), { recursive: true });
    const blob = this.blob(hash);
    try {
      await symlink(relative(dirname(file), blob), file);
    } catch (error) {
      if (isSystemError(error, "EEXIST")) return file;
      if (!isSystemError(error, "EPERM") && !isSystemError(error, "ENOTSUP")) throw error;
      await copyFile(blob, file);
    }
    return file;
  }

  /** Paths of the files of a commit in the cache, with forward slashes. */
  async paths(commit: string): Promise<string[]> {
    const root = join(this.folder, "snapshots", commit);
    if (!(await exists(root))) return [];
    const found: string[] = [];
    for (const path of await readdir(root, { recursive: true })) {
      if ((await sizeOf(join(root, path))) !== undefined) found.push(path.replaceAll("\\", "/"));
    }
    return found;
  }

  #ref(revision: string): string {
    return join(this.folder, "refs", ...checkedPath(revision).split("/"));
  }
}

/** Size of a file in bytes; undefined if it is missing. */
export async function sizeOf(file: string): Promise<number | undefined> {
  try {
    const stats = await stat(file);
    return stats.isFile() ? stats.size : undefined;
  } catch (error) {
    if (isSystemError(error, "ENOENT") || isSystemError(error, "ENOTDIR")) return undefined;
    throw error;
  }
}

/** @throws HubError if a path of the Hub might lead out of the folder that it is joined to, on any system */
export function checkedPath(path: string): string {
  const parts = path.split("/");
  const isSafe = parts.every((part) => part !== "" && part !== "." && part !== ".." && !/[\\:\0]/.test(part));
  if (isSafe) return path;
  throw new HubError(`${JSON.stringify(path)} is not a path in a repository, but the Hub lists it`);
}
