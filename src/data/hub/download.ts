// Brings files of one commit of a data set into the cache: goes on where an earlier attempt stopped, and gives nothing a
// name before its size and its hash are right.

import { createHash, type Hash } from "node:crypto";
import { constants, createReadStream } from "node:fs";
import { type FileHandle, mkdir, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  CancelledError,
  DiskFullError,
  formatBytes,
  isAnySystemError,
  isSystemError,
  syncFolder,
} from "../../core/index.js";
import { DataError } from "../read/data-error.js";
import { type DatasetCache, sizeOf } from "./hub-cache.js";

/** A file as the hub lists it. */
export interface HubFile {
  readonly path: string;
  /** Bytes. */
  readonly size: number;
  /** SHA-256 of a large file, git's hash of another: what the hub's ETag is, and so the blob's name in the cache. */
  readonly hash: string;
}

export interface DownloadOptions {
  readonly cache: DatasetCache;
  readonly commit: string;
  /** Opens a file's content from a byte on. */
  readonly openFrom: (path: string, start: number) => Promise<AsyncIterable<Uint8Array>>;
  /** Called with the bytes that are here of all that are wanted. */
  readonly onProgress?: ((state: { readonly done: number; readonly total: number }) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds before the first new attempt after the connection broke; doubled for each. Default 500. */
  readonly retryDelay?: number | undefined;
}

/** Broken connections that one file may have in a row, with nothing received in between. */
const MAX_RETRIES = 4;

/**
 * Files in the cache, fetched where they are not there yet.
 * @returns their paths within the snapshot, in order
 * @throws {DataError} if a file's content is not what the hub announced
 */
export async function downloadFiles(files: readonly HubFile[], options: DownloadOptions): Promise<string[]> {
  const total = files.reduce((sum, { size }) => sum + size, 0);
  let before = 0;
  const paths: string[] = [];
  for (const file of files) {
    const report = (bytes: number) => options.onProgress?.({ done: before + bytes, total });
    if ((await sizeOf(options.cache.blob(file.hash))) !== file.size) await downloadBlob(file, options, report);
    before += file.size;
    report(0);
    paths.push(await options.cache.link(options.commit, file.path, file.hash));
  }
  return paths;
}

async function downloadBlob(file: HubFile, options: DownloadOptions, report: (bytes: number) => void): Promise<void> {
  const blob = options.cache.blob(file.hash);
  const incomplete = `${blob}.incomplete`;
  await mkdir(dirname(blob), { recursive: true });
  // Every byte is written at its own place. So two processes that fetch the same file at once write the same thing.
  const handle = await open(incomplete, constants.O_RDWR | constants.O_CREAT, 0o644);
  try {
    const present = Math.min((await handle.stat()).size, file.size);
    const hash = beginHash(file);
    if (present > 0) {
      for await (const chunk of createReadStream(incomplete, { end: present - 1 })) hash.update(chunk as Buffer);
    }
    await receive(file, handle, hash, present, options, report);
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
  try {
    await rename(incomplete, blob);
  } catch (error) {
    // Another process that fetched the same was done first.
    if (!isSystemError(error, "ENOENT") || (await sizeOf(blob)) !== file.size) throw error;
  }
  await syncFolder(dirname(blob));
}

async function receive(
  file: HubFile,
  handle: FileHandle,
  hash: Hash,
  start: number,
  { openFrom, signal, retryDelay = 500 }: DownloadOptions,
  report: (bytes: number) => void,
): Promise<void> {
  let at = start;
  for (let failures = 0; at < file.size; ) {
    try {
      for await (const chunk of await openFrom(file.path, at)) {
        if (at + chunk.length > file.size) throw changed(file, `has more than the ${file.size} bytes announced`);
        await handle.write(chunk, 0, chunk.length, at);
        hash.update(chunk);
        at += chunk.length;
        failures = 0;
        report(at);
        if (signal?.aborted) break;
      }
    } catch (error) {
      if (signal?.aborted) throw stopped(file);
      if (!isPassing(error) || failures >= MAX_RETRIES) throw error;
      await sleep(retryDelay * 2 ** failures++);
      continue;
    }
    if (signal?.aborted) throw stopped(file);
    // A stream that ends early without an error is a broken connection, too.
    if (at < file.size && failures++ >= MAX_RETRIES) throw changed(file, `ended after ${at} of ${file.size} bytes`);
  }
}

/** Whether a new attempt may do better: not after an error of this machine, or a refusal of the hub's. */
function isPassing(error: unknown): boolean {
  if (error instanceof DataError || isAnySystemError(error)) return false;
  const status = error instanceof Error && "statusCode" in error ? Number(error.statusCode) : 500;
  return status >= 500 || status === 429;
}

/** Git's hash of a blob covers a header with its size. */
function beginHash({ hash, size }: HubFile): Hash {
  return hash.length === 64 ? createHash("sha256") : createHash("sha1").update(`blob ${size}\0`);
}

async function checkContent(file: HubFile, handle: FileHandle, hash: Hash, incomplete: string): Promise<void> {
  const { size } = await handle.stat();
  const actual = hash.digest("hex");
  if (size === file.size && actual === file.hash) return;
  await rm(incomplete, { force: true });
  throw changed(file, `has the hash ${actual} where ${file.hash} was announced; it was removed, start again`);
}

function changed(file: HubFile, what: string): DataError {
  return new DataError(`${file.path} of the hub ${what}`, { file: file.path });
}

function stopped(file: HubFile): CancelledError {
  return new CancelledError(
    `stopped while fetching ${file.path}; what is here is kept, and the rest fetched next time`,
  );
}
