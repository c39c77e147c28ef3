// The folder of a training run: what may be begun in it, its log, which checkpoints stay, and the names that lead to the
// last and the best of them. Not what a checkpoint or a state holds.

import { mkdir, readdir, realpath, rename, rm, symlink } from "node:fs/promises";
import { basename, isAbsolute, join, relative, resolve, sep } from "node:path";
import { exists, LOCK_FILE, type Lock, OutputError, takeLock } from "../../core/index.js";

/** Names within the folder of a run. */
export const RUN_FILES = {
  log: "log.jsonl",
  states: "state",
  checkpoint: "checkpoint-",
  reverted: "reverted",
  merged: "merged",
} as const;

const CHECKPOINT = /^checkpoint-(\d+)(\.(layergraft-)?partial)?$/;

/** All that runs write; another file in the folder belongs to somebody else, and stays. */
const OWN = /^(log\.jsonl|state|checkpoint-\d+|reverted|merged|last|best|loss\.(svg|png))(\.[\w-]+)*$/;

export class TrainingFolder {
  readonly path: string;
  #held: Lock | undefined;

  constructor(path: string) {
    this.path = path;
  }

  get log(): string {
    return join(this.path, RUN_FILES.log);
  }
  get states(): string {
    return join(this.path, RUN_FILES.states);
  }

  /** The checkpoint after so many samples. */
  checkpoint(samples: number): string {
    return join(this.path, `${RUN_FILES.checkpoint}${samples}`);
  }

  /**
   * Refuses what a new run may not begin in.
   * @param options.force whether an earlier run may be replaced
   * @param options.resume whether the caller wants to go on with a run of which no state was found
   * @throws {OutputError} if the folder holds a run, or something else
   */
  async requireFree({
    force = false,
    resume = false,
  }: {
    readonly force?: boolean | undefined;
    readonly resume?: boolean | undefined;
  }): Promise<void> {
    if (!(await exists(this.path))) return;
    const names = (await readdir(this.path)).filter((name) => !name.startsWith(LOCK_FILE));
    const isRun = names.includes(RUN_FILES.log) || names.includes(RUN_FILES.states);
    if (names.length > 0 && !isRun) {
      throw new OutputError(`${this.path} is not empty and holds no run; give another folder`, { file: this.path });
    }
    // The first state follows the first checkpoint that is due: killed before that, a run begins again, and nothing is
    // lost, as it makes the same checkpoints. The link to the last one is made after the state.
    const hadState = names.includes("last");
    if (!isRun || force || (resume && !hadState)) return;
    throw new OutputError(
      resume
        ? `${this.path} has checkpoints and no state to go on from; begin anew (--force), or give another folder`
        : `${this.path} holds a run already; go on with it (--resume), replace it (--force), or give another folder`,
      { file: this.path },
    );
  }

  /**
   * Makes the folder, and takes it for this process; `release` gives it back.
   * @throws {LayergraftError} with code "locked" if another process trains into it
   */
  async take(): Promise<void> {
    await mkdir(this.path, { recursive: true });
    this.#held = await takeLock(this.path);
  }

  /** Gives the folder back. */
  async release(): Promise<void> {
    await this.#held?.release();
  }

  /** Refuses to clear away what the run reads. @param sources folders. @throws {OutputError} if one is within */
  async requireOutside(sources: readonly string[]): Promise<void> {
    const real = (path: string) => realpath(path).catch(() => resolve(path));
    const own = await real(this.path);
    for (const source of sources) {
      const within = relative(own, await real(source));
      if (within === ".." || within.startsWith(`..${sep}`) || isAbsolute(within)) continue;
      throw new OutputError(
        `${source} lies in ${this.path}, where checkpoints come and go; give the run another folder`,
        { file: this.path, field: "out" },
      );
    }
  }

  /** Removes what an earlier run left. */
  async clear(): Promise<void> {
    for (const name of await readdir(this.path))
      if (OWN.test(name)) await rm(join(this.path, name), { recursive: true, force: true });
  }

  /** Removes checkpoints but those after so many samples, and what a kill left of unfinished ones. */
  async keepOnly(kept: ReadonlySet<number>): Promise<void> {
    for (const name of await readdir(this.path)) {
      const match = CHECKPOINT.exec(name);
      if (match && (match[2] || !kept.has(Number(match[1]))))
        await rm(join(this.path, name), { recursive: true, force: true });
    }
  }

  /** A name that does not change for a checkpoint that does; undefined takes the name away. */
  async link(name: "last" | "best", samples: number | undefined): Promise<void> {
    const path = join(this.path, name);
    if (samples === undefined) return rm(path, { force: true });
    const temporary = `${path}.tmp`;
    await rm(temporary, { force: true });
    // A junction is what Windows lets everybody make; elsewhere the type means nothing.
    await symlink(basename(this.checkpoint(samples)), temporary, "junction");
    await rename(temporary, path);
  }
}
