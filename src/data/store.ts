// Encoded examples: in memory up to a limit, beyond it in a temporary file. Read one at a time, in any order.
import { closeSync, openSync, readSync, rmSync, writeFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DiskFullError } from "../core/index.js";
import type { Encoded } from "./encode.js";

/** A hundred thousand examples of usual length. */
const DEFAULT_LIMIT = 512 * 2 ** 20;

/** Bytes that a token takes: its id, and whether it is learned. */
const TOKEN_BYTES = 5;

/** Bytes that an example's arrays take in memory besides their contents. */
const ARRAY_BYTES = 400;

/** Examples per write. */
const GROUP = 1_000;

export class ExampleStore {
  readonly #limit: number;
  readonly #tokens: number[] = [];
  /** The examples after those in the file. */
  #kept: Encoded[] = [];
  #keptBytes = 0;
  #file: { readonly descriptor: number; readonly folder: string } | undefined;
  /** Where each example in the file begins. */
  readonly #offsets: number[] = [];
  #fileBytes = 0;

  /** @param limit bytes of memory, before examples go to a file in the system's temporary folder; default 512 MiB */
  constructor(limit = DEFAULT_LIMIT) {
    this.#limit = limit;
  }

  get count(): number {
    return this.#tokens.length;
  }

  /** Whether examples are in a file. */
  get isSpilled(): boolean {
    return this.#file !== undefined;
  }

  /** Adds an example. @returns its number, counted from 0 */
  async add(example: Encoded): Promise<number> {
    this.#kept.push(example);
    this.#keptBytes += example.ids.length * TOKEN_BYTES + ARRAY_BYTES;
    const number = this.#tokens.push(example.ids.length) - 1;
    if (this.#keptBytes > this.#limit) await this.#spill();
    return number;
  }

  tokensOf(index: number): number {
    return this.#tokens[index] ?? 0;
  }

  get(index: number): Encoded {
    const kept = this.#kept[index - this.#offsets.length];
    if (kept) return kept;
    const offset = this.#offsets[index];
    if (offset === undefined) throw new RangeError(`there is no example ${index} of ${this.count}`);
    const tokens = this.tokensOf(index);
    const bytes = new Uint8Array(tokens * TOKEN_BYTES);
    if (readSync(this.#file?.descriptor ?? -1, bytes, 0, bytes.length, offset) < bytes.length) {
      throw new RangeError("the temporary file of examples was cut short");
    }
    return { ids: new Int32Array(bytes.buffer, 0, tokens), loss: bytes.subarray(tokens * 4) };
  }

  /** Removes the file, if there is one; no example can be read afterwards. */
  close(): void {
    this.#kept = [];
    this.#tokens.length = 0;
    this.#offsets.length = 0;
    if (!this.#file) return;
    closeSync(this.#file.descriptor);
    rmSync(this.#file.folder, { recursive: true, force: true });
    this.#file = undefined;
  }

  async #spill(): Promise<void> {
    try {
      if (!this.#file) {
        const folder = await mkdtemp(join(tmpdir(), "layergraft-data-"));
        this.#file = { descriptor: openSync(join(folder, "examples"), "w+"), folder };
        // Without its name, the file of a process that is killed disappears with it.
        if (process.platform !== "win32") rmSync(folder, { recursive: true, force: true });
      }
      for (let i = 0; i < this.#kept.length; i += GROUP) {
        const group = this.#kept.slice(i, i + GROUP);
        const bytes = group.flatMap(({ ids, loss }) => [
          new Uint8Array(ids.buffer, ids.byteOffset, ids.byteLength),
          loss,
        ]);
        writeFileSync(this.#file.descriptor, Buffer.concat(bytes));
        for (const { ids } of group) {
          this.#offsets.push(this.#fileBytes);
          this.#fileBytes += ids.length * TOKEN_BYTES;
        }
      }
      this.#kept = [];
      this.#keptBytes = 0;
    } catch (error) {
      if (!DiskFullError.isMeantBy(error)) throw error;
      const message = `no room in ${tmpdir()} for the encoded examples. Free some, set TMPDIR, or use less data (cap)`;
      throw new DiskFullError(message, { file: tmpdir() }, error);
    }
  }
}
