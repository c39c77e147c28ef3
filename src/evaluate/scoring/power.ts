// Power: how small a difference the items and runs at hand can show.

import { RecipeError } from "../../kit/index.js";
import { SIGNIFICANCE_LEVEL } from "./significance.js";
import { studentQuantile } from "./student.js";

/** What a difference is looked for in. */
export type DetectableIn =
  /** Items that are right or wrong: how many, and the share of them, from 0 to 1, that one model has right and the other wrong. */
  | { readonly items: number; readonly discordance: number }
  /** Anything else: the standard error of the difference, and its degrees of freedom (default: Infinity). */
  | { readonly standardError: number; readonly degrees?: number | undefined };

export interface DetectableOptions {
  /** Probability of finding a difference of this size. Default: 0.8. */
  readonly power?: number | undefined;
  /** Level of the two-sided test. Default: 0.05. */
  readonly level?: number | undefined;
  /** Comparisons that are made together: the level is divided by them, as in Holm's first step. Default: 1. */
  readonly comparisons?: number | undefined;
}

/**
 * The minimum detectable difference: the smallest true difference between two models on the same items that a test
 * finds significant with the stated power. For right and wrong answers, the sample size formula of McNemar's test
 * (Connor 1987, Biometrics 43, equation 3) solved for the difference, and one item more for the exact test's continuity.
 * 250 items of which 10% flip show 6 points.
 * @returns the difference in the unit of the score (0.06 for 6 points); undefined where none can be shown: a difference
 *   is never larger than the discordance
 * @throws RecipeError if a number is out of its range
 */
export function detectableDifference(where: DetectableIn, options: DetectableOptions = {}): number | undefined {
  const { power, outside } = testOf(options);
  if ("standardError" in where) {
    const { standardError, degrees = Number.POSITIVE_INFINITY } = where;
    const reach = studentQuantile(outside, degrees) + oneSided(power, degrees);
    return standardError > 0 ? reach * standardError : undefined;
  }
  const { items, discordance } = where;
  if (!(items >= 1)) throw new RecipeError(`items is ${items}; expected 1 or more`);
  if (!(discordance >= 0 && discordance <= 1)) {
    throw new RecipeError(`discordance is ${discordance}; expected a share of the items, from 0 to 1`);
  }
  const [alpha, beta] = [studentQuantile(outside, Number.POSITIVE_INFINITY), oneSided(power, Number.POSITIVE_INFINITY)];
  // difference sqrt(n) = alpha sqrt(psi) + beta sqrt(psi - difference^2), a quadratic equation.
  const under = items + beta ** 2 - alpha ** 2;
  if (under < 0) return undefined;
  const root = Math.sqrt(discordance) * ((alpha * Math.sqrt(items) + beta * Math.sqrt(under)) / (items + beta ** 2));
  const difference = root + 1 / items;
  return discordance > 0 && difference <= discordance ? difference : undefined;
}

/** More are no plan. */
const MOST_ITEMS = 10_000_000;

/**
 * How many items a study needs to show a difference of this size with the stated power: the least number with which
 * `detectableDifference` is at most the difference. A standard error is taken to fall with the root of the items.
 * @param difference true difference, in the unit of the score: 0.029 for 2.9 points; its sign does not count
 * @param where what is known of the spread, from `items` items
 * @returns undefined if no number of items is enough, as for a difference of 0. One larger than the discordance needs as many as that.
 * @throws RecipeError if a number is out of its range
 */
