// Compares a merge by a random method, whose draws nobody can repeat, with draws of our own: how much is kept, and how large it is.

import { measureAll } from "../../tensor/measurements/index.js";
import type { StreamOptions } from "../../tensor/streaming/index.js";
import { findMethod, sourcesOf } from "../recipe/recipe.js";
import { type PlannedComparison, PUBLISHED } from "./compare-recipe.js";
import type { SampleSettings } from "./sample.js";
import { ValueReader } from "./value-reader.js";

/** Figures of the changes of a base, over all that was looked at. */
export interface DrawFigures {
  /** Share of the elements that differ from the base's. */
  readonly changed: number;
  /** Root mean square of the changes, zeros included. */
  readonly size: number;
}

export interface RandomCheck {
  readonly published: DrawFigures;
  /** Of a draw of our own. */
  readonly drawn: DrawFigures;
  /** Cosine of the published changes with those of our draw, and of ours with another one. */
  readonly cosine: number;
  readonly cosineOfDraws: number;
  readonly elements: number;
  /** Whether all figures agree within what chance allows. */
  readonly agrees: boolean;
}

/** Whether a recipe, or one within it, makes random choices. */
export function isRandom(recipe: { readonly method: string }): boolean {
  if ("seed" in (findMethod(recipe.method)?.schema.shape ?? {})) return true;
  return sourcesOf(recipe).some(({ source }) => typeof source !== "string" && isRandom(source));
}

/**
 * Draws of one method on the same weights differ by chance alone: over n elements a share by a few sqrt(s (1 - s) / n). Changes of
 * neighbours are not independent, so that a hundredth is allowed besides.
 */
const SIGMAS = 5;
const SLACK = 0.01;

/** @returns undefined if there is no base to count changes from */
export async function compareDraws(
  first: PlannedComparison,
  second: PlannedComparison,
  settings: SampleSettings,
  stream: StreamOptions,
): Promise<RandomCheck | undefined> {
  const sums = { n: 0, published: new Sums(), drawn: new Sums(), cross: 0, draws: 0, other: 0 };
  const sources = new Map([...first.opened.sources, [PUBLISHED, first.published] as const]);
  const others = new Map(second.opened.plan.steps.map((step) => [step.tensor, step]));
  const measuredOf = ({ opened, measurements }: PlannedComparison) => measureAll(measurements, opened.sources, stream);
  const measured = new Map([...(await measuredOf(first)), ...(await measuredOf(second))]);
  const base = sources.get("base");
  const pairs = first.pairs.filter(({ step }) => base?.tensors.has(step.tensor));
  for (let at = 0; at < pairs.length; at += BATCH) {
    const reader = new ValueReader(sources);
    const read = pairs.slice(at, at + BATCH).flatMap(({ step, against: { dtype } }) => {
      const { tensor, value } = step;
      const again = others.get(tensor);
      const rows = { ...settings, tensor };
      return again
        ? [
            [
              reader.add({ source: PUBLISHED, tensor }, measured, rows),
              reader.add(value, measured, rows, dtype),
              reader.add(again.value, measured, rows, dtype),
              reader.add({ source: "base", tensor }, measured, rows, dtype),
            ] as const,
          ]
        : [];
    });
    await reader.run(stream);
    for (const places of read) {
      const [published, own, other, zero] = places.map((place) => reader.values(place)) as [
        Float32Array,
        Float32Array,
        Float32Array,
        Float32Array,
      ];
      for (let i = 0; i < own.length; i++) {
        const from = zero[i] as number;
        const [a, b, c] = [(published[i] as number) - from, (own[i] as number) - from, (other[i] as number) - from];
        sums.n++;
        sums.published.add(a);
        sums.drawn.add(b);
        sums.cross += a * b;
        sums.draws += b * c;
        sums.other += c * c;
      }
    }
  }
  const { n, published, drawn } = sums;
  if (n === 0 || drawn.squares === 0) return undefined;
  const cosine = sums.cross / Math.sqrt((published.squares || 1) * drawn.squares);
  const cosineOfDraws = sums.draws / Math.sqrt((sums.other || 1) * drawn.squares);
  const figures = { published: published.over(n), drawn: drawn.over(n) };
  const share = figures.drawn.changed;
  const chance = SIGMAS * Math.sqrt((2 * share * (1 - share)) / n) + SLACK * share;
  const agrees =
    Math.abs(figures.published.changed - share) <= chance &&
    Math.abs(figures.published.size / figures.drawn.size - 1) <= SIGMAS / Math.sqrt(n * share) + SLACK &&
    Math.abs(cosine - cosineOfDraws) <= SIGMAS / Math.sqrt(n) + SLACK;
  return { ...figures, cosine, cosineOfDraws, elements: n, agrees };
}

const BATCH = 16;

class Sums {
  changed = 0;
  squares = 0;

  add(value: number): void {
    if (value !== 0) this.changed++;
    this.squares += value * value;
  }

  over(n: number): DrawFigures {
    return { changed: this.changed / n, size: Math.sqrt(this.squares / n) };
  }
}
