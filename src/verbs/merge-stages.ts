// What follows a merge: it is evaluated beside the models that it is of, and exported. What can be refused is refused before the
// merge is written; what is there of an earlier call is kept.
import { stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { compareResults, comparisonNotes, loadTasks, ResultFolder } from "../evaluate/index.js";
import type { Task } from "../evaluate/tasks/index.js";
import type { ExportPlan, FileType } from "../export/index.js";
import { exists, withFile } from "../kit/files/index.js";
import { OutputError, usageError } from "../kit/index.js";
import { formatBytes, plural } from "../kit/printing/index.js";
import type { PlanSource } from "../merge/index.js";
import { writeCardFindings } from "../merge/output/index.js";
import { type EvaluateResult, evaluate, type TaskScore } from "./evaluate.js";
import { taskData, tasksOf } from "./evaluate-run.js";
import { exportModel, planExport } from "./export.js";
import type { MergeEvaluation, MergeExport } from "./merge.js";
import { mergeFindings } from "./merge-findings.js";
import { chooseFor } from "./model.js";
import type { MergePlan } from "./plan-merge.js";
import type { Controls } from "./verb.js";

/** What follows a merge. */
export interface StageInput {
  readonly eval?: readonly string[] | undefined;
  readonly limit?: number | undefined;
  readonly export?: string | undefined;
}

/** What follows a merge, checked. */
export interface Stages {
  /** What will be done, and downloaded. */
  readonly lines: readonly string[];
  /** @param out the merge, complete */
  run(): Promise<StageResults>;
}

interface StageResults {
  readonly evaluation?: MergeEvaluation;
  readonly exported?: MergeExport;
  readonly notes: readonly string[];
  readonly warnings: readonly string[];
}

/** How the merge is called beside its sources. */
const MERGE = "merge";

/**
 * Checks what follows a merge. Reads the tasks' data, and headers.
 * @param out absolute path of the merge
 * @throws LayergraftError code `usage` if the merge is an adapter, a task executes programs, or an encoding is unknown
 * @throws as opening the tasks, the merge or its export
 */
export async function prepareStages(
  plan: MergePlan,
  { eval: names, limit, export: type }: StageInput,
  out: string,
  controls: Controls<never, never>,
): Promise<Stages> {
  const { hub, signal, onNote, folder, force } = controls;
  if (plan.recipe.as === "adapter")
    throw usageError("an adapter alone is neither evaluated nor exported. Write the whole model, or leave both out.");
  const lines: string[] = [];
  const file = `${out}.gguf`;
  if (type !== undefined) {
    const { bytes } = await planExport({ source: plan, format: "gguf", type: type as FileType }, { hub });
    const isKept = async () => {
      if (!(await exists(out))) return false;
      return isExport(file, out, await planExport({ source: out, format: "gguf", type: type as FileType }, { hub }));
    };
    if (!force && (await exists(file)) && !(await isKept()))
      throw new OutputError(`${file} already exists`, { file, option: "force" });
    lines.push(`then export ${type} to ${file}: ${formatBytes(bytes)}`);
  }
  const parents = plan.sources.filter(({ id }) => id !== "base");
  let tasks: readonly Task[] = [];
  if (names !== undefined) {
    const located =
      folder === undefined ? names : names.map((name) => (/\.ya?ml$/i.test(name) ? resolve(folder, name) : name));
    ({ tasks } = await tasksOf({ tasks: located }));
    const program = tasks.find(({ executes }) => executes);
    if (program)
      throw usageError(`${program.name} executes programs that the models write. Evaluate on it with layergraft eval.`);
    for (const id of [MERGE, ...parents.map((one) => one.id)]) await ResultFolder.check(placeOf(out, id), true);
    const loaded = await loadTasks(tasks, { data: taskData(undefined, onNote), limit, signal });
    await chooseFor(plan, { hub, signal }, {});
    const items = loaded.map(({ task, items }) => `${task.name} (${plural(items.length, "item")})`);
    lines.unshift(
      `then evaluate ${[MERGE, ...parents.map(({ id }) => id)].join(", ")} on ${items.join(", ")} into ${out}.eval`,
      ...(plan.summary.bytesOnHub > 0
        ? [`evaluating downloads the models on the hub, at most ${formatBytes(plan.summary.bytesOnHub)}`]
        : []),
    );
  }
  return {
    lines,
    async run() {
      const evaluation = names && (await evaluated(plan.recipe.method, parents, tasks, names, limit, out, controls));
      const exported = type === undefined ? undefined : await exportTo(file, out, type as FileType, controls);
      return {
        ...(evaluation ? { evaluation } : {}),
        ...(exported ? { exported: exported.result } : {}),
        notes: [...(evaluation ? comparisonNotes(evaluation.comparison) : []), ...(exported?.notes ?? [])],
        warnings: exported?.warnings ?? [],
      };
    },
  };
}

const placeOf = (out: string, id: string) => join(`${out}.eval`, id);

async function evaluated(
  method: string,
  parents: readonly PlanSource[],
  tasks: readonly Task[],
  names: readonly string[],
  limit: number | undefined,
  out: string,
  { hub, signal, folder, onNote, onProgress }: Controls<never, never>,
): Promise<MergeEvaluation> {
  const models = [{ id: MERGE, source: out }, ...parents.map((one) => ({ id: one.id, source: referenceOf(one) }))];
  const place = (id: string) => placeOf(out, id);
  const results: MergeEvaluation["models"][number][] = [];
  for (const { id, source } of models) {
    const report = onProgress as Controls["onProgress"];
    const options = {
      tasks: names,
      limit,
      out: place(id),
      resume: true,
      name: id,
      hub: { ...hub, fetch: "files" as const },
      signal,
      folder,
      onNote,
      onProgress: ({ phase, ...progress }: Parameters<NonNullable<typeof report>>[0]) =>
        report?.({ ...progress, phase: `${id}: ${phase}` }),
    };
    const { scores } = await resumeOrRestart(() => evaluate(source, options), place(id));
    results.push({
      id,
      source,
      scores,
      average: averageOf(
        scores,
        tasks.map(({ name }) => name),
      ),
    });
  }
  const comparison = await compareResults({ results: models.map(({ id }) => place(id)) });
  const found = mergeFindings(
    { method, names: parents.map(({ name }) => name), models: results, comparison },
    tasks.map(({ name, title }) => ({ name, title })),
  );
  await writeCardFindings(out, found);
  const [own, ...others] = results.map(({ average }) => average);
  const best = Math.max(...others);
  return {
    folder: `${out}.eval`,
    models: results,
    comparison,
    verdicts: found.map(({ title, verdict }) => (tasks.length > 1 ? `${title}: ${verdict}` : verdict)),
    isWorse: others.length > 0 && (own ?? 0) < best,
  };
}

/** An evaluation of an earlier merge of this name is replaced. */
async function resumeOrRestart(work: () => Promise<EvaluateResult>, folder: string): Promise<EvaluateResult> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof OutputError && error.where.field === "settings")) throw error;
    await ResultFolder.remove(folder);
    return work();
  }
}

