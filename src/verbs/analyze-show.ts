// What an analysis shows.
import { right, type Shown, type Table } from "../figures/index.js";
import { formatCount, formatPercent } from "../kit/printing/index.js";
import { type Analysis, heatmapOf, trainingSentences } from "../merge/analysis/index.js";
import { pairsOf } from "../tensor/streaming/index.js";

export function showAnalysis(analysis: Analysis, beside?: "paper"): Shown[] {
  const { experts, matrices, thresholds } = analysis;
  const number = (value: number | null) => (value === null ? "" : value.toExponential(2));
  const rows = experts.map((name, i) => {
    const figures = matrices.experts[i];
    return [
      name,
      number(figures?.mean ?? null),
      number(figures?.maximum ?? null),
      number(figures?.relativeNorm ?? null),
      formatPercent(figures?.exactZeroShare ?? 0),
      ...thresholds.map(
        (threshold, t) => `${formatPercent(figures?.shares[t] ?? 0)} > ${number(threshold.values[i] ?? 0)}`,
      ),
    ];
  });
  const columns = ["mean row", "largest row", "relative", "untouched"];
  const above = thresholds.map(({ name }) => `rows above (${name})`);
  const shared = thresholds.map(({ name }) => `overlap (${name})`);
  const pairs = pairsOf(experts.length).map(([i, j], index) => {
    const { cosine = null, conflictShare = 0, overlap = [] } = matrices.pairs[index] ?? {};
    const shared = overlap.map((share) => (share === null ? "" : formatPercent(share)));
    const name = `${experts[i]} and ${experts[j]}`;
    return [name, cosine === null ? "" : cosine.toFixed(3), formatPercent(conflictShare), ...shared];
  });
  return [
    { kind: "heatmap", heatmap: heatmapOf(analysis, beside), perRow: beside === undefined ? 1 : 3 },
    {
      kind: "table",
      what: "expert",
      title: "all matrices of the layers:",
      columns: ["expert", ...[...columns, ...above].map(right)],
      rows,
    },
    ...(pairs.length > 0
      ? [table("pair", { columns: ["pair", ...["cosine", "conflict", ...shared].map(right)], rows: pairs })]
      : []),
    ...trainingFigures(analysis),
    ...paperFigures(analysis),
    ...alignmentFigures(analysis),
    ...routingFigures(analysis),
  ];
}

const table = (what: string, own: Pick<Table, "columns" | "rows" | "title">, isTight = false): Shown => ({
  kind: "table",
  what,
  isTight,
  ...own,
});

function trainingFigures({ training }: Analysis): Shown[] {
  const lines = trainingSentences(training);
  return lines.length > 0 ? [{ kind: "text", lines }] : [];
}

/** One for each expert and kind of published maps. */
function paperFigures({ paper }: Analysis): Shown[] {
  const columns = (paper[0]?.at ?? []).map(({ threshold }) => right(`at ${threshold}`));
  const rows = paper.map(({ expert, kind, maps, at }) => [
    expert,
    `${kind} (${maps} maps)`,
    ...at.map(({ correlation, interval }) => {
      if (correlation === null) return "same everywhere";
      const ends = interval && ` (${interval.low.toFixed(2)} to ${interval.high.toFixed(2)})`;
      return `${correlation.toFixed(2)}${ends ?? ""}`;
    }),
  ]);
  const lines = [
    "like the paper's maps (mean rank correlation of cells; layers matched by relative depth; 95% interval, each layer",
    "counted as one observation):",
  ];
  return [{ kind: "text", lines }, table("expert", { columns: ["expert", "published", ...columns], rows }, true)];
}

/** Rows are layers, from the input up. */
function alignmentFigures({ alignment, experts, layers }: Analysis): Shown[] {
  if (!alignment) return [];
  const names = ["base", ...experts];
  const columns = pairsOf(names.length).map(([i, j]) => right(`${names[i]} and ${names[j]}`));
  const rows = Array.from({ length: layers }, (_, layer) => [
    String(layer),
    ...alignment.pairs.map((pair) => pair[layer]?.toFixed(3) ?? ""),
  ]);
  const title = `alike after each layer, on ${alignment.texts} texts (linear CKA):`;
  return [table("layer", { title, columns: ["layer", ...columns], rows })];
}

/** Of mixtures: how alike base and experts route the texts, and how each spreads tokens over the experts of a layer. */
function routingFigures({ routing, experts }: Analysis): Shown[] {
  if (!routing) return [];
  const names = ["base", ...experts];
  const pairs = pairsOf(names.length).map(([i, j]) => right(`${names[i]} and ${names[j]}`));
  const ofPairs = routing.layers.map(({ layer, pairs }) => [String(layer), ...pairs.map(formatPercent)]);
  const { tokens, chosen, experts: all } = routing;
  const share = `${chosen} of ${all} experts a token, so ${formatPercent(chosen / all)} by chance`;
  const spread = routing.layers.map(({ layer, models }) => [
    String(layer),
    ...models.map(({ load, entropy }) => {
      const ends = [Math.min(...load), Math.max(...load)].map(formatPercent).join(" to ");
      return `${ends}, ${entropy.toFixed(2)}`;
    }),
  ]);
  return [
    table("layer", {
      title: `experts that both choose, on ${formatCount(tokens)} tokens (${share}):`,
      columns: ["layer", ...pairs],
      rows: ofPairs,
    }),
    table("layer", {
      title: `load of the experts (${formatPercent(1 / all)} where even), and entropy of the router (1 where even):`,
      columns: ["layer", ...names.map(right)],
      rows: spread,
    }),
  ];
}
