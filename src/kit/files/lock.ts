// A lock file allows one process at a time in a folder. Locks of the system are not reliable on shared file systems of
// clusters.
import { randomBytes } from "node:crypto";
import { link, readFile, readlink, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { CancelledError, isSystemError, LayergraftError } from "../errors.js";
import { formatDuration } from "../printing/format.js";
import { isFile } from "./files.js";

/** Seconds between updates of a lock. */
const HEARTBEAT = 20;
/** Seconds without update after which another machine's lock is abandoned: many heartbeats, as caches lag. */
const SILENCE = 300;
/** Milliseconds between attempts to do what needs a lock. */
const RETRY_DELAY = 250;

interface Holder {
  readonly host: string;
  readonly pid: number;
  /** Start time of the process, which distinguishes it from a later one with the same id. */
  readonly born: string;
  /** Boot and process namespace (of a container) in which the id is valid. */
  readonly space: string;
}

export const LOCK_FILE = ".layergraft-lock";

export interface Lock {
  release(): Promise<void>;
}

/**
 * Locks a folder, even if it has the lock of a process that is gone.
 * @throws LayergraftError code "locked" if another process has the lock
 */
export async function takeLock(folder: string): Promise<Lock> {
  const path = join(folder, LOCK_FILE);
  const self: Holder = { host: hostname(), pid: process.pid, born: await startTimeOf(process.pid), space: await SPACE };
  const text = JSON.stringify(self);
  // The second attempt follows the removal of an abandoned lock.
  for (let attempt = 0; attempt < 2; attempt++) {
    try {
      // Only one process can create it. No other file is written: the holder may rename the folder at any moment.
      await writeFile(path, text, { flag: "wx" });
      // After a pause of this process before the text, another one may have found the lock abandoned.
      if ((await textOf(path)) === text) return hold(path, text);
    } catch (error) {
      if (!isSystemError(error, "EEXIST")) throw error;
    }
    await removeIfAbandoned(path, folder);
  }
  throw new LayergraftError("locked", `another process took ${path} at the same moment; try again`, { file: path });
}

export interface WaitOptions {
  /** Message of the `CancelledError` if the signal fires while another process has the lock. */
  readonly cancelled: string;
  readonly signal?: AbortSignal | undefined;
  /** Called once, if another process has the lock for longer than a second. */
  readonly onWait?: (() => void) | undefined;
}

/** Repeats work that needs a lock until no other process has it. */
export async function waitWhileLocked<T>(
  work: () => Promise<T>,
  { cancelled, signal, onWait }: WaitOptions,
): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof LayergraftError && error.code === "locked")) throw error;
    }
    if (attempt === 1000 / RETRY_DELAY) onWait?.();
    await sleep(RETRY_DELAY, undefined, { signal }).catch(() => {
      throw new CancelledError(cancelled);
    });
  }
}

/** The process that has a folder's lock; undefined if there is none, it is known to be gone, or it has just started. */
export async function lockHolder(folder: string): Promise<{ readonly host: string; readonly pid: number } | undefined> {
  const found = await readLock(join(folder, LOCK_FILE));
  return found?.isAbandoned ? undefined : found?.holder;
}

/** Whether a folder has the lock of a process that is not known to be gone. */
export async function isLocked(folder: string): Promise<boolean> {
  const found = await readLock(join(folder, LOCK_FILE));
  return found !== undefined && !found.isAbandoned;
}

/**
 * Checks that a folder is not locked.
 * @throws LayergraftError code "locked" if it is
 */
export async function requireUnlocked(folder: string): Promise<void> {
  const path = join(folder, LOCK_FILE);
  const found = await readLock(path);
  if (found && !found.isAbandoned) throw lockedError(found, path, folder);
}

/** An existing lock. */
interface Found {
  readonly text: string;
  /** Undefined if it has just been created, or its writer crashed. */
  readonly holder: Holder | undefined;
  /** Seconds since its last update. */
  readonly seconds: number;
  readonly isAbandoned: boolean;
}

