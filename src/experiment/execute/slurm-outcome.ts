// How a job ended, from the files in its step's folder: exit code, result, log.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { LayergraftError } from "../../core/index.js";
import { readResult, setResultAside } from "../steps/result.js";
import { STEP_FILES } from "../steps/step-order.js";
import type { Outcome, ReadyStep } from "./executor.js";
import { EXIT_AGAIN } from "./slurm-text.js";

/** What the job script writes at its end; times in seconds since 1970. */
const exitSchema = z.object({
  code: z.number(),
  host: z.string(),
  job: z.string(),
  began: z.number(),
  ended: z.number(),
});

/** How the job of a step ended; undefined if it wrote no exit code. */
export async function outcomeOf({ folder, kind }: ReadyStep, id: string): Promise<Outcome | undefined> {
  const exit = await readExit(folder);
  // It may be that of an earlier attempt.
  if (exit?.job !== id) return undefined;
  const seconds = exit.ended - exit.began;
  if (exit.code === 0) {
    try {
      if (await readResult(folder, kind)) return { outcome: "done", seconds };
    } catch (error) {
      if (!(error instanceof LayergraftError)) throw error;
      const moved = await setResultAside(folder);
      const reason = `its result was damaged. It is now ${moved}; run the experiment again to compute it`;
      return { outcome: "failed", reason, seconds };
    }
  }
  const log = await readFile(join(folder, STEP_FILES.log), "utf8").catch(() => "");
  const reason = lastLine(log) ?? `it exited with code ${exit.code} on ${exit.host}`;
  return exit.code === EXIT_AGAIN ? { outcome: "lost", reason } : { outcome: "failed", reason, seconds };
}

async function readExit(folder: string): Promise<z.output<typeof exitSchema> | undefined> {
  try {
    return exitSchema.parse(JSON.parse(await readFile(join(folder, STEP_FILES.exit), "utf8")));
  } catch {
    return undefined; // not there yet
  }
}

function lastLine(log: string): string | undefined {
  const line = log.trimEnd().split("\n").at(-1)?.trim();
  return line === undefined || line === "" ? undefined : line.slice(0, 500);
}
