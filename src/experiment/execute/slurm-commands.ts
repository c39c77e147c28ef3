// Slurm's commands as processes of this machine, each with an end: one that hangs must not hang an experiment. What they
// are told and what they answer is slurm-text.ts's.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { isSystemError, LayergraftError } from "../../core/index.js";

/** Runs a command and gives what it prints. */
export type RunCommand = (program: string, args: readonly string[]) => Promise<string>;

export interface CommandOptions {
  /** Seconds that a command may take; default 60, and 10 for scancel, for which a person waits. */
  readonly seconds?: (program: string) => number;
  /** Ends commands that run. */
  readonly signal?: AbortSignal;
}

const usualSeconds = (program: string) => (program === "scancel" ? 10 : 60);

/** A table of all jobs of a user at most. */
const MOST_BYTES = 2 ** 26;

/**
 * A way to run commands.
 * @throws {LayergraftError} code `slurm` where there is no such command, or it gives no answer in time
 */
export function commandRunner({ seconds = usualSeconds, signal }: CommandOptions = {}): RunCommand {
  return async (program, args) => {
    const limit = seconds(program);
    try {
      const options = { maxBuffer: MOST_BYTES, timeout: 1000 * limit, killSignal: "SIGKILL", signal } as const;
      return (await promisify(execFile)(program, [...args], options)).stdout;
    } catch (error) {
      if (isSystemError(error, "ENOENT")) {
        throw new LayergraftError(
          "slurm",
          `there is no ${program} here; run on a login node of the cluster, or use executor kind: local`,
          {},
          error,
        );
      }
      const { killed, code } = error as { killed?: unknown; code?: unknown };
      if (killed === true && code === null) {
        throw new LayergraftError(
          "slurm",
          `${program} gave no answer in ${limit} s; see whether Slurm's controller is up (scontrol ping)`,
          {},
          error,
        );
      }
      throw error;
    }
  };
}

/** What a command that failed said. */
export function outputOf(error: unknown): string {
  if (typeof error !== "object" || error === null) return String(error);
  const { stderr, message } = error as { stderr?: unknown; message?: unknown };
  return String(typeof stderr === "string" && stderr.trim() !== "" ? stderr.trim() : message);
}
