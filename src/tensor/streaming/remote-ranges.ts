// The byte ranges of remote files that pieces read, and the requests that fetch them.

import { bytesPerValue } from "../../kernels/index.js";
import { cutIntoPieces, type Piece } from "./pieces.js";
import {
  type CodedTerm,
  type Evaluation,
  evaluationsOf,
  type Job,
  type LowRankTerm,
  type Program,
  type Stored,
  type StoredTerm,
  storedTerms,
} from "./program.js";

/** Bytes of an input file. */
export interface ByteRange {
  /** Index into `Program.inputs`. */
  readonly file: number;
  readonly start: number;
  /** First byte after it. */
  readonly end: number;
}

/** A range whose bytes go to a place in the memory of a piece. */
export interface PlacedRange extends ByteRange {
  readonly piece: number;
  /** Offset in the window. */
  readonly at: number;
}

/** A range that is fetched at once, and the parts of it that are needed, in order. */
export interface RangeRequest extends ByteRange {
  readonly parts: readonly PlacedRange[];
}

/** Pieces that are fetched together, into one slot of the window. */
export interface Batch {
  readonly pieces: readonly number[];
  readonly ranges: readonly PlacedRange[];
  readonly bytes: number;
}

/** Whether any input is remote. */
export function isStreamed({ inputs }: Program): boolean {
  return inputs.some(({ remote }) => remote !== undefined);
}

/** The remote bytes that a piece reads: sorted by file and position, without overlaps or adjacent ranges. */
export function remoteRanges({ inputs, jobs }: Program, { job, begin, end }: Piece): ByteRange[] {
  const all = rangesOf(jobs[job] as Job, begin, end);
  const remote = all.filter(({ file, start, end }) => inputs[file]?.remote !== undefined && end > start);
  remote.sort((a, b) => a.file - b.file || a.start - b.start);
  const joined: ByteRange[] = [];
  for (const range of remote) {
    const last = joined.at(-1);
    if (last?.file === range.file && range.start <= last.end) {
      joined[joined.length - 1] = { ...last, end: Math.max(last.end, range.end) };
    } else joined.push(range);
  }
  return joined;
}

function rangesOf(job: Job, begin: number, end: number): ByteRange[] {
  const elements = ({ file, offset, dtype }: Stored) => {
    const width = bytesPerValue(dtype);
    return { file, start: offset + begin * width, end: offset + end * width };
  };
  if (job.kind === "copy" || job.kind === "compare-copy") {
    const bytes = ({ file, offset }: Stored) => ({ file, start: offset + begin, end: offset + end });
    return job.kind === "copy" ? [bytes(job.from)] : [bytes(job.from), bytes(job.against)];
  }
  const terms = evaluationsOf(job).flatMap((evaluation) => termRanges(evaluation, begin, end, elements));
  return job.kind === "compare" ? [...terms, elements(job.against)] : terms;
}

function termRanges(
  evaluation: Evaluation,
  begin: number,
  end: number,
  elements: (stored: Stored) => ByteRange,
): ByteRange[] {
  return storedTerms(evaluation).flatMap((term) => {
    const { gathered, lowRank } = term;
    const factors = lowRank ? factorRanges(lowRank, evaluation) : [];
    if (term.coded) return [...codedRanges(term, term.coded, [begin, end]), ...factors];
    if (!gathered) return [elements(term), ...factors];
    const bytesPerRow = evaluation.columns * bytesPerValue(term.dtype);
    const rows: ByteRange[] = [];
    for (let row = begin / evaluation.columns; row < end / evaluation.columns; row++) {
      const stored = gathered.parts[gathered.part[row] ?? 0];
      if (!stored) continue;
      const start = stored.offset + (gathered.row[row] ?? 0) * bytesPerRow;
      rows.push({ file: stored.file, start, end: start + bytesPerRow });
    }
    return [...rows, ...factors];
  });
}

