// The folder that a run writes: prepared beside its final place, filled, and renamed when it is whole. What is here
// under the final name is always complete; what a stopped run leaves under the other can be taken up again.
import { createHash } from "node:crypto";
import { mkdir, open, readdir, readFile, realpath, rename, rm, statfs, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { isSystemError, OutputError } from "../core/errors.js";
import { exists, readJsonObject, syncFolder, writeFileAtomically } from "../core/files.js";
import { formatBytes } from "../core/format.js";
import type { ShardLayout } from "../safetensors/layout.js";

/** The file that marks a folder as made by layergraft, and tells how; see provenance.ts. */
export const PROVENANCE_FILE = "layergraft.json";

/** What a stopped run leaves for the next. */
export interface RunState {
  /** Digest of what is being written; a run with another one cannot go on from here. */
  readonly plan: string;
  /** Modification times of the input files. */
  readonly inputs: Readonly<Record<string, number>>;
  /** Measured values by measurement id. */
  readonly measured: Readonly<Record<string, number>>;
  /** Pieces of the program that are on the disk, one bit each, base64; empty before the first. */
  readonly done: string;
}

const STATE_FILE = ".layergraft-run.json";
const LOCK_FILE = ".layergraft-lock";

/** SHA-256 of a value's JSON. */
export function digestOfJson(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex");
}

export class OutputFolder {
  /** Absolute path of the final folder. */
  readonly path: string;
  /** Absolute path of the folder that is being filled. */
  readonly partial: string;

  constructor(path: string) {
    this.path = resolve(path);
    this.partial = `${this.path}.partial`;
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
    const target = join(await realpath(parent), relative(parent, this.path));
    for (const input of inputs) {
      const source = await realpath(input);
      const inside = relative(target, source);
      if (inside === "") {
        throw new OutputError(`the output ${this.path} is one of the inputs; choose another folder`, {
          file: this.path,
        });
      }
      if (!inside.startsWith("..") && inside !== source) {
        throw new OutputError(`the input ${input} lies inside the output ${this.path}; choose another folder`, {
          file: this.path,
        });
      }
    }
    if (!(await exists(this.path))) return;
    if (!force) {
      throw new OutputError(`${this.path} exists already; choose another folder, or replace it with --force`, {
        file: this.path,
      });
    }
    const names = await readdir(this.path).catch((error: unknown) => {
      if (isSystemError(error, "ENOTDIR"))
        throw new OutputError(`${this.path} is a file; choose another name`, { file: this.path });
      throw error;
    });
    if (names.length > 0 && !names.includes(PROVENANCE_FILE)) {
      throw new OutputError(
        `${this.path} was not made by layergraft (it has no ${PROVENANCE_FILE}), so --force does not replace it; remove it yourself or choose another folder`,
        { file: this.path },
      );
    }
  }

  /** What an earlier run has left, if anything that can be read. */
  async state(): Promise<RunState | undefined> {
    const file = join(this.partial, STATE_FILE);
    if (!(await exists(file))) return undefined;
    const json = await readJsonObject(file);
    const strings = typeof json.plan === "string" && typeof json.done === "string";
    const objects = typeof json.inputs === "object" && typeof json.measured === "object";
    return strings && objects && json.inputs && json.measured ? (json as unknown as RunState) : undefined;
  }

  /**
   * Makes the folder to be filled and takes the lock on it.
   * @throws {OutputError} if another process is at it
   */
  async begin(fresh: boolean): Promise<void> {
    const lock = join(this.partial, LOCK_FILE);
    const holder = await readFile(lock, "utf8").then(Number, () => undefined);
    if (holder !== undefined && holder !== process.pid && isAlive(holder)) {
      throw new OutputError(
        `another process (${holder}) is writing ${this.partial}; wait for it, or remove ${lock} if that process is not layergraft`,
        { file: this.partial },
      );
    }
    if (fresh) await rm(this.partial, { recursive: true, force: true });
    await mkdir(this.partial, { recursive: true });
    await writeFile(lock, String(process.pid));
  }

  /** Leaves the partial folder to a later run. */
  async release(): Promise<void> {
    await rm(join(this.partial, LOCK_FILE), { force: true });
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

  /** Creates a weight file at its full size, its header written, or leaves one that is there as it is. */
  async prepareShard(shard: ShardLayout): Promise<string> {
    const path = join(this.partial, shard.name);
    const handle = await open(path, (await exists(path)) ? "r+" : "wx+");
    try {
      await handle.write(shard.header, 0, shard.header.byteLength, 0);
      await handle.truncate(shard.bytes);
    } finally {
      await handle.close();
    }
    return path;
  }

  /** Puts the whole folder on the disk and gives it its final name. */
  async commit(force: boolean): Promise<void> {
    await rm(join(this.partial, STATE_FILE), { force: true });
    await this.release();
    for (const name of await readdir(this.partial)) {
      const handle = await open(join(this.partial, name), "r");
      await handle.sync().finally(() => handle.close());
    }
    await syncFolder(this.partial);
    if (force && (await exists(this.path))) {
      // The old folder keeps its content until the new one stands in its place.
      const old = `${this.path}.replaced`;
      await rm(old, { recursive: true, force: true });
      await rename(this.path, old);
      await rename(this.partial, this.path);
      await rm(old, { recursive: true, force: true });
    } else {
      await rename(this.partial, this.path);
    }
    await syncFolder(dirname(this.path));
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return isSystemError(error, "EPERM");
  }
}

async function allocatedBytes(folder: string): Promise<number> {
  let sum = 0;
  for (const name of await readdir(folder)) {
    const handle = await open(join(folder, name), "r");
    const { blocks } = await handle.stat().finally(() => handle.close());
    sum += blocks * 512;
  }
  return sum;
}

/** Flags of one byte each, packed into bits as base64. */
export function packBits(flags: Uint8Array): string {
  const bits = Buffer.alloc(Math.ceil(flags.length / 8));
  flags.forEach((flag, i) => {
    if (flag) bits[i >> 3] = (bits[i >> 3] ?? 0) | (1 << (i & 7));
  });
  return bits.toString("base64");
}

export function unpackBits(text: string, count: number): Uint8Array {
  const bits = Buffer.from(text, "base64");
  return Uint8Array.from({ length: count }, (_, i) => ((bits[i >> 3] ?? 0) >> (i & 7)) & 1);
}
