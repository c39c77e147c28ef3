import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { processStat } from "../../kit/files/index.js";
import { CancelledError, LayergraftError } from "../../kit/index.js";

export interface ProgramLimits {
  /**
   * Wall time in seconds, counted from when Python is up. On Linux, time in which the program would have run but had to
   * leave the processor to others is given back, up to MAX_STARVATION times this: a busy machine fails no program.
   */
  readonly seconds: number;
  /** Address space in bytes, Python's own of some 30 MB included. */
  readonly memory: number;
  /** Bytes of standard output and error together; a program that prints more is ended. */
  readonly output: number;
}

/** What confines programs here, as a probe found it. */
export interface Confinement {
  /** What the kernel refuses; the rest is left to Python's audit hook. */
  readonly kernel: { readonly network: boolean; readonly processes: boolean; readonly files: boolean };
  /** Whether programs get namespaces of their own. */
  readonly isolated: boolean;
}

export interface Job {
  readonly python: string;
  readonly limits: ProgramLimits;
  /** The program, then its tests in their order; the name says where one failed. */
  readonly parts: readonly (readonly [name: string, source: string])[];
  /** A program that solves the task, which is not executed: its definitions are the builtin names under test. */
  readonly reference?: string | undefined;
  /** Whether to ask the kernel for confinement; false only to test what remains without it. */
  readonly kernel: boolean;
  /** What must hold; undefined to report what the program's function `probe` returns instead of a verdict. */
  readonly confinement: Confinement | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface RawOutcome {
  /** What Python said of itself before the program began. */
  readonly ready: Readonly<Record<string, unknown>>;
  /** The judge's last word; undefined when it was ended before. */
  readonly report: Readonly<Record<string, unknown>> | undefined;
  readonly ended: "itself" | "time" | "output";
}

/** The text of a Python file that the sandbox is made of. */
export function sandboxFile(name: string): string {
  return readFileSync(join(dirname(createRequire(import.meta.url).resolve("#sandbox")), name), "utf8");
}

/** The program of confine.py, with those of the candidate and the judge in their branches. */
let program: string | undefined;
function bootstrap(): string {
  program ??= sandboxFile("confine.py").replace(/^ {4}(CANDIDATE|JUDGE)$/gm, (_, part: string) =>
    sandboxFile(`${part.toLowerCase()}.py`).replaceAll(/^(?=.)/gm, "    "),
  );
  return program;
}

/** How long Python may take to start; a loaded machine or a network file system needs seconds, nothing needs a minute. */
const START_SECONDS = 60;
/** So busy a machine is not to be measured on. */
const MAX_STARVATION = 5;
/** Kept of what is printed before Python is ready: enough for a message. */
const KEPT_OUTPUT = 2000;

/**
 * Runs one job to its end. It leaves nothing behind: programs cannot write files.
 * @throws CancelledError when the signal fires
 * @throws LayergraftError code `sandbox` when Python cannot be started, or not be confined as `confinement` says
 */
export async function execute(job: Job): Promise<RawOutcome> {
  const { python, limits, parts, reference = "", kernel, confinement, signal } = job;
  if (signal?.aborted) throw stopped();
  return new Promise((resolve, reject) => {
    const settings = {
      limits: { cpu: Math.ceil(limits.seconds) + 1, memory: limits.memory },
      parent: process.pid,
      kernel,
      probe: confinement === undefined,
      trust: confinement?.kernel ?? { network: false, processes: false, files: false },
      isolated: confinement?.isolated ?? false,
    };
    // A session of its own: one kill ends all that is in it, and there is no terminal to write to.
    const child = spawn(python, ["-I", "-B", "-c", bootstrap(), JSON.stringify(settings)], {
      cwd: "/",
      env: cleanEnvironment(),
      stdio: ["pipe", "pipe", "pipe", "pipe"],
      detached: true,
    });
    let ended: RawOutcome["ended"] = "itself";
    let printed = 0;
    let output = "";
    let channel = "";
    let ready: Record<string, unknown> | undefined;
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
      channel += chunk.toString("utf8");
      const lines = channel.split("\n");
      channel = lines.pop() ?? "";
      for (const line of lines) {
        const message = JSON.parse(line) as Record<string, unknown>;
        if (typeof message.ready !== "number") {
          report = message;
          continue;
        }
        ready = message;
        const program = message.ready;
        clearTimeout(timer);
        const since = performance.now();
        const check = async (): Promise<void> => {
          const left = await secondsOwed(program, limits.seconds);
          const wall = (performance.now() - since) / 1000;
          if (left <= 0 || wall > limits.seconds * MAX_STARVATION) end("time");
          else if (!isOver) timer = setTimeout(check, left * 1000);
        };
        timer = setTimeout(check, limits.seconds * 1000);
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
    child.on("close", (_, signalName) => {
      finish();
      if (cancelled) reject(stopped());
      else if (ready) resolve({ ready, report, ended });
      else {
        const lastLine = output.slice(0, KEPT_OUTPUT).trim().split("\n").at(-1) ?? "";
        reject(notStarted(python, ended === "time" ? "it took too long" : (signalName ?? lastLine)));
      }
    });

    child.stdin.end(JSON.stringify({ parts, reference }));
  });
}

function notStarted(python: string, why: string): LayergraftError {
  return new LayergraftError("sandbox", `${python} is not a working Python 3.8 or newer${why ? `: ${why}` : ""}`, {
    file: python,
    option: "python",
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

/** Nothing of the caller's environment but where libraries are; it may hold keys. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  const { LD_LIBRARY_PATH, DYLD_LIBRARY_PATH } = process.env;
  return {
    PATH: "/usr/local/bin:/usr/bin:/bin",
    HOME: "/",
    LANG: "C.UTF-8",
    // Threads are few, and each takes address space.
    OMP_NUM_THREADS: "1",
    OPENBLAS_NUM_THREADS: "1",
    MKL_NUM_THREADS: "1",
    ...(LD_LIBRARY_PATH === undefined ? {} : { LD_LIBRARY_PATH }),
    ...(DYLD_LIBRARY_PATH === undefined ? {} : { DYLD_LIBRARY_PATH }),
  };
}

function stopped(): CancelledError {
  return new CancelledError("the execution of a program was stopped");
}
