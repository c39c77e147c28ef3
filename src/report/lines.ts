// Places lines with intervals on the axes of a figure of the page.
import { formatNumber, formatSpan, type Scale, type Span } from "./table.js";

export interface LinesData {
  readonly xTitle: string;
  /** Of the values; shares are from 0 to 1. */
  readonly scale: Scale;
  readonly lines: readonly {
    /** Empty if there is one line. */
    readonly label: string;
    /** In ascending order of `x`. */
    readonly points: readonly { readonly x: number; readonly y: number; readonly interval?: Span }[];
  }[];
  /** Dashed lines across the figure. */
  readonly references: readonly { readonly label: string; readonly y: number }[];
}

interface Tick {
  /** From 0 at the left or bottom to 1. */
  readonly at: number;
  readonly text: string;
}

/** Lines with positions as shares of the axes, from 0 at the left and at the bottom to 1. */
export interface PlacedLines {
  readonly xTitle: string;
  readonly yTitle: string;
  readonly xTicks: readonly Tick[];
  readonly yTicks: readonly Tick[];
  readonly lines: readonly {
    readonly label: string;
    readonly points: readonly {
      readonly at: readonly [x: number, y: number];
      readonly interval?: readonly [from: number, to: number];
      /** The line and its place, in words. */
      readonly where: string;
      /** Its value with the interval. */
      readonly value: string;
    }[];
  }[];
  readonly references: readonly Tick[];
}

/** Intervals between ticks, at most. */
const MOST_TICKS = 8;

/** Values from the lowest to the highest that occurs, with round ticks; shares stay between 0 and 1. */
export function placeLines({ xTitle, scale, lines, references }: LinesData): PlacedLines {
  const points = lines.flatMap((line) => line.points);
  const ys = [
    ...points.flatMap(({ y, interval }) => [y, interval?.low ?? y, interval?.high ?? y]),
    ...references.map(({ y }) => y),
  ];
  const xs = points.map(({ x }) => x);
  const [xTicks, yTicks] = [
    // Such as rounds, which have nothing in between.
    ticksWithin(Math.min(...xs), Math.max(...xs), xs.every(Number.isInteger) ? 1 : 0),
    ticksAround(Math.min(...ys), Math.max(...ys)),
  ];
  const xAt = placer([Math.min(...xs), Math.max(...xs)]);
  const yAt = placer([yTicks[0] ?? 0, yTicks.at(-1) ?? 1]);
  return {
    xTitle,
    yTitle: scale === "share" ? "percent right" : "score",
    xTicks: xTicks.map((x) => ({ at: xAt(x), text: String(x) })),
    yTicks: yTicks.map((y) => ({ at: yAt(y), text: formatNumber({ value: y, scale }).replace(/\.0$/, "") })),
    references: references.map(({ label, y }) => ({
      at: yAt(y),
      text: `${label} ${formatNumber({ value: y, scale })}`,
    })),
    lines: lines.map(({ label, points: own }) => ({
      label,
      points: own.map(({ x, y, interval }) => ({
        at: [xAt(x), yAt(y)] as const,
        ...(interval ? { interval: [yAt(interval.low), yAt(interval.high)] as const } : {}),
        where: `${label === "" ? "" : `${label}, `}${xTitle} ${x}`,
        value: formatNumber({ value: y, scale }) + (interval ? ` (95%: ${formatSpan(interval, { scale })})` : ""),
      })),
    })),
  };
}

function placer([low, high]: readonly [number, number]): (value: number) => number {
  return (value) => (high > low ? (value - low) / (high - low) : 0.5);
}

/** Multiples of 1, 2 or 5 times a power of ten. */
function stepOf(low: number, high: number, most = MOST_TICKS): number {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  return ([1, 2, 5, 10].find((times) => times * power >= rough * (1 - 1e-9)) ?? 10) * power;
}

/** Multiples of a round step, rounded to the digits of a double that are certain. */
function multiples(from: number, to: number, step: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, i) => Number(((from + i) * step).toPrecision(12)));
}

/** Round numbers from low to high. @param leastStep smallest distance between two @param most intervals between them */
export function ticksWithin(low: number, high: number, leastStep = 0, most = MOST_TICKS): number[] {
  if (!(high > low)) return [low];
  const step = Math.max(leastStep, stepOf(low, high, most));
  return multiples(Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9), step);
}

function ticksAround(low: number, high: number): number[] {
  // A line of equal values is in the middle of a tenth.
  if (!(high > low)) return [low - 0.05, low + 0.05].map((value) => Number(value.toPrecision(12)));
  const step = stepOf(low, high);
  return multiples(Math.floor(low / step + 1e-9), Math.ceil(high / step - 1e-9), step);
}
