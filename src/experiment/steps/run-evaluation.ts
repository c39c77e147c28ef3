import { rm } from "node:fs/promises";
import { join } from "node:path";
import { averageRepeats } from "../../evaluate/scoring/index.js";
import { isTie, type Task } from "../../evaluate/tasks/index.js";
import { formatNumber } from "../../figures/index.js";
import { LayergraftError, OutputError } from "../../kit/index.js";
import { evaluateTasks, type OpenedBackend, type TaskRunOptions, taskData } from "../../verbs/shared/index.js";
import { openTask, readItems } from "./items.js";
import { ModelPool } from "./model-pool.js";
import type { EvaluationResult } from "./result.js";
import type { StepContext } from "./run-step.js";
import type { EvaluateStep } from "./step.js";
import { withFolders } from "./step-state.js";

export const EVALUATION = "evaluation";

/** @throws whatever the evaluation throws; finished answers are kept for the next attempt */
export async function runEvaluation(step: EvaluateStep, context: StepContext): Promise<EvaluationResult> {
  const { folder, folders, settings, checkInputs, models, signal, onProgress } = context;
  const { request, items: indexes } = step;
  const data = taskData(settings.data);
  const opened = await openTask(request, settings.folder);
  const task = await readItems(opened, step, data, signal);
  const out = join(folder, EVALUATION);
  const pool = models ?? new ModelPool();
  let [openSeconds, mergeSeconds, began] = [0, 0, performance.now()];
  const open = async (): Promise<OpenedBackend> => {
    const model = await pool.get(withFolders(step.model, folders), {
      backend: step.backend,
      type: step.type,
      templateVariables: step.chat_template_kwargs,
      folder,
      signal,
      onProgress: (what) => onProgress?.(0, what),
      threads: settings.threads,
      identity: step.model,
      onNote: context.note,
    });
    openSeconds += model.openSeconds;
    mergeSeconds += model.mergeSeconds;
    began = performance.now();
    // The pool closes it.
    return { backend: model.backend, name: step.key, close: async () => undefined };
  };
  try {
    const { results, samples } = await resumeOrRestart([task], open, {
      data,
      out,
      resume: true,
      now: settings.started === undefined ? undefined : new Date(settings.started),
      allowCode: settings.allowCode,
      unsafeCode: settings.unsafeCode,
      signal,
      // Not its label or folder, which may change before it is resumed.
      source: step.key,
      onNote: context.note,
      ...(indexes === null && request.limit !== undefined ? { limit: request.limit } : {}),
      onProgress: ({ done, total, score, metric, scale, refused }) => {
        const number = score === undefined ? "" : formatNumber({ value: score, scale });
        const soFar = score === undefined ? `${done} of ${total}` : `${metric} ${number} so far`;
        onProgress?.(done / total, refused === 0 ? soFar : `${soFar}, ${refused} unanswered`);
      },
    });
    await checkInputs();
    for (const text of results.tasks[0]?.notes ?? []) context.note(`${task.name}: ${text}`);
    const [metric] = task.metrics;
    const items = averageRepeats(samples.get(task.name) ?? []).map(({ id, verdict, output }, i) => ({
      index: indexes?.[i] ?? i,
      id,
      value: (metric && (verdict?.[metric.of] as number | number[] | undefined)) ?? null,
      ...(isTie(output) ? { tied: true as const } : {}),
    }));
    const unscored = items.filter(({ value }) => value === null).length;
    const [score, ...others] = results.tasks[0]?.scores ?? [];
    const isAside = (name: string) => task.metrics.some((one) => one.name === name && one.isAside);
    if (!score || Number.isNaN(score.value) || unscored === items.length) {
      throw new LayergraftError(
        "backend",
        `none of the ${items.length} answers on ${task.name} could be judged; see ${join(out, "samples-*.jsonl")}`,
        { file: out },
      );
    }
    return {
      kind: "evaluate",
      items,
      score: score.scale === "points" ? score.value / 100 : score.value,
      unscored,
      asides: others
        .filter(({ metric }) => isAside(metric))
        .map(({ metric, title, value, items }) => ({ metric, title, value, items })),
      openSeconds,
      mergeSeconds,
      answerSeconds: (performance.now() - began) / 1000,
    };
  } catch (error) {
    if (error instanceof LayergraftError && error.code === "changed") {
      await rm(out, { recursive: true, force: true });
      // The model that is open may be the one that was there meanwhile.
      await pool.close();
    }
    throw error;
  } finally {
    if (!models) await pool.close();
  }
}

/** Resumes an evaluation; restarts it if it was begun with other settings, such as by another version. */
async function resumeOrRestart(
  tasks: readonly Task[],
  open: () => Promise<OpenedBackend>,
  options: TaskRunOptions & { readonly out: string },
) {
  try {
    return await evaluateTasks(tasks, options, open);
  } catch (error) {
    if (!(error instanceof OutputError && error.where.field === "settings")) throw error;
    await rm(options.out, { recursive: true, force: true });
    return evaluateTasks(tasks, options, open);
  }
}
