import { placeOn, type Span } from "../../../figures/scores.js";
import type { Score } from "../../protocol/index.js";

/** An axis with the texts of its ticks, which are equally far from each other. */
export interface Scale extends Span {
  readonly ticks: readonly string[];
}

/** Places of ticks from 0 to 1. */
export const placesOf = ({ ticks }: Scale) => ticks.map((_, i) => i / (ticks.length - 1));

/** A score and its interval on an axis; the numbers beside it say the same. */
export function Interval({ score: { value, low, high }, axis }: { readonly score: Score; readonly axis: Scale }) {
  const at = (place: number) => 100 * placeOn(axis, place);
  return (
    <svg class="interval" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      <line class="ground" x1="0" x2="100" y1="9.5" y2="9.5" />
      {placesOf(axis).map((place) => (
        <line key={place} class="ground" x1={100 * place} x2={100 * place} y1="0" y2="10" />
      ))}
      {low === null || high === null ? null : <line class="span" x1={at(low)} x2={at(high)} y1="5" y2="5" />}
      {value === null ? null : <line class="dot" x1={at(value)} x2={at(value)} y1="1" y2="9" />}
    </svg>
  );
}

interface TicksProps {
  /** Places from 0 to 1. */
  readonly places: readonly number[];
  readonly texts: readonly (string | number)[];
}

/** Texts along an axis. */
export function Ticks({ places, texts }: TicksProps) {
  return (
    <div class="ticks" aria-hidden="true">
      {places.map((place, i) => (
        <span key={place} style={{ left: `${100 * place}%` }}>
          {texts[i]}
        </span>
      ))}
    </div>
  );
}
