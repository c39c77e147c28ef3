interface IntervalProps {
  /** Places on the axis, from 0 to 1; null where there is none. */
  readonly at: number | null;
  readonly from: number | null;
  readonly to: number | null;
}

/** A score and its interval on an axis; the numbers beside it say the same. */
export function Interval({ at, from, to }: IntervalProps) {
  return (
    <svg class="interval" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      <line class="ground" x1="0" x2="100" y1="9.5" y2="9.5" />
      {from === null || to === null ? null : <line class="span" x1={100 * from} x2={100 * to} y1="5" y2="5" />}
      {at === null ? null : <line class="dot" x1={100 * at} x2={100 * at} y1="1" y2="9" />}
    </svg>
  );
}
