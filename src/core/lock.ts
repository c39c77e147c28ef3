// One process at a time in a folder: a lock file. Not a lock that the system enforces, as shared file systems of clusters
// have none that can be trusted.
import { randomBytes } from "node:crypto";
import { link, readFile, readlink, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { isSystemError, LayergraftError } from "./errors.js";
import { formatDuration } from "./format.js";
import { processStat } from "./process-stat.js";

/** How often a runner shows that it lives, in seconds. */
const HEARTBEAT = 20;
/** How long another machine's runner may be silent before it counts as gone; many heartbeats, as caches lag. */
const SILENCE = 300;

interface Holder {
  readonly host: string;
  readonly pid: number;
  /** When the process began, as the system counts; tells it from a later one with its number. */
  readonly born: string;
  /** Where its number counts: machine, its boot, and the namespace of processes, of which containers have their own. */
  readonly space: string;
}

/** Name of a folder's lock file. */
export const LOCK_FILE = ".layergraft-lock";

/** A lock that is held. */
export interface Lock {
  release(): Promise<void>;
}

/**
 * Takes the lock of a folder, or that of a process that is gone.
 * @throws {LayergraftError} with code "locked" if another process holds it, with what to do
 */
export async function takeLock(folder: string): Promise<Lock> {
  const path = join(folder, LOCK_FILE);
  const self: Holder = { host: hostname(), pid: process.pid, born: await birthOf(process.pid), space: await SPACE };
  const text = JSON.stringify(self);
  const own = uniqueName(path);
  await writeFile(own, text);
  try {
    // Twice: the second time after a lock that nobody holds was removed.
    for (let attempt = 0; attempt < 2; attempt++) {
      try {
        // Whole from its first moment, and only one process can make it.
        await linkOrCreate(own, path, text);
        return hold(path, text);
      } catch (error) {
        if (!isSystemError(error, "EEXIST")) throw error;
      }
      await removeIfAbandoned(path, folder);
    }
  } finally {
    await rm(own, { force: true });
  }
  throw new LayergraftError("locked", `another process took ${path} at the same moment; try again`, { file: path });
}

/** Whether a process holds the lock of a folder that, as far as can be told, still lives. Takes nothing. */
export async function isLocked(folder: string): Promise<boolean> {
  const found = await look(join(folder, LOCK_FILE));
  return found !== undefined && !found.isAbandoned;
}

/**
 * Checks that no live process holds the lock of a folder. Takes nothing.
 * @throws {LayergraftError} code "locked" if one does
 */
export async function requireUnlocked(folder: string): Promise<void> {
  const path = join(folder, LOCK_FILE);
  const found = await look(path);
  if (found && !found.isAbandoned) throw lockedError(found, path, folder);
}

/** A lock as it is found. */
interface Found {
  readonly text: string;
  /** Undefined where it has just been created, or its writer crashed. */
  readonly holder: Holder | undefined;
  /** Since its holder was last heard of. */
  readonly seconds: number;
  readonly isAbandoned: boolean;
}

async function look(path: string): Promise<Found | undefined> {
  try {
    const text = await readFile(path, "utf8");
    const seconds = (Date.now() - (await stat(path)).mtimeMs) / 1000;
    const holder = parseHolder(text);
    const isAbandoned = holder ? await isGone(holder, seconds) : seconds > HEARTBEAT;
    return { text, holder, seconds, isAbandoned };
  } catch (error) {
    if (isSystemError(error, "ENOENT") || isSystemError(error, "ENOTDIR")) return undefined; // none, or released meanwhile
    throw error;
  }
}

/** Hard links make the lock whole from its first moment; file systems without them (exFAT) get a file that only one process can create. */
async function linkOrCreate(own: string, path: string, text: string): Promise<void> {
  try {
    await link(own, path);
  } catch (error) {
    if (!["EPERM", "ENOTSUP", "ENOSYS"].some((code) => isSystemError(error, code))) throw error;
    await writeFile(path, text, { flag: "wx" });
  }
}

/** A name that no other process uses. */
function uniqueName(path: string): string {
  return `${path}.${randomBytes(6).toString("hex")}.tmp`;
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
      // Only our own: a runner that was taken for dead must not remove its successor's.
      const found = await readFile(path, "utf8").catch(() => "");
      if (found === text) await rm(path, { force: true });
    },
  };
}

async function removeIfAbandoned(path: string, folder: string): Promise<void> {
  const found = await look(path);
  if (found?.isAbandoned) await removeJudged(path, found.text);
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

/** Removes a lock that was judged to be nobody's, unless another process has put its own in that place meanwhile. */
async function removeJudged(path: string, text: string): Promise<void> {
  const aside = uniqueName(path);
  try {
    await rename(path, aside);
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return; // another process was faster
    throw error;
  }
  if ((await readFile(aside, "utf8")) !== text) await link(aside, path).catch(() => undefined);
  await rm(aside, { force: true });
}

function parseHolder(text: string): Holder | undefined {
  try {
    const { host, pid, born, space } = JSON.parse(text) as Partial<Holder>;
    return typeof host === "string" && typeof pid === "number" && typeof born === "string"
      ? { host, pid, born, space: space ?? "" }
      : undefined;
  } catch {
    return undefined; // cut short: it has just been created, or its writer crashed
  }
}

async function isGone({ host, pid, born, space }: Holder, silentSeconds: number): Promise<boolean> {
  if (host !== hostname() || (space !== "" && space !== (await SPACE))) return silentSeconds > SILENCE;
  if (!isAlive(pid)) return true;
  return (await birthOf(pid)) !== born;
}

/** Whether a process of this machine lives. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return isSystemError(error, "EPERM"); // it lives, and belongs to somebody else
  }
}

/** Boot and namespace that the numbers of processes count in; empty where the system does not tell. */
const SPACE = Promise.all([
  readFile("/proc/sys/kernel/random/boot_id", "utf8").catch(() => ""),
  readlink("/proc/self/ns/pid").catch(() => ""),
]).then((parts) => parts.join(" ").trim());

/** Start time of a process in ticks since boot; empty where the system does not tell (then the number must do). */
async function birthOf(pid: number): Promise<string> {
  // Of the fields, counted from 3, the start is 22.
  const [state, ...fields] = await processStat(pid);
  // Killed, but not yet buried by its parent: it has a number still, and does nothing any more.
  return state === "Z" ? "dead" : (fields[18] ?? "");
}
