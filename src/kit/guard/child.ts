// A process for work on files of strangers: bounded in memory, silent, and gone when its parent is.
import { type ChildProcess, fork } from "node:child_process";
import { createRequire } from "node:module";
import { Worker } from "node:worker_threads";

/**
 * Starts a module of `imports` in package.json in a process with a limit of its heap. At the limit it exits by a signal, or with
 * status 134 on Windows; status 1 is a failed start.
 */
export function startGuarded(module: string, mebibytes: number): ChildProcess {
  const { NODE_OPTIONS: _, ...env } = process.env;
  return fork(createRequire(import.meta.url).resolve(module), {
    execArgv: [`--max-old-space-size=${mebibytes}`],
    env,
    serialization: "advanced",
    // V8 prints a long report when it runs out of memory.
    stdio: ["ignore", "ignore", "ignore", "ipc"],
  });
}

/** Ends this process when its parent ends, and not with Ctrl-C or a closed terminal, which reach the whole process group. */
export function endWithParent(): void {
  for (const name of ["SIGINT", "SIGHUP"] as const) process.on(name, () => {});
  process.on("disconnect", () => process.exit());
  // Running work delays "disconnect", so a thread checks whether the parent was killed.
  const watch = `setInterval(() => process.ppid === ${process.ppid} || process.kill(process.pid, "SIGKILL"), 500)`;
  new Worker(watch, { eval: true, execArgv: [] }).unref();
}
