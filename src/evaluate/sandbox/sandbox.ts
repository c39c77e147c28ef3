// The confinement of executed programs is tested when the sandbox is opened, and results list it.
import { access, constants } from "node:fs/promises";
import { delimiter, join, resolve, sep } from "node:path";
import { LayergraftError, usageError } from "../../kit/index.js";
import { formatBytes } from "../../kit/printing/index.js";
import type { Executor } from "../tasks/open-tasks.js";
import { execute, type ProgramLimits, type RawOutcome, sandboxFile } from "./run-candidate.js";

export interface SandboxOptions {
  /** The user's explicit permission to execute what a model wrote; nothing is executed without it. */
  readonly allowCode: boolean;
  /** A second permission, needed where the kernel does not confine programs. */
  readonly unsafeCode?: boolean | undefined;
  /** Python to use; default: `python3` on the PATH. */
  readonly python?: string | undefined;
  /** Wall time of one program; default 3 s, as the evaluations of MBPP have it. */
  readonly seconds?: number | undefined;
  /** Address space of one program in bytes; default 1 GiB. */
  readonly memory?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * What keeps a program from doing something: `kernel`: the kernel refuses it, whatever the program does; `python`: an
 * audit hook (PEP 578) refuses it, which stops accidents but not a program that evades it;
 * `none`: nothing does.
 */
export type Guard = "kernel" | "python" | "none";

/** What was executed with, for the result file. */
export interface SandboxIdentity {
  readonly python: string;
  readonly network: Guard;
  readonly processes: Guard;
  readonly files: Guard;
  /** Whether namespaces hide other processes from it; `none` still leaves it no way to act on them. */
  readonly isolation: "kernel" | "none";
  readonly memory: Guard;
  readonly seconds: number;
  readonly memoryBytes: number;
}

/**
 * How a program fared: `passed`; `failed`: an assertion did; `error`: any other exception, refused deeds included;
 * `timeout`; `memory`; `output`: it printed too much; `crashed`: it, or Python, died or left without an account.
 */
export type ExecutionOutcome = "passed" | "failed" | "error" | "timeout" | "memory" | "output" | "crashed";

export interface Execution {
  readonly outcome: ExecutionOutcome;
  /** Where and why, in words; empty when it passed. */
  readonly detail: string;
}

export interface Sandbox extends Executor {
  readonly identity: SandboxIdentity;
  /**
   * Executes a program, the first part, and judges it by the others, which outcomes call by their names. Those run in a
   * process of their own, which the program cannot reach; of what its functions return they see data.
   * @param options.reference a program that solves the task. A builtin's name in a test means what the program defines only
   * if this one defines it, too. Default: none does
   * @throws CancelledError when the signal fires
   */
  run(...program: Parameters<Executor["run"]>): Promise<Execution>;
}

const SECONDS = 3;
/** Far more than the probe takes, also on a busy machine. */
const PROBE_SECONDS = 30;
/** Ten times what Python with numpy takes on one thread. */
const MEMORY_BYTES = 2 ** 30;
/** Far more than a program prints that is being tested, far less than what fills a memory. */
const OUTPUT_BYTES = 8 * 2 ** 20;

/**
 * Finds Python, and finds out by trying how far programs are confined here: network, other processes, files, memory.
 * @throws LayergraftError code `usage` when the user has not allowed to execute code, or not where the kernel does not confine it
 * @throws LayergraftError code `sandbox` when there is no Python
 */
export async function openSandbox(options: SandboxOptions): Promise<Sandbox> {
  if (!options.allowCode) {
    throw usageError(
      "this task executes programs that the model wrote, on this machine; docs/evaluate-and-compare.md says what confines them",
      { option: "allowCode" },
    );
  }
  if (process.platform === "win32") {
    throw new LayergraftError("sandbox", "programs cannot be confined on Windows; use Linux, or WSL");
  }
  const limits: ProgramLimits = {
    seconds: options.seconds ?? SECONDS,
    memory: options.memory ?? MEMORY_BYTES,
    output: OUTPUT_BYTES,
  };
  const named = options.python ?? "python3";
  const asked = named.includes(sep) ? resolve(named) : await findOnPath(named);
  const source = sandboxFile("probe.py").replace("MEMORY", String(2 * limits.memory));
  const job = { limits: { ...limits, seconds: PROBE_SECONDS }, parts: [["probe", source]] as const, kernel: true };
  const tried = await execute({ ...job, python: asked, confinement: undefined, signal: options.signal });
  const found = readProbe(tried, asked);
  const { kernel, isolated } = found.confinement;
  const guardOf = (isKernel: boolean): Guard => (isKernel ? "kernel" : "python");
  const identity: SandboxIdentity = {
    python: found.version,
    network: guardOf(kernel.network),
    processes: guardOf(kernel.processes),
    files: guardOf(kernel.files),
    isolation: isolated ? "kernel" : "none",
    memory: found.memory ? "kernel" : "none",
    seconds: limits.seconds,
    memoryBytes: limits.memory,
  };
  requireConfinement(identity, options.unsafeCode ?? false);
  return {
    identity,
    async run(programs, { reference, signal } = {}) {
      const parts = programs.map(({ name, source }) => [name, source] as const);
      const { executable: python, confinement } = found;
      return judge(await execute({ python, limits, parts, reference, kernel: true, confinement, signal }), limits);
    },
  };
}

const REACH = { network: "the network", processes: "other processes", files: "your files" };

/** @throws LayergraftError code `usage` when programs can reach more than they should and the user has not accepted that */
export function requireConfinement(identity: SandboxIdentity, unsafeCode: boolean): void {
  const open = (["network", "processes", "files"] as const).filter((what) => identity[what] !== "kernel");
  if (open.length === 0 || unsafeCode) return;
  throw usageError(
    `the kernel here does not keep programs from ${open.map((what) => REACH[what]).join(", ")}. Use Linux 5.13 or newer ` +
      "with seccomp and Landlock, or accept that (evaluate.unsafe_code in a plan)",
    { option: "unsafeCode" },
  );
}

function readProbe({ ready, report }: RawOutcome, python: string) {
  const { version, executable, isolated } = ready;
  if (!Array.isArray(report?.probe) || typeof version !== "string" || typeof executable !== "string") {
    const said = typeof report?.message === "string" ? `: ${report.message}` : "";
    throw new LayergraftError("sandbox", `${python} cannot run confined${said}`, {
      file: python,
      option: "python",
    });
  }
  const [network = false, processes = false, files = false, memory = false] = report.probe.map((one) => one === true);
  const confinement = { kernel: { network, processes, files }, isolated: isolated === true };
  return { executable, version, confinement, memory };
}

/** What a run's end means. */
export function judge(raw: RawOutcome, limits: ProgramLimits): Execution {
  const { report, ended } = raw;
  if (report?.passed === true) return { outcome: "passed", detail: "" };
  if (report?.error) {
    const { part, line, error, message } = report;
    const where = `${part}${typeof line === "number" && line > 0 ? `, line ${line}` : ""}`;
    const what = `${error}${message ? `: ${message}` : ""}`;
    if (error === "AssertionError") return { outcome: "failed", detail: `${where}: ${what}` };
    if (error === "MemoryError") {
      return { outcome: "memory", detail: `${where}: it asked for more than ${formatBytes(limits.memory)}` };
    }
    if (error === "SystemExit") return { outcome: "error", detail: `${where}: it exited before the end` };
    return { outcome: "error", detail: `${where}: ${what}` };
  }
  if (ended === "time" || report?.signal === "SIGXCPU") {
    return { outcome: "timeout", detail: `it took longer than ${limits.seconds} s` };
  }
  if (ended === "output") return { outcome: "output", detail: `it printed more than ${formatBytes(limits.output)}` };
  return {
    outcome: "crashed",
    detail: report?.signal
      ? `it was killed by ${report.signal}`
      : `it exited with status ${report?.status ?? "unknown"}`,
  };
}

async function findOnPath(name: string): Promise<string> {
  for (const folder of (process.env.PATH ?? "").split(delimiter)) {
    if (folder === "") continue;
    const path = join(folder, name);
    const found = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (found) return path;
  }
  throw new LayergraftError("sandbox", `there is no ${name} on the PATH, and this task executes Python; install it`, {
    option: "python",
  });
}
