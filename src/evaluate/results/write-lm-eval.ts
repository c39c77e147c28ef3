// Writes results as lm-evaluation-harness 0.4.13 does with --log_samples, for tools that read its files.
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { digestOf, writeFileAtomically } from "../../kit/files/index.js";
import { groupBy } from "../../kit/index.js";
import { averageRepeats } from "../scoring/scores.js";
import type { AnswerSettings, Item, Metric, Prompt } from "../tasks/open-tasks.js";
import type { Results, Sample, TaskResult } from "./result-types.js";

export interface AnsweredTask {
  readonly task: string;
  readonly items: readonly Item[];
  readonly samples: readonly Sample[];
}

/** Of scores without a filter; lm-eval names one for each. */
const FILTER = "none";

/** lm-eval's names of metrics that are the same (its api/task.py); others keep ours. */
const NAMES: ReadonlyMap<string, string> = new Map([
  ["accuracy", "acc"],
  ["exact", "exact_match"],
]);

const nameOf = (metric: string) => NAMES.get(metric) ?? metric;

function withTheirNames(task: TaskResult): TaskResult {
  return {
    ...task,
    metrics: task.metrics.map((metric) => ({ ...metric, name: nameOf(metric.name) })),
    scores: task.scores.map((score) => ({ ...score, metric: nameOf(score.metric) })),
  };
}

