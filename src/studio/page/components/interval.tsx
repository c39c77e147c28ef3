import { placeOn, type Span } from "../../../report/scores.ts";
import type { Score } from "../../protocol/index.ts";

interface IntervalProps {
  readonly score: Score;
  readonly axis: Span;
}

/** A score and its interval on an axis; the numbers beside it say the same. */
export function Interval({ score: { value, low, high }, axis }: IntervalProps) {
  const at = (place: number) => 100 * placeOn(axis, place);
  return (
    <svg class="interval" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      <line class="ground" x1="0" x2="100" y1="9.5" y2="9.5" />
      {low === null || high === null ? null : <line class="span" x1={at(low)} x2={at(high)} y1="5" y2="5" />}
      {value === null ? null : <line class="dot" x1={at(value)} x2={at(value)} y1="1" y2="9" />}
    </svg>
  );
}
