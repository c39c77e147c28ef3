// Reads a log of Inspect (inspect_ai) as JSON, version 2.

import { digestOfValue, isObject, own, RecipeError } from "../../core/index.js";
import type { Metric } from "../tasks/index.js";
import type { ComparableResults, ComparableSample } from "./comparable.js";

type Fields = Readonly<Record<string, unknown>>;

/** @param log its JSON @throws RecipeError if the evaluation did not finish, or has no samples */
export function readInspectLog(file: string, log: Fields): ComparableResults {
  const about = log.eval as Fields;
  if (log.status !== "success") {
    throw new RecipeError(`${file} is a log with status ${String(log.status)}; finish it with inspect eval-retry`, [], {
      file,
    });
  }
  if (!Array.isArray(log.samples) || log.samples.length === 0) {
    throw new RecipeError(
      `${file} has no samples, which compare needs; run inspect eval without --no-log-samples`,
      [],
      { file },
    );
  }
  const task = String(about.task ?? "task");
  const { metrics, samples } = samplesOf(file, log.samples);
  return {
    ...{ path: file, program: "Inspect", name: `${String(about.model ?? "model")} (Inspect)`, notes: [] },
    tasks: [
      {
        ...{ task, title: task, shots: undefined, read: async () => ({ metrics, samples }) },
        protocol: `Inspect, version ${String(about.task_version ?? 0)}`,
      },
    ],
  };
}

/** Verdicts by scorer; over several epochs, each sample counts once with the mean of its values. */
function samplesOf(file: string, found: readonly unknown[]): { metrics: Metric[]; samples: ComparableSample[] } {
  const samples = new Map<string, { asked: Record<string, string>; values: Map<string, number[]> }>();
  for (const [i, one] of found.entries()) {
    if (!isObject(one) || !(typeof one.id === "string" || typeof one.id === "number")) {
      throw new RecipeError(`${file}: samples[${i}] has no id`, [], { file });
    }
    const id = String(one.id);
    const asked = {
      questions: digestOfValue([one.input ?? null, one.choices ?? null]),
      targets: digestOfValue(one.target ?? null),
    };
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
  const names = [...new Set([...samples.values()].flatMap(({ values }) => [...values.keys()]))].sort();
  const judged = [...samples].map(([id, { asked, values }]) => ({
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