/** lm-eval's own rule for the folder of a model. */
const folderOf = (model: string) => model.replace(/["<>:/|\\?*[\]]+/g, "__").replace(/^\.+$/, "model") || "model";

/**
 * Writes `MODEL/results_DATE.json` and `MODEL/samples_TASK_DATE.jsonl` in a folder. A folder that has results of the model
 * keeps their date, so a resumed run replaces its files. The results come last.
 * @param started when the evaluation began; in the names, as lm-eval has it
 * @returns the folder of the model
 */
export async function writeLmEval(
  folder: string,
  own: Results,
  tasks: readonly AnsweredTask[],
  started: Date,
): Promise<string> {
  const results = { ...own, tasks: own.tasks.map(withTheirNames) };
  const into = join(folder, folderOf(results.source));
  await mkdir(into, { recursive: true });
  const before = (await readdir(into)).map((name) => /^results_([\d.T-]+)\.json$/.exec(name)?.[1]).find((one) => one);
  // Microseconds without a zone, as Python's isoformat.
  const date =
    before ??
    started
      .toISOString()
      .replace(/\.(\d{3})Z$/, ".$1000")
      .replaceAll(":", "-");
  const hashes: Record<string, string> = {};
  for (const { task, items, samples } of tasks) {
    const found = results.tasks.find((one) => one.task === task);
    if (!found) continue;
    const byId = groupBy(samples, ({ id }) => id);
    const rows = items.flatMap((item, index) => {
      const own = byId.get(item.id);
      return own ? [sampleRow(item, index, own, found)] : [];
    });
    hashes[task] = digestOf(rows.map((row) => row.doc_hash + row.prompt_hash + row.target_hash).join(""));
    // lm-eval takes the task's name from between the first and the last underscore.
    const name = `samples_${task.replace(/[^\w.-]/g, "_")}_${date}.jsonl`;
    await writeFileAtomically(join(into, name), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  }
  const text = JSON.stringify(resultsFile(results, hashes, date), null, 2);
  await writeFileAtomically(join(into, `results_${date}.json`), `${text}\n`);
  return into;
}

function resultsFile(results: Results, hashes: Readonly<Record<string, string>>, date: string) {
  const { tasks, backend, source, settings } = results;
  const each = <T>(value: (task: TaskResult) => T) => Object.fromEntries(tasks.map((task) => [task.task, value(task)]));
  return {
    results: each(scoresOf),
    group_subtasks: each(() => []),
    configs: each(({ task, shots, metrics, protocol, answers, answeredBy }) => ({
      task,
      output_type: "generation" in answeredBy ? "generate_until" : "multiple_choice",
      num_fewshot: shots,
      repeats: answers?.repeats ?? 1,
      metric_list: metrics.map(({ name, by }) => ({
        metric: name,
        aggregation: aggregationOf(by),
        higher_is_better: true,
      })),
      metadata: { version: protocol },
    })),
    versions: each(({ protocol }) => protocol),
    "n-shot": each(({ shots }) => shots),
    higher_is_better: each(({ metrics }) => Object.fromEntries(metrics.map(({ name }) => [name, true]))),
    "n-samples": each(({ items }) => ({ original: items, effective: items })),
    config: {
      model: `layergraft ${backend.backend}`,
      model_args: { pretrained: source },
      limit: settings.limit,
      bootstrap_iters: settings.resamples,
      random_seed: settings.seed,
    },
    task_hashes: hashes,
    model_source: `layergraft ${backend.backend}`,
    model_name: source,
    model_name_sanitized: folderOf(source),
    layergraft_version: results.layergraft,
    // From the name, so that a resumed run writes the same bytes.
    date: Date.parse(`${date.replace(/T(\d\d)-(\d\d)-(\d\d\.\d{3})\d*$/, "T$1:$2:$3")}Z`) / 1000,
  };
}

const aggregationOf = (by: Metric["by"]) =>
  by === "corpus" ? "corpus" : by === "group mean" ? "mean of groups" : "mean";

function scoresOf({ task, title, items, scores }: TaskResult) {
  // JSON has no NaN; lm-eval writes "N/A" for errors that it does not compute.
  const known = (value: number) => (Number.isFinite(value) ? value : "N/A");
  const entries = scores.flatMap(({ metric, value, standardError }) => [
    [`${metric},${FILTER}`, known(value)],
    [`${metric}_stderr,${FILTER}`, known(standardError)],
  ]);
  return { name: task, alias: title, sample_len: items, ...Object.fromEntries(entries) };
}

function sampleRow(item: Item, index: number, samples: readonly Sample[], { metrics, answers: drawn }: TaskResult) {
  const prompt = textOf(item.prompt);
  const asked = argumentsOf(item, prompt, drawn);
  const [{ output = null, verdict } = {}] = averageRepeats(samples);
  const doc = { id: item.id, ...(item.group === undefined ? {} : { group: item.group }), prompt, answer: item.gold };
  const answers =
    typeof output === "string" || output === null ? [output ?? ""] : output.map((value) => [String(value), "None"]);
  const named = metrics.map(({ name, of }) => [name, verdict?.[of] ?? null] as const);
  return {
    doc_id: index,
    doc,
    target: item.gold,
    arguments: Object.fromEntries(asked.map(([arg_0, arg_1], i) => [`gen_args_${i}`, { arg_0, arg_1 }])),
    // One request, answered once or several times; or one for each choice.
    resps: samples.length > 1 ? [samples.map((sample) => sample.output ?? "")] : answers.map((answer) => [answer]),
    filtered_resps: answers,
    filter: FILTER,
    metrics: named.map(([name]) => name),
    doc_hash: digestOf(JSON.stringify(doc, null, 2)),
    prompt_hash: digestOf(prompt),
    target_hash: digestOf(item.gold),
    ...Object.fromEntries(named),
  };
}

function argumentsOf(
  item: Item,
  prompt: string,
  { temperature = 0, topP, topK }: AnswerSettings = {},
): readonly (readonly [prompt: string, rest: unknown])[] {
  if (item.kind === "choose") return item.choices.map((choice) => [prompt, choice]);
  const sampling = temperature === 0 ? {} : { temperature, top_p: topP, top_k: topK };
  return [[prompt, { until: item.stop, max_gen_toks: item.maxNewTokens, do_sample: temperature > 0, ...sampling }]];
}

/** The text of a prompt; of a chat its messages as JSON, as the server writes them out. */
function textOf(prompt: Prompt): string {
  return prompt.form === "text" ? prompt.shared + prompt.own : JSON.stringify(prompt.messages);
}
