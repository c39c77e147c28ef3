// A cache of files that are made of models and read again: exports for llama.cpp, computed weights of the engine. A file is
// complete if it is there. The least recently used ones are deleted where a new one would exceed the limit or the disk.

import { readdir, rm, stat, statfs, utimes } from "node:fs/promises";
import { dirname, join } from "node:path";
import { OutputError, usageError } from "../errors.js";
import { formatBytes } from "../printing/format.js";
import { cacheFolder, makeCacheFolder } from "./cache-folder.js";
import { exists } from "./files.js";
import { isLocked, waitWhileLocked } from "./lock.js";
import { DISCARDED } from "./run-folder.js";

export interface ModelCacheSettings {
  /** Has a folder for each kind of file. */
  readonly folder: string;
  readonly mostBytes: number;
}

/** Folders of the cache, and how the names of their files end. */
const KINDS = { gguf: ".gguf", weights: ".safetensors" } as const;

export type CachedKind = keyof typeof KINDS;

export interface CachedFile {
  readonly kind: CachedKind;
  /** Equal digests mean equal files. */
  readonly digest: string;
  readonly bytes: number;
  /**
   * Writes the file at a path: whole or not at all. Leaves `PATH.partial`, a locked folder, while it is written and where it
   * is stopped.
   */
  readonly write: (path: string) => Promise<unknown>;
  /** Files that are not deleted to make room for this one. Default: none. */
  readonly keep?: readonly string[] | undefined;
}

/** A file of the cache, or what a stopped run has left of one. */
export interface CacheEntry {
  readonly path: string;
  readonly kind: CachedKind;
  readonly bytes: number;
  /** When it was last used, in milliseconds since 1970. */
  readonly used: number;
  readonly isPartial: boolean;
}

const MAX_GB = 50;
const PARTIAL = ".partial";

/**
 * Reads LAYERGRAFT_CACHE, the folder of the cache (default: layergraft in XDG_CACHE_HOME or ~/.cache), and
 * LAYERGRAFT_CACHE_GB, its size (default: 50).
 * @throws LayergraftError code `usage` if the size is not a number
 */
export function modelCacheSettings(
  environment: Readonly<Record<string, string | undefined>> = process.env,
): ModelCacheSettings {
  const size = environment.LAYERGRAFT_CACHE_GB?.trim() || undefined;
  const gigabytes = size === undefined ? MAX_GB : Number(size);
  if (!(gigabytes >= 0)) {
    throw usageError(`LAYERGRAFT_CACHE_GB is ${size}; it must be a number of gigabytes.`);
  }
  return { folder: cacheFolder("", environment), mostBytes: gigabytes * 1e9 };
}

/** The folder of a kind of files. */
export function cacheFolderOf(kind: CachedKind, { folder }: ModelCacheSettings): string {
  return join(folder, kind);
}

/**
 * The path of a file in the cache, which is written if it is missing. If another process writes it, waits for that.
 * @throws CancelledError if the signal fires
 * @throws OutputError if it is missing and cannot be written, or the disk has no space for it
 */
export async function cachedFile(
  file: CachedFile,
  settings: ModelCacheSettings,
  signal?: AbortSignal,
): Promise<string> {
  const { kind, digest, write } = file;
  const folder = cacheFolderOf(kind, settings);
  const path = join(folder, `${digest}${KINDS[kind]}`);
  const writeOnce = async () => {
    if ((await exists(path)) && (await requireWhole(path))) return;
    await makeCacheFolder(folder);
    await makeRoom(path, file, settings);
    await write(path);
  };
  await waitWhileLocked(writeOnce, { cancelled: "stopped while another process wrote the model", signal });
  await markUsed(path);
  return path;
}

/**
 * Refuses files that the cache could not hold if all others were deleted, before what they are made of is known.
 * @throws OutputError if the disk has no space for them
 */
export async function requireCacheSpace(bytes: number, settings: ModelCacheSettings): Promise<void> {
  // All of them may be there, in a cache that is read-only.
  if (!(await exists(settings.folder))) await makeCacheFolder(settings.folder);
  const entries = await cacheEntries(settings);
  requireFree(bytes, sumOf(entries) + (await freeBytes(settings.folder)), settings);
}

/**
 * Deletes a file that the disk may not hold, as its process was killed before that.
 * @returns whether it is whole, and still there
 */
export async function requireWhole(path: string): Promise<boolean> {
  const partial = path + PARTIAL;
  if ((await isLocked(partial)) || !(await exists(partial))) return true;
  await rm(path, { force: true });
  return false;
}

