// Output and options that commands share. Results go to stdout, everything else to stderr.

import { closeSync } from "node:fs";
import { InvalidArgumentError } from "commander";
import pc from "picocolors";
import { type Palette, type ProgressDisplay, SILENT, showProgress } from "../../figures/index.js";
import { MAX_THREADS, own, usageError } from "../../kit/index.js";
import { formatDuration, parseBytes, visible, write } from "../../kit/printing/index.js";
import { END_SIGNALS } from "../../kit/stopping/index.js";
import type { RunOptions } from "../../tensor/streaming/index.js";
import { asTyped } from "./command-name.js";
import { ANSWERED, PROMPT, SAID, stoppingAfter, watchInterrupts } from "./interrupts.js";
import { adding } from "./typed.js";

export interface CommonOptions {
  readonly json?: boolean;
  readonly quiet?: boolean;
}

export interface WorkOptions extends CommonOptions {
  readonly threads?: number;
  readonly memory?: number;
}

/** Whether to color a stream: if it is a terminal or FORCE_COLOR is set, and NO_COLOR is not. */
export function hasColors(stream: NodeJS.WriteStream): boolean {
  const { NO_COLOR, FORCE_COLOR, TERM } = process.env;
  const forced = FORCE_COLOR !== undefined && FORCE_COLOR !== "0" && FORCE_COLOR !== "";
  return !NO_COLOR && (forced || (stream.isTTY === true && TERM !== "dumb"));
}

export function paletteFor(stream: NodeJS.WriteStream): Palette {
  return pc.createColors(hasColors(stream));
}

/** Prints a result. */
export function print(lines: readonly string[] | string): void {
  write(process.stdout, `${typeof lines === "string" ? lines : lines.join("\n")}\n`);
}

/**
 * Prints a value as the one JSON document of `--json`.
 * @param indent spaces; 0 for one line
 */
