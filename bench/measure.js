// Runs commands as whole processes and says how long they took and how much memory they held at their peak.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { cpus, tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const HOOK = fileURLToPath(new URL("./peak-memory.js", import.meta.url));

/**
 * @param {string} command
 * @param {string[]} args
 * @returns {Promise<{ seconds: number, peakBytes: number | undefined }>}
 */
export async function measure(command, args) {
  const folder = mkdtempSync(join(tmpdir(), "layergraft-bench-"));
  const report = join(folder, "peak");
  const isNode = command === process.execPath;
  const start = performance.now();
  const child = spawn(command, isNode ? ["--import", HOOK, ...args] : args, {
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, PEAK_MEMORY_REPORT: report },
  });
  const code = await new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", resolve);
  });
  const seconds = (performance.now() - start) / 1000;
  if (code !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${code}`);
  let peakBytes;
  try {
    peakBytes = Number(readFileSync(report, "utf8"));
  } catch {
    // Plain commands such as cat do not report, and need not.
  }
  rmSync(folder, { recursive: true });
  return { seconds, peakBytes };
}

/** @param {number[]} values */
export function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? (sorted[middle] ?? 0) : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2;
}

/** `1.23 (1.20 to 1.31)` @param {number[]} values @param {number} digits */
export function spread(values, digits = 2) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return `${median(values).toFixed(digits)} (${low.toFixed(digits)} to ${high.toFixed(digits)})`;
}

export function describeMachine() {
  const [cpu] = cpus();
  return `${cpus().length} cores, ${cpu?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}`;
}
