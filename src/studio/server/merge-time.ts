// About how long a merge takes, from those that were written in this project.
import { z } from "zod";
import { formatBytes, formatDuration } from "../../core/index.js";
import type { Jobs } from "../jobs/jobs.js";
import type { Check } from "../protocol.js";
import type { Untimed } from "./check-recipe.js";

/** Merges that are looked at, the latest first. */
const MOST_MERGES = 20;
/** Small merges mostly wait for files and threads, which says little about one that is so many times larger. */
const MOST_TIMES_LARGER = 10;

const result = z.object({
  ...{ method: z.string(), seconds: z.number().positive(), bytes: z.number().positive() },
  ...{ resumed: z.literal(false), alreadyComplete: z.literal(false) },
});

/**
 * From the merge of the same method, or else of any, whose size is closest. Null for models on the hub, as the network is not
 * known, and where no merge of such a size was written here.
 */
export async function timeOf(
  { method, bytesToRead, bytesToWrite, bytesToFetch }: NonNullable<Untimed["plan"]>,
  jobs: Pick<Jobs, "list" | "result">,
): Promise<NonNullable<Check["plan"]>["time"]> {
  if (bytesToFetch > 0) return null;
  const bytes = bytesToRead + bytesToWrite;
  const done = jobs.list().filter(({ kind, state }) => kind === "merge" && state === "done");
  const found = await Promise.all(done.slice(0, MOST_MERGES).map(({ id }) => jobs.result(id).catch(() => undefined)));
  const merges = found.flatMap((one) => result.safeParse(one).data ?? []);
  const usable = merges.filter((one) => one.bytes * MOST_TIMES_LARGER >= bytes);
  const same = usable.filter((one) => one.method === method);
  const apart = (one: { readonly bytes: number }) => Math.abs(Math.log(one.bytes / bytes));
  const [like] = (same.length > 0 ? same : usable).toSorted((a, b) => apart(a) - apart(b));
  if (!like) return null;
  const what = `a ${like.method} of ${formatBytes(like.bytes)}, read and written, took ${formatDuration(like.seconds)}`;
  const other = like.method === method ? "" : " Another method may take longer.";
  return { seconds: (like.seconds * bytes) / like.bytes, basis: `A merge written in this project: ${what}.${other}` };
}
