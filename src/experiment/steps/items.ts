// Tasks as an experiment asks them: opened by what the plan says, whole or only some of their items.
import { resolve } from "node:path";
import { RecipeError } from "../../core/errors.js";
import { hubLoader } from "../../evaluate/hub-rows.js";
import { type DataAccess, openTasks, type Task } from "../../evaluate/index.js";
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

/** The task with only some of its items, in its own order. @param places indices; null: all */
export function withItems(task: Task, places: readonly number[] | null, limit: number | undefined): Task {
  if (places === null) return task;
  return {
    ...task,
    load: async (data, { signal } = {}) => {
      const { items, notes } = await task.load(data, { limit, signal });
      return { items: places.flatMap((place) => items[place] ?? []), notes };
    },
  };
}
