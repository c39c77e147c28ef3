// Synchronous reads and writes at file positions, for one thread of a streaming pass.

import { closeSync, openSync, readSync, writeSync } from "node:fs";
import { FormatError, isSystemError, OutputError } from "../../kit/index.js";
import type { Piece } from "./pieces.js";
import type { InputFile } from "./program.js";

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

export class InputFiles implements Inputs {
  readonly #files: readonly InputFile[];
  readonly #descriptors = new Map<number, number>();
  readonly traffic: Traffic;

  constructor(files: readonly InputFile[], traffic: Traffic) {
    this.#files = files;
    this.traffic = traffic;
  }

  read(file: number, position: number, into: Uint8Array): void {
    const descriptor = this.#descriptors.get(file) ?? this.#open(file);
    for (let at = 0; at < into.byteLength; ) {
      const count = readSync(descriptor, into, at, into.byteLength - at, position + at);
      if (count === 0) {
        const path = this.#files[file]?.path ?? "";
        throw new FormatError(
          `${path} became shorter while it was read; let whatever writes to it finish, and start again`,
          { file: path },
        );
      }
      at += count;
    }
    this.traffic.read += into.byteLength;
  }

  #open(file: number): number {
    const path = this.#files[file]?.path ?? "";
    try {
      const descriptor = openSync(path, "r");
      this.#descriptors.set(file, descriptor);
      return descriptor;
    } catch (error) {
      if (isSystemError(error, "ENOENT"))
        throw new FormatError(`${path} is gone; it was there a moment ago`, { file: path }, error);
      throw error;
    }
  }

  close(): void {
    for (const descriptor of this.#descriptors.values()) closeSync(descriptor);
    this.#descriptors.clear();
  }
}

export class OutputFiles {
  readonly #paths: readonly string[];
  readonly #descriptors = new Map<number, number>();
  readonly traffic: Traffic;

  constructor(paths: readonly string[], traffic: Traffic) {
    this.#paths = paths;
    this.traffic = traffic;
  }

  /** Writes all of `bytes` at byte `position` of a file that exists. */
  write(file: number, position: number, bytes: Uint8Array): void {
    let descriptor = this.#descriptors.get(file);
    if (descriptor === undefined) {
      const path = this.#paths[file] ?? "";
      try {
        descriptor = openSync(path, "r+");
      } catch (error) {
        throw isSystemError(error, "ENOENT") ? OutputError.deleted(path, error) : error;
      }
      this.#descriptors.set(file, descriptor);
    }
    for (let at = 0; at < bytes.byteLength; ) {
      at += writeSync(descriptor, bytes, at, bytes.byteLength - at, position + at);
    }
    this.traffic.written += bytes.byteLength;
  }

  close(): void {
    for (const descriptor of this.#descriptors.values()) closeSync(descriptor);
    this.#descriptors.clear();
  }
}
