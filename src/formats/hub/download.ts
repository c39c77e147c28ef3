// Downloads files of a repository into the cache. An interrupted download resumes, and a file gets its name only when its size
// and hash are right.

import type { Hash } from "node:crypto";
import { constants, createReadStream } from "node:fs";
import { type FileHandle, mkdir, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { type Lock, syncFolder, takeLock, waitWhileLocked } from "../../kit/files/index.js";
import { CancelledError, DiskFullError, HubError, type Progress } from "../../kit/index.js";
import { formatBytes } from "../../kit/printing/index.js";
import { type RepositoryCache, sizeOf } from "./cache.js";
import { beginHash, type HubFile } from "./ranges.js";

export interface DownloadOptions {
  readonly cache: RepositoryCache;
  readonly commit: string;
  /** A file's content from a byte on. */
  readonly openFrom: (file: HubFile, start: number) => AsyncIterable<Uint8Array>;
  /** Called with the bytes of all files. */
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Downloads the files that are not in the cache yet, while no other process downloads files of the same repository.
 * @returns their paths in the snapshot, in order
 * @throws HubError if the content of a file is not what the Hub announced
 */
export async function downloadFiles(files: readonly HubFile[], options: DownloadOptions): Promise<string[]> {
  const { cache, commit, signal } = options;
  const total = files.reduce((sum, { size }) => sum + size, 0);
  const isMissing = async (file: HubFile) => (await sizeOf(cache.blob(file.hash))) !== file.size;
  let lock: Lock | undefined;
  let before = 0;
  const paths: string[] = [];
  try {
    for (const file of files) {
      const report = (bytes: number) =>
        options.onProgress?.({ phase: "downloading", done: before + bytes, total, unit: "bytes" });
      if (await isMissing(file)) {
        lock ??= await lockWhenFree(cache.folder, signal);
        // Another process may have downloaded it meanwhile.
        if (await isMissing(file)) await downloadBlob(file, options, report);
      }
      before += file.size;
      report(0);
      paths.push(await cache.link(commit, file.path, file.hash));
    }
  } finally {
    await lock?.release();
  }
  return paths;
}

async function lockWhenFree(folder: string, signal: AbortSignal | undefined): Promise<Lock> {
  await mkdir(folder, { recursive: true });
  const cancelled = "stopped while another process downloads the same model";
  return waitWhileLocked(() => takeLock(folder), { cancelled, signal });
}

async function downloadBlob(file: HubFile, options: DownloadOptions, report: (bytes: number) => void): Promise<void> {
  const { cache, signal } = options;
  const blob = cache.blob(file.hash);
  // Not the name that huggingface_hub gives to its own: it does not know our lock.
  const incomplete = `${blob}.layergraft.incomplete`;
  await mkdir(dirname(blob), { recursive: true });
  const handle = await open(incomplete, constants.O_RDWR | constants.O_CREAT, 0o644);
  try {
    const present = Math.min((await handle.stat()).size, file.size);
    const hash = beginHash(file);
    if (present > 0) {
      for await (const chunk of createReadStream(incomplete, { end: present - 1 })) hash.update(chunk as Buffer);
    }
    let at = present;
    try {
      for await (const chunk of options.openFrom(file, at)) {
        await handle.write(chunk, 0, chunk.length, at);
        hash.update(chunk);
        at += chunk.length;
        report(at);
        if (signal?.aborted) break;
      }
    } catch (error) {
      if (!signal?.aborted) throw error;
    }
    if (signal?.aborted) throw new CancelledError(`stopped while downloading ${file.path}; the next run resumes it`);
    await handle.sync();
    await checkContent(file, handle, hash, incomplete);
  } catch (error) {
    if (DiskFullError.isMeantBy(error)) {
      throw new DiskFullError(`no room for ${file.path} (${formatBytes(file.size)})`, { file: blob }, error);
    }
    throw error;
  } finally {
    await handle.close();
  }
  await rename(incomplete, blob);
  await syncFolder(dirname(blob));
}

async function checkContent(file: HubFile, handle: FileHandle, hash: Hash, incomplete: string): Promise<void> {
  const { size } = await handle.stat();
  const actual = hash.digest("hex");
  if (size === file.size && actual === file.hash) return;
  await rm(incomplete, { force: true });
  throw new HubError(
    `${file.path} of the Hub has the hash ${actual} where ${file.hash} was announced; it is removed, so run again`,
    { file: file.path },
  );
}
