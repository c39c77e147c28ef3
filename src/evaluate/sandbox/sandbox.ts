// Execution of programs that a model wrote, after the user allowed it, confined as far as the system lets us. What the
// confinement rests on is measured when the sandbox is opened and stands in the results.
import { access, constants } from "node:fs/promises";
import { delimiter, join, resolve, sep } from "node:path";
import { LayergraftError, RecipeError } from "../../core/errors.js";
import { execute, type KernelGuards, type ProgramLimits, type RawOutcome } from "./execute.js";

export interface SandboxOptions {
  /** The user's explicit permission to execute what a model wrote; nothing is executed without it. */
  readonly allowCode: boolean;
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
 * audit hook (PEP 578) refuses it, which holds against accidents but not against a program that wants around it;
 * `none`: nothing does.
 */
export type Guard = "kernel" | "python" | "none";

/** What was executed with, for the result file. */
export interface SandboxIdentity {
  readonly python: string;
  readonly network: Guard;
  readonly processes: Guard;
  readonly files: Guard;
  readonly memory: Guard;
  readonly seconds: number;
  readonly memoryBytes: number;
}

/** One piece of a program. Pieces are executed in their order, in one namespace. */
export interface ProgramPart {
  /** What an outcome calls it, such as `program` or `test 2`. */
  readonly name: string;
  readonly source: string;
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

export interface Sandbox {
  readonly identity: SandboxIdentity;
  /**
   * Executes a program.
   * @throws {CancelledError} when the signal fires
   */
  run(parts: readonly ProgramPart[], options?: { readonly signal?: AbortSignal | undefined }): Promise<Execution>;
}

const SECONDS = 3;
/** Ten times what Python with numpy takes on one thread. */
const MEMORY_BYTES = 2 ** 30;
/** No task asks for files; this allows a small one. */
const FILE_BYTES = 2 ** 20;
/** Far more than a program prints that is being tested, far less than what fills a memory. */
const OUTPUT_BYTES = 8 * 2 ** 20;

/**
 * Finds Python, and finds out by trying how far programs are confined here: network, other processes, files outside
 * the scratch folder, memory.
 * @throws {RecipeError} when the user has not allowed to execute code
 * @throws {LayergraftError} code `sandbox` when there is no Python, or no confinement worth the name
 */
export async function openSandbox(options: SandboxOptions): Promise<Sandbox> {
  if (!options.allowCode) {
    throw new RecipeError(
      "this task executes programs that the model wrote, on this machine; read what confines them in the documentation " +
        "and allow it with --allow-code (allowCode in the library)",
    );
  }
  if (process.platform === "win32") {
    throw new LayergraftError("sandbox", "programs cannot be confined on Windows; use Linux, or WSL");
  }
  const limits: ProgramLimits = {
    seconds: options.seconds ?? SECONDS,
    memory: options.memory ?? MEMORY_BYTES,
    file: FILE_BYTES,
    output: OUTPUT_BYTES,
  };
  const { signal } = options;
  const named = options.python ?? "python3";
  const asked = named.includes(sep) ? resolve(named) : await findOnPath(named);
  const probe = await execute({ python: asked, limits, parts: [], kernel: true, trust: undefined, signal });
  const found = readProbe(probe, asked);
  if (found.root && !found.kernel.processes) {
    throw new LayergraftError(
      "sandbox",
      "the kernel here refuses programs of the superuser nothing, so they cannot be confined; run as an ordinary user",
    );
  }
  const guard = (refused: boolean): Guard => (refused ? "kernel" : "python");
  return {
    identity: {
      python: found.version,
      network: guard(found.kernel.network),
      processes: guard(found.kernel.processes),
      files: guard(found.kernel.files),
      memory: found.memory ? "kernel" : "none",
      seconds: limits.seconds,
      memoryBytes: limits.memory,
    },
    async run(parts, { signal } = {}) {
      const pieces = parts.map(({ name, source }) => [name, source] as const);
      const { executable, kernel: trust } = found;
      return judge(await execute({ python: executable, limits, parts: pieces, kernel: true, trust, signal }), limits);
    },
  };
}

interface Probe {
  readonly executable: string;
  readonly version: string;
  readonly root: boolean;
  readonly kernel: KernelGuards;
  readonly memory: boolean;
}

function readProbe({ report, output, signal }: RawOutcome, python: string): Probe {
  const { probe, version, executable, root } = report ?? {};
  if (typeof probe !== "object" || probe === null || typeof version !== "string" || typeof executable !== "string") {
    const said = output.trim().split("\n").at(-1) ?? "";
    throw new LayergraftError(
      "sandbox",
      `${python} did not start as a Python 3.8 or newer should${signal ? ` (${signal})` : ""}${said ? `: ${said}` : ""}; name another with --python`,
      { file: python },
    );
  }
  const { network, processes, files, memory } = probe as Record<string, unknown>;
  return {
    executable,
    version,
    root: root === true,
    kernel: { network: network === true, processes: processes === true, files: files === true },
    memory: memory === true,
  };
}

/** What a run's end means. */
export function judge(raw: RawOutcome, limits: ProgramLimits): Execution {
  const { report, ended, signal, exitCode } = raw;
  if (report?.passed === true) return { outcome: "passed", detail: "" };
  if (report) {
    const { part, line, error, message } = report;
    const where = `${part}${typeof line === "number" && line > 0 ? `, line ${line}` : ""}`;
    const what = `${error}${message ? `: ${message}` : ""}`;
    if (error === "AssertionError") return { outcome: "failed", detail: `${where}: ${what}` };
    if (error === "MemoryError") {
      return { outcome: "memory", detail: `${where}: it wanted more than ${limits.memory} bytes` };
    }
    if (error === "SystemExit") return { outcome: "error", detail: `${where}: it ended itself before the end` };
    return { outcome: "error", detail: `${where}: ${what}` };
  }
  if (ended === "time" || signal === "SIGXCPU") {
    return { outcome: "timeout", detail: `it took longer than ${limits.seconds} s` };
  }
  if (ended === "output") return { outcome: "output", detail: `it printed more than ${limits.output} bytes` };
  return {
    outcome: "crashed",
    detail: signal ? `it was ended by ${signal}` : `it left with status ${exitCode} without an account`,
  };
}

/** Path of a program on the PATH. */
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
  throw new LayergraftError(
    "sandbox",
    `there is no ${name} on the PATH, and this task executes Python; install it, or name one with --python`,
  );
}
