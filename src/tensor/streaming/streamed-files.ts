// Reads of one thread of which some are remote: their bytes are fetched by the main thread, a piece at a time.

import { InputFiles, type Inputs, type Traffic } from "./files.js";
import type { Piece } from "./pieces.js";
import type { Program } from "./program.js";
import { type ByteRange, remoteRanges } from "./remote-ranges.js";
import { type Shared, STOP, TURN, type Window } from "./shared.js";

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
