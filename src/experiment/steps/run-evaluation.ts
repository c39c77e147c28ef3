// Runs an evaluation step: opens who answers, asks, and makes a result of the answers. What is asked and how it is judged
// is evaluate/'s; which steps there are, run-step.ts's callers'.

import { rm } from "node:fs/promises";
import { join } from "node:path";
import { formatShare, LayergraftError, OutputError } from "../../core/index.js";
import { type EvaluateOptions, type Evaluation, evaluate, openSandbox } from "../../evaluate/index.js";
import { AnswererPool } from "./answer.js";
import { dataAccess, openTask, readItems } from "./items.js";
import type { EvaluationResult } from "./result.js";
import type { StepContext } from "./run-step.js";
import type { EvaluateStep } from "./step.js";
import { withFolders } from "./step-order.js";

/** Where the answers of a step are, in its folder. */
export const EVALUATION = "evaluation";

/** @throws whatever asking throws; answers so far are kept then, for the next try */
export async function runEvaluation(step: EvaluateStep, context: StepContext): Promise<EvaluationResult> {
  const { folder, folders, settings, inputs, answerers, signal, onProgress } = context;
  const { request, items: places, digest } = step;
  const opened = await openTask(request, settings.folder);
  const task = await readItems(
    { task: opened, places, limit: request.limit, digest },
    dataAccess(settings.data),
    signal,
  );
  const sandbox = task.executes
    ? await openSandbox({ allowCode: settings.allowCode, unsafeCode: settings.unsafeCode, signal })
    : undefined;
  const out = join(folder, EVALUATION);
  await inputs.begin(folder, () => rm(out, { recursive: true, force: true }));
  const pool = answerers ?? new AnswererPool();
  const { backend, openSeconds, mergeSeconds } = await pool.get(withFolders(step.model, folders), {
    ...{ backend: step.backend, folder, signal },
    ...{ threads: settings.threads, inputs, identity: step.model },
  });
  const began = performance.now();
  try {
    const { results, samples } = await evaluateAnew({
      tasks: [task],
      backend,
      data: dataAccess(settings.data),
      // Not its label: names and places may change before it is gone on with.
      source: step.key,
      out,
      resume: true,
      ...(places === null && request.limit !== undefined ? { limit: request.limit } : {}),
      sandbox,
      signal,
      onProgress: ({ done, total, score, metric, refused }) => {
        const so = score === undefined ? `${done} of ${total}` : `${metric} ${formatShare(score)} so far`;
        onProgress?.(done / total, refused === 0 ? so : `${so}, ${refused} unanswered`);
      },
    });
    // Before anything is kept: what was asked may have been another model.
    await inputs.check();
    const [headline] = task.metrics;
    const items = (samples.get(task.name) ?? []).map(({ id, verdict }, i) => ({
      index: places?.[i] ?? i,
      id,
      value: (headline && (verdict?.[headline.of] as number | number[] | undefined)) ?? null,
    }));
    const unscored = items.filter(({ value }) => value === null).length;
    const score = results.tasks[0]?.scores[0];
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
      ...{ openSeconds, mergeSeconds, answerSeconds: (performance.now() - began) / 1000 },
    };
  } catch (error) {
    if (error instanceof LayergraftError && error.code === "changed") await rm(out, { recursive: true, force: true });
    throw error;
  } finally {
    if (!answerers) await pool.close();
  }
}

/** Goes on with what an earlier try left; where that was begun otherwise, by another version perhaps, from the start. */
async function evaluateAnew(options: EvaluateOptions & { readonly out: string }): Promise<Evaluation> {
  try {
    return await evaluate(options);
  } catch (error) {
    if (!(error instanceof OutputError && error.where.field === "settings")) throw error;
    await rm(options.out, { recursive: true, force: true });
    return evaluate(options);
  }
}
