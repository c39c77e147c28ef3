// Runs one step in this process: reads what it is to do from its folder, does it with layergraft's own modules, leaves
// its result there. Whose process it is, and when, is execute/'s.
import { readdir, readFile, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { analyzeExperts, suggestRecipes } from "../../analysis/index.js";
import { LayergraftError } from "../../core/errors.js";
import { exists } from "../../core/files.js";
import { type Lock, takeLock } from "../../core/lock.js";
import { evaluate, openSandbox } from "../../evaluate/index.js";
import { checkRun, handOverRun, RUN_FILES, startTrlRun, TRL_FILES, trainRun } from "../../train/index.js";
import { STEP_FILES, type StepOrder, type StepSettings, withFolders } from "../run/store.js";
import { AnswererPool } from "./answer.js";
import { dataAccess, openTask, withItems } from "./items.js";
import { readResult, type StepResult, writeResult } from "./result.js";
import type { AnalyzeStep, EvaluateStep, TrainStep } from "./step.js";

export interface RunStepOptions {
  /** Models that stay open for the next step; those of this step alone are closed without it. */
  readonly answerers?: AnswererPool | undefined;
  readonly signal?: AbortSignal | undefined;
  /** How far it is, from 0 to 1, and a word on it. */
  readonly onProgress?: ((share: number, what: string) => void) | undefined;
}

/** What a kind of step needs to run. */
interface StepContext extends RunStepOptions {
  /** The step's folder, absolute. */
  readonly folder: string;
  /** Folders of the models that the step names by identity. */
  readonly folders: Readonly<Record<string, string>>;
  readonly settings: StepSettings;
}

/**
 * Runs the step of a folder, if it is not done already. A step that was stopped goes on where its module can.
 * @throws whatever its module throws; nothing is left that looks like a result then
 */
export async function runStepFolder(folder: string, options: RunStepOptions = {}): Promise<StepResult> {
  const { step, folders, settings } = JSON.parse(await readFile(join(folder, STEP_FILES.order), "utf8")) as StepOrder;
  const done = await readResult(folder, step.kind);
  if (done) return done;
  const context: StepContext = { ...options, folder: resolve(folder), folders, settings };
  const lock = await succeed(context);
  try {
    const known = await readResult(folder, step.kind); // what the process before us left in the end
    const result =
      known ??
      (step.kind === "train"
        ? await runTraining(step, context)
        : step.kind === "analyze"
          ? await runAnalysis(step, context)
          : await runEvaluation(step, context));
    if (!known) await writeResult(folder, result);
    return result;
  } finally {
    await lock.release();
  }
}

/** The lock that the process holds which runs a step, in the step's folder. */
export const STEP_LOCK = "step.lock";

/** How long a process may take to leave whose runner was killed, or to count as gone with its machine, in seconds. */
const SECONDS_TO_LEAVE = 330;

/** Takes the place of whoever ran this step before, who may need a moment to notice that its runner is gone. */
async function succeed({ folder, signal }: StepContext): Promise<Lock> {
  for (let waited = 0; ; waited += 0.25) {
    try {
      const lock = await takeLock(folder, { name: STEP_LOCK });
      // That of the evaluation knows processes of its own machine alone, and a cluster tries again on another.
      await rm(join(folder, EVALUATION, ".layergraft-lock"), { force: true });
      return lock;
    } catch (error) {
      const isHeld = error instanceof LayergraftError && error.code === "locked";
      if (!isHeld || waited > SECONDS_TO_LEAVE || signal?.aborted) throw error;
    }
    await sleep(250);
  }
}

const EVALUATION = "evaluation";

async function runTraining(
  step: TrainStep,
  { folder, folders, settings, signal, onProgress }: StepContext,
): Promise<StepResult> {
  const out = join(folder, "run");
  const run = checkRun({
    ...(withFolders(step.run as never, folders) as unknown as Record<string, unknown>),
    out,
    ...(settings.threads === undefined ? {} : { threads: settings.threads }),
  });
  const where = { run, folder: settings.folder, signal };
  if (step.trl) {
    await trainWithTrl(step.trl, out, where, onProgress);
  } else {
    const isBegun = await hasState(out);
    await trainRun({
      ...{ ...where, resume: isBegun, force: !isBegun },
      onProgress: ({ step: at, steps, loss, tokensPerSecond }) => {
        const speed = `${Math.round(tokensPerSecond).toLocaleString("en-US")} tokens/s`;
        onProgress?.(at / steps, `loss ${loss.toFixed(3)}, ${speed}`);
      },
    });
  }
  const isAdapter = run.method === "lora" && !run.lora?.merge;
  const made = step.trl ? TRL_FILES.out : "";
  const checkpoints = await checkpointsIn(join(out, made), join("run", made));
  const last = checkpoints.at(-1);
  if (!last) throw new LayergraftError("ledger", `the run in ${out} ended without a checkpoint`, { file: out });
  // What a run keeps to be resumed is three times its model, and of no use any more.
  await rm(join(out, made, RUN_FILES.states), { recursive: true, force: true });
  // What the run was told to make at its end is what it is for.
  const product = run.lora?.merge ? "merged" : run.revert ? RUN_FILES.reverted : undefined;
  const found = product === undefined ? checkpoints : [{ path: join("run", made, product), samples: last.samples }];
  return { kind: "train", checkpoints: found.map((one) => ({ ...one, ...(isAdapter ? { isAdapter } : {}) })) };
}

/** Writes the run for TRL, if it is not there from an earlier try, and runs it here to its end. */
async function trainWithTrl(
  trl: NonNullable<TrainStep["trl"]>,
  out: string,
  where: {
    readonly run: ReturnType<typeof checkRun>;
    readonly folder: string;
    readonly signal: AbortSignal | undefined;
  },
  onProgress: RunStepOptions["onProgress"],
): Promise<void> {
  const { python, processes, precision, gradient_checkpointing: gradientCheckpointing } = trl;
  if (!(await exists(join(out, TRL_FILES.launch)))) {
    await handOverRun({
      ...{ ...where, cluster: { processes, precision, gradientCheckpointing } },
      onWritten: (done, of) => onProgress?.(0, `writing sequences, ${Math.round((100 * done) / of)}%`),
    });
  }
  await startTrlRun({
    ...{ folder: out, python, signal: where.signal },
    onLine: (line) => onProgress?.(progressOf(line), line.trim().slice(0, 100)),
  });
}

/** The share that PyTorch's bars show, such as ` 43%|####`; 0 in other lines. */
function progressOf(line: string): number {
  return Number(/(\d{1,3})%\|/.exec(line)?.[1] ?? 0) / 100;
}

async function hasState(out: string): Promise<boolean> {
  const names = await readdir(out).catch((): string[] => []);
  return names.includes(RUN_FILES.states);
}

/** Checkpoints of a run's folder, in the order of their samples. */
async function checkpointsIn(out: string, name: string): Promise<{ path: string; samples: number }[]> {
  const entries = await readdir(out);
  return entries
    .flatMap((entry) => {
      const samples = /^checkpoint-(\d+)$/.exec(entry)?.[1];
      return samples === undefined ? [] : [{ path: join(name, entry), samples: Number(samples) }];
    })
    .sort((a, b) => a.samples - b.samples);
}

async function runAnalysis(
  step: AnalyzeStep,
  { folders, settings, signal, onProgress }: StepContext,
): Promise<StepResult> {
  const at = (identity: string) => folders[identity] ?? identity;
  const sources = { base: at(step.base), task: at(step.task), language: at(step.language) };
  const { analysis } = await analyzeExperts({
    base: sources.base,
    experts: { task: sources.task, language: sources.language },
    ...(settings.threads === undefined ? {} : { threads: settings.threads }),
    ...(signal ? { signal } : {}),
    onProgress: ({ doneBytes, totalBytes, phase }) => onProgress?.(doneBytes / Math.max(1, totalBytes), phase),
  });
  const named = { base: "base", task: "task", language: "language" };
  const suggested = suggestRecipes({ analysis, sources: named });
  return {
    kind: "analyze",
    suggested: suggested.map(({ name, reason, recipe }) => ({ name, reason, recipe: { ...recipe } })),
  };
}

async function runEvaluation(
  step: EvaluateStep,
  { folder, folders, settings, answerers, signal, onProgress }: StepContext,
): Promise<StepResult> {
  const task = withItems(await openTask(step.request, settings.folder), step.items, step.request.limit);
  const source = withFolders(step.model, folders);
  const sandbox = task.executes
    ? await openSandbox({ allowCode: settings.allowCode, ...(signal ? { signal } : {}) })
    : undefined;
  const pool = answerers ?? new AnswererPool();
  const { backend, openSeconds, mergeSeconds } = await pool.get(source, {
    ...{ backend: step.backend, folder, pool: join(folder, "..", "..", "layers"), signal },
    threads: settings.threads,
    memory: settings.memory,
  });
  const began = performance.now();
  try {
    const out = join(folder, EVALUATION);
    const { results, samples } = await evaluate({
      tasks: [task],
      backend,
      data: dataAccess(settings.data),
      source: step.label.replace(/^ask /, ""),
      out,
      resume: true,
      ...(step.items === null && step.request.limit !== undefined ? { limit: step.request.limit } : {}),
      sandbox,
      signal,
      onProgress: ({ done, total, score, metric }) =>
        onProgress?.(
          done / total,
          score === undefined ? `${done} of ${total}` : `${metric} ${(100 * score).toFixed(1)} so far`,
        ),
    });
    const [headline] = task.metrics;
    const score = results.tasks[0]?.scores[0];
    const items = (samples.get(task.name) ?? []).map(({ id, verdict }, i) => ({
      index: step.items?.[i] ?? i,
      id,
      value: (headline && (verdict?.[headline.of] as number | number[] | undefined)) ?? null,
    }));
    const value = score === undefined || Number.isNaN(score.value) ? 0 : score.value;
    return {
      kind: "evaluate",
      items,
      score: score?.scale === "points" ? value / 100 : value,
      ...{ openSeconds, mergeSeconds, answerSeconds: (performance.now() - began) / 1000 },
    };
  } finally {
    if (!answerers) await pool.close();
  }
}
