import { shellQuote } from "../../kit/printing/index.js";

export interface SlurmResources {
  readonly cores?: number | undefined;
  /** Bytes. */
  readonly memory?: number | undefined;
  /** Value of --gres. */
  readonly gpus?: string | undefined;
  readonly time?: string | undefined;
  readonly partition?: string | undefined;
  /** More options of sbatch. */
  readonly options?: readonly string[] | undefined;
}

export interface JobScript {
  readonly name: string;
  readonly folder: string;
  readonly resources: SlurmResources;
  /** Shell lines before the step, such as `module load`. */
  readonly setup?: string | undefined;
  /** Program that runs a step; its last argument is the step's folder. */
  readonly command: readonly string[];
}

/** Exit code of a job that was stopped, so its step can be retried; EX_TEMPFAIL of sysexits.h. */
export const EXIT_AGAIN = 75;

/**
 * Writes the script of a step. It writes its exit code into the step's folder, because Slurm forgets jobs after minutes
 * (MinJobAge) where accounting is off.
 */
export function jobScript({ name, folder, resources, setup, command }: JobScript): string {
  const { cores = 1, memory, gpus, time, partition, options = [] } = resources;
  const asked = [
    `--job-name=${name}`,
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
    `folder=${shellQuote(folder)}`,
    'exec >> "$folder/log.txt" 2>&1',
    "began=$(date +%s)",
    "note() {",
    // Renamed when complete, so that nobody reads half of it.
    `  printf '{"code":%d,"host":"%s","job":"%s","began":%d,"ended":%d}\\n' "$1" "$(hostname)" \\`,
    '    "$SLURM_JOB_ID" "$began" "$(date +%s)" > "$folder/exit.json.new"',
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

/** A job in the table of squeue. */
export interface QueuedJob {
  /** Slurm's word for its state, such as `RUNNING`. */
  readonly state: string;
  readonly script: string;
}

export interface JobEnd {
  /** Undefined: Slurm does not say. */
  readonly outcome: "failed" | "lost" | undefined;
  readonly reason: string;
}

/** States of jobs that wait or run (squeue's manual, "Job state codes"). */
const OPEN: ReadonlySet<string> = new Set([
  ...["PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "CONFIGURING", "RESV_DEL_HOLD"],
  ...["RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"],
]);

/** Ends that are not the step's doing. */
const LOST: ReadonlySet<string> = new Set([
  ...["NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL", "CANCELLED"],
]);

export function isOpen(state: string): boolean {
  return OPEN.has(state);
}

/** What the state of a job that ended means. sacct also writes `CANCELLED by 0` and `OUT_OF_ME+`. */
export function endOf(state: string): JobEnd {
  const [name = ""] = state.split(/[\s+]/);
  const slurm = `(Slurm: ${name})`;
  if (LOST.has(name)) return { outcome: "lost", reason: `its job ended early ${slurm}` };
  if (name.startsWith("OUT_OF_ME")) {
    return { outcome: "failed", reason: `it ran out of memory ${slurm}; raise executor.memory` };
  }
  if (name === "TIMEOUT" || name === "DEADLINE") {
    return { outcome: "failed", reason: `it reached its time limit ${slurm}; raise executor.time` };
  }
  return { outcome: undefined, reason: `its job ended without an exit code ${slurm}` };
}

/** Jobs by id, from `squeue --noheader --format=%i|%T|%o`. */
export function readQueue(text: string): Map<string, QueuedJob> {
  const lines = text.matchAll(/^\s*(\d+)\|(\w+)\|(.*)$/gm);
  return new Map(Array.from(lines, ([, id = "", state = "", script = ""]) => [id, { state, script }]));
}

/** States of jobs by id, from `sacct --noheader --parsable2 --allocations --format=JobID,State`. */
export function readAccounts(text: string): Map<string, string> {
  return new Map(Array.from(text.matchAll(/^\s*(\d+)\|(.+?)\s*$/gm), ([, id = "", state = ""]) => [id, state]));
}
