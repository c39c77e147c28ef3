// What is said to Slurm and what it answers, as text: job scripts, and the tables of squeue, sacct and scontrol. Runs no
// command.
import type { Outcome } from "./executor.js";

/** What a step asks of the cluster. */
export interface SlurmResources {
  readonly cores?: number | undefined;
  /** Bytes. */
  readonly memory?: number | undefined;
  /** What --gres asks for. */
  readonly gpus?: string | undefined;
  readonly time?: string | undefined;
  readonly partition?: string | undefined;
  /** Passed on as they are. */
  readonly options?: readonly string[] | undefined;
}

export interface JobScript {
  readonly name: string;
  /** File with the folders of the steps, one a line; task i takes line i + 1. */
  readonly list: string;
  readonly count: number;
  readonly resources: SlurmResources;
  /** Shell lines before the step, such as `module load`. */
  readonly setup?: string | undefined;
  /** The program that runs a step, to which the folder is added. */
  readonly command: readonly string[];
}

/**
 * The code with which a job's process leaves whose step may be tried again: it was told to stop. Others are errors. As
 * EX_TEMPFAIL of sysexits.h.
 */
export const EXIT_AGAIN = 75;

/** A word that the shell takes as it is. */
export function shellQuote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/**
 * The script of an array of steps. Each task notes how it ended in its step's folder, because a cluster may forget its
 * jobs in minutes, and may keep no accounts.
 */
export function jobScript({ name, list, count, resources, setup, command }: JobScript): string {
  const { cores = 1, memory, gpus, time, partition, options = [] } = resources;
  const asked = [
    `--job-name=${name}`,
    `--array=0-${count - 1}`,
    `--cpus-per-task=${cores}`,
    ...(memory === undefined ? [] : [`--mem=${Math.ceil(memory / 2 ** 20)}M`]),
    ...(gpus === undefined ? [] : [`--gres=${gpus}`]),
    ...(time === undefined ? [] : [`--time=${time}`]),
    ...(partition === undefined ? [] : [`--partition=${partition}`]),
    "--requeue",
    "--open-mode=append",
    "--output=/dev/null",
    ...options,
  ];
  return [
    "#!/bin/bash",
    ...asked.map((option) => `#SBATCH ${option}`),
    `folder=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" ${shellQuote(list)})`,
    'exec >> "$folder/log.txt" 2>&1',
    "began=$(date +%s)",
    "note() {",
    // Under another name first, so that nobody reads half of it.
    `  printf '{"code":%d,"host":"%s","job":"%s","began":%d,"ended":%d}\\n' "$1" "$(hostname)" \\`,
    '    "$SLURM_ARRAY_JOB_ID"_"$SLURM_ARRAY_TASK_ID" "$began" "$(date +%s)" > "$folder/exit.json.new"',
    '  mv "$folder/exit.json.new" "$folder/exit.json"',
    "}",
    ...(setup === undefined ? [] : [setup.trimEnd()]),
    `${command.map(shellQuote).join(" ")} "$folder"`,
    "code=$?",
    'note "$code"',
    'exit "$code"',
    "",
  ].join("\n");
}

/** What is known of a job's task. */
export type JobState =
  | { readonly state: "waiting"; readonly reason: string }
  | { readonly state: "running" }
  | {
      readonly state: "ended";
      readonly outcome: Exclude<Outcome["outcome"], "done"> | "unknown";
      readonly reason: string;
    };

const WAITING = new Set([
  "PENDING",
  "REQUEUED",
  "REQUEUE_HOLD",
  "REQUEUE_FED",
  "SPECIAL_EXIT",
  "CONFIGURING",
  "RESV_DEL_HOLD",
]);
const RUNNING = new Set(["RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"]);
/** The machine's problem, or the cluster's: worth another try. */
const LOST = new Set(["NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL"]);

