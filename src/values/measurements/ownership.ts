// Decides which expert owns a layer or module, by its change relative to the base.

import { type Job, totalStatistics } from "../../weights/index.js";
import type { Value } from "../expressions/expression.js";
import { type Binding, type Labelled, type Measuring, notFinite } from "./measurement.js";

/** The tensors of one layer or module: of the base and of every expert. */
export interface OwnedGroup {
  /** Displayed name, such as `layer 3` or `layer 3 attention`. */
  readonly name: string;
  readonly tensors: readonly { readonly base: Value; readonly experts: readonly Value[] }[];
}

/**
 * Weights of the experts in every group: `groups * experts` numbers, group by group.
 *
 * `share`: the group's share of an expert's total change. If the shares of two experts differ by more than tau, the
 * larger owns the group, else they are blended (Shin & Hwang, arXiv 2601.22620). `dominant`: the expert with the
 * largest share owns the group, if it is larger than the next by at least `margin` of that; `otherwise`: the last
 * expert owns it, or all do alike.
 */
export interface OwnershipMeasurement extends Labelled {
  readonly kind: "ownership";
  readonly groups: readonly OwnedGroup[];
  readonly rule:
    | { readonly kind: "share"; readonly tau: number; readonly alpha: number }
    | { readonly kind: "dominant"; readonly margin: number; readonly otherwise: "last" | "average" };
  /** How a group's change combines its tensors' changes: sum, or root of the sum of squares. */
  readonly sum: "sum" | "root";
}

export function* measureOwnership(measurement: OwnershipMeasurement, binding: Binding): Measuring<number[]> {
  const { groups, rule, label } = measurement;
  const experts = groups[0]?.tensors[0]?.experts.length ?? 0;
  const changes = groups.map(() => Array.from({ length: experts }, () => [] as number[]));
  /** Place of each job's result: jobs end in any order, and sums must not depend on it. */
  const places: [group: number, expert: number, tensor: number][] = [];
  const jobs = groups.flatMap(({ name, tensors }, group) =>
    tensors.flatMap((tensor, at) =>
      tensor.experts.map((expert, index): Job => {
        places.push([group, index, at]);
        const [value, minus] = [binding.evaluation(expert), binding.evaluation(tensor.base)];
        return { kind: "delta", name: `${label} ${name}`, value, minus };
      }),
    ),
  );
  yield {
    jobs,
    onTotal: (job, total) => {
      const [group, expert, at] = places[job] as [number, number, number];
      const { sumSquares, sumSquaresOfB, nonFinite } = totalStatistics(total as readonly Float64Array[]);
      if (nonFinite > 0) throw notFinite(`the change of ${jobs[job]?.name}`);
      (changes[group]?.[expert] as number[])[at] = sumSquaresOfB > 0 ? Math.sqrt(sumSquares / sumSquaresOfB) : 0;
    },
  };
  const sizes = changes.map((group) =>
    group.map((ratios) =>
      measurement.sum === "sum"
        ? ratios.reduce((sum, ratio) => sum + ratio, 0)
        : Math.sqrt(ratios.reduce((sum, ratio) => sum + ratio * ratio, 0)),
    ),
  );
  return rule.kind === "share"
    ? shareWeights(sizes, rule.tau, rule.alpha)
    : dominantWeights(sizes, rule.margin, rule.otherwise);
}

/** Each expert's sizes as shares of their sum. `sizes[group][expert]` */
export function sharesOf(sizes: readonly (readonly number[])[]): number[][] {
  const experts = sizes[0]?.length ?? 0;
  const totals = Array.from({ length: experts }, (_, expert) =>
    sizes.reduce((sum, group) => sum + (group[expert] ?? 0), 0),
  );
  return sizes.map((group) =>
    group.map((size, expert) => ((totals[expert] ?? 0) > 0 ? size / (totals[expert] ?? 1) : 0)),
  );
}

/** For two experts: the one whose share is larger by more than tau owns the group, else they are blended. */
export function shareWeights(sizes: readonly (readonly number[])[], tau: number, alpha: number): number[] {
  return sharesOf(sizes).flatMap(([first = 0, second = 0]) => {
    const difference = first - second;
    return difference > tau ? [1, 0] : difference < -tau ? [0, 1] : [alpha, 1 - alpha];
  });
}

/** The expert with the largest share owns the group, the first on a tie, if the next has that much less. */
function dominantWeights(
  sizes: readonly (readonly number[])[],
  margin: number,
  otherwise: "last" | "average",
): number[] {
  return sharesOf(sizes).flatMap((shares) => {
    const largest = shares.indexOf(Math.max(...shares));
    const next = Math.max(0, ...shares.filter((_, expert) => expert !== largest));
    const isOwned = (shares[largest] ?? 0) >= (1 + margin) * next;
    if (!isOwned && otherwise === "average") return shares.map(() => 1);
    const owner = isOwned ? largest : shares.length - 1;
    return shares.map((_, expert) => (expert === owner ? 1 : 0));
  });
}
