// Reads what lighteval (0.11 and later) writes: results_DATE.json, and details_TASK_DATE.parquet in the folder of the details.
import { readdir } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { digestOfValue, isObject, isSystemError, own, RecipeError } from "../../core/index.js";
import { type Row, readRows } from "../../data/index.js";
import type { Metric } from "../tasks/index.js";
import type { ComparableResults, ComparableSample, ComparableTask } from "./comparable.js";
import { meanMetric } from "./mean-metric.js";
import { isShallow } from "./python-json.js";

type Fields = Readonly<Record<string, unknown>>;

const fieldsOf = (value: unknown): Fields => (isObject(value) ? value : {});

/** Subtasks of groups, of which MMLU has 57; more than any run has. */
const MAX_TASKS = 10_000;

const LOG_DETAILS = "run lighteval with --save-details";

/** The results of a file. @param value its JSON */
export async function readLighteval(file: string, value: Fields): Promise<ComparableResults> {
  const results = fieldsOf(value.results);
  const names = Object.keys(results).filter((name) => name !== "all");
  if (names.length > MAX_TASKS) throw new RecipeError(`${file} has more than ${MAX_TASKS} tasks`, [], { file });
  const about = fieldsOf(value.config_general);
  const model = String(about.model_name ?? fieldsOf(about.model_config).model_name ?? "model");
  const date = /^results_(.*)\.json$/.exec(basename(file))?.[1];
  if (date === undefined) {
    throw new RecipeError(`${file} was renamed; name it results_DATE.json again, with the date of its details`, [], {
      file,
    });
  }
  const details = await findDetails(file, model, date);
  const tasks: ComparableTask[] = [];
  const notes: string[] = [];
  for (const task of names) {
    const leaves = partsOf(task, names);
    const parts = leaves.flatMap((part) => {
      const name = `details_${part}_${date}.parquet`;
      return details.names.has(name) ? [{ task: part, path: join(details.folder, name) }] : [];
    });
    if (parts.length < leaves.length) notes.push(`${task} has no details in ${details.folder}; ${LOG_DETAILS}`);
    else tasks.push({ ...describe(value, task), read: () => readDetails(parts, fieldsOf(own(results, task))) });
  }
  if (tasks.length === 0) {
    throw new RecipeError(`${file} has no details in ${details.folder}, which compare needs; ${LOG_DETAILS}`, [], {
      file,
    });
  }
  return { ...{ path: file, program: "lighteval", tasks, notes }, name: `${model} (lighteval)` };
}

/** lighteval writes OUT/results/MODEL/results_DATE.json and OUT/details/MODEL/DATE; on the hub, DATE is beside the results. */
async function findDetails(file: string, model: string, date: string) {
  const folder = dirname(resolve(file));
  const up = model.split("/").filter((part) => part !== "" && part !== ".");
  const results = resolve(folder, ...up.map(() => ".."));
  const usual = join(dirname(results), "details", relative(results, folder), date);
  for (const one of [join(folder, date), usual]) {
    const names = await readdir(one).catch((error: unknown) => {
      if (isSystemError(error, "ENOENT") || isSystemError(error, "ENOTDIR")) return undefined;
      throw error;
    });
    if (names) return { folder: one, names: new Set(names) };
  }
  return { folder: usual, names: new Set<string>() };
}

/** The tasks of an average such as `mmlu:_average|5`; otherwise the task itself. */
function partsOf(task: string, names: readonly string[]): string[] {
  const [, group, shots] = /^(.+:)_average(\|.*)?$/.exec(task) ?? [];
  if (group === undefined) return [task];
  return names.filter((name) => name !== task && name.startsWith(group) && name.endsWith(shots ?? ""));
}

function describe(value: Fields, task: string): Omit<ComparableTask, "read"> {
  const [, title = task, shots] = /^(.*)\|(\d+)$/.exec(task) ?? [];
  const version = own(fieldsOf(value.versions), task);
  const isKnown = typeof version === "number" || typeof version === "string";
  return {
    task,
    title: title.replace(/:_average$/, ""),
    protocol: isKnown ? `lighteval, version ${version}` : "lighteval",
    shots: shots === undefined ? undefined : Number(shots),
  };
}

interface Sample {
  readonly group?: string;
  readonly asked: Record<string, string>;
  readonly verdict: Record<string, number>;
}

async function readDetails(
  parts: readonly { readonly task: string; readonly path: string }[],
  scores: Fields,
): Promise<{ metrics: Metric[]; samples: ComparableSample[] }> {
  const samples = new Map<string, Sample>();
  for (const { task, path } of parts) {
    const isPart = parts.length > 1;
    // The answers of the model are most of a file.
    for await (const { rows, lines } of readRows([path], { columns: ["doc", "metric"] })) {
      for (const [i, row] of rows.entries()) {
        const where = `${path}, row ${lines[i]}`;
        const { id, asked } = readDocument(row, where, path);
        const key = placeOf(isPart ? `${task}/${id}` : id, asked, samples);
        const sample = samples.get(key) ?? { ...(isPart ? { group: task } : {}), asked, verdict: {} };
        samples.set(key, sample);
        for (const [name, value] of Object.entries(fieldsOf(row.metric))) {
          if (typeof value !== "number" && typeof value !== "boolean") continue;
          if (Object.hasOwn(sample.verdict, name)) {
            throw new RecipeError(`${where} repeats document ${id}; keep one run in the file`, [], { file: path });
          }
          sample.verdict[name] = Number(value);
        }
      }
    }
  }
  const all = [...samples].map(([id, sample]) => ({ id, ...sample }));
  const metrics = Object.entries(scores).flatMap(([name, value]) =>
    typeof value === "number" ? meanMetric({ name, title: name, value }, all) : [],
  );
  return { metrics, samples: all };
}

/** A document has a row for each way of asking. Ids count from 0 in each split, so other documents may repeat them. */
function placeOf(id: string, asked: Record<string, string>, samples: ReadonlyMap<string, Sample>): string {
  const first = samples.get(id);
  return !first || first.asked.documents === asked.documents ? id : `${id}/${asked.documents?.slice(0, 8)}`;
}

function readDocument(row: Row, where: string, file: string): { id: string; asked: Record<string, string> } {
  const { doc } = row;
  if (!isObject(doc) || (typeof doc.id !== "string" && typeof doc.id !== "number")) {
    throw new RecipeError(
      `${where} is not a sample of lighteval 0.11 or newer: doc.id is missing; run the task with a newer lighteval`,
      [],
      { file },
    );
  }
  const examples = Array.isArray(doc.fewshot_samples) ? doc.fewshot_samples.map(fieldsOf) : [];
  const asked = {
    documents: [doc.query ?? null, doc.choices ?? null],
    prompts: [
      doc.instruction ?? null,
      examples.map(({ query, choices, gold_index }) => [query ?? null, choices ?? null, gold_index ?? null]),
    ],
    targets: [doc.gold_index].flat(),
  };
  if (!isShallow(asked)) throw new RecipeError(`${where} nests too deeply`, [], { file });
  return {
    id: String(doc.id),
    asked: Object.fromEntries(Object.entries(asked).map(([kind, value]) => [kind, digestOfValue(value)])),
  };
}
