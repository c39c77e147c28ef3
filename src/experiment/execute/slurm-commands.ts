import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { isSystemError, LayergraftError } from "../../kit/index.js";

export type RunCommand = (program: string, args: readonly string[]) => Promise<string>;

export interface CommandOptions {
  /** Time limit in seconds. Default: 60, and 10 for scancel, because a person waits for it. */
  readonly seconds?: (program: string) => number;
  readonly signal?: AbortSignal;
}

/** Enough for all jobs of a user. */
const MAX_BYTES = 2 ** 26;

/** @throws LayergraftError code `slurm` if the command is missing or times out */
export function commandRunner({ seconds, signal }: CommandOptions = {}): RunCommand {
  return async (program, args) => {
    const limit = seconds?.(program) ?? (program === "scancel" ? 10 : 60);
    try {
      const options = { maxBuffer: MAX_BYTES, timeout: 1000 * limit, killSignal: "SIGKILL", signal } as const;
      return (await promisify(execFile)(program, [...args], options)).stdout;
    } catch (error) {
      if (isSystemError(error, "ENOENT")) {
        const message = `${program} is missing. Run on a login node of the cluster, or set executor.kind to local.`;
        throw new LayergraftError("slurm", message, {}, error);
      }
      const { killed, code } = error as { killed?: unknown; code?: unknown };
      if (killed === true && code === null) {
        const message = `${program} timed out after ${limit} s; check with scontrol ping that Slurm's controller is up`;
        throw new LayergraftError("slurm", message, {}, error);
      }
      throw error;
    }
  };
}

/** What a failed command printed. */
export function outputOf(error: unknown): string {
  if (typeof error !== "object" || error === null) return String(error);
  const { stderr, message } = error as { stderr?: unknown; message?: unknown };
  return String(typeof stderr === "string" && stderr.trim() !== "" ? stderr.trim() : message);
}
