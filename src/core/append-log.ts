// An append-only log of JSON values, one per line. A crash can tear only the last line, which the next run cuts off.
import { closeSync, fsyncSync, ftruncateSync, openSync, writeSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { DiskFullError, isSystemError, OutputError } from "./errors.js";
import { exists, isFile } from "./files.js";

/** The whole lines of a log, parsed, and how many bytes they take. Empty if there is no such file. */
export interface LogContent<T> {
  readonly entries: readonly T[];
  readonly bytes: number;
}

/**
 * Reads a log.
 * @param parse checks one line's value and throws if it is not an entry
 * @throws {OutputError} if it is not a regular file, or a line other than the last is damaged; names the line
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
  for (const [i, line] of lines.entries()) {
    try {
      entries.push(parse(JSON.parse(line)));
    } catch (error) {
      if (i < lines.length - 1) {
        const message = `${path}, line ${i + 1} is damaged; delete that line, or restore the file from a copy`;
        throw new OutputError(message, { file: path }, error);
      }
      // A last line that ends but holds nothing: blocks of a crashed write that never reached the disk.
      bytes -= Buffer.byteLength(line) + 1;
    }
  }
  return { entries, bytes };
}

/** A log that is open for appending. The caller holds the lock of its folder. */
export class AppendLog {
  readonly #path: string;
  readonly #descriptor: number;
  #bytes: number;

  /** @param bytes length of what is kept; the rest of the file is cut off. 0 starts a new log */
  constructor(path: string, bytes: number) {
    this.#path = path;
    this.#descriptor = openSync(path, bytes === 0 ? "w" : "r+");
    ftruncateSync(this.#descriptor, bytes);
    this.#bytes = bytes;
  }

  /** Appends a value; `flush` makes it durable. @throws {DiskFullError} if there is no room */
  add(entry: unknown): void {
    const line = Buffer.from(`${JSON.stringify(entry)}\n`);
    try {
      for (let at = 0; at < line.length; )
        at += writeSync(this.#descriptor, line, at, line.length - at, this.#bytes + at);
    } catch (error) {
      if (!DiskFullError.isMeantBy(error)) throw error;
      throw new DiskFullError(`no room for ${this.#path}; free some space and resume`, { file: this.#path }, error);
    }
    this.#bytes += line.length;
  }

  /** Waits until all entries are on disk. @returns the length of the log in bytes */
  flush(): number {
    fsyncSync(this.#descriptor);
    return this.#bytes;
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}
