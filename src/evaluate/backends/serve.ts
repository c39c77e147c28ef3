// Starts the user's server for one evaluation, and stops its whole process group afterwards, even if layergraft is killed.
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { processStat, withFile, writeFileAtomically } from "../../kit/files/index.js";
import { CancelledError, LayergraftError, usageError } from "../../kit/index.js";
import { formatDuration, redactor, shellQuote } from "../../kit/printing/index.js";
import { HttpClient } from "./http.js";

export interface ServeOptions {
  /** Shell command with `{model}` and `{port}`: `vllm serve {model} --port {port}`. */
  readonly command: string;
  readonly model: string;
  /** File to append its output to. */
  readonly log: string;
  /** The server's key, removed from messages, and from the log when the server has stopped. */
  readonly apiKey?: string | undefined;
  /** Seconds to wait for the server to start. Default: 900, for a large model on a slow disk. */
  readonly timeout?: number | undefined;
  /** Seconds between SIGTERM and SIGKILL. Default: 15. */
  readonly grace?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called every half second while it starts. */
  readonly onProgress?: ((progress: { readonly seconds: number; readonly lastLine: string }) => void) | undefined;
}

export interface RunningServer {
  /** `http://127.0.0.1:PORT` */
  readonly url: string;
  readonly pid: number;
  stop(): Promise<void>;
}

const POLL_SECONDS = 0.5;
/** A killed process disappears only when its parent has waited for it. */
const KILL_SECONDS = 5;
/** Enough for the last lines of a traceback. */
const TAIL_BYTES = 4000;
const TAIL_LINES = 12;

/**
 * Starts a server on a free port of this machine and waits until it is healthy.
 * @throws LayergraftError code `server` if it ends or does not start in time, with the last lines of its log; code
 *   `usage` if the command has no `{port}`
 * @throws CancelledError when the signal fires, after the server is stopped
 */
export async function startServer(options: ServeOptions): Promise<RunningServer> {
  const { command, model, signal, log, grace = 15 } = options;
  const redact = redactor([options.apiKey]);
  if (!command.includes("{port}")) {
    throw usageError(
      `the server's command has no {port}: "${redact(command)}". Write it as in "vllm serve {model} --port {port}"`,
    );
  }
  if (signal?.aborted) throw stopped();
  const port = await freePort();
  const line = command.replaceAll("{model}", shellQuote(model)).replaceAll("{port}", String(port));
  const file = openSync(log, "a");
  // In a group of its own, so that Ctrl-C in the terminal does not reach it, and one signal ends all of it.
  const child = spawn("/bin/sh", ["-c", line], { stdio: ["ignore", file, file], detached: true });
  closeSync(file);
  const pid = child.pid;
  if (pid === undefined) throw new LayergraftError("server", `"${line}" cannot be started: there is no /bin/sh`);
  const guard = startGuard(pid, grace);
  const killNow = (): void => killGroup(pid, "SIGKILL");
  process.once("exit", killNow);
  let stopping: Promise<void> | undefined;
  const stop = (): Promise<void> => {
    stopping ??= endGroup(pid, grace).finally(async () => {
      process.removeListener("exit", killNow);
      guard.kill("SIGKILL");
      // Servers print the options that they were started with, the key among them.
      if (options.apiKey !== undefined) await writeFileAtomically(log, redact(await readFile(log, "utf8")));
    });
    return stopping;
  };
  const url = `http://127.0.0.1:${port}`;
  try {
    await waitUntilHealthy(url, child, redact(line), options, redact);
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, pid, stop };
}

async function waitUntilHealthy(
  url: string,
  child: ChildProcess,
  line: string,
  options: ServeOptions,
  redact: (text: string) => string,
): Promise<void> {
  const { signal, log } = options;
  const limit = options.timeout ?? 900;
  const started = performance.now();
  const http = new HttpClient({ url, retries: 0, timeout: 5 });
  let exit: string | undefined;
  child.on("exit", (status, name) => {
    exit = name ? `was ended by ${name}` : `ended with status ${status}`;
  });
  try {
    for (;;) {
      if (signal?.aborted) throw stopped();
      if (await isHealthy(http, signal)) return;
      const seconds = (performance.now() - started) / 1000;
      const tail = (await readTail(log)).map(redact);
      const said = tail.length > 0 ? `; the end of ${log}:\n  ${tail.join("\n  ")}` : `; it printed nothing to ${log}`;
      if (exit !== undefined) throw new LayergraftError("server", `the server (${line}) ${exit}${said}`, { file: log });
      if (seconds > limit) {
        const message = `the server (${line}) was not healthy after ${formatDuration(limit)}${said}`;
        throw new LayergraftError("server", message, { file: log });
      }
      options.onProgress?.({ seconds, lastLine: tail.at(-1) ?? "" });
      await sleep(POLL_SECONDS * 1000, undefined, signal ? { signal } : {}).catch(() => undefined);
    }
  } finally {
    http.close();
  }
}

/** Whether `/health` answers, or without one the list of models. */
async function isHealthy(http: HttpClient, signal: AbortSignal | undefined): Promise<boolean> {
  const health = await http.status("/health", signal);
  return health === 200 || (health === 404 && (await http.status("/v1/models", signal)) === 200);
}

/**
 * A process that ends the server if layergraft is killed with SIGKILL: its input, which layergraft keeps open, ends then.
 */
function startGuard(pid: number, grace: number): ChildProcess {
  const script = `cat >/dev/null; kill -TERM -${pid}; sleep ${grace}; kill -KILL -${pid}`;
  const guard = spawn("/bin/sh", ["-c", script], { stdio: ["pipe", "ignore", "ignore"], detached: true });
  guard.on("error", () => undefined);
  guard.stdin?.on("error", () => undefined);
  return guard;
}

/** Ends all processes of a group, with SIGKILL if SIGTERM does not. */
async function endGroup(pid: number, grace: number): Promise<void> {
  killGroup(pid, "SIGTERM");
  if (await isGone(pid, grace)) return;
  killGroup(pid, "SIGKILL");
  await isGone(pid, KILL_SECONDS);
}

async function isGone(pid: number, seconds: number): Promise<boolean> {
  const end = performance.now() + seconds * 1000;
  while (await isAlive(pid)) {
    if (performance.now() > end) return false;
    await sleep(50);
  }
  return true;
}

/** Whether a process of a group still runs. Zombies do not count. */
async function isAlive(group: number): Promise<boolean> {
  try {
    process.kill(-group, 0);
  } catch {
    return false;
  }
  if (process.platform !== "linux") return true;
  // In containers without an init process nobody ever waits for orphans.
  for (const name of await readdir("/proc").catch(() => [])) {
    if (!/^\d+$/.test(name)) continue;
    // State, parent, group.
    const [state, , member] = await processStat(name);
    if (Number(member) === group && state !== "Z" && state !== "X") return true;
  }
  return false;
}

function killGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // All of it has ended.
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}

function readTail(path: string): Promise<string[]> {
  return withFile(path, "r", async (handle) => {
    const { size } = await handle.stat();
    const length = Math.min(size, TAIL_BYTES);
    const { buffer } = await handle.read(Buffer.alloc(length), 0, length, size - length);
    const lines = buffer
      .toString("utf8")
      .split("\n")
      .map((line) => line.trimEnd());
    return lines.filter((line) => line !== "").slice(-TAIL_LINES);
  });
}

function stopped(): CancelledError {
  return new CancelledError("the evaluation was stopped while its server was starting");
}
