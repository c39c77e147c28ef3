// Finds where tensors are on the arc between two models, as a spherical interpolation puts them.
import { extremesOf } from "../../kit/arrays/index.js";
import { elementCount, groupBy } from "../../kit/index.js";
import { STRAIGHT, slerpWeights } from "../methods/slerp.js";
import { type Fitted, residualOf, roundingOf, simplest, solve, UNITS } from "./fit-weights.js";

export interface Arc {
  /** Which models, in their order. */
  readonly ends: readonly [number, number];
  /** From 0 at the first model to 1 at the second; one number for the largest units that it fits. */
  readonly shares: ReadonlyMap<Fitted, number>;
  /** Weights of all models that this gives. */
  readonly weights: ReadonlyMap<Fitted, readonly number[]>;
}

/** The arc between the two models that count most; undefined if a tensor is not on it. */
export function fitArc(fitted: readonly Fitted[]): Arc | undefined {
  const found = fitted.map((one) => solve([one]).at(-1) ?? []);
  const models = (fitted[0]?.gram.length ?? 2) - 2;
  const sizes = Array.from({ length: models }, (_, i) => ({
    i,
    size: found.reduce((sum, weights) => sum + Math.abs(weights[i] ?? 0), 0),
  }));
  const [first = 0, second = 1] = sizes
    .toSorted((a, b) => b.size - a.size)
    .slice(0, 2)
    .map(({ i }) => i)
    .sort((a, b) => a - b);
  const pairs = fitted.map((one) => pairOf(one, first, second));
  const shares = sharesOf(pairs);
  if ([...shares.values()].some((share) => !(share >= 0 && share <= 1))) return undefined;
  const weights = pairs.map(({ one, square, dot, otherSquare }) => {
    const [a, b] = slerpWeights(dot, square, otherSquare, shares.get(one) ?? 0, STRAIGHT);
    return [one, sizes.map(({ i }) => (i === first ? a : i === second ? b : 0))] as const;
  });
  if (weights.some(([one, own]) => residualOf(one, own) > roundingOf(one))) return undefined;
  return { ends: [first, second], shares, weights: new Map(weights) };
}

interface Pair {
  readonly one: Fitted;
  readonly square: number;
  readonly dot: number;
  readonly otherSquare: number;
  /** Where the tensor is on the arc, by least squares, and how far rounding may move that. */
  readonly share: number;
  readonly error: number;
  /** Squared distance of the models. */
  readonly distance: number;
}

function pairOf(one: Fitted, first: number, second: number): Pair {
  const { gram, stored } = one;
  const last = gram.length - 2;
  // All products are with changes against the last model, and with that model itself.
  const parts = (model: number) => (model + 1 === last ? [last] : [model + 1, last]);
  const product = (x: readonly number[], y: readonly number[]) =>
    x.reduce((sum, i) => sum + y.reduce((inner, j) => inner + (gram[i]?.[j] ?? 0), 0), 0);
  const [a, b, merged] = [parts(first), parts(second), [0, last]];
  const [square, dot, otherSquare] = [product(a, a), product(a, b), product(b, b)];
  const [toA, toB] = [product(merged, a), product(merged, b)];
  // Factors of the two from the normal equations; their common divisor cancels.
  const [x, y] = [toA * otherSquare - toB * dot, toB * square - toA * dot];
  const cosine = Math.min(1, dot / Math.sqrt(square * otherSquare));
  const angle = Math.acos(cosine);
  // y / x is sin(t W) / sin((1 - t) W), or t / (1 - t) on a line.
  const share = cosine > STRAIGHT ? y / (x + y) : Math.atan2(y * Math.sin(angle), x + y * cosine) / angle;
  const distance = square - 2 * dot + otherSquare;
  const error = 1e-6 + Math.sqrt((4 * roundingOf(one)) / (3 * elementCount(stored.shape) * distance));
  return { one, square, dot, otherSquare, share, error, distance };
}

function sharesOf(pairs: readonly Pair[], level = 0): Map<Fitted, number> {
  const distance = pairs.reduce((sum, pair) => sum + pair.distance, 0);
  const mean = pairs.reduce((sum, pair) => sum + (pair.share * pair.distance) / distance, 0);
  const share = simplest(mean, extremesOf(pairs.map(({ error }) => error))[0]);
  const next = UNITS[level + 1];
  if (!next || pairs.every((pair) => Math.abs(pair.share - share) <= pair.error))
    return new Map(pairs.map(({ one }) => [one, share]));
  return new Map(
    [...groupBy(pairs, ({ one }) => next(one.stored)).values()].flatMap((part) => [...sharesOf(part, level + 1)]),
  );
}