/** A word of Slurm as a state; `CANCELLED by 0` and `OUT_OF_ME+` come so. */
export function jobState(word: string, reason = ""): JobState {
  const [name = ""] = word.trim().split(/[\s+]/);
  if (WAITING.has(name)) return { state: "waiting", reason };
  if (RUNNING.has(name)) return { state: "running" };
  if (LOST.has(name)) return { state: "ended", outcome: "lost", reason: `Slurm says ${name}` };
  if (name.startsWith("OUT_OF_ME")) {
    return {
      state: "ended",
      outcome: "failed",
      reason: "it needed more memory than it asked for (Slurm says OUT_OF_MEMORY); raise executor.memory",
    };
  }
  if (name === "TIMEOUT" || name === "DEADLINE") {
    return { state: "ended", outcome: "failed", reason: `its time was over (Slurm says ${name}); raise executor.time` };
  }
  if (name === "CANCELLED")
    return { state: "ended", outcome: "lost", reason: "it was cancelled (Slurm says CANCELLED)" };
  return {
    state: "ended",
    outcome: "unknown",
    reason: name === "" ? "Slurm no longer knows it" : `Slurm says ${name}`,
  };
}

/**
 * Reads `squeue --noheader --array --format=%i|%T|%r`: tasks by their id, such as `12_3`. Tasks that have not begun may
 * stand together as `12_[4-6,9%2]` where --array does not part them.
 */
export function readQueue(text: string): Map<string, JobState> {
  const states = new Map<string, JobState>();
  for (const line of text.split("\n")) {
    const [id = "", word = "", reason = ""] = line.trim().split("|");
    for (const one of tasksOf(id)) states.set(one, jobState(word, reason));
  }
  return states;
}

/**
 * Reads `squeue --noheader --array --format=%i|%T|%o`: the scripts of tasks that wait or run, by the tasks' ids. Those that
 * are ending, as after scancel, are left out.
 */
export function readScripts(text: string): Map<string, string> {
  const scripts = new Map<string, string>();
  for (const line of text.split("\n")) {
    const [, id = "", word = "", script = ""] = /^\s*([^|]*)\|([^|]*)\|(.*)$/.exec(line) ?? [];
    if (word === "COMPLETING" || jobState(word).state === "ended") continue;
    for (const one of tasksOf(id)) scripts.set(one, script);
  }
  return scripts;
}

/** Reads `sacct --noheader --parsable2 --allocations --format=JobID,State`; empty where there are no accounts. */
export function readAccounts(text: string): Map<string, JobState> {
  const states = new Map<string, JobState>();
  for (const line of text.split("\n")) {
    const [id = "", word = ""] = line.trim().split("|");
    for (const one of tasksOf(id)) states.set(one, jobState(word));
  }
  return states;
}

/** Reads `scontrol show job --oneliner`: the finished, too, for as long as Slurm keeps them. */
export function readJobs(text: string): Map<string, JobState> {
  const states = new Map<string, JobState>();
  for (const line of text.split("\n")) {
    const field = (name: string) => new RegExp(`(?:^|\\s)${name}=(\\S*)`).exec(line)?.[1];
    const array = field("ArrayJobId") ?? field("JobId");
    const task = field("ArrayTaskId");
    const word = field("JobState");
    if (array === undefined || word === undefined) continue;
    for (const one of task === undefined
      ? [array]
      : tasksOf(/^\d+$/.test(task) ? `${array}_${task}` : `${array}_[${task}]`)) {
      states.set(one, jobState(word, field("Reason") ?? ""));
    }
  }
  return states;
}

// More tasks than any cluster lets an array have; bounds what a line can make of us.
const MOST_TASKS = 100_000;

function tasksOf(id: string): string[] {
  if (/^\d+(_\d+)?$/.test(id)) return [id];
  const match = /^(\d+)_\[([\d,-]+)(?:%\d+)?\]$/.exec(id);
  if (!match) return [];
  const [, job, ranges = ""] = match;
  return ranges.split(",").flatMap((range) => {
    const [from = 0, to = from] = range.split("-").map(Number);
    const count = Math.min(MOST_TASKS, to - from + 1);
    return Array.from({ length: Math.max(0, count) }, (_, i) => `${job}_${from + i}`);
  });
}