export function printJson(value: unknown, indent = 2): void {
  // Escaped as JSON: parsers read the exact text, and a terminal shows no control characters.
  const text = JSON.stringify(value, null, indent).replace(
    /[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  print(text);
}

/** Prints a message on stderr, unless --quiet. */
export function info(options: CommonOptions, text: string): void {
  if (!options.quiet) write(process.stderr, `${asTyped(text)}\n`);
}

/** Prints a warning, even with `--quiet`. */
export function warn(text: string): void {
  write(process.stderr, `${paletteFor(process.stderr).yellow("warning:")} ${visible(text)}\n`);
}

/** Options of a long operation that the command line sets. */
export interface WorkControls extends Required<Pick<RunOptions, "threads" | "memory" | "signal" | "onProgress">> {
  /** Prints a line without disturbing the progress. */
  readonly onNote?: (text: string) => void;
  /** Removes the progress until its next update, to print something else. */
  readonly clear?: () => void;
}

/**
 * Runs a long operation with progress on stderr, until it ends or Ctrl-C stops it.
 * @param waitsFor see `interruptSignal`
 */
export async function runWithProgress<T>(
  options: WorkOptions,
  work: (controls: WorkControls) => Promise<T>,
  waitsFor?: string,
): Promise<T> {
  const progress: ProgressDisplay = options.quiet ? SILENT : showProgress();
  const { threads, memory } = options;
  try {
    return await work({
      threads,
      memory,
      signal: interruptSignal(waitsFor),
      onProgress: progress.update,
      onNote: progress.note,
      clear: progress.clear,
    });
  } finally {
    progress.stop();
  }
}

const interruptible = new Set<AbortController>();

let isInterrupted = false;
let asked = 0;
/** What an interrupt may wait for. */
let waited = "what is under way";
let answered: Int32Array = new Int32Array(1);
let isWatched = false;

function watch(): void {
  if (isWatched) return;
  isWatched = true;
  const state = Atomics.load(answered, 0);
  answered = watchInterrupts(waited);
  Atomics.store(answered, 0, state);
}

// These listeners stay after the first signal: signal-exit, a part of node-llama-cpp, ends the process where its own is the only
// one.
function interrupt(signal: NodeJS.Signals): void {
  // A closed terminal and its shell may both send SIGHUP, and a service manager sends it after SIGTERM.
  if (signal !== "SIGHUP") asked++;
  if (asked > 1) {
    for (const name of END_SIGNALS) process.removeListener(name, interrupt);
    process.kill(process.pid, signal);
  }
  if (isInterrupted) return;
  isInterrupted = true;
  if (signal === "SIGHUP") process.once("exit", leaveTerminal);
  Atomics.compareExchange(answered, 0, 0, ANSWERED);
  for (const controller of interruptible) controller.abort();
  // Such as pieces that threads compute, or bytes on their way to a slow disk.
  setTimeout(() => {
    if (Atomics.compareExchange(answered, 0, ANSWERED, SAID) === ANSWERED) write(process.stderr, stoppingAfter(waited));
  }, PROMPT).unref();
}

/** Node.js sets a terminal back as it ends, and aborts where that is closed. It leaves streams alone that are closed, too. */
function leaveTerminal(): void {
  for (const stream of [0, 1, 2]) {
    try {
      closeSync(stream);
    } catch {
      // It is closed.
    }
  }
}

/**
 * An AbortSignal for Ctrl-C, SIGTERM and SIGHUP; a second Ctrl-C or SIGTERM ends the process.
 * @param waitsFor what may block the main thread for seconds, such as "this step"; it is printed on the first signal. What
 *   else takes time then is said after a moment.
 */
export function interruptSignal(waitsFor?: string): AbortSignal {
  if (waitsFor !== undefined) {
    waited = waitsFor;
    watch();
  }
  // A thread takes longer to start than short commands take.
  else if (interruptible.size === 0) setTimeout(watch, PROMPT).unref();
  const controller = new AbortController();
  interruptible.add(controller);
  // What was under way did not hear of it, and what follows must not begin.
  if (isInterrupted) controller.abort();
  // One listener for all: a process with more than ten of them gets a warning.
  if (interruptible.size === 1) for (const name of END_SIGNALS) process.on(name, interrupt);
  return controller.signal;
}

export function elapsed(since: number): string {
  return formatDuration((performance.now() - since) / 1000);
}

/** A parser of numbers. @param rule the sentence for those that are not valid */
export const parseNumber =
  (isValid: (value: number) => boolean, rule: string) =>
  (text: string): number => {
    const value = text.trim() === "" ? Number.NaN : Number(text);
    if (!isValid(value)) throw new InvalidArgumentError(rule);
    return value;
  };

export const parseShare = parseNumber((value) => value >= 0 && value <= 1, "It must be a number from 0 to 1.");

/** The values of a repeatable flag. */
export const addToList = (value: string, earlier: readonly string[] = []): readonly string[] => [...earlier, value];

/** Parses a repeatable NAME=SOURCE into sources by name. */
export function parseNamed(
  text: string,
  earlier: ReadonlyMap<string, string> = new Map(),
): ReadonlyMap<string, string> {
  const equals = text.indexOf("=");
  const name = text.slice(0, equals);
  if (equals < 1 || equals === text.length - 1)
    throw new InvalidArgumentError("It must be NAME=SOURCE, such as math=./math-expert.");
  if (!/^[\w.-]+$/.test(name) || name === "base")
    throw new InvalidArgumentError(
      `${name} is not a valid name. Use letters, digits, '.', '_' and '-'; base is reserved.`,
    );
  if (earlier.has(name)) throw new InvalidArgumentError(`${name} is given twice.`);
  return new Map([...earlier, [name, text.slice(equals + 1)]]);
}

/** A parser of whole numbers. @param rule the sentence for those outside of the range */
export const parseWhole =
  (least: number, most = Number.MAX_SAFE_INTEGER, rule = `It must be a whole number from ${least}.`) =>
  (text: string): number => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || !Number.isSafeInteger(value))
      throw new InvalidArgumentError("It must be a whole number.");
    if (value < least || value > most) throw new InvalidArgumentError(rule);
    return value;
  };
export const parseCount = parseWhole(0);
export const parsePositive = parseWhole(1, undefined, "It must be at least 1.");
export const parseThreads = parseWhole(1, MAX_THREADS, `It must be between 1 and ${MAX_THREADS}.`);
/** A port of this machine; 0 takes a free one. */
export const parsePort = parseWhole(0, 65_535, "It must be at most 65535.");

export function parseList(text: string): string[] {
  const words = text.split(",").map((word) => word.trim());
  if (words.some((word) => word === "")) throw new InvalidArgumentError("It must be comma-separated words.");
  return words;
}

export function parseSize(text: string): number {
  const bytes = parseBytes(text);
  if (bytes === undefined) throw new InvalidArgumentError("It must be a size such as 500MB or 5GB.");
  return bytes;
}

export const withCommonOptions = adding<CommonOptions>((command) =>
  command
    .optionsGroup("General:")
    .option("--json", "print the result as JSON")
    .option("-q, --quiet", "print only the result, without progress or messages"),
);

/** A key comes only from the environment: other users of the machine can see a command line. */
export function readKey(name: string | undefined): string | undefined {
  if (name === undefined) return undefined;
  const key = own(process.env, name);
  if (key) return key;
  throw usageError(`--api-key-env ${name}: the environment variable is not set`);
}

/** Shows items in the order of their indices from 0, each as soon as those before it are there. */
export function inOrder<T>(show: (item: T, index: number) => void): (item: T, index: number) => void {
  const waiting = new Map<number, T>();
  let next = 0;
  return (item, index) => {
    waiting.set(index, item);
    for (let ready = waiting.get(next); ready !== undefined; ready = waiting.get(next)) {
      waiting.delete(next);
      show(ready, next++);
    }
  };
}
