// Rows of tokens that training hardly touched, by their lengths and angles (arXiv 2405.05417), as mergekit-tokensurgeon
// finds them.
import type { CheckpointTensor } from "../../formats/checkpoint/index.js";
import { readRanges } from "../../formats/safetensors/index.js";
import { bytesPerValue, Converter, type KernelDType } from "../../kernels/index.js";

/** Share of the rows that count as short, or as near to unused ones. */
const TAIL = 0.01;
/** Least cosine at which a row is near to unused ones. */
const NEAR = 0.5;
const CHUNK_BYTES = 2 ** 24;

/**
 * @param embedding [rows, columns], plain, on this machine
 * @param head of the same size; undefined if it is not looked at
 * @param unused rows that no token has, or one that is reserved
 * @returns rows that are not well trained, the unused ones among them
 */
export async function untrainedRows(
  embedding: CheckpointTensor,
  head: CheckpointTensor | undefined,
  unused: ReadonlySet<number>,
): Promise<Set<number>> {
  const bad = new Set(unused);
  if (head) {
    const lengths = await mapRows(embedding, (row) => Math.sqrt(dot(row, row)));
    const least = quantile(lengths, TAIL);
    for (const [row, length] of lengths.entries()) if (length < least) bad.add(row);
  }
  if (unused.size === 0) return bad;
  for (const matrix of head ? [embedding, head] : [embedding]) {
    const mean = new Float64Array(matrix.shape[1] as number);
    await mapRows(matrix, (row, at) => {
      if (unused.has(at)) for (const [d, x] of row.entries()) mean[d] = (mean[d] as number) + x / unused.size;
      return 0;
    });
    const length = Math.sqrt(dot(mean, mean));
    const cosines = await mapRows(matrix, (row) => dot(row, mean) / Math.max(Math.sqrt(dot(row, row)) * length, 1e-8));
    const most = Math.max(NEAR, quantile(cosines, 1 - TAIL));
    for (const [row, cosine] of cosines.entries()) if (cosine > most) bad.add(row);
  }
  return bad;
}

/** A number of each row, rounded to the matrix's dtype as mergekit's are. */
async function mapRows(
  { file, offset, shape, dtype }: CheckpointTensor,
  of: (row: Float32Array, at: number) => number,
): Promise<Float32Array> {
  const [rows = 0, columns = 0] = shape;
  const converter = new Converter();
  const found = new Float32Array(rows);
  const width = columns * bytesPerValue(dtype);
  const together = Math.max(1, Math.floor(CHUNK_BYTES / width));
  for (let at = 0; at < rows; at += together) {
    const end = Math.min(rows, at + together);
    const [bytes] = await readRanges(file, [[offset + at * width, offset + end * width]]);
    const values = converter.decode(dtype as KernelDType, bytes as Uint8Array);
    for (let row = at; row < end; row++) {
      found[row] = of(values.subarray((row - at) * columns, (row - at + 1) * columns), row);
    }
  }
  return converter.decode(dtype as KernelDType, converter.encode(dtype as KernelDType, found).bytes);
}

function dot(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i] as number) * (b[i] as number);
  return sum;
}

/** Between the values beside a share of them, in order. */
function quantile(values: Float32Array, share: number): number {
  const sorted = values.toSorted();
  const at = share * (sorted.length - 1);
  const [low, high] = [sorted[Math.floor(at)] ?? 0, sorted[Math.ceil(at)] ?? 0];
  return Math.fround(low + (at - Math.floor(at)) * (high - low));
}
