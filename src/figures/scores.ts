// Scores, and the axes and colours that they are drawn with. Nothing is imported, as the studio's page has this file too.

/** As assets/tokens.css has them. */
const ACCENTS = 6;

/** Number of an expert's accent, by its position from 0. */
export const accentOf = (expert: number) => (expert % ACCENTS) + 1;

/** Classes of an expert's accent: six colours, then the same with one pattern and another. */
export const ownClass = (expert: number) =>
  `own-${accentOf(expert)}${["", " again", " again-2"][Math.floor(expert / ACCENTS) % 3]}`;

export interface Span {
  readonly low: number;
  readonly high: number;
}

/** Scores: shares are from 0 to 1 and written as percent, points from 0 to 100. */
export type Scale = "share" | "points";

/** A mean over models. */
export interface Score {
  readonly mean: number;
  /** Smallest and largest over its models. */
  readonly low: number;
  readonly high: number;
  /** 95% interval over items; undefined where it has no width, and for scores of whole corpora. */
  readonly interval?: Span | undefined;
}

export interface Axis extends Span {
  readonly ticks: readonly number[];
}

/** Where a value is on an axis, from 0 to 1; halfway where all values are equal. */
export function placeOn({ low, high }: Span, value: number): number {
  return high > low ? Math.min(1, Math.max(0, (value - low) / (high - low))) : 0.5;
}

const betweenTicks = (ticks: readonly number[]): Axis => ({ low: ticks[0] ?? 0, high: ticks.at(-1) ?? 1, ticks });

/** An axis around scores with their intervals and ranges, in about four steps; from zero where that is near. */
export function scoreAxis(scores: readonly Partial<Score>[], scale: Scale): Axis {
  const values = scores.flatMap(({ mean, low, high, interval }) => [mean, low, high, interval?.low, interval?.high]);
  const known = values.filter((value) => value !== undefined);
  if (known.length === 0) return scoreAxis([{ low: 0, high: scale === "share" ? 1 : 100 }], scale);
  const [least, most] = [Math.min(...known), Math.max(...known)];
  const step = stepOf(Math.max(most - least, scale === "share" ? 0.04 : 1) / 4);
  // In whole steps, so that sums of decimals do not miss a tick.
  const from = least < 2 * step ? Math.min(0, Math.floor(least / step)) : Math.floor(least / step + 1e-9);
  const to = Math.max(from + 1, Math.ceil(most / step - 1e-9));
  return betweenTicks(multiples(from, to, step));
}

/** Intervals between ticks, at most. */
const MAX_TICKS = 8;

/** An axis from round number to round number around values. */
export function axisAround(values: readonly number[]): Axis {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  // A line of equal values is in the middle of a tenth.
  if (!(high > low)) return betweenTicks([low - 0.05, low + 0.05].map((value) => Number(value.toPrecision(12))));
  const step = stepOf((high - low) / MAX_TICKS);
  return betweenTicks(multiples(Math.floor(low / step + 1e-9), Math.ceil(high / step - 1e-9), step));
}

/** An axis from the lowest value to the highest, with round numbers in between. @param leastStep as of `ticksWithin` */
export function axisWithin(values: readonly number[], leastStep: number): Axis {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return { low, high, ticks: ticksWithin(low, high, leastStep) };
}

/** Round numbers from low to high. @param leastStep smallest distance between two @param most intervals between them */
export function ticksWithin(low: number, high: number, leastStep = 0, most = MAX_TICKS): number[] {
  if (!(high > low)) return [low];
  const step = Math.max(leastStep, stepOf((high - low) / most));
  return multiples(Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9), step);
}

/** The next multiple of 1, 2 or 5 times a power of ten. */
function stepOf(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(rough));
  return ([1, 2, 5, 10].find((times) => times * power >= rough * (1 - 1e-9)) ?? 10) * power;
}

/** Multiples of a round step, rounded to the digits of a double that are certain. */
function multiples(from: number, to: number, step: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, i) => Number(((from + i) * step).toPrecision(12)));
}
