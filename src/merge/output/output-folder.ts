// The output folder of a merge: what it may replace, what it can resume from, and its files.

import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { ShardLayout } from "../../formats/safetensors/index.js";
import {
  exists,
  LOCK_FILE,
  namesIn,
  RunFolder,
  readJsonObject,
  requireOutside,
  requireOwnFiles,
  requireSpace,
  withFile,
  writeFully,
} from "../../kit/files/index.js";
import { CancelledError, DiskFullError, isObject, LayergraftError, OutputError } from "../../kit/index.js";
import { PROVENANCE_FILE } from "../model-plan.js";
import { cloneFile } from "./clone.js";
import { digestFiles } from "./companion-files.js";
import { JOURNAL_FILE, Journal, MAX_PROVENANCE_BYTES, type RunState } from "./journal.js";

/** Files of an output that its record has no digest of. */
const OWN =
  /^(README\.md|layergraft\.json|merge\.png|(adapter_)?model(-\d+-of-\d+)?\.safetensors|\d+_\w+\/model\.safetensors)$/;

interface Record {
  readonly planDigest: unknown;
  readonly companions: ReadonlyMap<string, unknown>;
}

/** A run folder that knows what a merge may replace and what it can resume from. */
export class OutputFolder extends RunFolder {
  readonly journal = new Journal(this.partial);
  /** What a person should know of the interrupted run. */
  readonly notes: string[] = [];

  /** What a complete output of layergraft says of itself: digests of the plan that made it and of its other files. */
  async record(folder = this.path): Promise<Record> {
    const json = await readJsonObject(join(folder, PROVENANCE_FILE), MAX_PROVENANCE_BYTES).catch(() => undefined);
    const digests = isObject(json?.companions) ? Object.entries(json.companions) : [];
    return { planDigest: json?.planDigest, companions: new Map(digests) };
  }

  /** A file that is not as it was written, and how. @param shards the weight files, where their sizes are known */
  async damaged(shards: readonly ShardLayout[]): Promise<string | undefined> {
    for (const { name, bytes } of shards) {
      const size = (await stat(join(this.path, name)).catch(() => undefined))?.size;
      if (size !== bytes) return size === undefined ? `${name} is missing` : `${name} has ${size} of ${bytes} bytes`;
    }
    const { companions } = await this.record();
    const now = await digestFiles(this.path, [...companions.keys()]);
    const changed = [...companions].find(([file, digest]) => now[file] !== digest);
    return changed && `${changed[0]} ${now[changed[0]] === undefined ? "is missing" : "was changed"}`;
  }

  /**
   * Whether there is an interrupted run to resume or discard.
   * @throws OutputError if the partial folder was not made by layergraft
   */
  async hasPartial(planDigest: string): Promise<boolean> {
    if (!(await exists(this.partial, { link: true }))) return false;
    const names = await readdir(this.partial).catch(() => undefined);
    // A run killed just before the final rename has already removed its own files.
    const isOurs =
      names &&
      (names.length === 0 ||
        names.includes(JOURNAL_FILE) ||
        names.some((name) => name.startsWith(LOCK_FILE)) ||
        (await this.record(this.partial)).planDigest === planDigest);
    if (isOurs) return true;
    throw new OutputError(
      `${this.partial} is not from layergraft, but ${this.path} would be written there first. Move it away`,
      { file: this.partial, option: "out" },
    );
  }

  /** @throws OutputError if there is no folder in which the output can be made */
  async requireParent(): Promise<void> {
    const { path } = this;
    const parent = dirname(path);
    if (!(await exists(parent)))
      throw new OutputError(`${parent} does not exist, so ${path} cannot be created. Create it first.`, { file: path });
    if (!(await stat(parent)).isDirectory()) {
      throw new OutputError(`${parent} is a file, so ${path} cannot be created in it`, { file: path, option: "out" });
    }
  }

  /**
   * Checks that the output may be written here, before anything is read or written.
   * @param inputs folders that are read
   * @throws OutputError if it exists (unless `force`, and it is empty or has only what we wrote), would overwrite an input, or
   *   has no parent folder
   */
  async check(inputs: readonly string[], force: boolean): Promise<void> {
    const { path } = this;
    await this.requireParent();
    // The partial folder becomes the output, and `force` would empty it.
    for (const output of [path, this.partial]) await requireOutside(output, inputs, { replaced: true });
    const names = await namesIn(path);
    if (!names) return;
    const isOurs = names.length === 0 || names.includes(PROVENANCE_FILE);
    if (force && isOurs) {
      const { companions } = await this.record();
      return requireOwnFiles(path, (file) => OWN.test(file) || companions.has(file));
    }
    const what = isOurs
      ? "already exists"
      : `already exists and was not made by layergraft (it has no ${PROVENANCE_FILE}), so it is not replaced`;
    throw new OutputError(`${path} ${what}`, { file: path, option: isOurs ? "force" : "out" });
  }

