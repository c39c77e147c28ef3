// The folders of runs: one process at a time, nothing of others replaced, and resumed only by the same run. They grow in
// their place, or beside it, and are then synced and renamed.
import { readdir, realpath, rename, rm } from "node:fs/promises";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { DiskFullError, isSystemError, OutputError } from "../errors.js";
import { type Difference, differencesOf } from "../json.js";
import { formatSome, shorten } from "../printing/format.js";
import { exists, makeFolder, pathBeside, requireSpace, syncFile, syncFolder } from "./files.js";
import { LOCK_FILE, type Lock, requireUnlocked, takeLock } from "./lock.js";

/** Files of runs, which are not part of an output. */
const PRIVATE = /^\.layergraft-/;

/** Ends the name of a folder that is being deleted. */
export const DISCARDED = ".layergraft-discarded";

/** Of locking a folder that others remove. */
const MAX_ATTEMPTS = 10;

/** A folder that a run fills in its place, by one process at a time. */
export class LockedFolder {
  readonly path: string;
  /** The folder that is locked: the unfinished one, if that has another place. */
  readonly partial: string;
  #lock: Lock | undefined;

  constructor(path: string, partial = path) {
    this.path = path;
    this.partial = partial;
  }

  /** @throws LayergraftError code "locked" if a process is writing the folder */
  requireUnlocked(): Promise<void> {
    return requireUnlocked(this.partial);
  }

  /** Makes the folder and locks it. @throws LayergraftError code "locked" if another process has it */
  async lock(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        // This fails, too, where the folder is removed while it looks at it.
        await makeFolder(this.partial);
        this.#lock = await takeLock(this.partial);
        return;
      } catch (error) {
        // The process that had the lock has just removed the folder.
        if (!isSystemError(error, "ENOENT") || attempt === MAX_ATTEMPTS) throw error;
      }
    }
  }

  /** Unlocks the folder and keeps its files for a later run. */
  async close(): Promise<void> {
    await this.#lock?.release();
    this.#lock = undefined;
  }

  /** Works while the folder is locked. */
  async locked<T>(work: () => Promise<T>): Promise<T> {
    await this.lock();
    try {
      return await work();
    } finally {
      await this.close();
    }
  }
}

/** The output folder of a run that can be interrupted and resumed. It is there whole or not at all. */
export class RunFolder extends LockedFolder {
  /** Place of an earlier output until the new one is in place. It is complete whenever it exists. */
  readonly #replaced: string;
  /** Place in which a replaced output is deleted. */
  readonly #discarded: string;

  constructor(path: string, suffix = ".partial") {
    super(resolve(path), pathBeside(resolve(path), suffix));
    this.#replaced = pathBeside(this.path, ".layergraft-replaced");
    this.#discarded = pathBeside(this.path, DISCARDED);
  }

