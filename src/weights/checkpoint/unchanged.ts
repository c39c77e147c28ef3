import { stat } from "node:fs/promises";
import { formatSome, LayergraftError, stampOf } from "../../core/index.js";
import type { Checkpoint } from "./checkpoint.js";

/**
 * Checks that the files on this machine are those that were opened. A commit on the hub never changes.
 * @param consequence end of the message: what would happen, and what to do
 * @param times modification times by path, of an earlier run; default: nothing about the files has changed in this one
 * @throws LayergraftError code "changed" if a file changed
 */
export async function requireUnchanged(
  checkpoints: Iterable<Checkpoint>,
  consequence: string,
  times?: Readonly<Record<string, number>>,
): Promise<void> {
  const changed = new Set<string>();
  for (const { path, stamp, remote } of [...checkpoints].flatMap(({ files }) => files)) {
    if (remote) continue;
    const now = times ? stat(path).then(({ mtimeMs }) => mtimeMs) : stampOf(path);
    if ((await now.catch(() => undefined)) !== (times ? times[path] : stamp)) changed.add(path);
  }
  const [first] = changed;
  if (first === undefined) return;
  throw new LayergraftError("changed", `${formatSome([...changed])} changed since the run began, so ${consequence}`, {
    file: first,
  });
}
