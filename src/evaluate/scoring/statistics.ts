// Standard errors, intervals and tests. The same input and seed give the same result on every machine.
import { Random, RecipeError } from "../../kit/index.js";
import { leastChance } from "./student.js";

/** Mean of values and its standard error: sample deviation (n - 1) / sqrt(n); NaN of fewer than one, two values. */
export function meanWithError(values: readonly number[]): { readonly mean: number; readonly standardError: number } {
  const count = values.length;
  const mean = values.reduce((sum, value) => sum + value, 0) / count;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { mean, standardError: count < 2 ? Number.NaN : Math.sqrt(squares / (count - 1) / count) };
}

export interface BootstrapOptions {
  /** Samples drawn. Default: 1000. */
  readonly resamples?: number;
  /** Random seed. Default: 0. */
  readonly seed?: number;
  /** Share of the resampled scores that are within the interval. Default: 0.95. */
  readonly level?: number;
}

/** A confidence interval of a score. */
export interface Interval {
  readonly low: number;
  readonly high: number;
  readonly level: number;
  /** Standard deviation of the resampled scores; of Wilson's interval the standard error. */
  readonly deviation: number;
  /** Of a bootstrap; absent from Wilson's interval. */
  readonly resamples?: number | undefined;
  readonly seed?: number | undefined;
}

/** Items of one stratum: resampling draws as many of them as there are. Each is a vector of sums. */
export type Stratum = readonly (readonly number[])[];

/**
 * Percentile bootstrap (Efron 1979) of a score made of sums over items, each stratum resampled within itself.
 * @param strata at least one, none of them empty: all items together, or the items of each group
 * @param score of the sums of each stratum and the number of its items
 */
export function bootstrapInterval(
  strata: readonly Stratum[],
  score: (sums: readonly (readonly number[])[], counts: readonly number[]) => number,
  options: BootstrapOptions = {},
): Interval {
  const { resamples = 1000, seed = 0, level = 0.95 } = options;
  if (!Number.isInteger(resamples) || resamples < 2) {
    throw RecipeError.at({ field: "resamples" }, `a bootstrap needs at least 2 resamples, not ${resamples}`);
  }
  if (!(level > 0 && level < 1)) {
    throw RecipeError.at({ field: "level" }, `the level of an interval is between 0 and 1, not ${level}`);
  }
  if (strata.length === 0 || strata.some((stratum) => stratum.length === 0)) {
    throw new RecipeError("there are no items to resample");
  }
  const random = Random.of(seed, "bootstrap");
  const counts = strata.map((stratum) => stratum.length);
  const tables = strata.map(tableOf);
  const scores = Float64Array.from({ length: resamples }, () =>
    score(
      tables.map((table) => drawSums(table, random)),
      counts,
    ),
  ).sort();
  const outside = (1 - level) / 2;
  return {
    low: quantile(scores, outside),
    high: quantile(scores, 1 - outside),
    level,
    deviation: meanWithError([...scores]).standardError * Math.sqrt(resamples),
    resamples,
    seed,
  };
}

/** The items of a stratum side by side: millions of draws go over them. */
interface Table {
  readonly values: Float64Array;
  readonly items: number;
  readonly width: number;
}

function tableOf(stratum: Stratum): Table {
  const width = stratum[0]?.length ?? 0;
  const values = new Float64Array(stratum.length * width);
  for (const [i, item] of stratum.entries()) values.set(item.slice(0, width), i * width);
  return { values, items: stratum.length, width };
}

function drawSums({ values, items, width }: Table, random: Random): number[] {
  const sums = new Float64Array(width);
  for (let i = 0; i < items; i++) {
    const from = random.below(items) * width;
    for (let entry = 0; entry < width; entry++) sums[entry] = (sums[entry] ?? 0) + (values[from + entry] ?? 0);
  }
  return [...sums];
}

/** Of sorted values, with linear interpolation between them. */
function quantile(sorted: Float64Array, share: number): number {
  const place = share * (sorted.length - 1);
  const below = Math.floor(place);
  const [low, high] = [sorted[below] ?? Number.NaN, sorted[Math.min(below + 1, sorted.length - 1)] ?? Number.NaN];
  return low === high ? low : low + (place - below) * (high - low);
}

