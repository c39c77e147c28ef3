// About how long a merge takes, from the last ones that were written in this project.
import { z } from "zod";
import { formatBytes, formatDuration } from "../../core/index.js";
import type { Jobs } from "../jobs/jobs.js";
import type { Check } from "../protocol.js";
import type { Untimed } from "./check-recipe.js";

/** Merges that are looked at, the latest first. */
const MOST_MERGES = 20;
/** A merge of fewer bytes mostly waits for files and threads, which says little about a larger one. */
const MOST_TIMES_LARGER = 30;

const result = z.object({
  ...{ method: z.string(), seconds: z.number().positive() },
  ...{ bytesRead: z.number(), bytesWritten: z.number(), resumed: z.boolean(), alreadyComplete: z.boolean() },
});

/** Null for models on the hub, as the network is not known, and where no merge of such a size was written yet. */
export async function timeOf(
  { method, bytesToRead, bytesToWrite, bytesToFetch }: NonNullable<Untimed["plan"]>,
  jobs: Pick<Jobs, "list" | "result">,
): Promise<NonNullable<Check["plan"]>["time"]> {
  if (bytesToFetch > 0) return null;
  const bytes = bytesToRead + bytesToWrite;
  const done = jobs.list().filter(({ kind, state }) => kind === "merge" && state === "done");
  const found = await Promise.all(done.slice(0, MOST_MERGES).map(({ id }) => jobs.result(id).catch(() => undefined)));
  const merges = found.flatMap((one) => {
    const { data } = result.safeParse(one);
    if (!data || data.resumed || data.alreadyComplete) return [];
    const moved = data.bytesRead + data.bytesWritten;
    return moved * MOST_TIMES_LARGER >= bytes ? [{ ...data, moved }] : [];
  });
  const like = merges.find((one) => one.method === method) ?? merges[0];
  if (!like) return null;
  const what = `a ${like.method} of ${formatBytes(like.moved)}, read and written, took ${formatDuration(like.seconds)}`;
  const other = like.method === method ? "" : ` Another method may take longer.`;
  return { seconds: (like.seconds * bytes) / like.moved, basis: `The last one written here: ${what}.${other}` };
}
