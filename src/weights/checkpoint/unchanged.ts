// Whether the files of models are as they were when they were opened.

import { stat } from "node:fs/promises";
import { formatSome, LayergraftError } from "../../core/index.js";
import type { Checkpoint } from "./checkpoint.js";

/**
 * Checks the modification times of the files on this machine. A commit on the hub never changes.
 * @param consequence end of the message: what would happen, and what to do
 * @param times modification times by path; default those when the files were opened
 * @throws LayergraftError code "changed" if a file changed
 */
export async function requireUnchanged(
  checkpoints: Iterable<Checkpoint>,
  consequence: string,
  times?: Readonly<Record<string, number>>,
): Promise<void> {
  const changed = new Set<string>();
  for (const { path, modified, remote } of [...checkpoints].flatMap(({ files }) => files)) {
    if (remote) continue;
    const now = await stat(path).catch(() => undefined);
    if (now?.mtimeMs !== (times ? times[path] : modified)) changed.add(path);
  }
  const [first] = changed;
  if (first === undefined) return;
  throw new LayergraftError("changed", `${formatSome([...changed])} changed since the run began, so ${consequence}`, {
    file: first,
  });
}
