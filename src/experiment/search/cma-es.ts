// CMA-ES with negative weights (Hansen, The CMA Evolution Strategy: A Tutorial, arXiv 1604.00772) in the unit cube, and for
// whole numbers its margin (Hamano and others, arXiv 2205.13482). Numbers of equations are those of the tutorial.
import type { Random } from "../../kit/index.js";
import { eigenvectors } from "../../tensor/streaming/index.js";

export interface Sample {
  /** What is evaluated; every coordinate is from 0 to 1, and that of a whole number in the middle of its cell. */
  readonly point: readonly number[];
  /** What the distribution is updated with. */
  readonly raw: readonly number[];
}

export interface CmaEsOptions {
  /** Where the search starts, in the unit cube. */
  readonly mean: readonly number[];
  /** Standard deviation that it starts with. */
  readonly sigma: number;
  /** For each coordinate, how many cells of equal size it has, or 0 for a real number. */
  readonly cells: readonly number[];
}

/** Draws before a point outside of the cube is moved to its border. */
const MAX_DRAWS = 100;
const EPSILON = 1e-8;
/** Bounds of probabilities, so that their quantiles are finite. */
const LEAST = 1e-9;

/** Maximizes a function of which only ranks are seen. */
export class CmaEs {
  readonly population: number;
  readonly #size: number;
  readonly #cells: readonly number[];
  readonly #rates: Rates;
  #generation = 0;
  #sigma: number;
  readonly #mean: number[];
  /** [size, size] */
  #covariance: Float64Array;
  #stepPath: number[];
  #path: number[];
  /** Factors of the deviations of whole numbers, which keep other cells within reach. */
  readonly #factors: number[];

