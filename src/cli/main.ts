#!/usr/bin/env node
// The command line. Commands are in commands/, one file each; errors become one message and an exit status here.
import { Command, CommanderError } from "commander";
import { CancelledError, LayergraftError } from "../core/errors.js";
import { VERSION } from "../core/version.js";
import { addDiffCommand } from "./commands/diff.js";
import { addInspectCommand } from "./commands/inspect.js";
import { addMergeCommand } from "./commands/merge.js";
import { addSoupCommand } from "./commands/soup.js";
import { addSwapCommand } from "./commands/swap.js";
import { addVerifyCommand } from "./commands/verify.js";
import { paletteFor } from "./output.js";

const FAILED = 1;
const WRONG_USAGE = 2;
const INTERRUPTED = 130; // what shells report for a program that Ctrl-C ended

function buildProgram(): Command {
  const program = new Command("layergraft")
    .description("Compose language models out of fine-tuned experts.")
    .version(VERSION)
    .configureHelp({ showGlobalOptions: false, sortSubcommands: false })
    .showHelpAfterError("(add --help to see the options)")
    .exitOverride();
  for (const add of [
    addSwapCommand,
    addSoupCommand,
    addMergeCommand,
    addInspectCommand,
    addDiffCommand,
    addVerifyCommand,
  ]) {
    add(program);
  }
  for (const command of program.commands) command.exitOverride();
  return program;
}

/** What an error means for the exit status, after telling the person about it. */
function report(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USAGE;
  const palette = paletteFor(process.stderr);
  if (error instanceof CancelledError) {
    process.stderr.write(`${palette.yellow("interrupted:")} ${error.message}\n`);
    return INTERRUPTED;
  }
  if (error instanceof LayergraftError) {
    process.stderr.write(`${palette.red("error:")} ${error.message}\n`);
    return error.code === "usage" || error.code === "recipe" ? WRONG_USAGE : FAILED;
  }
  // Anything else is a fault of ours, or of the system; the trace is what a report needs.
  process.stderr.write(
    `${palette.red("unexpected error:")} ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
  );
  return FAILED;
}

// A reader that closes the pipe early (head, less) wants no more; that is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : FAILED));

try {
  await buildProgram().parseAsync();
} catch (error) {
  process.exitCode = report(error);
}
