// How configurations are chosen: which items each is evaluated on, and how results rank them.
import { groupBy, Random } from "../../core/index.js";
import { meanWithError } from "../../evaluate/index.js";
import type { ItemResult } from "../steps/result.js";
import type { Search } from "./plan-schema.js";

/** How a task's items are divided between search and final comparison. Items are indexes in the task's order. */
export interface ItemSplit {
  /** New items of each round of the search. */
  readonly rounds: readonly (readonly number[])[];
  /** Items that the search does not see. Empty if configurations are chosen on the reported items. */
  readonly held: readonly number[];
}

/** Divides items at random; depends on the search's seed alone. */
export function splitItems(items: number, search: Search): ItemSplit {
  const order = Random.of(search.seed, "items of the search").shuffle(Array.from({ length: items }, (_, i) => i));
  const seen = search.choose_on === "test" ? items : Math.min(items - 1, Math.max(1, Math.round(search.share * items)));
  const inOrder = (places: number[]) => places.sort((a, b) => a - b);
  const held = inOrder(order.slice(seen));
  if (search.how !== "halving") return { rounds: [inOrder(order.slice(0, seen))], held };
  // Each round doubles the items of those before it: 1/4, 1/2, 1 of the search's for three rounds.
  const ends = Array.from({ length: search.rounds }, (_, i) => Math.ceil(seen / 2 ** (search.rounds - 1 - i)));
  const rounds = ends.map((end, i) => inOrder(order.slice(ends[i - 1] ?? 0, end)));
  return { rounds: rounds.filter((round) => round.length > 0), held };
}

export interface Candidate {
  readonly configuration: string;
  readonly task: string;
  readonly items: readonly ItemResult[];
}

export interface Ranked {
  readonly configuration: string;
  /** Mean over items of the means over pairs, from 0 to 1. */
  readonly mean: number;
  /** Mean difference from the best on the same items, and the half-width of its 95% interval. */
  readonly behind: number;
  readonly margin: number;
  readonly items: number;
}

const NORMAL_95 = 1.959964;
/** Means of the same answers differ in their last bits, as they are summed in another order. */
const TIE = 1e-12;

/**
 * Ranks configurations by their mean, each compared with the best on the same items.
 *
 * An item's results are averaged over pairs first: pairs are not independent samples of the items.
 * @param preferred the configuration that wins ties
 */
export function rankConfigurations(candidates: readonly Candidate[], preferred?: string): Ranked[] {
  const byConfiguration = groupBy(candidates, ({ configuration }) => configuration);
  const means = [...byConfiguration].map(([configuration, own]) => {
    const results = own.flatMap(({ task, items }) =>
      items.flatMap(({ id, value }) => (typeof value === "number" ? [{ key: `${task} ${id}`, value }] : [])),
    );
    const byItem = groupBy(results, ({ key }) => key);
    const values = new Map([...byItem].map(([key, of]) => [key, meanWithError(of.map(({ value }) => value)).mean]));
    return { configuration, values, mean: meanWithError([...values.values()]).mean };
  });
  const isPreferred = ({ configuration }: { configuration: string }) => Number(configuration === preferred);
  const ranked = means.sort((a, b) => {
    const difference = (b.mean || 0) - (a.mean || 0);
    return Math.abs(difference) > TIE ? difference : isPreferred(b) - isPreferred(a);
  });
  const best = ranked[0];
  return ranked.map(({ configuration, values, mean }) => {
    const differences = [...values].flatMap(([key, value]) => {
      const other = best?.values.get(key);
      return other === undefined ? [] : [value - other];
    });
    const { mean: behind, standardError } = meanWithError(differences);
    const margin = NORMAL_95 * (differences.length < 2 ? Number.POSITIVE_INFINITY : standardError);
    return { configuration, mean, behind, margin, items: values.size };
  });
}

/**
 * The configurations that stay for the next round of successive halving (Jamieson and Talwalkar, arXiv 1502.07943): the
 * best share, without those significantly worse than the best.
 */
export function survivors(ranked: readonly Ranked[], keep: number): string[] {
  const most = Math.max(1, Math.ceil(keep * ranked.length));
  return ranked
    .slice(0, most)
    .filter(({ behind, margin }) => behind + margin >= 0)
    .map(({ configuration }) => configuration);
}
