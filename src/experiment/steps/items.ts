import { resolve } from "node:path";
import { type DataAccess, type Item, judgingDigest, promptsDigest, type Task } from "../../evaluate/tasks/index.js";
import { LayergraftError, RecipeError } from "../../kit/index.js";
import { tasksOf } from "../../verbs/shared/index.js";
import type { EvaluateStep, TaskRequest } from "./step.js";

/**
 * Opens a task.
 * @param folder that relative paths of task files start from
 * @throws RecipeError if it does not exist, or its settings do not fit
 */
export async function openTask(request: TaskRequest, folder: string): Promise<Task> {
  const { task, protocol, shots, prompts, temperature, repeats } = request;
  const name = /\.ya?ml$/i.test(task) ? resolve(folder, task) : task;
  const { tasks: opened } = await tasksOf({
    tasks: [name],
    protocols: protocol === undefined ? undefined : [protocol],
    shots,
    prompts: prompts === undefined ? undefined : resolve(folder, prompts),
    maxNewTokens: request.max_new_tokens,
    temperature,
    topP: request.top_p,
    topK: request.top_k,
    repeats,
  });
  const [only, another] = opened;
  // All models of a plan are asked in the same way, whatever template one of them has.
  if (only && !another) return { ...only, asChat: undefined };
  throw RecipeError.at({ field: "tasks" }, `${task} is a suite of ${opened.length} tasks; list them one by one`);
}

/** Digest of prompts, expected answers and how answers are judged. */
export function taskDigest(task: Task, items: readonly Item[]): string {
  return `${promptsDigest(items)} ${judgingDigest(task)}`;
}

/**
 * Reads the items of a task once. @returns a task of these items that reads nothing more
 * @param step whose items are wanted, and the `taskDigest` of all items
 * @throws LayergraftError code `changed` if the items have another digest
 */
export async function readItems(
  task: Task,
  { items: indexes, request, digest }: Pick<EvaluateStep, "items" | "request" | "digest">,
  data: DataAccess,
  signal?: AbortSignal,
): Promise<Task> {
  const { items, notes } = await task.load(data, { limit: request.limit, signal });
  if (digest !== undefined && taskDigest(task, items) !== digest) {
    throw new LayergraftError(
      "changed",
      `the items of ${task.name} changed since the experiment was started or resumed. Run it again; it reads everything again.`,
    );
  }
  const chosen = indexes === null ? items : indexes.flatMap((index) => items[index] ?? []);
  return { ...task, load: async () => ({ items: chosen, notes }) };
}
