// Runs one step in this process: reads what it is to do from its folder, does it with layergraft's own modules, leaves
// its result there. Whose process it is, and when, is execute/'s.

import { readdir, readFile, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { exists, LayergraftError } from "../../core/index.js";
import { analyzeExperts, suggestRecipes } from "../../merge/index.js";
import { checkRun, handOverRun, RUN_FILES, startTrlRun, TRL_FILES, trainRun } from "../../train/index.js";
import type { AnswererPool } from "./answer.js";
import { StepInputs } from "./inputs.js";
import { readResult, type StepResult, writeResult } from "./result.js";
import { EVALUATION, runEvaluation } from "./run-evaluation.js";
import type { AnalyzeStep, Step, TrainStep } from "./step.js";
import { takeStepLock } from "./step-lock.js";
import { STEP_FILES, type StepOrder, type StepSettings, withFolders } from "./step-order.js";

export interface RunStepOptions {
  /** Models that stay open for the next step; those of this step alone are closed without it. */
  readonly answerers?: AnswererPool | undefined;
  readonly signal?: AbortSignal | undefined;
  /** How far it is, from 0 to 1, and a word on it. */
  readonly onProgress?: ((share: number, what: string) => void) | undefined;
}

/** What a kind of step needs to run. */
export interface StepContext extends RunStepOptions {
  /** The step's folder, absolute. */
  readonly folder: string;
  /** Folders of the models that the step names by identity. */
  readonly folders: Readonly<Record<string, string>>;
  readonly settings: StepSettings;
  /** What it reads, as it was when the step began. */
  readonly inputs: StepInputs;
}

/**
 * Runs the step of a folder, if it is not done already. A step that was stopped goes on where its module can.
 * @throws {LayergraftError} code `changed` if its models or data are not, or did not stay, what the experiment identified;
 *   what it made of them is removed
 * @throws whatever its module throws; nothing is left that looks like a result then
 */
export async function runStepFolder(folder: string, options: RunStepOptions = {}): Promise<StepResult> {
  const { step, folders, settings } = JSON.parse(await readFile(join(folder, STEP_FILES.order), "utf8")) as StepOrder;
  const done = await readResult(folder, step.kind);
  if (done) return done;
  const lock = await takeStepLock(folder, {
    signal: options.signal,
    onWait: () => options.onProgress?.(0, "waiting for the process that runs this step already"),
  });
  try {
    // Whoever holds the step's lock has the evaluation in it, too; that of a machine that is gone would be waited for.
    await rm(join(folder, EVALUATION, ".layergraft-lock"), { force: true });
    const known = await readResult(folder, step.kind); // what the process before us left in the end
    if (known) return known;
    const inputs = await StepInputs.open(
      { folders, ...(step.kind === "train" ? { run: step.run, data: step.data } : {}) },
      { folder: settings.folder, cache: resolve(folder, "..", "..") },
    );
    const context: StepContext = { ...options, folder: resolve(folder), folders, settings, inputs };
    const began = performance.now();
    const result = { ...(await runKind(step, context)), seconds: (performance.now() - began) / 1000 };
    await writeResult(folder, result);
    return result;
  } finally {
    await lock.release();
  }
}

function runKind(step: Step, context: StepContext): Promise<StepResult> {
  if (step.kind === "train") return runTraining(step, context);
  return step.kind === "analyze" ? runAnalysis(step, context) : runEvaluation(step, context);
}

async function runTraining(
  step: TrainStep,
  { folder, folders, settings, inputs, signal, onProgress }: StepContext,
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
  // By what they hold: hours are not thrown away because somebody linked to a file.
  try {
    await inputs.checkContents();
  } catch (error) {
    if (error instanceof LayergraftError && error.code === "changed") await rm(out, { recursive: true, force: true });
    throw error;
  }
  const isAdapter = run.method === "lora" && !run.lora?.merge;
  const made = step.trl ? TRL_FILES.out : "";
  const checkpoints = await checkpointsIn(join(out, made), join("run", made));
  const last = checkpoints.at(-1);
  if (!last) throw new LayergraftError("result", `the run in ${out} ended without a checkpoint`, { file: out });
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
  { folders, settings, inputs, signal, onProgress }: StepContext,
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
  await inputs.check();
  const named = { base: "base", task: "task", language: "language" };
  const suggested = suggestRecipes({ analysis, sources: named });
  return {
    kind: "analyze",
    suggested: suggested.map(({ name, reason, recipe }) => ({ name, reason, recipe: { ...recipe } })),
  };
}