/** Makes a file of the cache the most recently used one, where that can be written: a file of another user can be read only. */
export async function markUsed(path: string): Promise<void> {
  const now = new Date();
  await utimes(path, now, now).catch(() => undefined);
}

/** Milliseconds between marks of files that may be opened again. */
const USED_EVERY = 60_000;

/** Marks files as used again and again while an object is reachable, so that others are deleted first. */
export function markWhileHeld(owner: object, paths: readonly string[]): void {
  if (paths.length === 0) return;
  const held = new WeakRef(owner);
  const timer = setInterval(() => {
    if (held.deref() === undefined) return clearInterval(timer);
    for (const path of paths) void markUsed(path);
  }, USED_EVERY);
  timer.unref();
}

/** All files of the cache, the least recently used first. Leaves out files of others, and those that are being written. */
export async function cacheEntries(settings: ModelCacheSettings): Promise<CacheEntry[]> {
  const found = await Promise.all(
    Object.entries(KINDS).map(async ([kind, ending]) => {
      const folder = cacheFolderOf(kind as CachedKind, settings);
      const names = await readdir(folder).catch(() => []);
      return Promise.all(names.map((name) => entryOf(join(folder, name), kind as CachedKind, ending)));
    }),
  );
  return found
    .flat()
    .flatMap((entry) => entry ?? [])
    .sort((a, b) => a.used - b.used);
}

/**
 * Deletes all files of the cache, except those that are being written.
 * @returns what was deleted; Windows does not delete files that are open
 */
export async function clearCache(settings: ModelCacheSettings): Promise<CacheEntry[]> {
  const deleted: CacheEntry[] = [];
  for (const entry of await cacheEntries(settings)) {
    if ((await isInUse(entry)) || !(await deleteEntry(entry))) continue;
    deleted.push(entry);
  }
  return deleted;
}

/** Deletes the least recently used files, and what is left of stopped runs, until a new file fits. */
async function makeRoom(path: string, { bytes, keep = [] }: CachedFile, settings: ModelCacheSettings): Promise<void> {
  const entries = await cacheEntries(settings);
  const own = sumOf(entries.filter((entry) => entry.path.startsWith(path)));
  const others = entries.filter((entry) => !entry.path.startsWith(path));
  const deletable: CacheEntry[] = [];
  for (const entry of others) if (!keep.includes(entry.path) && !(await isInUse(entry))) deletable.push(entry);
  let free = (await freeBytes(dirname(path))) + own;
  requireFree(bytes, sumOf(deletable) + free, settings);
  // What a killed run has left is of no use but to the same run.
  deletable.sort((a, b) => Number(b.isPartial) - Number(a.isPartial));
  let total = sumOf(others);
  for (const entry of deletable) {
    if (total + bytes <= settings.mostBytes && free >= bytes) break;
    await deleteEntry(entry);
    total -= entry.bytes;
    free += entry.bytes;
  }
}

const sumOf = (entries: readonly CacheEntry[]): number => entries.reduce((sum, { bytes }) => sum + bytes, 0);

function requireFree(bytes: number, most: number, { folder }: ModelCacheSettings): void {
  if (most >= bytes) return;
  throw new OutputError(
    `the prepared model needs ${formatBytes(bytes)}, but the disk of ${folder} has only ${formatBytes(most)} free. Free some space, or set LAYERGRAFT_CACHE to a folder on another disk.`,
    { file: folder, expected: `${bytes} bytes`, actual: `${most} bytes` },
  );
}

async function freeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

const isInUse = async ({ path, isPartial }: CacheEntry): Promise<boolean> => isPartial && (await isLocked(path));

/** @returns whether it is gone */
function deleteEntry({ path }: CacheEntry): Promise<boolean> {
  return rm(path, { recursive: true, force: true }).then(
    () => true,
    () => false,
  );
}

async function entryOf(path: string, kind: CachedKind, ending: string): Promise<CacheEntry | undefined> {
  const isPartial = [PARTIAL, DISCARDED].some((suffix) => path.endsWith(ending + suffix));
  if (!isPartial && !path.endsWith(ending)) return undefined;
  const stats = await stat(path).catch(() => undefined);
  if (!stats) return undefined;
  const used = stats.mtimeMs;
  if (!stats.isDirectory()) return { path, kind, bytes: stats.size, used, isPartial };
  const inside = await readdir(path).catch(() => []);
  const sizes = await Promise.all(
    // Of a file that is not complete, only what is written takes space.
    inside.map(async (name) => (await stat(join(path, name)).catch(() => undefined))?.blocks ?? 0),
  );
  return { path, kind, bytes: sizes.reduce((sum, blocks) => sum + 512 * blocks, 0), used, isPartial };
}
