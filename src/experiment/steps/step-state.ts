// What became of a step. Its folder says it: a result where it is done, otherwise how the last attempt went.

import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { writeFileAtomically } from "../../core/index.js";

/** In a step's folder: how the last attempt went. Means nothing once there is a result. */
const ATTEMPT_FILE = "attempt.json";

/** What runs a step: a process of a machine, or a job of a cluster. */
const runner = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("local"), host: z.string(), pid: z.int() }),
  z.object({ kind: z.literal("slurm"), job: z.string() }),
]);
export type StepRunnerId = z.output<typeof runner>;

const attempt = z.discriminatedUnion("state", [
  z.object({ state: z.literal("running"), since: z.string(), runner }),
  z.object({ state: z.literal("failed"), reason: z.string() }),
  /** It was stopped, or what ran it is gone. That is no failure. */
  z.object({ state: z.literal("stopped"), reason: z.string() }),
]);
export type Attempt = z.output<typeof attempt>;

/** What became of a step. */
export type StepState =
  | { readonly state: "pending"; readonly reason?: string }
  | { readonly state: "running"; readonly since: string; readonly runner: StepRunnerId }
  | { readonly state: "failed"; readonly reason: string }
  /** `seconds`: duration of the step; 0 of results from earlier versions. */
  | { readonly state: "done"; readonly seconds: number };

/** How the last attempt at a step went; undefined if there was none, or its note is damaged. */
export async function readAttempt(folder: string): Promise<Attempt | undefined> {
  try {
    return attempt.parse(JSON.parse(await readFile(join(folder, ATTEMPT_FILE), "utf8")));
  } catch {
    return undefined;
  }
}

/** Notes how an attempt at a step goes; undefined: there is a result, which says more. */
export async function noteAttempt(folder: string, note: Attempt | undefined): Promise<void> {
  if (note) await writeFileAtomically(join(folder, ATTEMPT_FILE), `${JSON.stringify(note)}\n`);
  else await rm(join(folder, ATTEMPT_FILE), { force: true });
}
