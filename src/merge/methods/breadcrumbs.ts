// Breadcrumbs: drops the largest and the smallest changes of each tensor; sums the rest, or elects signs.
import { elementCount } from "../../kit/index.js";
import type { Value } from "../../tensor/expressions/index.js";
import { EXACT, taskVectors } from "./mergekit.js";
import type { Operands } from "./method.js";
import type { PlanContext } from "./operand.js";
import {
  type Change,
  type Cutoff,
  cutMeasurement,
  cutoffField,
  EXAMPLE,
  rescaleField,
  sparsifyingMethod,
  within,
} from "./task-vectors.js";

const common = {
  symbol: "b",
  definition:
    "b_i = tau_i where the rank of |tau_i|, ascending, is from n - int(density n) - g to n - g - 1, else 0; g = min(int(gamma n), n - int(density n))",
  reference: "Davari & Belilovsky, ECCV 2024, arXiv 2312.06795",
  tag: "breadcrumbs",
  shares: {
    density: [1, "share of the changes to keep"],
    gamma: [0.01, "share of the largest changes to drop; at most 1 - density"],
  },
  fields: () => ({ rescale: rescaleField, cutoff: cutoffField }),
  sparsify: dropByRank,
} as const;

export const breadcrumbs = sparsifyingMethod("added", {
  ...common,
  name: "breadcrumbs",
  mergekit: taskVectors("breadcrumbs", { own: { density: 1, gamma: 0.01 }, fixed: EXACT, rescale: false }),
  title: "Breadcrumbs",
  summary: "Drops the largest and the small changes of each tensor and adds the rest up.",
  example: { method: "breadcrumbs", ...EXAMPLE, density: 0.9, gamma: 0.05 },
});

export const breadcrumbsTies = sparsifyingMethod("elected", {
  ...common,
  name: "breadcrumbs_ties",
  mergekit: taskVectors("breadcrumbs_ties", { own: { density: 1, gamma: 0.01 }, fixed: EXACT, rescale: false }),
  title: "Breadcrumbs TIES",
  summary: "Drops the largest and the small changes of each tensor, then elects signs as TIES does.",
  example: { method: "breadcrumbs_ties", ...EXAMPLE, density: 0.9 },
});

function dropByRank({ cutoff }: { readonly cutoff?: Cutoff }, _: Operands, context: PlanContext) {
  return (
    { name, tensor, expert, delta }: Change,
    { density, gamma }: { readonly density: number; readonly gamma: number },
  ): Value => {
    const n = elementCount(tensor.shape);
    const kept = Math.floor(density * n);
    // `density` wins where the two add up to more than 1.
    const top = Math.min(Math.floor(gamma * n), n - kept);
    const bottom = n - kept - top;
    if (kept === n) return delta;
    if (kept === 0) return { sum: [{ weight: 0, value: delta }] };
    const cut = cutMeasurement(cutoff, {
      id: `changes of rank ${bottom} to ${n - top - 1} of ${name} of ${expert.label}`,
      label: `the order of the changes of ${expert.label}`,
      values: [delta],
      of: [expert.label],
      keep: kept,
      ...(top > 0 ? { above: top } : {}),
    });
    return within(cut, 0, delta, context);
  };
}
