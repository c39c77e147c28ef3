import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { exists } from "../../kit/files/index.js";
import { CancelledError, LayergraftError } from "../../kit/index.js";
import { TRL_FILES } from "./write.js";

export interface StartTrlOptions {
  /** As written by `handOverRun`. */
  readonly folder: string;
  /** Interpreter with the packages of requirements.txt; default python3. */
  readonly python?: string | undefined;
  /** As the folder was written for; default 1. */
  readonly processes?: number | undefined;
  /** Stops the run, which resumes from its last state when it is started again. */
  readonly signal?: AbortSignal | undefined;
  /** After each optimizer step; the loss of that step as text. */
  readonly onStep?: ((step: number, steps: number, loss: string) => void) | undefined;
}

// What train.py prints after a step. Other lines are those of its libraries.
const STEP = /^step (\d+) of (\d+), loss (\S+)$/;
// The reason is at the end of a Python traceback.
const KEPT_LINES = 12;
// Between SIGTERM and SIGKILL.
const GRACE_MS = 10_000;

/**
 * Runs the entry of a folder to its end. An interrupted run resumes.
 * @throws CancelledError if the signal fires
 * @throws LayergraftError with code "trl" if it fails, with its last lines
 */
export async function startTrlRun(options: StartTrlOptions): Promise<void> {
  const { folder, python = "python3", processes = 1, signal, onStep } = options;
  const script = join(folder, TRL_FILES.entry);
  if (!(await exists(script))) {
    throw new LayergraftError("trl", `${folder} is not a run for TRL: it has no ${TRL_FILES.entry}`, {
      file: script,
    });
  }
  if (signal?.aborted) throw new CancelledError("stopped before it started", { file: folder });
  const last: string[] = [];
  // In a process group, so that the processes that it starts end with it.
  const launcher = ["-m", "accelerate.commands.launch", "--config_file", TRL_FILES.accelerate];
  const child = spawn(python, [...(processes > 1 ? launcher : []), TRL_FILES.entry], {
    cwd: folder,
    env: { ...process.env, PYTHONUNBUFFERED: "1" },
    stdio: ["ignore", "pipe", "pipe"],
    detached: process.platform !== "win32",
  });
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on("line", (line) => {
      if (last.push(line) > KEPT_LINES) last.shift();
      const [, step, steps, loss = ""] = STEP.exec(line) ?? [];
      if (step) onStep?.(Number(step), Number(steps), loss);
    });
  }
  const end = (name: NodeJS.Signals) => {
    try {
      if (child.pid !== undefined) process.kill(process.platform === "win32" ? child.pid : -child.pid, name);
    } catch {
      // It has ended.
    }
  };
  let killer: NodeJS.Timeout | undefined;
  const stop = () => {
    end("SIGTERM");
    killer = setTimeout(() => end("SIGKILL"), GRACE_MS);
  };
  signal?.addEventListener("abort", stop, { once: true });
  try {
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once("error", ({ message }) =>
        reject(new LayergraftError("trl", `${python} cannot be started: ${message}`, { file: folder })),
      );
      child.once("close", resolve);
    });
    if (signal?.aborted)
      throw new CancelledError(`stopped; start ${folder} again to resume from its last state`, { file: folder });
    if (code !== 0) throw failure(folder, python, code, last);
  } finally {
    signal?.removeEventListener("abort", stop);
    clearTimeout(killer);
  }
}

function failure(folder: string, python: string, code: number | null, last: readonly string[]): LayergraftError {
  const missing = last.map((line) => /No module named '([\w.]+)'/.exec(line)?.[1]).find((name) => name !== undefined);
  const hint = missing
    ? `${python} has no ${missing}; install ${join(folder, TRL_FILES.requirements)}`
    : "it printed last:";
  const message = [`the run in ${folder} failed: ${hint}`, ...(missing ? [] : last.map((line) => `  ${line}`))].join(
    "\n",
  );
  const where = { file: folder, actual: `exit ${code}`, ...(missing ? { option: "python" } : {}) };
  return new LayergraftError("trl", message, where);
}
