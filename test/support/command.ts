// Running the command line as a person does, and seeing what it left on the disk. In this process where that tells the
// same, as starting Node.js takes longer than most commands do; in one of its own where it is to be stopped or prepared.
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { runCommandLine } from "#command-line";
import { isSystemError } from "../../src/kit/index.js";
import { END_SIGNALS } from "../../src/kit/stopping/index.js";

export const MAIN = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));

/** Exit statuses. */
export const [DONE, FAILED, WRONG_USAGE, INTERRUPTED] = [0, 1, 2, 130];

const COLOURS = ["FORCE_COLOR", "NO_COLOR"] as const;

export interface Outcome {
  /** Exit status; null where a signal ended the process. */
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  /** Working folder. */
  readonly cwd: string;
  readonly env?: NodeJS.ProcessEnv;
  /** Options of Node.js itself. */
  readonly node?: readonly string[];
}

/** A folder with the command, as an installation puts it on the PATH. */
const BIN = fileURLToPath(new URL("../../node_modules/.cache/test-bin", import.meta.url));
mkdirSync(BIN, { recursive: true });
try {
  symlinkSync(MAIN, join(BIN, "layergraft"));
} catch (error) {
  if (!isSystemError(error, "EEXIST")) throw error;
}

/** Starts layergraft; `ended` settles when it is through. */
export function start(args: readonly string[], options: RunOptions): { child: ChildProcess; ended: Promise<Outcome> } {
  const { FORCE_COLOR: _, NO_COLOR: __, ...env } = process.env;
  const child = spawn(process.execPath, [...(options.node ?? []), join(BIN, "layergraft"), ...args], {
    cwd: options.cwd,
    env: { ...env, PATH: `${env.PATH}${delimiter}${BIN}`, ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const text = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    text.stdout += chunk;
  });
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    text.stderr += chunk;
  });
  const ended = new Promise<Outcome>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (status, signal) => resolve({ status, signal, ...text }));
  });
  return { child, ended };
}

/** Options that put a module of a few lines into layergraft's process before it starts. */
export const preload = (code: string, options: RunOptions): RunOptions => ({
  ...options,
  node: [
    "--import",
    `data:text/javascript,${encodeURIComponent(`
      import fs from "node:fs";
      import promises from "node:fs/promises";
      import { syncBuiltinESMExports } from "node:module";
      ${code};
      syncBuiltinESMExports();`)}`,
  ],
});

/** Calls of a synchronous function of node:fs that take their time, so that something can happen meanwhile. */
export const slow = (name: "readSync" | "writeSync", milliseconds: number): string => `
  const { ${name} } = fs;
  const cell = new Int32Array(new SharedArrayBuffer(4));
  fs.${name} = (...range) => (Atomics.wait(cell, 0, 0, ${milliseconds}), ${name}(...range));`;

/** Runs layergraft to its end; with options of Node.js in a process of its own. */
export function layergraft(args: readonly string[], options: RunOptions): Promise<Outcome> {
  if (options.node) return start(args, options).ended;
  // The working folder and the streams are the process's, so one command runs at a time.
  const outcome = running.then(() => runHere(args, options));
  running = outcome.catch(() => undefined);
  return outcome;
}

let running: Promise<unknown> = Promise.resolve();

async function runHere(args: readonly string[], options: RunOptions): Promise<Outcome> {
  const { cwd, exitCode } = { cwd: process.cwd(), exitCode: process.exitCode };
  const environment = { ...process.env };
  const listeners = new Map(END_SIGNALS.map((signal) => [signal, process.listeners(signal)]));
  const text = { stdout: "", stderr: "" };
  const restore = (["stdout", "stderr"] as const).map((name) => {
    const stream = process[name];
    const { write } = stream;
    stream.write = (chunk: string | Uint8Array, ...rest: unknown[]) => {
      text[name] += typeof chunk === "string" ? chunk : Buffer.from(chunk).toString("utf8");
      const done = rest.at(-1);
      if (typeof done === "function") process.nextTick(done);
      return true;
    };
    return () => {
      stream.write = write;
    };
  });
  for (const name of COLOURS) delete process.env[name];
  Object.assign(process.env, options.env);
  process.exitCode = undefined;
  try {
    process.chdir(options.cwd);
    const status = (await runCommandLine(args)) ?? process.exitCode ?? DONE;
    return { status: Number(status), signal: null, ...text };
  } finally {
    for (const undo of restore) undo();
    process.chdir(cwd);
    process.exitCode = exitCode;
    for (const name of Object.keys(process.env)) if (!(name in environment)) delete process.env[name];
    Object.assign(process.env, environment);
    // A command waits for Ctrl-C as long as its process lives, and this one lives on.
    for (const [signal, before] of listeners) {
      for (const listener of process.listeners(signal)) {
        if (!before.includes(listener)) process.removeListener(signal, listener);
      }
    }
  }
}

export function sha256(path: string): string {
  return createHash("sha256").update(readFileSync(path)).digest("hex");
}

/** Everything below a folder by its relative path: files with the digest of their content, all else by its kind. */
export function snapshot(folder: string): Record<string, string> {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return Object.fromEntries(
    entries.map((entry) => {
      const path = join(entry.parentPath, entry.name);
      return [path.slice(folder.length + 1), entry.isFile() ? sha256(path) : entry.isDirectory() ? "folder" : "other"];
    }),
  );
}

const ESCAPE = "\u001b";
// What a person must never be shown in place of a sentence.
const TRACE = /unexpected error|^ +at |node:internal|is undefined$|\[object |ExperimentalWarning|[A-Z]\w+Error:/m;

/** Checks that a text is for people: no stack trace, no colour codes. */
export function expectReadable(text: string): void {
  expect(text).not.toMatch(TRACE);
  expect(text).not.toContain(ESCAPE);
}

/** Runs what must be refused: with this status, saying this, printing no result, and touching nothing below `cwd`. */
export async function expectRefused(
  args: readonly string[],
  cwd: string,
  status: number,
  ...messages: RegExp[]
): Promise<string> {
  const before = snapshot(cwd);
  const outcome = await layergraft(args, { cwd });
  for (const message of messages) expect(outcome.stderr).toMatch(message);
  expect(outcome.status).toBe(status);
  expect(outcome.stdout).toBe("");
  expectReadable(outcome.stderr);
  expect(snapshot(cwd)).toEqual(before);
  return outcome.stderr;
}
