// The folder that a run writes: prepared beside its final place, filled, and renamed when it is whole. What is here
// under the final name is always complete; what a stopped run leaves under the other can be taken up again.
import { createHash } from "node:crypto";
import { mkdir, open, readdir, readFile, realpath, rename, rm, stat, statfs, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve, sep } from "node:path";
import { isSystemError, OutputError } from "../core/errors.js";
import { exists, readJsonObject, syncFolder, writeFileAtomically } from "../core/files.js";
import { formatBytes } from "../core/format.js";
import { isAlive } from "../core/lock.js";
import type { ShardLayout } from "../safetensors/layout.js";
import { type PackedMeasured, packedMeasured } from "../source/measured.js";

/** The file that marks a folder as made by layergraft, and tells how; see provenance.ts. */
export const PROVENANCE_FILE = "layergraft.json";

/** A plan of 70,000 tensors, as a mixture of experts may have, with an operation for each, takes some 300 MB. */
export const MOST_PROVENANCE_BYTES = 500_000_000;

/** What a stopped run leaves for the next. */
export interface RunState {
  /** Digest of what is being written; a run with another one cannot go on from here. */
  readonly plan: string;
  /** Modification times of the input files. */
  readonly inputs: Readonly<Record<string, number>>;
  /** Measured values by measurement id. */
  readonly measured: PackedMeasured;
  /** Pieces of the program that are on the disk, one bit each, base64; empty before the first. */
  readonly done: string;
}

const STATE_FILE = ".layergraft-run.json";
const LOCK_FILE = ".layergraft-lock";

/** Folders that this process is writing; a lock with its own number in it may also be that of a dead namesake. */
const HELD = new Set<string>();

/** SHA-256 of a value's JSON. */
export function digestOfJson(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex");
}

export class OutputFolder {
  /** Absolute path of the final folder. */
  readonly path: string;
  /** Absolute path of the folder that is being filled. */
  readonly partial: string;
  /** Absolute path under which `--force` keeps the earlier output while the new one takes its place. */
  readonly #replaced: string;

  constructor(path: string) {
    this.path = resolve(path);
    this.partial = `${this.path}.partial`;
    this.#replaced = `${this.path}.layergraft-replaced`;
  }

  /** Digest of the plan that made a folder, if it is a whole output of layergraft. */
  async planDigest(folder = this.path): Promise<unknown> {
    const json = await readJsonObject(join(folder, PROVENANCE_FILE), MOST_PROVENANCE_BYTES).catch(() => undefined);
    return json?.planDigest;
  }

  /**
   * Whether an earlier run has left something to go on from or to discard.
   * @throws {OutputError} if what stands there is not of layergraft's making, and so not to be touched
   */
  async hasPartial(planDigest: string): Promise<boolean> {
    if (!(await exists(this.partial, { link: true }))) return false;
    const names = await readdir(this.partial).catch(() => undefined);
    // A run that was killed just before it gave the folder its name has removed its own files from it already.
    const isOurs =
      names &&
      (names.length === 0 ||
        names.includes(STATE_FILE) ||
        names.includes(LOCK_FILE) ||
        (await this.planDigest(this.partial)) === planDigest);
    if (isOurs) return true;
    throw new OutputError(
      `${this.partial} was not made by layergraft, but that is where ${this.path} would be prepared; move it away or choose another output`,
      { file: this.partial },
    );
  }

