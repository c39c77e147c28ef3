// Encoded examples, many of them: in memory up to a bound, past it in a temporary file. Read one at a time, in any order.

import { closeSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DiskFullError } from "../core/index.js";
import type { Encoded } from "./encode.js";

/** Examples are collected in blocks of this size, so that few long writes are made. */
const BLOCK_BYTES = 4 * 2 ** 20;

/** Held in memory before a file is used: a hundred thousand examples of usual length. */
export const DEFAULT_STORE_BYTES = 512 * 2 ** 20;

interface Block {
  readonly bytes: Buffer;
  used: number;
}

/** Grows by adding; nothing is taken out. */
export class ExampleStore {
  readonly #mostBytes: number;
  #blocks: (Block | undefined)[] = [];
  #inMemory = 0;
  #places: Places = emptyPlaces(1024);
  #count = 0;
  #file: { handle: number; folder: string; offsets: number[] } | undefined;
  #spilled = 0;

  /** @param mostBytes memory before the rest goes to a file in the system's folder for such; default 512 MiB */
  constructor(mostBytes = DEFAULT_STORE_BYTES) {
    this.#mostBytes = mostBytes;
  }

  /** Number of examples. */
  get count(): number {
    return this.#count;
  }

  /** Whether some are in a file. */
  get isSpilled(): boolean {
    return this.#file !== undefined;
  }

  /** Adds an example. @returns its number, counted from 0 */
  async add({ ids, loss }: Encoded): Promise<number> {
    const size = ids.length * 5;
    const block = await this.#room(size);
    block.bytes.set(new Uint8Array(ids.buffer, ids.byteOffset, ids.byteLength), block.used);
    block.bytes.set(loss, block.used + ids.byteLength);
    if (this.#count === this.#places.block.length) this.#places = grown(this.#places);
    this.#places.block[this.#count] = this.#blocks.length - 1;
    this.#places.start[this.#count] = block.used;
    this.#places.tokens[this.#count] = ids.length;
    block.used += size;
    return this.#count++;
  }

  /** Tokens of an example. */
  tokensOf(index: number): number {
    return this.#places.tokens[index] ?? 0;
  }

  /** An example by its number; its own copy. */
  get(index: number): Encoded {
    if (!(index >= 0 && index < this.#count)) throw new RangeError(`there is no example ${index} of ${this.#count}`);
    const tokens = this.#places.tokens[index] ?? 0;
    const number = this.#places.block[index] ?? 0;
    const start = this.#places.start[index] ?? 0;
    const bytes = new Uint8Array(tokens * 5);
    const block = this.#blocks[number];
    if (block) bytes.set(block.bytes.subarray(start, start + bytes.length));
    else this.#read(bytes, (this.#file?.offsets[number] ?? 0) + start);
    return { ids: new Int32Array(bytes.buffer, 0, tokens), loss: bytes.subarray(tokens * 4) };
  }

  /** Removes the file, if there is one; examples cannot be read any more. */
  close(): void {
    this.#blocks = [];
    this.#count = 0;
    if (!this.#file) return;
    closeSync(this.#file.handle);
    rmSync(this.#file.folder, { recursive: true, force: true });
    this.#file = undefined;
  }

  async #room(size: number): Promise<Block> {
    const last = this.#blocks.at(-1);
    if (last && last.bytes.length - last.used >= size) return last;
    const bytes = Buffer.allocUnsafe(Math.max(size, BLOCK_BYTES));
    if (this.#inMemory + bytes.length > this.#mostBytes) await this.#spill();
    const block = { bytes, used: 0 };
    this.#blocks.push(block);
    this.#inMemory += bytes.length;
    return block;
  }

  /** Moves all blocks in memory to the file. */
  async #spill(): Promise<void> {
    try {
      if (!this.#file) {
        const folder = await mkdtemp(join(tmpdir(), "layergraft-data-"));
        this.#file = { handle: openSync(join(folder, "examples"), "w+"), folder, offsets: [] };
        // A run that is killed leaves no file behind where a file can be used after it lost its name.
        if (process.platform !== "win32") rmSync(folder, { recursive: true, force: true });
      }
      for (const [i, block] of this.#blocks.entries()) {
        if (!block) continue;
        this.#file.offsets[i] = this.#spilled;
        for (let at = 0; at < block.used; ) {
          at += writeSync(this.#file.handle, block.bytes, at, block.used - at, this.#spilled + at);
        }
        this.#spilled += block.used;
        this.#blocks[i] = undefined;
      }
      this.#inMemory = 0;
    } catch (error) {
      if (!DiskFullError.isMeantBy(error)) throw error;
      throw new DiskFullError(
        `no room in ${tmpdir()} for the encoded examples; free some, set TMPDIR, or use less data (cap)`,
        { file: tmpdir() },
        error,
      );
    }
  }

  #read(bytes: Uint8Array, position: number): void {
    for (let at = 0; at < bytes.length; ) {
      const read = readSync(this.#file?.handle ?? -1, bytes, at, bytes.length - at, position + at);
      if (read === 0) throw new RangeError("the temporary file of examples was cut short");
      at += read;
    }
  }
}

/** By example: its block, where it begins there in bytes, and its tokens. */
interface Places {
  readonly block: Uint32Array;
  readonly start: Uint32Array;
  readonly tokens: Uint32Array;
}

function emptyPlaces(count: number): Places {
  return { block: new Uint32Array(count), start: new Uint32Array(count), tokens: new Uint32Array(count) };
}

function grown(places: Places): Places {
  const larger = emptyPlaces(places.block.length * 2);
  larger.block.set(places.block);
  larger.start.set(places.start);
  larger.tokens.set(places.tokens);
  return larger;
}
