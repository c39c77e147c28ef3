import { readdir, rename, rm, symlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { z } from "zod";
import { filesOfRun, LockedFolder, readLog } from "../../kit/files/index.js";
import { OutputError } from "../../kit/index.js";
import type { TrainOptions } from "./training-types.js";

/** Names within the folder of a run. */
export const RUN_FILES = {
  log: "log.jsonl",
  states: "state",
  checkpoint: "checkpoint-",
  reverted: "reverted",
  merged: "merged",
} as const;

const CHECKPOINT = /^checkpoint-(\d+)(\.(layergraft-)?partial)?$/;

/** All that runs write; other files in the folder stay. */
const OWN = /^(log\.jsonl|state|checkpoint-\d+|reverted|merged|last|best|loss\.(svg|png)|events)(\.[\w-]+)*$/;

const logSchema = z.object({
  samples: z.number(),
  /** Null for NaN, which JSON does not have. */
  loss: z.number().nullable().optional(),
  holdoutLoss: z.number().nullable().optional(),
  stream: z.string().optional(),
  /** Of a checkpoint: how much of the change its element type keeps. */
  kept: z.object({ dtype: z.enum(["bfloat16", "float16"]), elements: z.number(), error: z.number() }).optional(),
});

/** The lines of a run's log that are whole. */
export async function readTrainingLog(path: string): Promise<readonly z.output<typeof logSchema>[]> {
  return (await readLog(path, (line) => logSchema.parse(line))).entries;
}

export class TrainingFolder extends LockedFolder {
  get log(): string {
    return join(this.path, RUN_FILES.log);
  }
  get states(): string {
    return join(this.path, RUN_FILES.states);
  }

  checkpoint(samples: number): string {
    return join(this.path, `${RUN_FILES.checkpoint}${samples}`);
  }

  /**
   * Checks that a new run may use the folder.
   * @param options.force whether an earlier run may be replaced
   * @param options.resume whether a run was to be resumed, but has no state
   * @throws OutputError if the folder has a run, or something else
   */
  async requireFree({ force = false, resume = false }: Pick<TrainOptions, "force" | "resume">): Promise<void> {
    const isRun = (all: readonly string[]) => all.includes(RUN_FILES.log) || all.includes(RUN_FILES.states);
    const names = await filesOfRun(this.path, "training run", isRun);
    // The link to the last checkpoint is made after the first state. A run that is killed before starts again, which loses
    // nothing, as it makes the same checkpoints.
    const hadState = names.includes("last");
    if (names.length === 0 || force || (resume && !hadState)) return;
    throw new OutputError(
      `${this.path} ${resume ? "has checkpoints but no state to resume from" : "already has a run"}`,
      { file: this.path, option: resume ? "force" : "resume" },
    );
  }

  async clear(): Promise<void> {
    for (const name of await readdir(this.path))
      if (OWN.test(name)) await rm(join(this.path, name), { recursive: true, force: true });
  }

  /** Removes unfinished checkpoints, and all but those after the given numbers of samples. */
  async keepOnly(kept: ReadonlySet<number>): Promise<void> {
    for (const name of await readdir(this.path)) {
      const match = CHECKPOINT.exec(name);
      if (match && (match[2] || !kept.has(Number(match[1]))))
        await rm(join(this.path, name), { recursive: true, force: true });
    }
  }

  /** Links a name to a checkpoint; undefined removes the link. */
  async link(name: "last" | "best", samples: number | undefined): Promise<void> {
    const path = join(this.path, name);
    if (samples === undefined) return rm(path, { force: true });
    const temporary = `${path}.tmp`;
    await rm(temporary, { force: true });
    // On Windows, a junction needs no special rights; elsewhere the type has no meaning.
    await symlink(basename(this.checkpoint(samples)), temporary, "junction");
    await rename(temporary, path);
  }
}