  /** Restores an earlier output if the run that was replacing it was killed between two renames. */
  async recover(): Promise<void> {
    if (await exists(this.path, { link: true })) return;
    if (await exists(this.#replaced)) await rename(this.#replaced, this.path);
  }

  /**
   * Creates the partial folder and locks it.
   * @param options.resume keep the files of an earlier run; default false
   * @throws LayergraftError code "locked" if another process is writing it
   */
  async open(options: { readonly resume?: boolean } = {}): Promise<void> {
    await this.lock();
    for (const name of await readdir(this.partial)) {
      // A kill can leave a half-written temporary file.
      const isLeftOver = options.resume ? name.endsWith(".tmp") : name !== LOCK_FILE;
      if (isLeftOver) await rm(join(this.partial, name), { recursive: true, force: true });
    }
  }

  /**
   * Syncs the folder to disk and gives it its final name.
   * @param options.replace replace an earlier output, which stays complete until the new one is in place; default false
   * @throws OutputError if the name has been taken
   */
  async commit(options: { readonly replace?: boolean } = {}): Promise<void> {
    const isTaken = await exists(this.path, { link: true });
    if (isTaken && !options.replace) throw this.#taken();
    for (const entry of await readdir(this.partial, { recursive: true, withFileTypes: true })) {
      if (entry.isDirectory()) continue;
      await syncFile(join(entry.parentPath, entry.name), "r");
    }
    for (const name of await readdir(this.partial)) {
      if (PRIVATE.test(name) && name !== LOCK_FILE) await rm(join(this.partial, name), { force: true });
    }
    await syncFolder(this.partial);
    await rm(this.#replaced, { recursive: true, force: true });
    if (isTaken) await rename(this.path, this.#replaced);
    await rename(this.partial, this.path);
    // Locked until here, as another run would empty the folder.
    await rm(join(this.path, LOCK_FILE), { force: true });
    await this.close();
    await syncFolder(dirname(this.path));
    await rm(this.#discarded, { recursive: true, force: true });
    if (isTaken) await rename(this.#replaced, this.#discarded);
    await rm(this.#discarded, { recursive: true, force: true });
  }

  /**
   * Syncs one file of the folder to disk, gives it the final name, and deletes the folder.
   * @param options.replace replace an earlier file; default false
   * @throws OutputError if the name has been taken
   */
  async commitFile(name: string, options: { readonly replace?: boolean } = {}): Promise<void> {
    if (!options.replace && (await exists(this.path, { link: true }))) throw this.#taken();
    const file = join(this.partial, name);
    await syncFile(file, "r");
    await rename(file, this.path);
    await syncFolder(dirname(this.path));
    await this.discard();
  }

  /**
   * Gives one file of the folder the final name at once, and syncs it to disk meanwhile. The folder is there until that is done:
   * locked, or left by a process that did not finish, whose file may not be on the disk.
   * @returns what is fulfilled when the file is on the disk; it is deleted if it cannot be, or the folder stays
   * @throws OutputError if the name has been taken
   */
  async commitFileEarly(name: string): Promise<{ readonly synced: Promise<void> }> {
    if (await exists(this.path, { link: true })) throw this.#taken();
    await rename(join(this.partial, name), this.path);
    const sync = async () => {
      await syncFile(this.path, "r");
      await syncFolder(dirname(this.path));
    };
    // In this order: where the file cannot be deleted, the folder without a lock says that it may not be whole.
    const synced = sync()
      .catch(() => rm(this.path, { force: true }))
      .then(() => this.discard())
      .catch(() => this.close())
      // Nobody has to wait for it, and the next run does what this one could not do.
      .catch(() => undefined);
    return { synced };
  }

  #taken(): OutputError {
    return new OutputError(`${this.path} was created by another program during the run; move it away first`, {
      file: this.path,
      option: "resume",
    });
  }

  /** The error that ended a run, or that its unfinished files were deleted, where this is why. */
  async explain(error: unknown): Promise<unknown> {
    const path = isSystemError(error, "ENOENT") ? error.path : undefined;
    if (!path?.startsWith(this.partial)) return error;
    return OutputError.deleted((await exists(this.partial)) ? path : this.partial, error);
  }

  /** Unlocks and deletes the folder. */
  async discard(): Promise<void> {
    // A kill may have left one, which would be in the way.
    await rm(this.#discarded, { recursive: true, force: true });
    // In one step and locked until then: a process that waits for the lock would take a folder that is being deleted.
    const place = await rename(this.partial, this.#discarded).then(
      () => this.#discarded,
      () => this.partial,
    );
    await this.close();
    await rm(place, { recursive: true, force: true });
  }
}

/** Names in a folder, without its lock; undefined if there is none. @throws OutputError if it is something else */
export async function namesIn(folder: string): Promise<string[] | undefined> {
  try {
    return (await readdir(folder)).filter((name) => !name.startsWith(LOCK_FILE));
  } catch (error) {
    // A link that leads nowhere is taken, too.
    if (isSystemError(error, "ENOENT") && !(await exists(folder, { link: true }))) return undefined;
    if (!isSystemError(error, "ENOENT") && !isSystemError(error, "ENOTDIR")) throw error;
    throw new OutputError(`${folder} already exists and is not a folder`, { file: folder, option: "out" });
  }
}

/**
 * Names of what earlier runs left in a folder; none if it is free.
 * @param what such as "evaluation"
 * @param isRun whether files are those of such a run
 * @throws OutputError if it is not a folder, or has other files only
 */
export async function filesOfRun(
  folder: string,
  what: string,
  isRun: (names: readonly string[]) => boolean,
): Promise<readonly string[]> {
  const names = (await namesIn(folder)) ?? [];
  if (names.length === 0 || isRun(names)) return names;
  const message = `${folder} is not empty and has no ${what} in it, but ${formatSome(names)}. Choose another folder.`;
  throw new OutputError(message, { file: folder });
}

/** The path that a path leads to; the same if there is none. */
const real = (path: string): Promise<string> => realpath(path).catch(() => resolve(path));

/**
 * Checks that a run reads nothing in the folder that it writes.
 * @param options.replaced whether the folder is renamed to its place, and so replaces a link; default false
 * @throws OutputError if an input is the folder, or inside it
 */
export async function requireOutside(
  output: string,
  inputs: readonly string[],
  { replaced = false }: { readonly replaced?: boolean } = {},
): Promise<void> {
  const target = replaced ? join(await real(dirname(resolve(output))), basename(resolve(output))) : await real(output);
  for (const input of inputs) {
    const source = await real(input);
    const isInside = source.startsWith(join(target, sep));
    if (source !== target && !isInside) continue;
    const message = isInside
      ? `the input ${input} is inside the output folder ${output}`
      : `the output ${output} is one of the inputs`;
    throw new OutputError(message, { file: output, option: "out" });
  }
}

/** What differs between the record of an earlier run and of this one. Digests are shortened. */
export function changesOf(saved: unknown, current: unknown): (Difference & { readonly text: string })[] {
  const shown = (value: unknown) =>
    value === undefined
      ? "missing"
      : shorten(JSON.stringify(value).replace(/[0-9a-f]{64}/g, (digest) => `${digest.slice(0, 8)}...`));
  return differencesOf(saved, current).map((difference) => {
    const { field, saved: was, current: is } = difference;
    return { ...difference, text: `${field} was ${shown(was)} and is ${shown(is)}` };
  });
}

/**
 * Checks that a folder that is replaced has only files that are made again.
 * @param isOwn whether a path in it is such a file
 * @throws OutputError if a person put others there
 */
export async function requireOwnFiles(folder: string, isOwn: (path: string) => boolean): Promise<void> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries.flatMap((entry) => {
    return entry.isDirectory() ? [] : [relative(folder, join(entry.parentPath, entry.name)).replaceAll("\\", "/")];
  });
  const foreign = paths.filter((path) => !isOwn(path) && !PRIVATE.test(path)).sort();
  if (foreign.length === 0) return;
  throw new OutputError(`${folder} contains other files (${formatSome(foreign)}), so it is not replaced`, {
    file: folder,
    option: "out",
  });
}

/**
 * Checks that a folder of known files can be written.
 * @param inputs paths that it must not be
 * @param isOwn whether a path is one of an earlier folder
 * @throws OutputError if the folder is an input, or exists and may not be replaced
 */
export async function checkFolderOutput(
  { out, force }: { readonly out: string; readonly force?: boolean | undefined },
  inputs: readonly string[],
  isOwn: (path: string) => boolean,
): Promise<void> {
  await requireOutside(out, inputs, { replaced: true });
  if (!(await namesIn(out))) return;
  if (!force) {
    throw new OutputError(`${out} already exists`, { file: out, option: "force" });
  }
  await requireOwnFiles(out, isOwn);
}

/**
 * Writes a folder; nothing is left of it if `fill` throws.
 * @param path the folder; an earlier one is replaced only with `replace`
 * @param what name of the content for messages, such as "the checkpoint"
 * @param fill writes the content into the given folder
 * @param options.retry advice once there is space again; default "run again"
 * @param options.bytes of the content, where they are known before it is filled. Default: 0
 * @throws OutputError if the disk has no space for them
 * @throws DiskFullError if the disk is full; an earlier folder is kept
 * @throws LayergraftError code "locked" if another process is writing it
 */
export async function writeFolder<T>(
  path: string,
  what: string,
  fill: (partial: string) => Promise<T>,
  options: { readonly replace?: boolean; readonly retry?: string; readonly bytes?: number } = {},
): Promise<T> {
  // Not `.partial`, which may contain an interrupted merge to resume.
  const folder = new RunFolder(path, ".layergraft-partial");
  await folder.open();
  try {
    await requireSpace(folder.path, options.bytes ?? 0);
    const result = await fill(folder.partial);
    await folder.commit(options);
    return result;
  } catch (thrown) {
    const error = await folder.explain(thrown);
    await folder.discard();
    if (!DiskFullError.isMeantBy(error)) throw error;
    const message = `no room for ${what} in ${dirname(folder.path)}; free some space, then ${options.retry ?? "run again"}`;
    throw new DiskFullError(message, { file: folder.path }, error);
  }
}
