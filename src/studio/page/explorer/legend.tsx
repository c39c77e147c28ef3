import type { Ramp } from "./colour.js";

/** What the ends of a scale of colours mean. */
export function Legend({ low, high, colours }: { low: string; high: string; colours: Ramp }) {
  const shown = colours.filter((_, i) => i % 4 === 0);
  return (
    <span class="legend">
      {low}
      <span class="ramp" aria-hidden="true" style={{ background: `linear-gradient(90deg, ${shown.join()})` }} />
      {high}
    </span>
  );
}
