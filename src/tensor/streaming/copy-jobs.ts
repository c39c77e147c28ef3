// Jobs on bytes and on what they should be: copies, and comparisons with a file.

import { bytesPerValue } from "../../kernels/index.js";
import { bytesPerElement, isFloatDType } from "../../kit/index.js";
import type { NumberKind } from "./job-kinds.js";
import { COPY_BLOCK_BYTES, eachBlock } from "./pieces.js";
import { type CompareCopyJob, type CompareJob, type CopyJob, requireFloat } from "./program.js";

export const copy: NumberKind<CopyJob> = {
  begin: ({ inputs, outputs, evaluator: { kernels } }) => {
    const copied = kernels.allocate(COPY_BLOCK_BYTES);
    return (job, begin, end) => {
      const { dtype } = job.to;
      let nonFinite = 0;
      for (let at = begin; at < end; at += COPY_BLOCK_BYTES) {
        const bytes = kernels.bytes(copied, Math.min(COPY_BLOCK_BYTES, end - at));
        inputs.read(job.from.file, job.from.offset + at, bytes);
        outputs.write(job.to.file, job.to.offset + at, bytes);
        if (!isFloatDType(dtype)) continue;
        kernels.clearPadding(copied, bytes.byteLength);
        nonFinite += kernels.countNonFinite(dtype, copied, bytes.byteLength / bytesPerElement(dtype));
      }
      return [nonFinite];
    };
  },
};

export const compareCopy: NumberKind<CompareCopyJob> = {
  begin: ({ inputs }) => {
    const [a, b] = [new Uint8Array(COPY_BLOCK_BYTES), new Uint8Array(COPY_BLOCK_BYTES)];
    return (job, begin, end) => {
      const tally = new Tally(Math.ceil(bytesPerValue(job.from.dtype)));
      for (let at = begin; at < end; at += COPY_BLOCK_BYTES) {
        const length = Math.min(COPY_BLOCK_BYTES, end - at);
        inputs.read(job.from.file, job.from.offset + at, a.subarray(0, length));
        inputs.read(job.against.file, job.against.offset + at, b.subarray(0, length));
        tally.add(a.subarray(0, length), b.subarray(0, length), at);
      }
      return tally.result();
    };
  },
};

export const compare: NumberKind<CompareJob> = {
  begin:
    ({ inputs, evaluator }) =>
    (job, begin, end) => {
      const dtype = requireFloat(job.against.dtype);
      const width = bytesPerElement(dtype);
      const tally = new Tally(width);
      eachBlock(job, begin, end, (from, to) => {
        const wanted = evaluator.round(job.value, from, to, dtype).bytes;
        const found = new Uint8Array((to - from) * width);
        inputs.read(job.against.file, job.against.offset + from * width, found);
        tally.add(wanted, found, from * width);
      });
      return tally.result();
    },
};

/** Counts differing elements and remembers the first, over byte ranges given in order. */
class Tally {
  readonly #width: number;
  #differing = 0;
  #first = -1;

  constructor(width: number) {
    this.#width = width;
  }

  add(a: Uint8Array, b: Uint8Array, byteOffset: number): void {
    if (Buffer.compare(a, b) === 0) return;
    for (let at = 0; at < a.byteLength; at += this.#width) {
      let same = true;
      for (let i = at; i < at + this.#width; i++) same &&= a[i] === b[i];
      if (same) continue;
      if (this.#first < 0) this.#first = (byteOffset + at) / this.#width;
      this.#differing++;
    }
  }

  result(): readonly number[] {
    return [this.#differing, this.#first];
  }
}
