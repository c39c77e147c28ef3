// Running the command line as a person does, and seeing what it left on the disk.
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";

export const MAIN = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));

/** Exit statuses. */
export const [DONE, FAILED, WRONG_USAGE, INTERRUPTED] = [0, 1, 2, 130];

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

/** Starts layergraft; `ended` settles when it is through. */
export function start(args: readonly string[], options: RunOptions): { child: ChildProcess; ended: Promise<Outcome> } {
  const { FORCE_COLOR: _, NO_COLOR: __, ...env } = process.env;
  const child = spawn(process.execPath, [...(options.node ?? []), MAIN, ...args], {
    cwd: options.cwd,
    env: { ...env, ...options.env },
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

/** Runs layergraft to its end. */
export function layergraft(args: readonly string[], options: RunOptions): Promise<Outcome> {
  return start(args, options).ended;
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
