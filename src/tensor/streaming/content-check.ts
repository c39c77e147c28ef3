// Checks the SHA-256 of remote files that a pass reads as a whole, from the first byte to the last.

import type { Hash } from "node:crypto";
import { LayergraftError } from "../../kit/index.js";
import type { InputFile } from "./program.js";
import type { ByteRange } from "./remote-ranges.js";

export class ContentCheck {
  readonly #inputs: readonly InputFile[];
  /** By file: its hash up to a byte. Files that are not read in order have none. */
  readonly #hashes = new Map<number, { readonly hash: Hash; at: number }>();

  constructor(inputs: readonly InputFile[]) {
    this.#inputs = inputs;
    inputs.forEach(({ remote }, file) => {
      const begun = remote?.beginHash();
      if (begun) this.#hashes.set(file, begun);
    });
  }

  /**
   * Takes the bytes of a range. Ranges are given in the order in which a pass reads them.
   * @throws LayergraftError code "changed" if all of the file was taken and its hash is not the one listed
   */
  take({ file, start, end }: ByteRange, bytes: Uint8Array): void {
    const state = this.#hashes.get(file);
    if (!state || start < state.at) return;
    if (start > state.at) {
      this.#hashes.delete(file);
      return;
    }
    state.hash.update(bytes);
    state.at = end;
    const { path = "", bytes: size, remote } = this.#inputs[file] ?? {};
    if (end !== size) return;
    const actual = state.hash.digest("hex");
    this.#hashes.delete(file);
    if (actual === remote?.sha256) return;
    throw new LayergraftError(
      "changed",
      `${path} was received with the SHA-256 ${actual}, but the hub lists ${remote?.sha256}. Run again, or use another HF_ENDPOINT.`,
      { file: path, expected: remote?.sha256 ?? "", actual },
    );
  }
}
