// A folder of GGUF files by the digest of what they hold. A file is complete if it is there. The least recently used ones are
// deleted where a new one would exceed the limit.

import { readdir, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { cacheFolder, exists, isLocked, makeCacheFolder, waitWhileLocked } from "../../kit/files/index.js";
import { usageError } from "../../kit/index.js";

export interface GgufCacheSettings {
  readonly folder: string;
  readonly mostBytes: number;
}

export interface CachedFile {
  /** Equal digests mean equal files. */
  readonly digest: string;
  readonly bytes: number;
  /**
   * Writes the file at a path: whole or not at all. Leaves `PATH.partial`, a locked folder, while it is written and where it
   * is stopped, and continues from there.
   */
  readonly write: (path: string) => Promise<unknown>;
}

const MAX_GB = 50;
const ENDING = ".gguf";
const PARTIAL = ".gguf.partial";

/**
 * Reads LAYERGRAFT_CACHE, the folder of the cache (default: layergraft in XDG_CACHE_HOME or ~/.cache), and
 * LAYERGRAFT_CACHE_GB, its size (default: 50).
 * @throws LayergraftError code `usage` if the size is not a number
 */
export function ggufCacheSettings(environment: Readonly<Record<string, string | undefined>> = process.env) {
  const size = environment.LAYERGRAFT_CACHE_GB?.trim() || undefined;
  const gigabytes = size === undefined ? MAX_GB : Number(size);
  if (!(gigabytes >= 0)) {
    throw usageError(`LAYERGRAFT_CACHE_GB is ${size}; it must be a number of gigabytes.`);
  }
  return { folder: cacheFolder("gguf", environment), mostBytes: gigabytes * 1e9 } satisfies GgufCacheSettings;
}

/**
 * The path of a file in the cache, which is written if it is missing. If another process writes it, waits for that.
 * @throws CancelledError if the signal fires
 * @throws OutputError if it cannot be written
 */
export async function cachedGguf(
  { digest, bytes, write }: CachedFile,
  { folder, mostBytes }: GgufCacheSettings,
  signal?: AbortSignal,
): Promise<string> {
  const path = join(folder, `${digest}${ENDING}`);
  await makeCacheFolder(folder);
  const writeOnce = async () => {
    if (await exists(path)) return;
    await makeRoom(folder, mostBytes - bytes, digest);
    await write(path);
  };
  await waitWhileLocked(writeOnce, { cancelled: "stopped while another process wrote the model", signal });
  const now = new Date();
  await utimes(path, now, now);
  return path;
}

/** Deletes the least recently used files, and what is left of stopped runs, until the others have at most so many bytes. */
async function makeRoom(folder: string, mostBytes: number, digest: string): Promise<void> {
  const names = (await readdir(folder)).filter((name) => !name.startsWith(digest));
  const found = await Promise.all(names.map((name) => sizeOf(join(folder, name))));
  const files = found.flatMap((file) => file ?? []).sort((a, b) => a.used - b.used);
  let total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  for (const { path, bytes } of files) {
    if (total <= mostBytes) break;
    if (path.endsWith(PARTIAL) && (await isLocked(path))) continue;
    // Windows does not delete a file that is open.
    await rm(path, { recursive: true, force: true }).catch(() => undefined);
    total -= bytes;
  }
}

async function sizeOf(path: string): Promise<{ path: string; bytes: number; used: number } | undefined> {
  if (!path.endsWith(ENDING) && !path.endsWith(PARTIAL)) return undefined;
  const stats = await stat(path).catch(() => undefined);
  if (!stats?.isDirectory()) return stats && { path, bytes: stats.size, used: stats.mtimeMs };
  const inside = await readdir(path).catch(() => []);
  const sizes = await Promise.all(
    inside.map(async (name) => (await stat(join(path, name)).catch(() => undefined))?.size),
  );
  return { path, bytes: sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0), used: stats.mtimeMs };
}