/**
 * Wilson's score interval of a share (Wilson 1927, JASA 22; at 95%, z = 1.959964): within 0 and 1, and of some width
 * even where all items are right, or none, where the bootstrap has none.
 * @param share of the items that are right, from 0 to 1
 * @param items at least one
 */
export function wilsonInterval(share: number, items: number): { readonly low: number; readonly high: number } {
  const z = 1.959964;
  const scale = 1 + z ** 2 / items;
  const centre = (share + z ** 2 / (2 * items)) / scale;
  const half = (z / scale) * Math.sqrt((share * (1 - share)) / items + z ** 2 / (4 * items ** 2));
  // At both ends exactly what it is: rounding would leave a trace of it.
  return { low: share === 0 ? 0 : centre - half, high: share === 1 ? 1 : centre + half };
}

/** How two models did on the same items: shares of the items, from 0 to 1. */
export interface PairedShares {
  readonly first: number;
  readonly second: number;
  /** Right in both. */
  readonly both: number;
}

/**
 * 95% interval of second less first, two shares of the same items: the wider, at each end, of two. Newcombe's (1998,
 * Statistics in Medicine 17, method 10: Wilson's intervals squared and added, less what the pairing explains) has a width
 * where the models do alike, too, where a bootstrap has none. The other turns McNemar's exact test around, given the items
 * that flipped, so that the interval excludes 0 only where `mcnemarExact` is below 5%. With few flips Newcombe's alone
 * does so at p = 0.125.
 * @param flips items that only the second, and only the first, got right; default those of the shares
 */
export function pairedInterval(
  shares: PairedShares,
  items: number,
  flips: { readonly gained: number; readonly lost: number } = {
    gained: Math.round((shares.second - shares.both) * items),
    lost: Math.round((shares.first - shares.both) * items),
  },
): { readonly low: number; readonly high: number } {
  const { first, second, both } = shares;
  const [one, other] = [wilsonInterval(first, items), wilsonInterval(second, items)];
  const agreement = both * (1 - first - second + both) - (first - both) * (second - both);
  // With the continuity correction, n / 2 of counts.
  const corrected = agreement > 0 ? Math.max(agreement - 1 / (2 * items), 0) : agreement;
  const scale = Math.sqrt(first * (1 - first) * second * (1 - second));
  const correlation = scale === 0 ? 0 : corrected / scale;
  const reach = (a: number, b: number) => Math.sqrt(Math.max(0, a * a - 2 * correlation * a * b + b * b));
  const difference = second - first;
  const flipped = first + second - 2 * both;
  return {
    low: Math.min(
      difference - reach(second - other.low, one.high - first),
      flipped * (2 * leastChance(flips.gained, flips.lost, 0.025) - 1),
    ),
    high: Math.max(
      difference + reach(other.high - second, first - one.low),
      flipped * (1 - 2 * leastChance(flips.lost, flips.gained, 0.025)),
    ),
  };
}

/** Sign patterns that are all looked at; of more, as many are drawn. */
const MAX_PATTERNS = 2 ** 14;

/**
 * Two-sided sign-flip test of paired differences (Fisher, The Design of Experiments, 1935): the probability, were neither
 * side better, of a mean at least as far from 0. Exact where all differences other than 0 are of one size, as those of right and wrong answers
 * are, and for up to 14 of them; else of 16,384 drawn patterns.
 * @param differences one for each item
 * @param seed of the patterns; default 0
 */
export function signFlipTest(differences: readonly number[], seed = 0): number {
  const values = Float64Array.from(differences.filter((value) => value !== 0));
  const found = Math.abs(values.reduce((sum, value) => sum + value, 0));
  // Sums of the same numbers differ in their last bits with the order of their signs.
  const least = found * (1 - 1e-12);
  const size = Math.abs(values[0] ?? 0);
  // Right or wrong on every item: the sums of all patterns are a binomial distribution, known without drawing any.
  if (values.every((value) => Math.abs(value) === size)) {
    const gained = values.filter((value) => value > 0).length;
    return mcnemarExact(gained, values.length - gained);
  }
  return shareOfPatterns(values.length, seed, (words) => {
    let sum = 0;
    // A product in place of a branch: of 100,000 items there are 1.6 billion signs.
    for (let i = 0; i < values.length; i++)
      sum += (values[i] ?? 0) * (1 - 2 * (((words[i >>> 5] ?? 0) >>> (i % 32)) & 1));
    return Math.abs(sum) >= least;
  });
}

