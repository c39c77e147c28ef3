// Synchronous reads and writes at file positions, for one thread of a streaming pass.

import { closeSync, openSync, readSync, writeSync } from "node:fs";
import { FormatError, isSystemError, OutputError } from "../../kit/index.js";
import type { Piece } from "./pieces.js";
import type { InputFile, Program } from "./program.js";
import { type ByteRange, remoteRanges } from "./remote-ranges.js";
import { type Shared, STOP, TURN, type Window } from "./shared.js";

/** Bytes moved so far by one thread. */
export interface Traffic {
  read: number;
  written: number;
}

/** Reads of one thread. */
export interface Inputs {
  readonly traffic: Traffic;
  /**
   * Prepares for the reads of a piece.
   * @returns false if the pass is stopped before its bytes are here
   */
  open?(index: number, piece: Piece): boolean;
  /**
   * Fills `into` from byte `position` of a file.
   * @throws FormatError if the file is gone or ends before that
   */
  read(file: number, position: number, into: Uint8Array): void;
  close(): void;
}

/** Files of one thread, which stay open. */
class OpenFiles {
  readonly traffic: Traffic;
  readonly #paths: readonly string[];
  readonly #descriptors = new Map<number, number>();

  constructor(paths: readonly string[], traffic: Traffic) {
    this.#paths = paths;
    this.traffic = traffic;
  }

  protected pathOf(file: number): string {
    return this.#paths[file] ?? "";
  }

  /** @param gone the error if there is no such file any more */
  protected descriptorOf(file: number, flags: "r" | "r+", gone: (path: string, error: unknown) => Error): number {
    const known = this.#descriptors.get(file);
    if (known !== undefined) return known;
    const path = this.pathOf(file);
    try {
      const descriptor = openSync(path, flags);
      this.#descriptors.set(file, descriptor);
      return descriptor;
    } catch (error) {
      throw isSystemError(error, "ENOENT") ? gone(path, error) : error;
    }
  }

  close(): void {
    for (const descriptor of this.#descriptors.values()) closeSync(descriptor);
    this.#descriptors.clear();
  }
}

const isGone = (path: string, error: unknown) =>
  new FormatError(`${path} is gone; it was there a moment ago`, { file: path }, error);

export class InputFiles extends OpenFiles implements Inputs {
  constructor(files: readonly InputFile[], traffic: Traffic) {
    super(
      files.map(({ path }) => path),
      traffic,
    );
  }

  read(file: number, position: number, into: Uint8Array): void {
    const descriptor = this.descriptorOf(file, "r", isGone);
    for (let at = 0; at < into.byteLength; ) {
      const count = readSync(descriptor, into, at, into.byteLength - at, position + at);
      if (count === 0) {
        const path = this.pathOf(file);
        throw new FormatError(
          `${path} became shorter while it was read; let whatever writes to it finish, and start again`,
          { file: path },
        );
      }
      at += count;
    }
    this.traffic.read += into.byteLength;
  }
}

/** Reads of which some are remote: the main thread fetches their bytes, a piece at a time. */
export class StreamedFiles implements Inputs {
  readonly #program: Program;
  readonly #control: Int32Array;
  readonly #window: Window;
  readonly #disk: InputFiles;
  readonly traffic: Traffic;
  /** Ranges of the open piece; their bytes follow each other from `#place` on. */
  #ranges: readonly ByteRange[] = [];
  #place = 0;

  constructor(program: Program, control: Shared["control"], window: Window, traffic: Traffic) {
    this.#program = program;
    this.#control = control;
    this.#window = window;
    this.traffic = traffic;
    this.#disk = new InputFiles(program.inputs, traffic);
  }

  open(index: number, piece: Piece): boolean {
    for (;;) {
      const turn = Atomics.load(this.#control, TURN);
      if (Atomics.load(this.#window.ready, index) !== 0) break;
      if (Atomics.load(this.#control, STOP) !== 0) return false;
      Atomics.wait(this.#control, TURN, turn);
    }
    this.#ranges = remoteRanges(this.#program, piece);
    this.#place = this.#window.places[index] ?? 0;
    return true;
  }

  read(file: number, position: number, into: Uint8Array): void {
    if (!this.#program.inputs[file]?.remote) {
      this.#disk.read(file, position, into);
      return;
    }
    let place = this.#place;
    for (const range of this.#ranges) {
      if (range.file === file && range.start <= position && position + into.byteLength <= range.end) {
        const from = place + position - range.start;
        into.set(this.#window.bytes.subarray(from, from + into.byteLength));
        this.traffic.read += into.byteLength;
        return;
      }
      place += range.end - range.start;
    }
    throw new Error(`bytes ${position} of ${this.#program.inputs[file]?.path} were not fetched for this piece`);
  }

  close(): void {
    this.#disk.close();
  }
}

export class OutputFiles extends OpenFiles {
  readonly #memory: Program["memory"];

  constructor({ outputs, memory }: Program, traffic: Traffic) {
    super(outputs, traffic);
    this.#memory = memory;
  }

  /** Writes all of `bytes` at byte `position` of a file that exists, or of memory. */
  write(file: number, position: number, bytes: Uint8Array): void {
    this.traffic.written += bytes.byteLength;
    const memory = this.#memory?.[file];
    if (memory) {
      new Uint8Array(memory, position, bytes.byteLength).set(bytes);
      return;
    }
    const descriptor = this.descriptorOf(file, "r+", OutputError.deleted);
    for (let at = 0; at < bytes.byteLength; ) {
      at += writeSync(descriptor, bytes, at, bytes.byteLength - at, position + at);
    }
  }
}
