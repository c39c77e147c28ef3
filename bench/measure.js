// Runs commands as whole processes and measures their time, CPU time and peak memory.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { cpus, tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The built command line. */
export const CLI = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));

/** @typedef {{ seconds: number, peakBytes: number | undefined, cpuSeconds?: number | undefined }} Measured */
/** @typedef {Record<string, () => Promise<Measured>>} Peers */

const HOOK = fileURLToPath(new URL("./peak-memory.js", import.meta.url));

/**
 * @param {string} command
 * @param {string[]} args
 * @returns {Promise<Measured>}
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
  let [peakBytes, cpuSeconds] = /** @type {number[]} */ ([]);
  try {
    [peakBytes, cpuSeconds] = readFileSync(report, "utf8").split(" ").map(Number);
  } catch {
    // Plain commands such as cat do not report, and need not.
  }
  rmSync(folder, { recursive: true });
  return { seconds, peakBytes, cpuSeconds };
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

/**
 * Runs peers in turn, a warm-up round first, and prints each one's times, its ratio to the peer called floor in the
 * same round, and its peak memory; then how many times slower than layergraft each other peer was. Returns the figures.
 * @param {Peers} peers
 * @param {number} rounds
 * @param {(name: string) => void} cleanUp after each run
 */
export async function comparePeers(peers, rounds, cleanUp = () => {}) {
  /** @type {Map<string, { seconds: number[], peak: number[], cpu: number[] }>} */
  const results = new Map(Object.keys(peers).map((name) => [name, { seconds: [], peak: [], cpu: [] }]));
  for (let round = -1; round < rounds; round++) {
    for (const [name, run] of Object.entries(peers)) {
      spawnSync("sync"); // nobody pays for what the one before has left unwritten
      const { seconds, peakBytes, cpuSeconds } = await run();
      cleanUp(name);
      console.error(`${round < 0 ? "warm-up" : `round ${round + 1}`}  ${name.padEnd(24)} ${seconds.toFixed(2)} s`);
      if (round < 0) continue;
      results.get(name)?.seconds.push(seconds);
      if (peakBytes !== undefined) results.get(name)?.peak.push(peakBytes / 1e6);
      if (cpuSeconds !== undefined) results.get(name)?.cpu.push(cpuSeconds);
    }
  }
  /** @param {string} name @param {number[]} values */
  const ratiosTo = (name, values) => values.map((value, i) => value / (results.get(name)?.seconds[i] ?? Number.NaN));
  for (const [name, { seconds, peak, cpu }] of results) {
    const memory = peak.length > 0 ? `  peak memory ${median(peak).toFixed(0)} MB, CPU ${spread(cpu, 1)} s` : "";
    console.log(`${name.padEnd(16)} ${spread(seconds)} s  x floor ${spread(ratiosTo("floor", seconds))}${memory}`);
  }
  for (const [name, { seconds }] of results) {
    if (name.startsWith("PyTorch")) console.log(`\n${name} / layergraft: ${spread(ratiosTo("layergraft", seconds))}`);
    const own = name.replace(", mergekit", "");
    if (own !== name) console.log(`${own}: mergekit / layergraft ${spread(ratiosTo(own, seconds), 1)}`);
  }
  return results;
}
