// Reads what lm-evaluation-harness writes with --log_samples (0.4.2 and later): results_DATE.json, and samples_TASK_DATE.jsonl beside it.
import { readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { digestOfValue } from "../../kit/files/index.js";
import { isObject, own, RecipeError } from "../../kit/index.js";
import { type Row, readRows } from "../../train/data/index.js";
import { isTie } from "../tasks/multiple-choice.js";
import type { Metric, Verdict } from "../tasks/open-tasks.js";
import type { ComparableResults, ComparableTask } from "./comparable.js";

type Fields = Readonly<Record<string, unknown>>;

const fieldsOf = (value: unknown): Fields => (isObject(value) ? value : {});
const textOf = (value: unknown): string | undefined =>
  typeof value === "string" || typeof value === "number" ? String(value) : undefined;

/** Subtasks of groups, of which MMLU has 57; more than any group has. */
const MAX_TASKS = 10_000;

/** The results of a file. @param value its JSON */
export async function readLmEval(file: string, value: Fields): Promise<ComparableResults> {
  const results = fieldsOf(value.results);
  const names = Object.keys(results);
  if (names.length > MAX_TASKS) throw RecipeError.at({ file }, `${file} has more than ${MAX_TASKS} tasks`);
  const date = /^results_(.*)\.json$/.exec(basename(file))?.[1];
  const beside = (await readdir(dirname(file))).filter(
    (name) => name.startsWith("samples_") && name.endsWith(".jsonl"),
  );
  // Without a date in its name, the file was renamed, and its samples may have any date.
  const samplesOf = (task: string) =>
    beside.filter((name) =>
      date === undefined ? name.startsWith(`samples_${task}_`) : name === `samples_${task}_${date}.jsonl`,
    );
  const tasks: ComparableTask[] = [];
  const notes: string[] = [];
  for (const task of names) {
    const inGroup = leavesOf(fieldsOf(value.group_subtasks), task);
    const leaves = inGroup.length > 0 ? inGroup : [task];
    const parts = leaves.flatMap((leaf) => samplesOf(leaf).map((name) => ({ task: leaf, name })));
    if (inGroup.length === 0 && parts.length > 1) {
      const folder = dirname(file);
      throw RecipeError.at({ file }, `${folder} has several samples of ${task}; keep one run in the folder`);
    }
    if (inGroup.length === 0 && parts.length === 0)
      notes.push(`${task} has no samples beside ${basename(file)}; run lm_eval with --log_samples`);
    // A group's score that is no mean over its items is left out by readSamples.
    const read = () => readSamples(file, parts, fieldsOf(own(results, task)));
    if (parts.length === leaves.length) tasks.push({ ...describe(value, task, inGroup.length > 0), read });
  }
  if (tasks.length === 0) {
    const message = `${file} has no samples beside it, which compare needs; run lm_eval with --log_samples`;
    throw RecipeError.at({ file }, message);
  }
  const model = textOf(value.model_name) ?? textOf(fieldsOf(value.config).model) ?? basename(dirname(file));
  const source = textOf(value.model_source) ?? textOf(fieldsOf(value.config).model);
  return {
    path: file,
    program: "lm-eval",
    name: `${model} (lm-eval${source === undefined ? "" : `, ${source}`})`,
    tasks,
    notes,
  };
}

function describe(value: Fields, task: string, isGroup: boolean): Omit<ComparableTask, "read"> {
  const version = textOf(own(fieldsOf(value.versions), task));
  // Of groups, lm-eval writes 0 shots whatever their tasks have.
  const shots = isGroup ? undefined : own(fieldsOf(value["n-shot"]), task);
  const alias = textOf(own(fieldsOf(own(fieldsOf(value.results), task)), "alias"));
  return {
    task,
    // Aliases of subtasks are indented: ` - anatomy`.
    title: alias?.replace(/^[\s-]+/, "") || task,
    protocol: version === undefined || version === "N/A" ? "lm-eval" : `lm-eval, version ${version}`,
    shots: typeof shots === "number" ? shots : undefined,
  };
}

/** The tasks that a group is made of, subgroups opened; none of a task. */
function leavesOf(groups: Fields, name: string, seen: Set<string> = new Set()): string[] {
  const members = own(groups, name);
  if (!Array.isArray(members) || seen.has(name)) return [];
  seen.add(name);
  return members.flatMap((member: unknown) => {
    if (typeof member !== "string" || seen.size > MAX_TASKS) return [];
    const inside = own(groups, member);
    return Array.isArray(inside) && inside.length > 0 ? leavesOf(groups, member, seen) : [member];
  });
}

/** A score of the results: `acc,none` is the metric acc after the filter none. */
interface Wanted {
  readonly name: string;
  readonly metric: string;
  readonly filter: string;
  readonly value: number;
}

/** @param parts files of samples, and the tasks that they are of */
async function readSamples(
  file: string,
  parts: readonly { readonly task: string; readonly name: string }[],
  scores: Fields,
) {
  const wanted = Object.entries(scores).flatMap(([name, value]): Wanted[] => {
    const [, metric, filter] = /^(.+),([^,]*)$/.exec(name) ?? [];
    if (metric === undefined || filter === undefined || metric.endsWith("_stderr") || typeof value !== "number")
      return [];
    return [{ name, metric, filter, value }];
  });
  const samples = new Map<
    string,
    { group: string | undefined; asked: Record<string, string>; verdict: Record<string, number> }
  >();
  const tied = new Set<string>();
  for (const { task, name } of parts) {
    const path = join(dirname(file), name);
    for await (const { rows, lines } of readRows([path])) {
      for (const [i, row] of rows.entries()) {
        const where = `${path}, line ${lines[i]}`;
        const id = textOf(row.doc_id);
        if (id === undefined)
          throw RecipeError.at({ file: path }, `${where} is not a sample of lm-eval: doc_id is missing`);
        const key = parts.length > 1 ? `${task}/${id}` : id;
        const asked = askedIn(row);
        const known = samples.get(key);
        const sample = known ?? { group: parts.length > 1 ? task : undefined, asked, verdict: {} };
        if (known && Object.entries(known.asked).some(([key, value]) => own(asked, key) !== value)) {
          const message = `${where} has another document or prompt than the line before of doc_id ${id}`;
          throw RecipeError.at({ file: path }, message);
        }
        if (isTie(logLikelihoodsIn(row))) tied.add(key);
        for (const { name, metric, filter } of wanted) {
          if (textOf(row.filter ?? "none") !== filter) continue;
          const found = own(row, metric);
          if (typeof found !== "number" && typeof found !== "boolean") continue;
          if (Object.hasOwn(sample.verdict, name)) {
            const message = `${where} repeats doc_id ${id} of the filter ${filter}; keep one run in the file`;
            throw RecipeError.at({ file: path }, message);
          }
          sample.verdict[name] = Number(found);
        }
        samples.set(key, sample);
      }
    }
  }
  const all = [...samples].map(([id, { group, ...sample }]) => ({
    id,
    ...(group === undefined ? {} : { group }),
    ...sample,
  }));
  const metrics = wanted.flatMap(({ name, metric, filter, value }) =>
    meanMetric({ name, title: filter === "none" ? metric : `${metric}, ${filter}`, value }, all),
  );
  return { metrics, samples: all, tied: tied.size };
}

/** Log-likelihoods of the choices, of which lm-eval stores `[value, is greedy]` as numbers or texts; null for other answers. */
function logLikelihoodsIn({ filtered_resps: answers }: Row): number[] | null {
  if (!Array.isArray(answers) || !answers.every((answer) => Array.isArray(answer) && answer.length === 2)) return null;
  return answers.map(([value]: unknown[]) => Number(String(value).replace(/^-inf$/, "-Infinity")));
}

/** lm-eval's own digests, or of files that have none, digests of the same. */
function askedIn(row: Row): Record<string, string> {
  return {
    documents: textOf(row.doc_hash) ?? digestOfValue(row.doc ?? null),
    prompts: textOf(row.prompt_hash) ?? digestOfValue(row.arguments ?? null),
    ...(typeof row.target_hash === "string" ? { targets: row.target_hash } : {}),
  };
}

/**
 * A metric as the mean of its values per item, and as the mean of the means of groups: those that are the reported score.
 * It is both where groups have one size or one score, so that one of the two is in all results.
 */
function meanMetric(
  { name, title, value: reported }: { readonly name: string; readonly title: string; readonly value: number },
  samples: readonly { readonly group?: string; readonly verdict: Verdict }[],
): Metric[] {
  const groups = new Map<string, { sum: number; count: number }>();
  let isShare = true;
  for (const { group = "", verdict } of samples) {
    const value = own(verdict, name);
    if (typeof value !== "number") continue;
    const { sum, count } = groups.get(group) ?? { sum: 0, count: 0 };
    groups.set(group, { sum: sum + value, count: count + 1 });
    isShare &&= value >= 0 && value <= 1;
  }
  const all = [...groups.values()];
  const mean = all.reduce((total, { sum }) => total + sum, 0) / all.reduce((total, { count }) => total + count, 0);
  const meanOfGroups = all.reduce((total, { sum, count }) => total + sum / count, 0) / all.length;
  const isClose = (one: number) => Math.abs(one - reported) <= 1e-6 * Math.max(1, Math.abs(reported));
  const found = [
    ...(isClose(mean) ? (["mean"] as const) : []),
    ...(isClose(meanOfGroups) ? (["group mean"] as const) : []),
  ];
  const scale = isShare ? "share" : "points";
  return found.slice(0, all.length).map((by) => ({ name, title, of: name, by, scale }));
}