export function itemsNeeded(
  difference: number,
  where: DetectableIn & { readonly items: number },
  options: DetectableOptions = {},
): number | undefined {
  const wanted = Math.abs(difference);
  const isEnough = (items: number) => {
    const spread =
      "standardError" in where
        ? { standardError: where.standardError * Math.sqrt(where.items / items), degrees: where.degrees }
        : { items, discordance: where.discordance };
    return (detectableDifference(spread, options) ?? Number.POSITIVE_INFINITY) <= wanted;
  };
  let [low, high] = [1, MOST_ITEMS];
  if (wanted === 0 || !isEnough(high)) return undefined;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (isEnough(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/** Where a difference between two methods of several runs each is looked for; run i of one is compared with run i of the other. */
export interface RunsIn {
  /** The true difference, in the unit of the score: 0.029 for 2.9 points. */
  readonly difference: number;
  readonly items: number;
  /** Share of the items, from 0 to 1, that one of the two has right and the other wrong, in one run. */
  readonly discordance: number;
  /** Standard deviation of the true difference over runs, in the same unit. */
  readonly spread: number;
  /**
   * Whether the difference is to hold on other items, too: then the share of the items' variance that all runs have in
   * common (from 0 to 1; 0.5 if not known). Default: undefined, these items and no others.
   */
  readonly shared?: number | undefined;
}

const MOST_RUNS = 10_000;

/**
 * How many runs (seeds, or pairs of experts) a study needs to show a difference of this size with the stated power: the least n with
 * (t of the test + t of the power) times the standard error at most the difference. The variance of the mean difference is
 * spread^2 / n + (discordance - difference^2) (shared + (1 - shared) / n) / items, with `shared` 0 for these items alone; the
 * degrees of freedom are Satterthwaite's of the part over runs (n - 1) and of that over items (items - 1).
 * @returns undefined if no number of runs is enough: then it needs more items
 * @throws RecipeError if a number is out of its range
 */
export function runsNeeded(where: RunsIn, options: DetectableOptions = {}): number | undefined {
  const { difference, items, discordance, spread, shared } = where;
  const { power, outside } = testOf(options);
  if (!(items >= 2)) throw new RecipeError(`items is ${items}; expected 2 or more`);
  if (!(difference > 0 && difference <= discordance && discordance <= 1)) {
    const range = "expected 0 < difference <= discordance <= 1";
    throw new RecipeError(`difference is ${difference} and discordance ${discordance}; ${range}`);
  }
  if (!(spread >= 0)) throw new RecipeError(`spread is ${spread}; expected 0 or more`);
  if (!((shared ?? 0) >= 0 && (shared ?? 0) <= 1)) throw new RecipeError(`shared is ${shared}; expected 0 to 1`);
  const ofItem = (discordance - difference ** 2) / items;
  const inCommon = ofItem * (shared ?? 0);
  const isEnough = (runs: number) => {
    const overRuns = (spread ** 2 + ofItem * (1 - (shared ?? 0))) / runs;
    const variance = overRuns + inCommon;
    if (variance === 0) return true;
    const degrees = variance ** 2 / (overRuns ** 2 / (runs - 1) + inCommon ** 2 / (items - 1));
    return (studentQuantile(outside, degrees) + oneSided(power, degrees)) ** 2 * variance <= difference ** 2;
  };
  let [low, high] = [1, MOST_RUNS];
  if (!isEnough(high)) return undefined;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (isEnough(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/** The quantile below which a share of the distribution is; powers below one half have negative ones. */
function oneSided(share: number, degrees: number): number {
  return share < 0.5 ? -studentQuantile(2 * share, degrees) : studentQuantile(2 * (1 - share), degrees);
}

/** @returns `outside`: the probability of a difference that is not there, of each comparison */
function testOf({ power = 0.8, level = SIGNIFICANCE_LEVEL, comparisons = 1 }: DetectableOptions) {
  requireShare(power, "power");
  requireShare(level, "level");
  if (!(comparisons >= 1)) throw new RecipeError(`comparisons is ${comparisons}; expected 1 or more`);
  return { power, outside: level / comparisons };
}

function requireShare(value: number, name: string): void {
  if (!(value > 0 && value < 1)) throw new RecipeError(`${name} is ${value}; expected a number between 0 and 1`);
}