  /**
   * State of an interrupted run to resume; undefined if there is none, or `force` discards it.
   * @throws OutputError if it is neither to be resumed nor discarded, or was another run
   */
  async earlierRun(
    planDigest: string,
    options: {
      readonly resume?: boolean | undefined;
      readonly force?: boolean | undefined;
      /** Throws if the state cannot be resumed. */
      readonly check?: (state: RunState) => Promise<void>;
    },
  ): Promise<RunState | undefined> {
    const { partial, path } = this;
    const { resume = false, force = false, check } = options;
    const left = await this.hasPartial(planDigest);
    if (!left || (force && !resume)) return undefined;
    await this.requireUnlocked();
    const state = await this.journal.read();
    // Both before the advice to resume, which would be refused.
    if (state && state.plan !== planDigest) {
      throw new OutputError(
        `${partial} was started with another recipe, options or sources, so it cannot become ${path}. Repeat the options of that run`,
        { file: partial, option: "force" },
      );
    }
    if (state) await check?.(state);
    if (!resume) {
      throw new OutputError(`${partial} holds an interrupted run`, { file: partial, option: "resume" });
    }
    if (state === undefined && (await this.journal.isThere())) {
      this.notes.push("the journal of the interrupted run was damaged, so everything was computed again");
    }
    return state;
  }

  /**
   * Keeps a partial output for a later run, or removes it if nothing in it is worth keeping.
   * @returns the error that ended the run, with what is on disk and how to resume
   */
  async abandon(thrown: unknown): Promise<unknown> {
    const error = await this.explain(thrown);
    // Data read from a changed file is useless, even if the file changes back; the others would be found again.
    const isUseless =
      error instanceof LayergraftError && ["changed", "mismatch", "broken-model", "not-finite"].includes(error.code);
    const state = await this.journal.read();
    const hasPieces = Buffer.from(state?.done ?? "", "base64").some((bits) => bits !== 0);
    const isResumable = !isUseless && (hasPieces || Object.keys(state?.measured ?? {}).length > 0);
    if (isResumable) await this.close();
    else await this.discard();
    const { partial } = this;
    const where = { file: partial, ...(isResumable ? { option: "resume" } : {}) };
    const left = isResumable ? `what was written so far is in ${partial}` : "nothing was written";
    if (error instanceof CancelledError) return new CancelledError(`stopped; ${left}`, where);
    if (error instanceof DiskFullError || DiskFullError.isMeantBy(error))
      return new DiskFullError(`the disk is full; ${left}. Free some space first`, where, error);
    if (error instanceof LayergraftError && error.code === "hub" && isResumable)
      return new LayergraftError(
        "hub",
        `${error.message}\n${left.replace("what", "What")}`,
        { ...error.where, option: "resume" },
        error,
      );
    return error;
  }

  /**
   * Checks that the disk has enough free space.
   * @param bytes size of the output, including what is already written
   */
  async checkSpace(bytes: number): Promise<void> {
    await requireSpace(this.path, bytes, (await exists(this.partial)) ? await allocatedBytes(this.partial) : 0);
  }

  /**
   * Creates a weight file at its full size with its header, or keeps an existing one.
   * @returns its path, whether it already existed at full size, and whether it is a clone; otherwise no piece of it is done
   */
  async prepareShard({ name, header, bytes, cloneOf }: ShardLayout) {
    const path = join(this.partial, name);
    const wasThere = (await exists(path)) && (await stat(path)).size === bytes;
    if (!wasThere) await rm(path, { force: true });
    await mkdir(dirname(path), { recursive: true });
    const isClone = !wasThere && cloneOf !== undefined && (await cloneFile(cloneOf, path));
    await withFile(path, wasThere || isClone ? "r+" : "wx+", async (handle) => {
      await writeFully(handle, header, 0);
      await handle.truncate(bytes);
    });
    return { path, wasThere, isClone };
  }
}

async function allocatedBytes(folder: string): Promise<number> {
  let sum = 0;
  for (const name of await readdir(folder)) {
    // Another run may be writing here; the lock reports that later.
    sum += await stat(join(folder, name)).then(
      ({ blocks }) => blocks * 512,
      () => 0,
    );
  }
  return sum;
}
