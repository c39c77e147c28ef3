// Scores as the hub shows them on a model's page and on a benchmark's: `.eval_results/TASK.yaml` in the model's repository.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomically } from "../../kit/files/index.js";
import { usageError } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import { yamlText } from "../../kit/settings/index.js";
import type { Results, TaskResult } from "./result-types.js";

/** Where the hub looks for scores in a model's repository. */
export const HUB_SCORES = ".eval_results";

/**
 * Writes a file for each task that the hub has as a benchmark: the headline score from 0 to 100, the day, and how it was asked.
 * Format: huggingface.co/docs/hub/eval-results.
 * @param folder of the model
 * @returns names of the tasks that were left out, as they are in no data set of the hub
 * @throws LayergraftError code `usage` for scores of a part of the items, which the hub would show as scores of all
 */
export async function writeHubScores(folder: string, results: Results, day: Date): Promise<readonly string[]> {
  if (results.settings.limit !== null) {
    const message = "scores of a part of the items would look like scores of all on the hub";
    throw usageError(message, { option: "limit" });
  }
  const asked = results.tasks.filter(({ benchmark }) => benchmark);
  if (asked.length > 0) await mkdir(join(folder, HUB_SCORES), { recursive: true });
  for (const task of asked) {
    const text = yamlText([entryOf(task, results, day)]);
    await writeFileAtomically(join(folder, HUB_SCORES, `${task.task}.yaml`), text);
  }
  return results.tasks.flatMap(({ task, benchmark }) => (benchmark ? [] : [task]));
}

function entryOf({ benchmark, scores, metrics, protocol, shots, items }: TaskResult, results: Results, day: Date) {
  const [{ value = Number.NaN, scale = "share" } = {}] = scores;
  const percent = scale === "share" ? value * 100 : value;
  const how = [
    metrics[0]?.title,
    protocol,
    plural(shots, "shot"),
    plural(items, "item"),
    `layergraft ${results.layergraft}`,
  ];
  return {
    dataset: { id: benchmark?.dataset, task_id: benchmark?.task },
    value: Math.round(percent * 100) / 100,
    date: day.toISOString().slice(0, 10),
    notes: how.join(", "),
  };
}
