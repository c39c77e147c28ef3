// Output files that begin as clones: a file system that shares blocks then writes only what differs from one source.
import { chmod, constants, copyFile, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { syncFile } from "../../kit/files/index.js";
import { cutIntoPieces, type Program } from "../../tensor/streaming/index.js";

/** Makes `path` share the blocks of a file. Returns false where the file system cannot. */
export async function cloneFile(source: string, path: string): Promise<boolean> {
  try {
    await copyFile(source, path, constants.COPYFILE_FICLONE_FORCE);
  } catch {
    return false;
  }
  // The clone has the permissions of its source, which may be read-only; it gets those of any new file.
  await chmod(path, (await stat(dirname(path))).mode & 0o666);
  await syncFile(path);
  return true;
}

/**
 * Marks the pieces of a program that a clone already has in their place.
 * @param clones of what each output is a clone
 */
export function markCloned(program: Program, clones: readonly (string | undefined)[], done: Uint8Array): void {
  cutIntoPieces(program.jobs).forEach(({ job: index }, i) => {
    const job = program.jobs[index];
    if (job?.kind !== "copy" || job.from.offset !== job.to.offset) return;
    const source = clones[job.to.file];
    if (source !== undefined && program.inputs[job.from.file]?.path === source) done[i] = 1;
  });
}
