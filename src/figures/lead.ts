// How the score that a page is about does against the best alternative, in a sentence.
import type { Scale, Span } from "./scores.js";
import { formatNumber, formatSpan } from "./table.js";

/** A score in a sentence: `82.1%`, or points as they are. */
export const scoreText = (value: number, scale: Scale) =>
  `${formatNumber({ value, scale })}${scale === "share" ? "%" : ""}`;

/** A probability in a sentence: `p = 0.044`, `p < 0.0001`. */
export const probabilityText = (p: number) =>
  `p ${formatNumber({ value: p, scale: "probability" }).replace(/^(?!<)/, "= ")}`;

interface Compared {
  readonly name: string;
  readonly score: number;
}

/**
 * `swap scores 82.1%, 5.5 points above TIES, the best alternative (76.6%; 95% interval of the difference: +2.7 to +8.3).`
 * @param difference of the first less the other, on the same items
 */
export function leadSentence(
  [first, other]: readonly [Compared, Compared],
  {
    scale,
    difference,
    interval,
  }: { readonly scale: Scale; readonly difference: number; readonly interval?: Span | undefined },
): string {
  const points = formatNumber({ value: Math.abs(difference), scale });
  const how = Number(points) === 0 ? "as much as" : `${points} points ${difference > 0 ? "above" : "below"}`;
  const span = interval && `; 95% interval of the difference: ${formatSpan(interval, { scale, isSigned: true })}`;
  return `${first.name} scores ${scoreText(first.score, scale)}, ${how} ${other.name}, the best alternative (${scoreText(other.score, scale)}${span ?? ""}).`;
}