  constructor({ mean, sigma, cells }: CmaEsOptions) {
    this.#size = mean.length;
    this.#rates = ratesOf(mean.length);
    this.population = this.#rates.weights.length;
    this.#cells = cells;
    this.#sigma = sigma;
    this.#mean = [...mean];
    this.#covariance = new Float64Array(mean.length ** 2);
    for (let i = 0; i < mean.length; i++) this.#covariance[i * mean.length + i] = 1;
    [this.#stepPath, this.#path] = [mean.map(() => 0), mean.map(() => 0)];
    this.#factors = mean.map(() => 1);
  }

  /** The distribution, for tests. */
  get state() {
    const [mean, covariance, factors] = [[...this.#mean], [...this.#covariance], [...this.#factors]];
    return { mean, sigma: this.#sigma, covariance, factors };
  }

  ask(random: Random): Sample[] {
    const { values, vectors } = this.#axes();
    const draw = () => {
      const along = values.map((deviation) => deviation * random.normal());
      return this.#mean.map(
        (mean, i) => mean + this.#sigma * sum(along.map((length, k) => length * (vectors[k * this.#size + i] ?? 0))),
      );
    };
    return Array.from({ length: this.population }, () => {
      let raw = draw();
      for (let draws = 1; draws < MAX_DRAWS && !this.#isInside(raw); draws++) raw = draw();
      raw = raw.map((x, i) => (this.#cells[i] ? x : Math.min(1, Math.max(0, x))));
      return { raw, point: raw.map((x, i) => this.#pointOf(x, i)) };
    });
  }

  #isInside(raw: readonly number[]): boolean {
    return raw.every((x, i) => this.#cells[i] || (x >= 0 && x <= 1));
  }

  #pointOf(x: number, i: number): number {
    const cells = this.#cells[i] ?? 0;
    const mean = this.#mean[i] ?? 0;
    return cells === 0 ? x : (cellOf((x - mean) * (this.#factors[i] ?? 1) + mean, cells) + 0.5) / cells;
  }

  /** Standard deviations along the principal axes, and these as rows [size, size]. */
  #axes(): { values: number[]; vectors: Float64Array } {
    const { values, vectors } = eigenvectors(this.#covariance, this.#size);
    return { values: [...values].map((value) => Math.sqrt(Math.max(value, EPSILON ** 2))), vectors };
  }

  /** Moves the distribution. @param ranked `raw` of a whole generation, the best first */
  tell(ranked: readonly (readonly number[])[]): void {
    const size = this.#size;
    const { weights, parents, effective, c1, cMu, cSigma, dSigma, cC, expected } = this.#rates;
    const { values, vectors } = this.#axes();
    const steps = ranked.map((raw) => raw.map((x, i) => (x - (this.#mean[i] ?? 0)) / this.#sigma));
    this.#generation++;
    // 41, 42
    const step = this.#mean.map((_, i) => sum(steps.slice(0, parents).map((y, k) => (weights[k] ?? 0) * (y[i] ?? 0))));
    for (let i = 0; i < size; i++) this.#mean[i] = (this.#mean[i] ?? 0) + this.#sigma * (step[i] ?? 0);
    // 43, 44
    const whiten = (y: readonly number[]) => {
      const along = values.map((value, k) => sum(y.map((x, i) => x * (vectors[k * size + i] ?? 0))) / value);
      return y.map((_, i) => sum(along.map((length, k) => length * (vectors[k * size + i] ?? 0))));
    };
    const white = whiten(step);
    const gain = Math.sqrt(cSigma * (2 - cSigma) * effective);
    this.#stepPath = this.#stepPath.map((p, i) => (1 - cSigma) * p + gain * (white[i] ?? 0));
    const length = Math.hypot(...this.#stepPath);
    this.#sigma *= Math.exp((cSigma / dSigma) * (length / expected - 1));
    // 45 to 47
    const isShort =
      length / Math.sqrt(1 - (1 - cSigma) ** (2 * (this.#generation + 1))) < (1.4 + 2 / (size + 1)) * expected;
    const pathGain = isShort ? Math.sqrt(cC * (2 - cC) * effective) : 0;
    this.#path = this.#path.map((p, i) => (1 - cC) * p + pathGain * (step[i] ?? 0));
    const lost = isShort ? 0 : cC * (2 - cC);
    const signed = weights.map((weight, k) =>
      weight >= 0 ? weight : (weight * size) / (Math.hypot(...whiten(steps[k] ?? [])) ** 2 + EPSILON),
    );
    const kept = 1 + c1 * lost - c1 - cMu * sum(weights);
    this.#covariance = this.#covariance.map((old, at) => {
      const [i, j] = [Math.floor(at / size), at % size];
      const rankMu = sum(signed.map((weight, k) => weight * (steps[k]?.[i] ?? 0) * (steps[k]?.[j] ?? 0)));
      return kept * old + c1 * (this.#path[i] ?? 0) * (this.#path[j] ?? 0) + cMu * rankMu;
    });
    for (const [i, cells] of this.#cells.entries()) if (cells > 1) this.#keepMargin(i, cells);
  }

  /** Keeps the cells beside that of the mean at least as likely as the margin (2205.13482, section 4). */
  #keepMargin(i: number, cells: number): void {
    const margin = 1 / (this.#size * this.population);
    const deviation = this.#sigma * Math.sqrt(this.#covariance[i * this.#size + i] ?? 0);
    const [mean, factor] = [this.#mean[i] ?? 0, this.#factors[i] ?? 1];
    const cell = cellOf(mean, cells);
    const lower = clamp(cell, 1, cells - 1) / cells;
    const upper = clamp(cell + 1, 1, cells - 1) / cells;
    const scale = deviation * factor;
    const below = normalBelow((lower - mean) / scale);
    const above = 1 - normalBelow((upper - mean) / scale);
    if (lower === upper) {
      // In the first or the last cell, whose one border stays within reach.
      if (Math.min(below, above) >= margin) return;
      this.#mean[i] = upper + Math.sign(mean - upper) * scale * normalAbove(margin);
      return;
    }
    const within = 1 - (below + above);
    const [low, high] = [Math.max(below, margin / 2), Math.max(above, margin / 2)];
    const correct = (p: number) => {
      const corrected = p + ((1 - low - high - within) * (p - margin / 2)) / (low + within + high - 1.5 * margin);
      return normalAbove(clamp(corrected, LEAST, 0.5 - LEAST));
    };
    const [toLow, toHigh] = [correct(low), correct(high)];
    this.#factors[i] = (upper - lower) / ((toLow + toHigh) * deviation);
    this.#mean[i] = (lower * toHigh + upper * toLow) / (toLow + toHigh);
  }
}

/** The cell of a coordinate; a border belongs to the cell below. */
function cellOf(x: number, cells: number): number {
  return clamp(Math.ceil(x * cells) - 1, 0, cells - 1);
}

interface Rates {
  /** Of the points from best to worst; the worse half's are negative. */
  readonly weights: readonly number[];
  readonly parents: number;
  /** Variance effective selection mass. */
  readonly effective: number;
  readonly c1: number;
  readonly cMu: number;
  readonly cSigma: number;
  readonly dSigma: number;
  readonly cC: number;
  /** Expected length of a standard normal vector. */
  readonly expected: number;
}

/** The defaults of the tutorial's table 1. */
function ratesOf(size: number): Rates {
  const population = 4 + Math.floor(3 * Math.log(size));
  const parents = Math.floor(population / 2);
  const raw = Array.from({ length: population }, (_, i) => Math.log((population + 1) / 2) - Math.log(i + 1)); // 49
  const massOf = (some: readonly number[]) => sum(some) ** 2 / sum(some.map((weight) => weight ** 2));
  const [effective, negative] = [massOf(raw.slice(0, parents)), massOf(raw.slice(parents))];
  const c1 = 2 / ((size + 1.3) ** 2 + effective); // 57
  const cMu = Math.min(1 - c1 - EPSILON, (2 * (effective - 2 + 1 / effective)) / ((size + 2) ** 2 + effective)); // 58
  // 50 to 52
  const most = Math.min(1 + c1 / cMu, 1 + (2 * negative) / (effective + 2), (1 - c1 - cMu) / (size * cMu));
  const [positive, minus] = [1, -1].map((sign) => sum(raw.map((weight) => Math.max(0, sign * weight)))) as [
    number,
    number,
  ];
  const cSigma = (effective + 2) / (size + effective + 5); // 55
  return {
    weights: raw.map((weight) => (weight >= 0 ? weight / positive : (most * weight) / minus)), // 53
    parents,
    effective,
    c1,
    cMu,
    cSigma,
    dSigma: 1 + 2 * Math.max(0, Math.sqrt((effective - 1) / (size + 1)) - 1) + cSigma,
    cC: (4 + effective / size) / (size + 4 + (2 * effective) / size), // 56
    expected: Math.sqrt(size) * (1 - 1 / (4 * size) + 1 / (21 * size ** 2)),
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}

/** Beyond this the probability of either side is below 1e-9, less than any margin asks for. */
const FAR = 6.5;

/** P(X <= x), to about 1e-15, by the series around 0 (Marsaglia, 2004). */
export function normalBelow(x: number): number {
  if (!(Math.abs(x) < FAR)) return x > 0 ? 1 : 0;
  let [sum, term] = [x, x];
  for (let i = 3; Math.abs(term) > 1e-17 * Math.abs(sum); i += 2) {
    term *= (x * x) / i;
    sum += term;
  }
  return 0.5 + (sum * Math.exp(-0.5 * x * x)) / Math.sqrt(2 * Math.PI);
}

/** The x with P(X > x) = p. @param p from 1e-9 to 0.5 */
export function normalAbove(p: number): number {
  let [low, high] = [0, FAR];
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    if (normalBelow(-middle) > p) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}
