// Jobs that compute values and write them.

import { encodedBytes, interleaved, type SplitEncoding, splitBlocks, splitBytes } from "../../kernels/index.js";
import { bytesPerElement } from "../../kit/index.js";
import type { NumberKind } from "./job-kinds.js";
import { eachBlock } from "./pieces.js";
import { type EncodeJob, requireFloat, type WriteJob } from "./program.js";

export const write: NumberKind<WriteJob> = {
  begin:
    ({ outputs, evaluator }) =>
    (job, begin, end) => {
      const counts: [number, number] = [0, 0];
      eachBlock(job, begin, end, (from, to) => {
        const { bytes, nonFinite, made } = evaluator.round(job.value, from, to, requireFloat(job.to.dtype));
        outputs.write(job.to.file, job.to.offset + from * bytesPerElement(job.to.dtype), bytes);
        counts[0] += nonFinite;
        counts[1] += made;
      });
      return counts;
    },
};

export const encode: NumberKind<EncodeJob> = {
  begin:
    ({ outputs, evaluator }) =>
    (job, begin, end) => {
      const { value, to, encoding, scales, plus, interleave } = job;
      const columns = value.columns === value.elements ? 1 : value.columns;
      let broken = 0;
      eachBlock(job, begin, end, (from, until) => {
        const encoded = evaluator.encode(value, from, until, encoding, plus);
        broken += encoded.broken;
        if (scales) {
          const split = encoding as SplitEncoding;
          const parts = splitBlocks(split, encoded.bytes);
          const before = splitBytes(split, from);
          outputs.write(to.file, to.offset + before.codes, parts.codes);
          outputs.write(scales.file, scales.offset + before.scales, parts.scales);
          return;
        }
        if (interleave === undefined) {
          outputs.write(to.file, to.offset + encodedBytes(encoding, from), encoded.bytes);
          return;
        }
        const rowBytes = encodedBytes(encoding, columns);
        for (let row = from / columns, at = 0; at < encoded.bytes.byteLength; row++, at += rowBytes) {
          const offset = to.offset + interleaved(row, interleave) * rowBytes;
          outputs.write(to.file, offset, encoded.bytes.subarray(at, at + rowBytes));
        }
      });
      return [broken];
    },
};
