// Tasks as an experiment asks them: opened by what the plan says, whole or only some of their items.

import { resolve } from "node:path";
import { LayergraftError, RecipeError } from "../../core/index.js";
import {
  type DataAccess,
  hubLoader,
  type Item,
  judgingDigest,
  openTasks,
  promptsDigest,
  type Task,
} from "../../evaluate/index.js";
import type { TaskRequest } from "./step.js";

/**
 * The task of a request.
 * @param folder that the path of a task's own file starts from
 * @throws {RecipeError} if there is none, or the request does not fit it
 */
export async function openTask({ task, protocol, shots }: TaskRequest, folder: string): Promise<Task> {
  const name = /\.ya?ml$/i.test(task) ? resolve(folder, task) : task;
  const opened = await openTasks([name], {
    ...(protocol === undefined ? {} : { protocols: [protocol] }),
    ...(shots === undefined ? {} : { shots }),
  });
  const [only, another] = opened;
  if (only && !another) return only;
  throw new RecipeError(`${task} is a suite of ${opened.length} tasks; list them one by one`, [], { field: "tasks" });
}

/** Where tasks get their data: a folder, or the hub. */
export function dataAccess(folder: string | undefined): DataAccess {
  return folder === undefined ? { loadRows: hubLoader() } : { folder };
}

/** What identifies what is asked and expected, and how answers are judged. */
export function taskDigest(task: Task, items: readonly Item[]): string {
  return `${promptsDigest(items)} ${judgingDigest(task)}`;
}

/**
 * Reads the items of a task, once, and makes a task of them that reads nothing more: what is asked is what was looked at.
 * @param places of the items that are asked, in the task's own order; null: all
 * @param digest `taskDigest` of all items as the experiment knows them; undefined: whatever they are
 * @throws {LayergraftError} code `changed` if they are others by now
 */
export async function readItems(
  { task, places, limit, digest }: ItemsAsked,
  data: DataAccess,
  signal?: AbortSignal,
): Promise<Task> {
  const { items, notes } = await task.load(data, { limit, signal });
  if (digest !== undefined && taskDigest(task, items) !== digest) {
    throw new LayergraftError(
      "changed",
      `the items of ${task.name} changed since the experiment was started or resumed. Run it again; it reads everything again.`,
    );
  }
  const asked = places === null ? items : places.flatMap((place) => items[place] ?? []);
  return { ...task, load: async () => ({ items: asked, notes }) };
}

/** Which items of a task are asked. */
export interface ItemsAsked {
  readonly task: Task;
  readonly places: readonly number[] | null;
  readonly limit: number | undefined;
  readonly digest: string | undefined;
}
