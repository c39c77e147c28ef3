// One run of the confined Python: start, feed, watch, end. Decides nothing about who may run what; sandbox.ts does.
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmod, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { CancelledError, LayergraftError } from "../../core/errors.js";
import { processStat } from "../../core/process-stat.js";
import { BOOTSTRAP } from "./bootstrap.js";

/** Bounds of one program. */
export interface ProgramLimits {
  /**
   * Wall time in seconds, counted from when Python is up. On Linux, time in which the program would have run but had to
   * leave the processor to others is given back, up to MOST_STARVATION times this: a busy machine fails no program.
   */
  readonly seconds: number;
  /** Address space in bytes, Python's own of some 30 MB included. */
  readonly memory: number;
  /** Bytes of one file that it writes. */
  readonly file: number;
  /** Bytes of standard output and error together; a program that prints more is ended. */
  readonly output: number;
}

/** What the kernel refuses a confined program; the rest is left to Python's audit hook. */
export interface KernelGuards {
  readonly network: boolean;
  readonly processes: boolean;
  readonly files: boolean;
}

export interface Job {
  readonly python: string;
  readonly limits: ProgramLimits;
  /** Pieces of the program in the order they are executed, in one namespace; the name says where one failed. */
  readonly parts: readonly (readonly [name: string, source: string])[];
  /** Whether to ask the kernel for confinement; false only to test what remains without it. */
  readonly kernel: boolean;
  /** What the kernel was found to refuse; undefined to find that out, and execute nothing. */
  readonly trust: KernelGuards | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** How a run of Python ended. */
export interface RawOutcome {
  /** What it told with its nonce, the last one; undefined when it was ended, or ended itself, before. */
  readonly report: Readonly<Record<string, unknown>> | undefined;
  readonly ended: "itself" | "time" | "output";
  readonly signal: string | null;
  readonly exitCode: number | null;
  /** First bytes of what it printed. */
  readonly output: string;
}

/** How long Python may take to start; a loaded machine or a network file system needs seconds, nothing needs a minute. */
const START_SECONDS = 60;
/** So busy a machine is not to be measured on. */
const MOST_STARVATION = 5;
/** Kept of what a program prints: enough for a message, little enough to keep for every sample. */
const KEPT_OUTPUT = 2000;
/** A report is one short line; what comes beyond this on its channel is not ours. */
const MOST_REPORT = 20_000;

/**
 * Runs one job to its end in a scratch folder that is removed afterwards.
 * @throws {CancelledError} when the signal fires
 * @throws {LayergraftError} code `sandbox` when Python cannot be started
 */
export async function execute(job: Job): Promise<RawOutcome> {
  if (job.signal?.aborted) throw stopped();
  const scratch = await mkdtemp(join(tmpdir(), "layergraft-sandbox-"));
  try {
    return await runIn(scratch, job);
  } finally {
    await removeFolder(scratch);
  }
}

function runIn(scratch: string, { python, limits, parts, kernel, trust, signal }: Job): Promise<RawOutcome> {
  return new Promise((resolve, reject) => {
    const nonce = randomBytes(16).toString("hex");
    // A session of its own: one kill ends all that is in it, and there is no terminal to write to.
    const child = spawn(python, ["-I", "-B", "-c", BOOTSTRAP], {
      cwd: scratch,
      env: cleanEnvironment(scratch),
      stdio: ["pipe", "pipe", "pipe", "pipe"],
      detached: true,
    });
    let ended: RawOutcome["ended"] = "itself";
    let printed = 0;
    let output = "";
    let channel = "";
    let report: Record<string, unknown> | undefined;
    let cancelled = false;
    let isOver = false;

    const kill = (): void => {
      if (child.pid === undefined) return;
      try {
        process.kill(-child.pid, "SIGKILL");
      } catch {
        child.kill("SIGKILL"); // the group is gone, or not there yet
      }
    };
    const end = (why: RawOutcome["ended"]): void => {
      if (ended === "itself") ended = why;
      kill();
    };
    let timer = setTimeout(() => end("time"), START_SECONDS * 1000);
    const onAbort = (): void => {
      cancelled = true;
      kill();
    };
    signal?.addEventListener("abort", onAbort, { once: true });
    process.once("exit", kill);

    const onPrinted = (chunk: Buffer): void => {
      printed += chunk.length;
      if (output.length < KEPT_OUTPUT) output += chunk.toString("utf8", 0, KEPT_OUTPUT);
      if (printed > limits.output) end("output");
    };
    child.stdout.on("data", onPrinted);
    child.stderr.on("data", onPrinted);
    const reports = child.stdio[3] as Readable;
    reports.on("data", (chunk: Buffer) => {
      if (channel.length > MOST_REPORT) return;
      channel += chunk.toString("utf8");
      const lines = channel.split("\n");
      channel = lines.pop() ?? "";
      for (const message of lines.map((line) => readReport(line, nonce))) {
        if (message?.ready === true) {
          clearTimeout(timer);
          const since = performance.now();
          const check = async (): Promise<void> => {
            const left = await secondsOwed(child.pid ?? 0, limits.seconds);
            const wall = (performance.now() - since) / 1000;
            if (left <= 0 || wall > limits.seconds * MOST_STARVATION) end("time");
            else if (!isOver) timer = setTimeout(check, left * 1000);
          };
          timer = setTimeout(check, limits.seconds * 1000);
        } else if (message) report = message;
      }
    });
    for (const stream of [child.stdin, child.stdout, child.stderr, reports]) stream.on("error", () => undefined);

    const finish = (): void => {
      isOver = true;
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      process.removeListener("exit", kill);
    };
    child.on("error", (error) => {
      finish();
      reject(new LayergraftError("sandbox", `${python} cannot be started: ${error.message}`, { file: python }, error));
    });
    // What the program started and left behind would hold the pipes open: the group goes as soon as Python does.
    child.on("exit", kill);
    child.on("close", (exitCode, signalName) => {
      finish();
      if (cancelled) reject(stopped());
      else resolve({ report, ended, signal: signalName, exitCode, output: output.slice(0, KEPT_OUTPUT) });
    });

    const bounds = { cpu: Math.ceil(limits.seconds) + 1, memory: limits.memory, file: limits.file };
    child.stdin.end(
      JSON.stringify({
        nonce,
        scratch,
        parent: process.pid,
        limits: bounds,
        parts,
        kernel,
        probe: trust === undefined,
        trust,
      }),
    );
  });
}

/**
 * Seconds that a program has not had although it wanted to run: none of one that sleeps or waits, and none where the
 * system does not tell (proc_pid_stat(5): state, and user and system time in hundredths of a second).
 */
async function secondsOwed(pid: number, limit: number): Promise<number> {
  const [state, ...fields] = await processStat(pid);
  const had = (Number(fields[10]) + Number(fields[11])) / 100;
  return state === "R" ? limit - had : 0;
}

/** A line of the report channel, if it is from the bootstrap. */
function readReport(line: string, nonce: string): Record<string, unknown> | undefined {
  try {
    const message = JSON.parse(line) as Record<string, unknown>;
    return message.nonce === nonce ? message : undefined;
  } catch {
    return undefined;
  }
}

/** Nothing of the caller's environment but where libraries are; it may hold keys. */
function cleanEnvironment(scratch: string): NodeJS.ProcessEnv {
  const { LD_LIBRARY_PATH, DYLD_LIBRARY_PATH } = process.env;
  return {
    PATH: "/usr/local/bin:/usr/bin:/bin",
    HOME: scratch,
    TMPDIR: scratch,
    LANG: "C.UTF-8",
    // Threads are refused, so libraries must not want them.
    OMP_NUM_THREADS: "1",
    OPENBLAS_NUM_THREADS: "1",
    MKL_NUM_THREADS: "1",
    ...(LD_LIBRARY_PATH === undefined ? {} : { LD_LIBRARY_PATH }),
    ...(DYLD_LIBRARY_PATH === undefined ? {} : { DYLD_LIBRARY_PATH }),
  };
}

/** Removes a scratch folder, also one that a program has made unreadable where the kernel did not refuse that. */
async function removeFolder(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true });
  } catch {
    const folders = [folder];
    for (let next = folders.pop(); next !== undefined; next = folders.pop()) {
      await chmod(next, 0o700);
      const entries = await readdir(next, { withFileTypes: true });
      for (const entry of entries) if (entry.isDirectory()) folders.push(join(next, entry.name));
    }
    await rm(folder, { recursive: true, force: true });
  }
}

function stopped(): CancelledError {
  return new CancelledError("the execution of a program was stopped");
}