/** The name by which a source of a plan is opened again. */
function referenceOf({ folder, adapter, revision, adapterRevision, name }: PlanSource): string {
  const model = revision === undefined ? folder : `${name.split("+")[0]}@${revision}`;
  if (adapter === undefined) return model;
  return adapterRevision === undefined ? `${model}+${adapter}` : name;
}

/**
 * The mean of the main scores, from 0 to 1. A task that the model could not answer counts as 0.
 * @param tasks names of all tasks
 */
export function averageOf(
  scores: readonly Pick<TaskScore, "task" | "value" | "scale">[],
  tasks: readonly string[],
): number {
  const shares = tasks.map((name) => {
    const { value = 0, scale = "share" } = scores.find(({ task }) => task === name) ?? {};
    return Number.isFinite(value) ? value / (scale === "points" ? 100 : 1) : 0;
  });
  return shares.reduce((sum, share) => sum + share, 0) / Math.max(1, shares.length);
}

async function exportTo(file: string, source: string, type: FileType, controls: Controls<never, never>) {
  const { threads, memory, signal, force, onProgress } = controls;
  const plan = await planExport({ source, format: "gguf", type }, { hub: controls.hub });
  if (!force && (await isExport(file, source, plan)))
    return { result: { out: file, type, bytes: plan.bytes }, notes: plan.notes, warnings: [] };
  const options = {
    threads,
    memory,
    signal,
    resume: true,
    force: force ?? false,
    onProgress: onProgress as Controls["onProgress"],
  };
  const { bytes, notes, warnings } = await exportModel({ source, out: file, type }, options);
  return { result: { out: file, type, bytes }, notes, warnings };
}

/** Whether a file is this export of this merge: younger than the merge, and of the same header and size. */
export async function isExport(
  file: string,
  merge: string,
  { bytes, header = new Uint8Array() }: Pick<ExportPlan, "bytes" | "header">,
): Promise<boolean> {
  const there = await stat(file).catch(() => undefined);
  const merged = await stat(join(merge, "config.json"));
  if (!there?.isFile() || there.size !== bytes || there.mtimeMs < merged.mtimeMs) return false;
  return withFile(file, "r", async (handle) => {
    const begin = Buffer.alloc(header.length);
    await handle.read(begin, 0, begin.length, 0);
    return begin.equals(header);
  });
}