  /** Gives an earlier output its name back, if a run that was to replace it was killed between two renames. */
  async recover(): Promise<void> {
    if (await exists(this.path, { link: true })) return;
    if ((await this.planDigest(this.#replaced)) !== undefined) await rename(this.#replaced, this.path);
  }

  /**
   * Checks that the output may be written here, before anything is read or written.
   * @param inputs folders that are read
   * @throws {OutputError} if it exists (unless `force`, and it is one of ours or empty), would overwrite an input, or
   *   has no folder to stand in
   */
  async check(inputs: readonly string[], force: boolean): Promise<void> {
    const parent = dirname(this.path);
    if (!(await exists(parent))) {
      throw new OutputError(`${parent} does not exist, so ${this.path} cannot be made; create it first`, {
        file: this.path,
      });
    }
    if (!(await stat(parent)).isDirectory()) {
      throw new OutputError(`${parent} is a file, so ${this.path} cannot be made in it; choose another folder`, {
        file: this.path,
      });
    }
    // The folder that is filled will be the output, and --force would empty it.
    for (const output of [this.path, this.partial]) {
      const target = join(await realpath(parent), basename(output));
      for (const input of inputs) {
        const source = await realpath(input);
        if (source === target) {
          throw new OutputError(`the output ${output} is one of the inputs; choose another folder`, { file: output });
        }
        if (source.startsWith(join(target, sep))) {
          throw new OutputError(`the input ${input} lies inside the output ${output}; choose another folder`, {
            file: output,
          });
        }
      }
    }
    if (!(await exists(this.path, { link: true }))) return;
    const names = await readdir(this.path).catch((error: unknown) => {
      if (isSystemError(error, "ENOTDIR") || isSystemError(error, "ENOENT"))
        throw new OutputError(`${this.path} exists already and is not a folder; choose another name`, {
          file: this.path,
        });
      throw error;
    });
    const isOurs = names.length === 0 || names.includes(PROVENANCE_FILE);
    if (force && isOurs) return;
    const what = isOurs
      ? "exists already; choose another folder, or replace it with --force"
      : `exists already and was not made by layergraft (it has no ${PROVENANCE_FILE}), so --force does not replace it; choose another folder`;
    throw new OutputError(`${this.path} ${what}`, { file: this.path });
  }

  /** What an earlier run has left, if anything that can be read. */
  async state(): Promise<RunState | undefined> {
    const file = join(this.partial, STATE_FILE);
    if (!(await exists(file))) return undefined;
    const json = await readJsonObject(file);
    const strings = typeof json.plan === "string" && typeof json.done === "string";
    const objects = typeof json.inputs === "object" && packedMeasured.safeParse(json.measured).success;
    return strings && objects && json.inputs ? (json as unknown as RunState) : undefined;
  }

  /**
   * Makes the folder to be filled and takes the lock on it.
   * @throws {OutputError} if another process is at it
   */
  async begin(fresh: boolean): Promise<void> {
    await this.refuseIfWritten();
    const lock = join(this.partial, LOCK_FILE);
    if (await exists(lock)) await rm(lock, { force: true }); // of a run that is dead
    await mkdir(this.partial, { recursive: true });
    await writeFile(lock, String(process.pid), { flag: "wx" }).catch((error: unknown) => {
      // Of two runs that come here at once, one finds the other's lock.
      throw isSystemError(error, "EEXIST") ? this.#busy("another process") : error;
    });
    HELD.add(this.partial);
    for (const name of await readdir(this.partial)) {
      // A kill can leave half a journal beside the whole one.
      const isLeftOver = fresh ? name !== LOCK_FILE : name.startsWith(`${STATE_FILE}.`);
      if (isLeftOver) await rm(join(this.partial, name), { recursive: true, force: true });
    }
  }

  /** @throws {OutputError} if a run is writing here */
  async refuseIfWritten(): Promise<void> {
    const lock = join(this.partial, LOCK_FILE);
    const holder = await readFile(lock, "utf8").then(Number, () => 0);
    const isHeld = holder === process.pid ? HELD.has(this.partial) : holder > 0 && isAlive(holder);
    if (isHeld) throw this.#busy(`another process (${holder})`);
  }

  #busy(who: string): OutputError {
    const lock = join(this.partial, LOCK_FILE);
    return new OutputError(
      `${who} is writing ${this.partial}; wait for it, or remove ${lock} if that process is not layergraft`,
      { file: this.partial },
    );
  }

  /** Gives up the lock. */
  async #unlock(): Promise<void> {
    await rm(join(this.partial, LOCK_FILE), { force: true });
    HELD.delete(this.partial);
  }

  /**
   * Leaves what was written to a later run, or removes the folder if nothing worth keeping was.
   * @returns whether there is something to go on from
   */
  async abandon(isUseless = false): Promise<boolean> {
    const state = await this.state().catch(() => undefined);
    const hasPieces = Buffer.from(state?.done ?? "", "base64").some((bits) => bits !== 0);
    const isResumable = !isUseless && (hasPieces || Object.keys(state?.measured ?? {}).length > 0);
    await this.#unlock();
    if (!isResumable) await rm(this.partial, { recursive: true, force: true });
    return isResumable;
  }

  async saveState(state: RunState): Promise<void> {
    await writeFileAtomically(join(this.partial, STATE_FILE), JSON.stringify(state));
  }

  /**
   * Refuses a run that the disk has no room for.
   * @param bytes what the output needs in all; what is there of it already counts
   */
  async checkSpace(bytes: number): Promise<void> {
    const { bavail, bsize } = await statfs(dirname(this.path));
    const present = (await exists(this.partial)) ? await allocatedBytes(this.partial) : 0;
    const free = bavail * bsize + present;
    if (free < bytes) {
      throw new OutputError(
        `the output needs ${formatBytes(bytes)}, but the disk of ${dirname(this.path)} has only ${formatBytes(free)} free; make room or choose another disk`,
        { file: this.path, expected: `${bytes} bytes`, actual: `${free} bytes` },
      );
    }
  }

  /**
   * Creates a weight file at its full size, its header written, or leaves one that is there as it is.
   * @returns its path, and whether it was there at its full size; else nothing in it has been done
   */
  async prepareShard(shard: ShardLayout): Promise<{ path: string; wasThere: boolean }> {
    const path = join(this.partial, shard.name);
    const handle = await open(path, (await exists(path)) ? "r+" : "wx+");
    try {
      const { size } = await handle.stat();
      await handle.write(shard.header, 0, shard.header.byteLength, 0);
      await handle.truncate(shard.bytes);
      return { path, wasThere: size === shard.bytes };
    } finally {
      await handle.close();
    }
  }

  /** Puts the whole folder on the disk and gives it its final name. */
  async commit(force: boolean): Promise<void> {
    const isThere = await exists(this.path, { link: true });
    if (isThere && !force) {
      throw new OutputError(
        `${this.path} was made by someone else while ${this.partial} was written; move it away, then go on with --resume`,
        { file: this.path },
      );
    }
    for (const name of await readdir(this.partial)) {
      const handle = await open(join(this.partial, name), "r");
      await handle.sync().finally(() => handle.close());
    }
    await rm(join(this.partial, STATE_FILE), { force: true });
    await this.#unlock();
    await syncFolder(this.partial);
    // The old folder keeps its content until the new one stands in its place; see `recover`.
    await this.#discardReplaced();
    if (isThere) await rename(this.path, this.#replaced);
    await rename(this.partial, this.path);
    await syncFolder(dirname(this.path));
    await this.#discardReplaced();
  }

  /** Removes a replaced output; what makes it one goes first, so that half of it is never taken for a whole. */
  async #discardReplaced(): Promise<void> {
    await rm(join(this.#replaced, PROVENANCE_FILE), { force: true });
    await rm(this.#replaced, { recursive: true, force: true });
  }
}

async function allocatedBytes(folder: string): Promise<number> {
  let sum = 0;
  for (const name of await readdir(folder)) {
    // Another run may be writing here; that is refused later, in better words.
    sum += await stat(join(folder, name)).then(
      ({ blocks }) => blocks * 512,
      () => 0,
    );
  }
  return sum;
}
