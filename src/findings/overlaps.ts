import { formatPercent } from "../core/index.js";
import type { Expansion, Overlap, Results } from "../experiment/index.js";
import { layerGrid } from "../report/index.js";
import type { ReportHeatmap } from "./report-data.js";

export const OVERLAPS_LEAD =
  "Of the rows (input features) that at least one of two experts changed by more than its threshold, the share that both did, in percent. The threshold is the one that an eighth of the rows of an expert's matrices exceeds. A cell has no number where neither changed a row so much.";

/** A figure for each pair whose analysis is done: layers from the top, and projections. */
export function overlapFigures({ overlaps }: Pick<Expansion, "overlaps">, results: Results): ReportHeatmap[] {
  return overlaps.flatMap(({ experts: [a, b], key }): ReportHeatmap[] => {
    const found = results.overlap(key);
    if (!found) return [];
    const { columns, cells } = found;
    return [
      {
        id: `overlap-${`${a}-${b}`.replace(/\W+/g, "-")}`,
        title: `Changed rows that ${a} and ${b} share`,
        note: describeTotal(found),
        ...layerGrid(columns, cells, "projection"),
      },
    ];
  });
}

function describeTotal({ total, shares: [x = 0, y = 0] }: Overlap): string {
  if (total === null) return "Neither expert changed a row by more than its threshold.";
  const chance = (x * y) / (x + y - x * y);
  return `Over the whole model, with embeddings and norms, ${formatPercent(total)}; ${formatPercent(chance)} if the experts had changed as many rows drawn at random.`;
}
