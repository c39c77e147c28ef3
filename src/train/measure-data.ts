// How long a run's samples are, from the first rows of its data.
import type { ChatTemplate, Tokenizer } from "../text/index.js";
import { BatchStream } from "./data/batches.js";
import type { DataDeclaration } from "./data/declaration.js";
import { prepareData } from "./data/prepare.js";
import type { DataSample } from "./run/outlook.js";
import { dataOf, type Run } from "./run/run-schema.js";

/** Rows of each set that are read: enough for the mean length, and read in a second or two. */
const MAX_ROWS = 5000;

export interface MeasureDataOptions {
  readonly tokenizer: Tokenizer;
  readonly chatTemplate?: ChatTemplate | undefined;
  /** Most tokens of a sample. */
  readonly sequenceLength: number;
  /** Folder that relative paths start from. */
  readonly folder: string;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Reads the first rows of all sets of a run, whose data must be on this machine.
 * @throws DataError as `prepareData`
 */
export async function measureData(run: Run, options: MeasureDataOptions): Promise<DataSample> {
  const streams = await Promise.all(dataOf(run).map((data) => measureStream(run, data, options)));
  const rows = streams.length * Math.max(...streams.map((one) => one.rows));
  const mean = (of: (one: DataSample) => number) => streams.reduce((sum, one) => sum + of(one), 0) / streams.length;
  return {
    rows,
    isLeast: streams.some(({ isLeast }) => isLeast),
    tokensPerRow: mean(({ tokensPerRow }) => tokensPerRow),
    sequencesPerRow: mean(({ sequencesPerRow }) => sequencesPerRow),
  };
}

async function measureStream(run: Run, data: DataDeclaration, options: MeasureDataOptions): Promise<DataSample> {
  const { sequenceLength } = options;
  const { seed, loss_on: loss, holdout: heldOut, batch, packing } = run;
  const sets = data.sets.map((set) => ({ ...set, limit: Math.min(set.limit ?? MAX_ROWS, MAX_ROWS) }));
  const {
    train: examples,
    counts,
    repeat,
  } = await prepareData({ ...options, seed, loss, heldOut, data: { ...data, sets } });
  const stream = new BatchStream({ examples, sequenceLength, batch, packing, seed, repeat });
  const read = stream.mixture.size;
  // A pass has more or less of a set than its rows where sets have weights.
  const tokens = examples.sets.reduce((sum, { examples: own }, i) => {
    const mean = own.reduce((total, { ids }) => total + ids.length, 0) / Math.max(1, own.length);
    return sum + (stream.mixture.shares[i] ?? 0) * mean;
  }, 0);
  const isLeast = data.sets.some(({ limit = Number.POSITIVE_INFINITY }, i) => {
    return limit > MAX_ROWS && (counts[i]?.rows ?? 0) >= MAX_ROWS;
  });
  return {
    rows: read,
    isLeast,
    tokensPerRow: tokens / Math.max(1, read),
    sequencesPerRow: stream.sequencesPerPass() / Math.max(1, read),
  };
}
