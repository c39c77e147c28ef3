// Append-only files, and logs of JSON values, one per line. A crash can tear only the end, which the next run cuts off.
import { closeSync, fstatSync, fsyncSync, ftruncateSync, openSync, writeSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { DiskFullError, isSystemError, OutputError } from "../errors.js";
import { exists, isFile } from "./files.js";

/** The parsed lines of a log, and their length in bytes. Empty if there is no file. */
export interface LogContent<T> {
  readonly entries: readonly T[];
  readonly bytes: number;
  /** Lines that are not entries, without a torn last one. */
  readonly damaged: number;
}

/**
 * Reads a log.
 * @param parse checks the value of a line and throws if it is not an entry
 * @throws OutputError if it is not a regular file
 */
export async function readLog<T>(path: string, parse: (value: unknown) => T): Promise<LogContent<T>> {
  if ((await exists(path)) && !(await isFile(path))) {
    throw new OutputError(`${path} is not a file; remove it and run again`, { file: path });
  }
  const content = await readFile(path).catch((error: unknown) => {
    if (isSystemError(error, "ENOENT")) return Buffer.alloc(0);
    throw error;
  });
  let bytes = content.lastIndexOf(0x0a) + 1;
  const lines = content.subarray(0, bytes).toString("utf8").split("\n").slice(0, -1);
  const entries: T[] = [];
  let damaged = 0;
  for (const [i, line] of lines.entries()) {
    try {
      entries.push(parse(JSON.parse(line)));
    } catch {
      // A complete last line without content: blocks of a crashed write never reached the disk.
      if (i === lines.length - 1) bytes -= Buffer.byteLength(line) + 1;
      else damaged++;
    }
  }
  return { entries, bytes, damaged };
}

/** A log that is open for appending: a line of JSON for each entry. The caller has the lock of its folder. */
export class AppendLog {
  readonly #path: string;
  readonly #descriptor: number;
  #bytes: number;

  /** @param bytes length to keep; the rest of the file is cut off. 0 starts a new file */
  constructor(path: string, bytes: number) {
    this.#path = path;
    this.#descriptor = openSync(path, bytes === 0 ? "w" : "r+");
    ftruncateSync(this.#descriptor, bytes);
    this.#bytes = bytes;
  }

  /** Appends a value; `flush` makes it durable. @throws OutputError if there is no room, or the file was deleted */
  add(entry: unknown): void {
    if (fstatSync(this.#descriptor).nlink === 0) throw OutputError.deleted(this.#path);
    const bytes = Buffer.from(`${JSON.stringify(entry)}\n`);
    try {
      for (let at = 0; at < bytes.length; )
        at += writeSync(this.#descriptor, bytes, at, bytes.length - at, this.#bytes + at);
    } catch (error) {
      if (!DiskFullError.isMeantBy(error)) throw error;
      throw new DiskFullError(`no room for ${this.#path}; free some space and resume`, { file: this.#path }, error);
    }
    this.#bytes += bytes.length;
  }

  /** Waits until everything is on disk. @returns the length of the file in bytes */
  flush(): number {
    fsyncSync(this.#descriptor);
    return this.#bytes;
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}
