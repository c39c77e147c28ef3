// Measurements from norms and angles: SLERP weights, Model Stock ratios, SCE weights.

import { slerpWeights } from "../../weights/index.js";
import type { Value } from "../expressions/expression.js";
import { type Binding, type Labelled, type Measuring, products } from "./measurement.js";

/** Weights of two values in their spherical interpolation at t. */
export interface SlerpMeasurement extends Labelled {
  readonly kind: "slerp";
  readonly values: readonly [Value, Value];
  readonly t: number;
  /** Cosine above which the interpolation is linear. */
  readonly straight: number;
}

/** Interpolation ratio of Model Stock, from the mean cosine of the changes: [t]. arXiv 2403.19522, equation 1. */
export interface StockMeasurement extends Labelled {
  readonly kind: "stock";
  readonly values: readonly Value[];
}

/** Shares of the values' sums of squares, SCE's weights: as many numbers as values. arXiv 2408.07990. */
export interface EnergyMeasurement extends Labelled {
  readonly kind: "energy";
  readonly values: readonly Value[];
}

export function* measureSlerp({ id, values, t, straight }: SlerpMeasurement, binding: Binding): Measuring<number[]> {
  const [[square0 = 0, dot = 0] = [], [, square1 = 0] = []] = yield* products(id, values, binding);
  return [...slerpWeights(dot, square0, square1, t, straight)];
}

export function* measureStock({ id, values }: StockMeasurement, binding: Binding): Measuring<number[]> {
  const gram = yield* products(id, values, binding);
  let sum = 0;
  let pairs = 0;
  for (let i = 0; i < values.length; i++) {
    for (let j = i + 1; j < values.length; j++) {
      const size = Math.sqrt(gram[i]?.[i] ?? 0) * Math.sqrt(gram[j]?.[j] ?? 0);
      sum += size > 0 ? (gram[i]?.[j] ?? 0) / size : 0;
      pairs++;
    }
  }
  return [interpolationRatio(sum / pairs, values.length)];
}

/** t = N cos / (1 + (N - 1) cos); 0 if the changes point away from each other. */
function interpolationRatio(cosine: number, count: number): number {
  return cosine <= 0 ? 0 : (count * cosine) / (1 + (count - 1) * cosine);
}

export function* measureEnergy({ id, values }: EnergyMeasurement, binding: Binding): Measuring<number[]> {
  const gram = yield* products(id, values, binding);
  const squares = values.map((_, i) => gram[i]?.[i] ?? 0);
  const sum = squares.reduce((total, square) => total + square, 0);
  return squares.map((square) => (sum > 0 ? square / sum : 1 / values.length));
}