async function readLock(path: string): Promise<Found | undefined> {
  try {
    const text = await textOf(path);
    const seconds = (Date.now() - (await stat(path)).mtimeMs) / 1000;
    const holder = parseHolder(text);
    const isAbandoned = holder ? await isGone(holder, seconds) : seconds > HEARTBEAT;
    return { text, holder, seconds, isAbandoned };
  } catch (error) {
    if (isSystemError(error, "ENOENT") || isSystemError(error, "ENOTDIR")) return undefined; // none, or just released
    throw error;
  }
}

/** The text of a lock. Folders of strangers may have a link to a device in its place, which has no end. */
async function textOf(path: string): Promise<string> {
  return (await isFile(path)) ? readFile(path, "utf8") : "";
}

function hold(path: string, text: string): Lock {
  const timer = setInterval(() => {
    const now = new Date();
    utimes(path, now, now).catch(() => undefined);
  }, HEARTBEAT * 1000);
  timer.unref();
  return {
    async release() {
      clearInterval(timer);
      // Only our own: a process that seemed gone must not remove its successor's lock.
      const found = await readFile(path, "utf8").catch(() => "");
      if (found === text) await rm(path, { force: true });
    },
  };
}

async function removeIfAbandoned(path: string, folder: string): Promise<void> {
  const found = await readLock(path);
  if (found?.isAbandoned) await removeStale(path, found.text);
  else if (found) throw lockedError(found, path, folder);
}

function lockedError({ holder, seconds }: Found, path: string, folder: string): LayergraftError {
  const who = holder ? `process ${holder.pid} on ${holder.host}` : "a process that has just started";
  return new LayergraftError(
    "locked",
    `${folder} is locked by ${who}, last seen ${formatDuration(seconds)} ago; ` +
      `wait for it to finish, or delete ${path} if that process is gone`,
    { file: path },
  );
}

/** Removes an abandoned lock, unless another process has just replaced it. */
async function removeStale(path: string, text: string): Promise<void> {
  const aside = `${path}.${randomBytes(6).toString("hex")}.tmp`;
  try {
    await rename(path, aside);
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return; // another process was faster
    throw error;
  }
  if ((await textOf(aside)) !== text) await link(aside, path).catch(() => undefined);
  await rm(aside, { force: true });
}

function parseHolder(text: string): Holder | undefined {
  try {
    const { host, pid, born, space } = JSON.parse(text) as Partial<Holder>;
    return typeof host === "string" && typeof pid === "number" && typeof born === "string"
      ? { host, pid, born, space: space ?? "" }
      : undefined;
  } catch {
    return undefined; // incomplete: it has just been created, or its writer crashed
  }
}

async function isGone({ host, pid, born, space }: Holder, silentSeconds: number): Promise<boolean> {
  if (host !== hostname() || (space !== "" && space !== (await SPACE))) return silentSeconds > SILENCE;
  if (!isAlive(pid)) return true;
  return (await startTimeOf(pid)) !== born;
}

/** Whether a process of this machine exists. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return isSystemError(error, "EPERM"); // it exists and belongs to another user
  }
}

/** Boot and namespace of process ids; empty where the system does not report them. */
const SPACE = Promise.all([
  readFile("/proc/sys/kernel/random/boot_id", "utf8").catch(() => ""),
  readlink("/proc/self/ns/pid").catch(() => ""),
]).then((parts) => parts.join(" ").trim());

/** Start time of a process in ticks since boot; empty where the system does not report it. */
async function startTimeOf(pid: number): Promise<string> {
  // Start time is field 22 of proc_pid_stat(5), and the first of these is field 3.
  const [state, ...fields] = await processStat(pid);
  // A zombie: killed, but its parent has not waited for it.
  return state === "Z" ? "dead" : (fields[18] ?? "");
}

/**
 * The fields of /proc/PID/stat from the state, which is field 3 of proc_pid_stat(5); none on other systems than Linux, or if
 * there is no such process.
 */
export async function processStat(pid: number | string): Promise<readonly string[]> {
  const line = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  // The name, in parentheses, may contain anything and ends at the last one.
  return line === "" ? [] : line.slice(line.lastIndexOf(")") + 2).split(" ");
}