/**
 * Share of the patterns of so many bits that something holds for: of all for up to 14 bits, else of 16,384 that are drawn
 * and the pattern that was found, for which it holds.
 * @param holds given the bits, 32 in a word, in an array that is used again
 */
function shareOfPatterns(bits: number, seed: number, holds: (words: Uint32Array) => boolean): number {
  const isExact = 2 ** bits <= MAX_PATTERNS;
  const patterns = isExact ? 2 ** bits : MAX_PATTERNS;
  const random = Random.of(seed, "signs");
  const words = new Uint32Array(Math.ceil(bits / 32));
  let count = 0;
  for (let pattern = 0; pattern < patterns; pattern++) {
    if (isExact) words[0] = pattern;
    else for (let word = 0; word < words.length; word++) words[word] = random.next();
    if (holds(words)) count++;
  }
  return isExact ? count / patterns : (count + 1) / (patterns + 1);
}

/**
 * Two-sided randomisation test of a score of sums (Noreen 1989; Riezler and Maxwell 2005): the probability, had either
 * model given either output of each item, of scores at least as far apart. Exact where up to 14 outputs differ; else of
 * 16,384 drawn swaps.
 * @param first sums of each item of one model
 * @param second of the other, in the same order
 * @param score of summed items
 * @param seed of the swaps; default 0
 * @returns undefined where a score is not finite
 */
export function swapTest(
  first: Stratum,
  second: Stratum,
  score: (sums: readonly number[]) => number,
  seed = 0,
): number | undefined {
  const width = first[0]?.length ?? 0;
  const [before, after] = [first, second].map((items) => sumOf(items, width)) as [number[], number[]];
  const changes = first.map((one, i) => one.map((value, entry) => (second[i]?.[entry] ?? 0) - value));
  const differing = changes.filter((change) => change.some((value) => value !== 0));
  const { values } = tableOf(differing);
  let isDefined = true;
  const moved = new Float64Array(width);
  const swap = (words: Uint32Array) => {
    moved.fill(0);
    for (let i = 0; i < differing.length; i++) {
      if ((((words[i >>> 5] ?? 0) >>> (i % 32)) & 1) === 0) continue;
      const from = i * width;
      for (let entry = 0; entry < width; entry++) moved[entry] = (moved[entry] ?? 0) + (values[from + entry] ?? 0);
    }
    const [a, b] = [
      moved.map((change, entry) => (before[entry] ?? 0) + change),
      moved.map((change, entry) => (after[entry] ?? 0) - change),
    ];
    const found = Math.abs(score([...b]) - score([...a]));
    isDefined &&= Number.isFinite(found);
    return found;
  };
  // Scores of the same numbers differ in their last bits with the order of sums.
  const least = swap(new Uint32Array(Math.ceil(differing.length / 32))) * (1 - 1e-9);
  const share = shareOfPatterns(differing.length, seed, (words) => swap(words) >= least);
  return isDefined ? share : undefined;
}

const sumOf = (items: Stratum, width: number) =>
  Array.from({ length: width }, (_, entry) => items.reduce((sum, item) => sum + (item[entry] ?? 0), 0));

/**
 * Two-sided exact McNemar test: the probability, were neither side better, of flips at least as uneven as these.
 * McNemar 1947; exact form: the binomial test of the discordant pairs at 1/2.
 * @param gained items that only the second side got right
 * @param lost items that only the first side got right
 */
export function mcnemarExact(gained: number, lost: number): number {
  const flips = gained + lost;
  // Terms in logarithms: 2 ** -flips underflows from 1,075 flips on.
  let logTerm = -flips * Math.LN2;
  let tail = 0;
  for (let k = 0; k <= Math.min(gained, lost); k++) {
    tail += Math.exp(logTerm);
    logTerm += Math.log((flips - k) / (k + 1));
  }
  return Math.min(1, 2 * tail);
}
