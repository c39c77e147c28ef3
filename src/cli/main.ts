#!/usr/bin/env node
// The process of the command line: its pipes and its exit status. What it does is in run.ts.
import { runCommandLine } from "./command-line.js";

const FAILED = 1;

// A reader that closes the pipe early (head, less) wants no more; that is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : FAILED));
// Nor does it end a merge that nobody hears the messages of any more.
process.stderr.on("error", () => undefined);

const status = await runCommandLine(process.argv.slice(2));
if (status !== undefined) process.exitCode = status;
