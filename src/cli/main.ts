#!/usr/bin/env node
// The executable: handles closed pipes and sets the exit status.
import { runCommandLine } from "./command-line.js";

const FAILED = 1;

// A reader that closes the pipe early (head, less) is not an error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : FAILED));
// A closed stderr does not end a merge.
process.stderr.on("error", () => undefined);

const status = await runCommandLine(process.argv.slice(2));
if (status !== undefined) process.exitCode = status;
