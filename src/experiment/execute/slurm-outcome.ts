// What a job left of itself in its step's folder: how it ended, its result, its last words. What Slurm says of it is
// slurm.ts's to ask.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { LayergraftError } from "../../core/index.js";
import { readResult, setResultAside } from "../steps/result.js";
import { STEP_FILES } from "../steps/step-order.js";
import type { Outcome, ReadyStep } from "./executor.js";
import { EXIT_AGAIN } from "./slurm-text.js";

/** What the files of a step say of the job that ran it; undefined if that has left nothing. */
export async function outcomeOf({ folder, kind }: ReadyStep, id: string): Promise<Outcome | undefined> {
  const exit = await readExit(folder);
  // The word of an earlier try says nothing of this one.
  if (!exit || exit.job !== id) return undefined;
  const seconds = exit.ended - exit.began;
  if (exit.code === 0) {
    try {
      if (await readResult(folder, kind)) return { outcome: "done", seconds };
    } catch (error) {
      if (!(error instanceof LayergraftError)) throw error;
      const aside = await setResultAside(folder);
      return {
        outcome: "failed",
        reason: `it left a damaged result, now ${aside}; it will be computed again`,
        seconds,
      };
    }
  }
  const log = await readFile(join(folder, STEP_FILES.log), "utf8").catch(() => "");
  const reason = lastWords(log) ?? `it ended with code ${exit.code} on ${exit.host}`;
  return exit.code === EXIT_AGAIN ? { outcome: "lost", reason } : { outcome: "failed", reason, seconds };
}

async function readExit(folder: string) {
  try {
    const exit = JSON.parse(await readFile(join(folder, STEP_FILES.exit), "utf8")) as Record<string, unknown>;
    const { code, host, job, began, ended } = exit;
    if (typeof code !== "number" || typeof job !== "string" || typeof began !== "number" || typeof ended !== "number")
      return undefined;
    return { code, host: String(host), job, began, ended };
  } catch {
    return undefined; // not there yet
  }
}

/** The last line that says something. */
export function lastWords(log: string): string | undefined {
  const line = log.trimEnd().split("\n").at(-1)?.trim();
  return line === undefined || line === "" ? undefined : line.slice(0, 500);
}
