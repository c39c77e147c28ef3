// Reads a log of Inspect (inspect_ai), version 2: as JSON, or as the zip archive that it writes by default.

import { digestOfValue, isObject, own, RecipeError } from "../../core/index.js";
import type { Metric } from "../tasks/index.js";
import { readArchive } from "./archive.js";
import type { ComparableResults, ComparableSample } from "./comparable.js";
import { isShallow, parsePythonJson } from "./python-json.js";

type Fields = Readonly<Record<string, unknown>>;

/** Samples in the order of the log. */
type Samples = Iterable<unknown> | AsyncIterable<unknown>;

/** @param log its JSON @throws RecipeError if the evaluation did not finish */
export function readInspectLog(file: string, log: Fields): ComparableResults {
  const samples = Array.isArray(log.samples) ? log.samples : [];
  return describe(file, log, () => samples);
}

/** Samples of a binary log, one file for each epoch of each. */
const SAMPLE = /^samples\/.*_epoch_\d+\.json$/s;

/** @param file a binary log @throws RecipeError if it is damaged, or the evaluation did not finish */
export async function readBinaryInspectLog(file: string): Promise<ComparableResults> {
  for await (const { text } of readArchive(file, (name) => name === "header.json")) {
    const header = parsed(file, "header.json", text);
    if (isObject(header) && isObject(header.eval)) return describe(file, header, () => binarySamples(file));
  }
  throw new RecipeError(`${file} has no header.json, so the evaluation did not end; run inspect eval-retry`, [], {
    file,
  });
}

async function* binarySamples(file: string): AsyncGenerator<unknown> {
  for await (const { name, text } of readArchive(file, (name) => SAMPLE.test(name))) yield parsed(file, name, text);
}

function parsed(file: string, name: string, text: string): unknown {
  try {
    return parsePythonJson(text);
  } catch (error) {
    throw new RecipeError(`${name} in ${file} is not valid JSON: ${(error as Error).message}`, [], { file });
  }
}

function describe(file: string, { status, eval: about }: Fields, samples: () => Samples): ComparableResults {
  if (status !== "success") {
    throw new RecipeError(`${file} is a log with status ${String(status)}; finish it with inspect eval-retry`, [], {
      file,
    });
  }
  const { task: named, task_version: version, model } = about as Fields;
  const task = String(named ?? "task");
  return {
    ...{ path: file, program: "Inspect", name: `${String(model ?? "model")} (Inspect)`, notes: [] },
    tasks: [
      {
        ...{ task, title: task, shots: undefined, read: () => readSamples(file, samples()) },
        protocol: `Inspect, version ${String(version ?? 0)}`,
      },
    ],
  };
}

/** Verdicts by scorer; over several epochs, each sample counts once with the mean of its values. */
async function readSamples(file: string, found: Samples): Promise<{ metrics: Metric[]; samples: ComparableSample[] }> {
  const samples = new Map<string, { asked: Record<string, string>; values: Map<string, number[]> }>();
  let count = 0;
  for await (const one of found) {
    count++;
    if (!isObject(one) || !(typeof one.id === "string" || typeof one.id === "number")) {
      throw new RecipeError(`${file}: sample ${count} has no id`, [], { file });
    }
    const id = String(one.id);
    const asked = askedIn(one);
    if (!asked) throw new RecipeError(`${file}: sample ${id} nests too deeply`, [], { file });
    const sample = samples.get(id) ?? { asked, values: new Map<string, number[]>() };
    samples.set(id, sample);
    for (const [scorer, score] of Object.entries(isObject(one.scores) ? one.scores : {})) {
      const value = isObject(score) ? score.value : undefined;
      const parts = isObject(value)
        ? Object.entries(value).map(([key, part]) => [`${scorer}/${key}`, part] as const)
        : [[scorer, value] as const];
      for (const [name, part] of parts) {
        const number = numberOf(part);
        if (number === undefined) continue;
        const values = sample.values.get(name) ?? [];
        sample.values.set(name, [...values, number]);
      }
    }
  }
  if (samples.size === 0) {
    throw new RecipeError(
      `${file} has no samples, which compare needs; run inspect eval without --no-log-samples`,
      [],
      { file },
    );
  }
  // Binary logs have samples as they ended.
  const ordered = [...samples].sort(([one], [other]) => BY_NUMBER.compare(one, other));
  // The scorers in the order of the task.
  const names = [...new Set(ordered.flatMap(([, { values }]) => [...values.keys()]))];
  const judged = ordered.map(([id, { asked, values }]) => ({
    ...{ id, asked },
    verdict: Object.fromEntries(
      [...values].map(([name, own]) => [name, own.reduce((sum, value) => sum + value, 0) / own.length]),
    ),
  }));
  const isShare = (name: string) =>
    judged.every(({ verdict }) => {
      const value = own(verdict, name) ?? 0;
      return value >= 0 && value <= 1;
    });
  return {
    metrics: names.map((name) => ({
      name,
      title: name,
      of: name,
      by: "mean",
      scale: isShare(name) ? "share" : "points",
    })),
    samples: judged,
  };
}

const BY_NUMBER = new Intl.Collator("en", { numeric: true });

/** Undefined of a sample that no program wrote. */
function askedIn({ input, choices, target }: Fields): Record<string, string> | undefined {
  const questions = [Array.isArray(input) ? input.map(withoutId) : (input ?? null), choices ?? null];
  if (!isShallow([questions, target])) return undefined;
  return { questions: digestOfValue(questions), targets: digestOfValue(target ?? null) };
}

/** Messages get a random id in each run. */
function withoutId(message: unknown): unknown {
  if (!isObject(message)) return message;
  const { id, ...rest } = message;
  return rest;
}

/** Correct, incorrect, partly correct and no answer, as Inspect's `value_to_float` has them. */
const GRADES: ReadonlyMap<unknown, number> = new Map<unknown, number>([
  ...([
    ["C", 1],
    ["I", 0],
    ["P", 0.5],
    ["N", 0],
  ] as const),
  ...([
    [true, 1],
    [false, 0],
  ] as const),
]);

function numberOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : GRADES.get(value);
}
