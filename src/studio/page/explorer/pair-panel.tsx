// Two experts over each other: whose changes, how many rows they share, and where they disagree.
import { useMemo, useState } from "preact/hooks";
import type { Analysis } from "../../protocol/index.js";
import { Segments, Tip } from "../components/basics.js";
import { Select } from "../components/inputs.js";
import { decimalText, percentText } from "../format.js";
import { colourAt, mix, type Palette, ramp } from "./colour.js";
import { type HeatmapCell, jaccard, pairOf, type Steps, shareOf, totalJaccard } from "./figures.js";
import { Heatmap } from "./heatmap.js";
import { Legend } from "./legend.js";

interface Props {
  readonly data: Analysis;
  readonly names: readonly string[];
  readonly steps: Steps;
  /** End of the scale of shares. */
  readonly most: number;
  readonly palette: Palette;
  readonly accentOf: (expert: number) => number;
  readonly cursor: HeatmapCell;
  readonly onCursor: (place: HeatmapCell) => void;
}

const MEASURES = [
  ["overlay", "Overlay"],
  ["overlap", "Overlap"],
  ["conflict", "Conflict"],
  ["cosine", "Cosine"],
] as const;
type Measure = (typeof MEASURES)[number][0];

export function PairPanel({ data, names, steps, most, palette, accentOf, cursor, onCursor }: Props) {
  const [measure, setMeasure] = useState<Measure>("overlay");
  const [[a, b], setPair] = useState<readonly [number, number]>([0, 1]);
  const pair = useMemo(() => pairOf(data, a, b), [data, a, b]);
  const mostConflict = useMemo(
    () => (pair?.cells.flat() ?? []).reduce((most, cell) => Math.max(most, cell?.conflict ?? 0), 0.01),
    [pair],
  );
  const [x, own] = [a, b].map((expert) => palette.expert(accentOf(expert))) as [string, string];
  const y = own === x ? palette.ink : own;
  // For shares of changed rows between all of the first expert's and all of the second's.
  const blends = useMemo(
    () => Array.from({ length: 17 }, (_, i) => ramp(palette.empty, mix(x, y, i / 16))),
    [palette, x, y],
  );
  const scale = useMemo(
    () => ({
      overlap: ramp(palette.empty, mix(x, y, 0.5)),
      conflict: ramp(palette.empty, palette.conflict),
      cosine: ramp(palette.conflict, palette.empty, mix(x, y, 0.5)),
    }),
    [palette, x, y],
  );
  const value = (place: HeatmapCell): number | null => {
    if (measure === "overlap") return jaccard(data, [a, b], place, steps);
    const cell = pair?.cells[place.layer]?.[place.column];
    return cell ? cell[measure === "cosine" ? "cosine" : "conflict"] : null;
  };
  const colour = (place: HeatmapCell): string | null => {
    if (measure === "overlay") {
      const [s, t] = [a, b].map((expert) => shareOf(data, expert, place, steps));
      if (s == null || t == null) return null;
      const blend = s + t > 0 ? blends[Math.round((16 * t) / (s + t))] : blends[0];
      return colourAt(blend ?? [], Math.max(s, t) / most);
    }
    const found = value(place);
    if (found === null) return colourAt(scale.overlap, 0);
    if (measure === "cosine") return colourAt(scale.cosine, (found + 1) / 2);
    return colourAt(scale[measure], measure === "conflict" ? found / mostConflict : found);
  };
  /** Where the colour says one thing. */
  const number = (place: HeatmapCell) => {
    const found = measure === "overlay" ? null : value(place);
    if (found === null) return null;
    return measure === "cosine" ? decimalText(found, 1) : String(Math.round(100 * found));
  };
  const describe = (place: HeatmapCell) => {
    const cell = pair?.cells[place.layer]?.[place.column];
    return [
      `Layer ${place.layer}, ${data.columns[place.column]}`,
      `${names[a]} ${percentText(shareOf(data, a, place, steps))} changed, ${names[b]} ${percentText(shareOf(data, b, place, steps))}`,
      `overlap ${percentText(jaccard(data, [a, b], place, steps))}, conflict ${percentText(cell?.conflict ?? null)}, cosine ${decimalText(cell?.cosine ?? null)}`,
    ];
  };
  const select = (label: string, value: number, choose: (expert: number) => void) => (
    <Select
      {...{ label, isBare: true, value: String(value), onChange: (to) => choose(Number(to)) }}
      options={names.map((name, expert): [string, string] => [String(expert), name])}
    />
  );
  return (
    <section class="card panel pair">
      <header class="row apart">
        <h2 class="row">
          {names.length === 2 ? (
            `${names[0]} and ${names[1]}`
          ) : (
            <>
              {select("First expert", a, (to) => setPair([to, to === b ? a : b]))}
              and
              {select("Second expert", b, (to) => setPair([to === a ? b : a, to]))}
            </>
          )}
        </h2>
        <div class="row">
          <Segments label="What the colours show" options={MEASURES} value={measure} onChange={setMeasure} />
          <Tip label="What overlay, overlap, conflict and cosine are">
            Overlay: share of changed rows, in the colour of the expert that changed more. Overlap: rows that both
            changed, divided by rows that either changed (Jaccard). Conflict: share of weights that they moved in
            opposite directions. Cosine: angle between their changes; 1 is the same direction, −1 the opposite.
          </Tip>
        </div>
      </header>
      <Heatmap
        {...{ label: `${names[a]} and ${names[b]}`, layers: data.layers, columns: data.columns }}
        {...{ colour, number, ink: palette.ink, cursor, onCursor, describe }}
      />
      <footer class="row apart small soft numeric">
        {measure === "overlay" ? (
          <span class="row">
            <Legend low={`only ${names[a]}`} high={`only ${names[b]}`} colours={ramp(x, mix(x, y, 0.5), y)} />
            stronger where more rows changed, up to {percentText(most)}
          </span>
        ) : measure === "cosine" ? (
          <Legend low="−1" high="1" colours={scale.cosine} />
        ) : (
          <Legend low="0%" high={measure === "overlap" ? "100%" : percentText(mostConflict)} colours={scale[measure]} />
        )}
        <span>
          Attention and MLP: overlap {percentText(totalJaccard(data, [a, b], steps))}, conflict{" "}
          {percentText(pair?.conflict ?? null)}, cosine {decimalText(pair?.cosine ?? null)}
        </span>
      </footer>
    </section>
  );
}
