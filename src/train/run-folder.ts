// The folder of a run: what lies in it, how it begins, and its log. Checkpoints and states are written by others.
import { closeSync, fsyncSync, ftruncateSync, openSync, writeSync } from "node:fs";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { OutputError } from "../core/errors.js";
import { exists } from "../core/files.js";

/** Names within the folder of a run. */
export const RUN_FILES = {
  log: "log.jsonl",
  states: "state",
  checkpoint: "checkpoint-",
  reverted: "reverted",
} as const;

/**
 * Makes the folder of a new run; what an earlier one left goes only if that is wanted.
 * @throws {OutputError} if the folder holds another run, or something else
 */
export async function prepareFolder(
  out: string,
  { force, resume }: { readonly force?: boolean | undefined; readonly resume?: boolean | undefined },
): Promise<void> {
  if (await exists(out)) {
    const names = await readdir(out);
    const isRun = names.includes(RUN_FILES.log) || names.includes(RUN_FILES.states);
    if (names.length > 0 && !isRun) {
      throw new OutputError(`${out} is not empty and holds no run; give another folder`, { file: out });
    }
    // Stopped before its first state: there is nothing to go on from, and nothing to lose.
    const isBare = !names.some((name) => name.startsWith(RUN_FILES.checkpoint) || name === RUN_FILES.states);
    if (isRun && !force && !(resume && isBare)) {
      throw new OutputError(
        `${out} holds a run already; go on with it (--resume), replace it (--force), or give another folder`,
        {
          file: out,
        },
      );
    }
    for (const name of names) {
      if (isRun) await rm(join(out, name), { recursive: true, force: true });
    }
  }
  await mkdir(out, { recursive: true });
}

/** A log of one JSON object a line. What was written after the state that a run resumes from is cut off. */
export class RunLog {
  readonly #descriptor: number;
  #bytes: number;

  constructor(path: string, bytes: number) {
    this.#descriptor = openSync(path, bytes === 0 ? "w" : "r+");
    ftruncateSync(this.#descriptor, bytes);
    this.#bytes = bytes;
  }

  add(entry: Readonly<Record<string, unknown>>): void {
    const line = Buffer.from(`${JSON.stringify(entry)}\n`);
    for (let at = 0; at < line.length; )
      at += writeSync(this.#descriptor, line, at, line.length - at, this.#bytes + at);
    this.#bytes += line.length;
  }

  /** @returns bytes that are on the disk */
  flush(): number {
    fsyncSync(this.#descriptor);
    return this.#bytes;
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}
