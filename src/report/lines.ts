// Places lines with intervals on the axes of a figure of the page.
import type { Lines } from "./figures.js";
import { axisAround, axisWithin, placeOn, type Scale } from "./scores.js";
import { formatNumber, formatSpan } from "./table.js";

export const formatTick = (value: number, scale: Scale) => formatNumber({ value, scale }).replace(/\.0$/, "");

/** Lines with positions as shares of the axes, from 0 at the left and at the bottom to 1. */
export function placeLines({
  xTitle,
  scale,
  lines,
  references,
}: Pick<Lines, "xTitle" | "scale" | "lines" | "references">) {
  const points = lines.flatMap((line) => line.points);
  const xs = points.map((point) => point.x);
  // Such as rounds, which have nothing in between.
  const x = axisWithin(xs, xs.every(Number.isInteger) ? 1 : 0);
  const y = axisAround([
    ...points.flatMap(({ mean, interval }) => [mean, interval?.low ?? mean, interval?.high ?? mean]),
    ...references.map(({ mean }) => mean),
  ]);
  return {
    xTitle,
    yTitle: scale === "share" ? "percent right" : "score",
    xTicks: x.ticks.map((tick) => ({ at: placeOn(x, tick), text: String(tick) })),
    yTicks: y.ticks.map((tick) => ({ at: placeOn(y, tick), text: formatTick(tick, scale) })),
    references: references.map(({ label, mean }) => ({
      at: placeOn(y, mean),
      text: `${label} ${formatNumber({ value: mean, scale })}`,
    })),
    lines: lines.map(({ label, points: own }) => ({
      label,
      points: own.map(({ x: place, mean, interval }) => ({
        at: [placeOn(x, place), placeOn(y, mean)] as const,
        ...(interval ? { interval: [placeOn(y, interval.low), placeOn(y, interval.high)] as const } : {}),
        // The line and its place, in words.
        where: `${label === "" ? "" : `${label}, `}${xTitle} ${place}`,
        value: formatNumber({ value: mean, scale }) + (interval ? ` (95%: ${formatSpan(interval, { scale })})` : ""),
      })),
    })),
  };
}
