#!/usr/bin/env node
// The executable: handles closed pipes and sets the exit status.
import module from "node:module";
import { constants } from "node:os";

const FAILED = 1;

process.stdout.on("error", ({ code }: NodeJS.ErrnoException) => {
  // The terminal is closed, which SIGHUP says: what is under way is saved first.
  if (code === "EIO") return;
  // A reader that closes the pipe early (head, less) is not an error.
  process.exit(code === "EPIPE" ? 0 : FAILED);
});
// A closed stderr does not end a merge.
process.stderr.on("error", () => undefined);

// The first process of a container ignores signals that nothing listens for.
if (process.pid === 1) {
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(name, () => process.listenerCount(name) === 1 && process.exit(128 + constants.signals[name]));
  }
}

// Here, as a thread cannot set it for native code. On Linux and macOS, ONNX Runtime 1.29 and newer report use to Microsoft.
process.env.ORT_DISABLE_TELEMETRY ??= "1";

// Compiling takes a third of the time of a short command. Node.js 22.1 and newer keep what they have compiled.
(module as { enableCompileCache?: () => unknown }).enableCompileCache?.();
const { runCommandLine } = await import("./command-line.js");
const status = await runCommandLine(process.argv.slice(2));
if (status !== undefined) process.exitCode = status;
