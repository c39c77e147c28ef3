// The published maps of a kind of expert, layer below layer of the experts' own.
import { useMemo } from "preact/hooks";
import type { Analysis } from "../../protocol/index.js";
import { percentText } from "../format.js";
import { colourAt, type Palette, ramp } from "./colour.js";
import type { HeatmapCell } from "./figures.js";
import { Heatmap } from "./heatmap.js";
import { Legend } from "./legend.js";

type PaperMap = NonNullable<Analysis["paper"]>[number];

interface Props extends PaperMap {
  readonly columns: readonly string[];
  readonly palette: Palette;
  readonly cursor: HeatmapCell;
  readonly onCursor: (place: HeatmapCell) => void;
}

export function PaperPanel({ kind, maps, cells, columns, palette, cursor, onCursor }: Props) {
  const colours = useMemo(() => ramp(palette.empty, palette.ink), [palette]);
  const most = useMemo(() => Math.max(0.01, ...cells.flat().map((cell) => cell ?? 0)), [cells]);
  const name = `Published ${kind} experts`;
  const cellAt = ({ layer, column }: HeatmapCell) => cells[layer]?.[column] ?? null;
  const colour = (place: HeatmapCell) => {
    const share = cellAt(place);
    return share === null ? null : colourAt(colours, share / most);
  };
  const number = (place: HeatmapCell) => {
    const share = cellAt(place);
    return share === null ? null : String(Math.round(100 * share));
  };
  const describe = (place: HeatmapCell) => {
    const share = cellAt(place);
    const title = `${name}, at the depth of layer ${place.layer}, ${columns[place.column]}`;
    return [title, share === null ? "no such matrix" : `${percentText(share)} of rows changed`];
  };
  return (
    <section class="card panel">
      <header class="row apart">
        <h2>{name}</h2>
        <span class="row small soft numeric">
          <span>mean of {maps} maps of the paper, by relative depth</span>
          <Legend low="0%" high={percentText(most)} colours={colours} />
        </span>
      </header>
      <Heatmap
        {...{ label: name, layers: cells.length, columns, colour, number, describe }}
        {...{ ink: palette.ink, cursor, onCursor }}
      />
    </section>
  );
}
