// Writes folders atomically: next to their final place, then synced and renamed.
import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { DiskFullError, isSystemError, OutputError } from "../errors.js";
import { formatSome } from "../printing/format.js";
import { exists, pathBeside, syncFile, syncFolder } from "./files.js";
import { LOCK_FILE, type Lock, requireUnlocked, takeLock } from "./lock.js";

/** Files of runs, which are not part of an output. */
const PRIVATE = /^\.layergraft-/;

/** The output folder of a run that can be interrupted and resumed, by one process at a time. */
export class RunFolder {
  /** Absolute path of the finished folder. */
  readonly path: string;
  /** Absolute path of the unfinished folder. */
  readonly partial: string;
  /** Place of an earlier output until the new one is in place. It is complete whenever it exists. */
  readonly #replaced: string;
  /** Place in which a replaced output is deleted. */
  readonly #discarded: string;
  #lock: Lock | undefined;

  constructor(path: string, suffix = ".partial") {
    this.path = resolve(path);
    this.partial = pathBeside(this.path, suffix);
    this.#replaced = pathBeside(this.path, ".layergraft-replaced");
    this.#discarded = pathBeside(this.path, ".layergraft-discarded");
  }

  /** Restores an earlier output if the run that was replacing it was killed between two renames. */
  async recover(): Promise<void> {
    if (await exists(this.path, { link: true })) return;
    if (await exists(this.#replaced)) await rename(this.#replaced, this.path);
  }

  /** @throws LayergraftError code "locked" if a process is writing the folder */
  requireUnlocked(): Promise<void> {
    return requireUnlocked(this.partial);
  }

  /**
   * Creates the partial folder and locks it.
   * @param options.resume keep the files of an earlier run; default false
   * @throws LayergraftError code "locked" if another process is writing it
   */
  async open(options: { readonly resume?: boolean } = {}): Promise<void> {
    await mkdir(this.partial, { recursive: true });
    this.#lock = await takeLock(this.partial);
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

  /** Unlocks the folder and keeps its files for a later run. */
  async close(): Promise<void> {
    await this.#lock?.release();
    this.#lock = undefined;
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
    await this.close();
    await rm(this.partial, { recursive: true, force: true });
  }
}

/**
 * Checks that a folder of known files can be written.
 * @param inputs paths that it must not be
 * @param files names that an earlier folder may have
 * @throws OutputError if the folder is an input, or exists and may not be replaced
 */
export async function checkFolderOutput(
  { out, force }: { readonly out: string; readonly force?: boolean | undefined },
  inputs: readonly string[],
  files: readonly string[],
): Promise<void> {
  const where = { file: out, option: "out" };
  if (inputs.some((input) => resolve(input) === resolve(out))) {
    throw new OutputError(`the output ${out} is one of the inputs`, where);
  }
  if (!(await exists(out))) return;
  if (!force) {
    throw new OutputError(`${out} already exists`, { file: out, option: "force" });
  }
  const names = await readdir(out).catch((error: unknown) => {
    if (isSystemError(error, "ENOTDIR")) throw new OutputError(`${out} is not a folder`, where);
    throw error;
  });
  const foreign = names.filter((name) => !files.includes(name) && !PRIVATE.test(name));
  if (foreign.length > 0) {
    throw new OutputError(`${out} contains other files (${formatSome(foreign)}), so it is not replaced`, where);
  }
}

/**
 * Writes a folder; nothing is left of it if `fill` throws.
 * @param path the folder; an earlier one is replaced only with `replace`
 * @param what name of the content for messages, such as "the checkpoint"
 * @param fill writes the content into the given folder
 * @param options.retry advice once there is space again; default "run again"
 * @throws DiskFullError if the disk is full; an earlier folder is kept
 * @throws LayergraftError code "locked" if another process is writing it
 */
export async function writeFolder<T>(
  path: string,
  what: string,
  fill: (partial: string) => Promise<T>,
  options: { readonly replace?: boolean; readonly retry?: string } = {},
): Promise<T> {
  // Not `.partial`, which may contain an interrupted merge to resume.
  const folder = new RunFolder(path, ".layergraft-partial");
  await folder.open();
  try {
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
