// Runs a command under limits of time and memory, watches the memory of its processes, and says how it ended.
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

/**
 * @typedef {object} Ended
 * @property {number | null} code
 * @property {string | null} signal
 * @property {"time" | "memory" | undefined} stoppedBy the limit that it went over
 * @property {number} seconds
 * @property {number} cpuSeconds of all its processes; 0 where the system has no /proc
 * @property {number} peakBytes most resident bytes of all its processes, mapped files included
 * @property {number} ownBytes the same without pages of files
 * @property {string} stdout its last part
 * @property {string} stderr its last part
 */
/** @typedef {"works" | "refused" | "failed"} Outcome */
/** @typedef {{ outcome: Outcome, message: string }} Verdict */

const SAMPLE_MS = 50;
const KEPT = 20_000;
const REFUSAL_BYTES = 1e9;

/**
 * @param {string} command
 * @param {string[]} args
 * @param {{ seconds: number, bytes: number, stdin?: string, env?: Record<string, string>, cwd?: string,
 *   meanwhile?: (line: string, stop: () => void) => void }} options meanwhile: gets the first line of its output
 * @returns {Promise<Ended>}
 */
export function watch(command, args, { seconds, bytes, stdin = "", env = {}, cwd, meanwhile }) {
  const start = performance.now();
  const child = spawn(command, args, { stdio: "pipe", detached: true, cwd, env: { ...process.env, ...env } });
  const pid = child.pid ?? 0;
  /** @type {Ended["stoppedBy"]} */
  let stoppedBy;
  let [stdout, stderr, peakBytes, ownBytes, cpuSeconds] = ["", "", 0, 0, 0];
  let isFirst = true;
  child.stdout.on("data", (data) => {
    stdout = (stdout + data).slice(-KEPT);
    if (!isFirst || !stdout.includes("\n")) return;
    isFirst = false;
    meanwhile?.(stdout.split("\n")[0] ?? "", () => child.kill("SIGTERM"));
  });
  child.stderr.on("data", (data) => {
    stderr = (stderr + data).slice(-KEPT);
  });
  child.stdin.on("error", () => undefined); // a command that is refused does not read
  child.stdin.end(stdin);
  const stop = (/** @type {"time" | "memory"} */ limit) => {
    stoppedBy ??= limit;
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // It has just ended.
    }
  };
  const timer = setTimeout(() => stop("time"), 1000 * seconds);
  const sampler = setInterval(() => {
    const { resident, own, cpu } = usageOf(pid);
    peakBytes = Math.max(peakBytes, resident);
    ownBytes = Math.max(ownBytes, own);
    cpuSeconds = Math.max(cpuSeconds, cpu);
    if (own > bytes || isScarce()) stop("memory");
  }, SAMPLE_MS);
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      clearInterval(sampler);
      const ended = { code, signal, stoppedBy, seconds: (performance.now() - start) / 1000 };
      resolve({ ...ended, cpuSeconds, peakBytes, ownBytes, stdout, stderr });
    });
  });
}

// Of the system's clock, in which /proc counts.
const TICKS = 100;

/**
 * Resident bytes and CPU seconds of a process and its children; 0 where the system has no /proc.
 * @param {number} pid @returns {{ resident: number, own: number, cpu: number }}
 */
function usageOf(pid) {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const field = (/** @type {string} */ name) =>
      1024 * Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1] ?? 0);
    const children = readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").split(" ").filter(Boolean).map(Number),
    );
    const all = children.map(usageOf);
    const sum = (/** @type {"resident" | "own" | "cpu"} */ of) => all.reduce((total, one) => total + one[of], 0);
    const own = field("RssAnon") + field("RssShmem");
    // After the name: user and system time are the 12th and 13th, those of children that have ended the next two.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\)/s, "").trim().split(" ").map(Number);
    const ticks = fields.slice(11, 15).reduce((total, one) => total + one, 0);
    return { resident: field("VmRSS") + sum("resident"), own: own + sum("own"), cpu: ticks / TICKS + sum("cpu") };
  } catch {
    return { resident: 0, own: 0, cpu: 0 }; // it has just ended
  }
}

/** Whether the machine has nearly no memory left, whoever took it. */
function isScarce() {
  try {
    return Number(/MemAvailable:\s+(\d+)/.exec(readFileSync("/proc/meminfo", "utf8"))?.[1]) < 500_000;
  } catch {
    return false;
  }
}

/** What no refusal says: the traces of a bug, and of limits of JavaScript, WebAssembly and libraries. */
const BUG =
  /\n\s+at \S+ ?\(|"code":"internal"|unexpected error|RangeError|Invalid typed array length|Array buffer allocation|protocol ?buf|bad_alloc|heap out of memory|core dumped|not enough memory, or address space/i;

/**
 * @param {Ended} ended
 * @param {{ codes: number[], refusalSeconds: number }} options codes: exit statuses of a command that works
 * @returns {Verdict}
 */
export function judge(ended, { codes, refusalSeconds }) {
  const { code, signal, stoppedBy, seconds, cpuSeconds, ownBytes, stdout, stderr } = ended;
  // Others may keep the machine busy.
  const busy = cpuSeconds || seconds;
  const message = messageOf(stdout, stderr);
  const failed = (/** @type {string} */ why) => ({ outcome: /** @type {const} */ ("failed"), message: why });
  if (stoppedBy === "time") return failed(`not finished in ${seconds.toFixed(0)} s`);
  if (stoppedBy === "memory") return failed(`took ${(ownBytes / 1e9).toFixed(1)} GB`);
  if (signal) return failed(`ended by ${signal}`);
  const bug = BUG.exec(`${stdout}\n${stderr}`)?.[0];
  if (bug) return failed(message || bug);
  if (code !== null && codes.includes(code) && !isError(stdout)) return { outcome: "works", message: "" };
  if (code !== 1 && code !== 2) return failed(`exit status ${code}: ${message}`);
  if (!message) return failed(`exit status ${code} without a message`);
  if (busy > refusalSeconds) return failed(`refused after ${busy.toFixed(0)} s of CPU time: ${message}`);
  // A model that is refused before anything is computed is not in memory.
  if (ownBytes > REFUSAL_BYTES) return failed(`refused with ${(ownBytes / 1e9).toFixed(1)} GB in memory: ${message}`);
  return { outcome: "refused", message };
}

/** Whether a command has printed an error. @param {string} stdout */
export const isError = (stdout) => /^\{"code":/m.test(stdout);

/** The message of an error, from --json or from the terminal's text. @param {string} stdout @param {string} stderr */
function messageOf(stdout, stderr) {
  const line = stdout.split("\n").findLast((one) => one.startsWith('{"code":'));
  if (line) {
    try {
      return String(JSON.parse(line).message);
    } catch {
      return line;
    }
  }
  return (
    /(?:^|\n)(?:unexpected )?error: ([\s\S]*)$/.exec(stderr)?.[1]?.trim() ?? stderr.trim().split("\n").at(-1) ?? ""
  );
}
