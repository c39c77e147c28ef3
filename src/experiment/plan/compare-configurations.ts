// How configurations are chosen: which items each model is asked, and, once answers are there, which configurations go on.
// Pure functions of results; what is asked of whom is expand.ts's.
import { Random } from "../../core/index.js";
import type { ItemResult } from "../steps/facts.js";
import type { Search } from "./plan-schema.js";

/** How a task's items are divided between the search and the final comparison; places in the task's own order. */
export interface ItemSplit {
  /** Items of each round of the search, without those of the rounds before. */
  readonly rounds: readonly (readonly number[])[];
  /** Items that the search does not see. Empty where configurations are chosen on the items that are reported. */
  readonly held: readonly number[];
}

/** Divides items by chance that depends on the search's seed alone. */
export function splitItems(items: number, search: Search): ItemSplit {
  const order = Random.of(search.seed, "items of the search").shuffle(Array.from({ length: items }, (_, i) => i));
  const seen = search.choose_on === "test" ? items : Math.min(items - 1, Math.max(1, Math.round(search.share * items)));
  const inOrder = (places: number[]) => places.sort((a, b) => a - b);
  const held = inOrder(order.slice(seen));
  if (search.how === "grid") return { rounds: [inOrder(order.slice(0, seen))], held };
  // Each round doubles the items of those before it: 1/4, 1/2, 1 of the search's for three rounds.
  const ends = Array.from({ length: search.rounds }, (_, i) => Math.ceil(seen / 2 ** (search.rounds - 1 - i)));
  const rounds = ends.map((end, i) => inOrder(order.slice(ends[i - 1] ?? 0, end)));
  return { rounds: rounds.filter((round) => round.length > 0), held };
}

/** One model's answers in a round, as far as configurations are compared by them. */
export interface Candidate {
  /** Which configuration it is of. */
  readonly configuration: string;
  /** What was asked: the pair and the task, so that the same item of the same pair is compared with itself. */
  readonly of: string;
  readonly items: readonly ItemResult[];
}

/** A configuration's place in a comparison. */
export interface Ranked {
  readonly configuration: string;
  /** Mean over items of the means over pairs; from 0 to 1. */
  readonly mean: number;
  /** Mean of its differences from the best one on the same items, and the half-width of their 95% interval. */
  readonly behind: number;
  readonly margin: number;
  readonly items: number;
}

const NORMAL_95 = 1.959964;
/** Means that are as close as this are equal. */
const SAME_MEAN = 1e-12;

/**
 * Ranks configurations by their mean, each compared with the best on the same items of the same pairs.
 *
 * Of one item, all pairs' answers are averaged first: they are no independent samples of the items, of which there are
 * as many as the interval counts.
 * @param preferred the configuration that goes before others with the same mean
 */
export function rankConfigurations(candidates: readonly Candidate[], preferred?: string): Ranked[] {
  const sums = new Map<string, Map<number | string, { sum: number; count: number }>>();
  for (const { configuration, of, items } of candidates) {
    const own = sums.get(configuration) ?? new Map<string, { sum: number; count: number }>();
    sums.set(configuration, own);
    for (const { id, value } of items) {
      if (typeof value !== "number") continue;
      // The task is part of what an item is; the pair is averaged over.
      const key = `${of} ${id}`;
      const entry = own.get(key) ?? { sum: 0, count: 0 };
      own.set(key, { sum: entry.sum + value, count: entry.count + 1 });
    }
  }
  const means = [...sums].map(([configuration, own]) => {
    const values = new Map([...own].map(([key, { sum, count }]) => [key, sum / count]));
    return { configuration, values, mean: average([...values.values()]) };
  });
  const isPreferred = ({ configuration }: { configuration: string }) => Number(configuration === preferred);
  const ranked = means.sort((a, b) => {
    const difference = (b.mean || 0) - (a.mean || 0);
    // Means of the same answers may differ in their last bits, as they were added up in another order.
    return Math.abs(difference) > SAME_MEAN ? difference : isPreferred(b) - isPreferred(a);
  });
  const best = ranked[0];
  return ranked.map(({ configuration, values, mean }) => {
    const differences = [...values].flatMap(([key, value]) => {
      const other = best?.values.get(key);
      return other === undefined ? [] : [value - other];
    });
    const behind = average(differences);
    return { configuration, mean, behind, margin: NORMAL_95 * errorOf(differences, behind), items: values.size };
  });
}

function average(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function errorOf(values: readonly number[], mean: number): number {
  if (values.length < 2) return Number.POSITIVE_INFINITY;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return Math.sqrt(squares / (values.length - 1) / values.length);
}

/**
 * The configurations that go on to the next round of successive halving (Jamieson and Talwalkar, arXiv 1502.07943): the
 * share of them with the best means, less those that are worse than the best beyond chance.
 */
export function survivors(ranked: readonly Ranked[], keep: number): string[] {
  const most = Math.max(1, Math.ceil(keep * ranked.length));
  return ranked
    .slice(0, most)
    .filter(({ behind, margin }) => behind + margin >= 0)
    .map(({ configuration }) => configuration);
}