/** Codes and scales of the rows with elements [begin, end); of whole matrices where columns lie together. */
function codedRanges(
  term: StoredTerm,
  { rows, columns, lines, block, byColumn, first = 0, scales, second, zeros, groups, stride = columns }: CodedTerm,
  [begin, end]: readonly [number, number],
): ByteRange[] {
  const from = first + Math.floor(begin / columns);
  const to = first + Math.ceil(end / columns);
  const [top, bottom] = [Math.floor(from / rows), Math.ceil(to / rows)];
  const [height, width] = [Math.ceil(rows / block[0]), Math.ceil(columns / block[1])];
  const part = ({ file, offset, dtype }: Stored, [a, b]: readonly [number, number], each: number) => {
    const size = each * bytesPerValue(dtype);
    return { file, start: offset + a * size, end: offset + b * size };
  };
  const matrices = [top, bottom] as const;
  const others = [...(second ? [whole(second, 1, 1)] : []), ...(groups ? [whole(groups, columns, 1)] : [])];
  if (zeros) others.push(whole({ ...zeros, dtype: term.dtype }, width, Math.ceil(height / 8) * 8));
  const ofScales = byColumn || bottom - top > 1 || height === 1 ? part(scales, matrices, height * width) : undefined;
  const within = [from, to].map((row, i) => {
    const line = (row - top * rows) / block[0];
    return top * height + (i === 0 ? Math.floor(line) : Math.ceil(line));
  }) as [number, number];
  return [
    lines === 1 ? part(term, [from, to], stride) : part(term, matrices, rows * columns),
    ofScales ?? part(scales, within, width),
    ...others,
  ];
}

function factorRanges(lowRank: LowRankTerm, { elements, columns }: Evaluation): ByteRange[] {
  const { a, b, lengths, input, output, rank, transposed, experts = { count: 1 } } = lowRank;
  const matrices = elements / columns / (transposed ? input : output);
  const factors = [whole(a, input, rank * matrices), whole(b, rank * experts.count, output)];
  return lengths ? [...factors, whole(lengths, 1, output)] : factors;
}

function whole({ file, offset, dtype }: Stored, columns: number, rows: number): ByteRange {
  return { file, start: offset, end: offset + columns * rows * bytesPerValue(dtype) };
}

/**
 * Groups the pieces that are not done into batches.
 * @param slotBytes most bytes of a batch; a larger piece is a batch of its own
 */
export function planBatches(
  program: Program,
  pieces: readonly Piece[],
  slotBytes: number,
  isDone: (piece: number) => boolean = () => false,
): Batch[] {
  const batches: Batch[] = [];
  let open = { pieces: [] as number[], ranges: [] as PlacedRange[], bytes: 0 };
  const close = () => {
    if (open.pieces.length > 0) batches.push(open);
    open = { pieces: [], ranges: [], bytes: 0 };
  };
  pieces.forEach((piece, index) => {
    if (isDone(index)) return;
    const ranges = remoteRanges(program, piece);
    const bytes = ranges.reduce((sum, { start, end }) => sum + end - start, 0);
    if (open.bytes + bytes > slotBytes) close();
    open.pieces.push(index);
    for (const range of ranges) {
      open.ranges.push({ ...range, piece: index, at: open.bytes });
      open.bytes += range.end - range.start;
    }
  });
  close();
  return batches;
}

/** Most bytes of a request: large enough that its start costs little, small enough that several share the connection. */
const REQUEST_BYTES = 16 * 2 ** 20;
/** Fetching as much again in place of another request. A round trip takes longer than this many bytes. */
const GAP_BYTES = 2 ** 16;

/** The requests of a batch. Neighbors share one, with the small gaps between them. */
export function requestsOf({ ranges }: Batch): RangeRequest[] {
  const sorted = [...ranges].sort((a, b) => a.file - b.file || a.start - b.start);
  const requests: { file: number; start: number; end: number; parts: PlacedRange[] }[] = [];
  for (const range of sorted) {
    const last = requests.at(-1);
    const gap = last?.file === range.file ? range.start - last.end : -1;
    if (last && gap >= 0 && gap <= GAP_BYTES && range.end - last.start <= REQUEST_BYTES) {
      last.end = range.end;
      last.parts.push(range);
    } else requests.push({ file: range.file, start: range.start, end: range.end, parts: [range] });
  }
  return requests;
}

/** Most bytes of a batch: four of them are half of the default memory. */
export const SLOT_BYTES = 32e6;

/** Bytes that running a program fetches, gaps included. */
export function countFetched(program: Program): number {
  if (!isStreamed(program)) return 0;
  return planBatches(program, cutIntoPieces(program.jobs), SLOT_BYTES)
    .flatMap(requestsOf)
    .reduce((sum, { start, end }) => sum + end - start, 0);
}
