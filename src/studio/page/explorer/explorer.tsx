// Where experts changed: the view of an analysis, in the studio and as a page of its own.
import { useMemo, useState } from "preact/hooks";
import type { Analysis } from "../../protocol/index.js";
import { ownClass } from "../components/basics.js";
import { Grid, Own } from "../components/grid.js";
import { percentText, sizeText } from "../format.js";
import { colourAt, ramp, usePalette } from "./colour.js";
import { Detail, type ReadRows } from "./detail.js";
import {
  cellOf,
  type HeatmapCell,
  layerShare,
  type Steps,
  scaleOf,
  shareOf,
  topPlace,
  totalShare,
  type View,
} from "./figures.js";
import { Heatmap, LayerTicks } from "./heatmap.js";
import { Legend } from "./legend.js";
import { PairPanel } from "./pair-panel.js";
import { PaperPanel } from "./paper-panel.js";
import { Threshold } from "./threshold.js";

interface Props {
  readonly data: Analysis;
  /** Names of the experts, where they have other ones by now. */
  readonly names?: readonly string[];
  /** Positions of the experts' accents, where they are not those of the experts. */
  readonly accents?: readonly number[];
  readonly readRows?: ReadRows;
}

export function Explorer({ data, names = data.experts, accents, readRows }: Props) {
  const accentOf = (expert: number) => accents?.[expert] ?? expert;
  const [steps, setSteps] = useState<Steps>(() => data.marks[0]?.steps ?? []);
  const [cursor, setCursor] = useState<HeatmapCell>(() => topPlace(data, steps));
  const palette = usePalette();
  const own = useMemo(() => (expert: number) => ownClass(accentOf(expert)), [accents]);
  const most = useMemo(() => scaleOf(data, steps), [data, steps]);
  const ramps = useMemo(
    () => data.experts.map((_, expert) => ramp(palette.empty, palette.experts[accentOf(expert) % 6] ?? palette.empty)),
    [data, palette, accents],
  );
  const describe = (expert: number) => (place: HeatmapCell) => {
    const cell = cellOf(data, expert, place);
    const name = `${names[expert]}, layer ${place.layer}, ${data.columns[place.column]}`;
    if (!cell) return [name, "no such matrix"];
    if (cell.rows === 0) return [name, "no row without an infinite or NaN change"];
    return [
      name,
      `${percentText(shareOf(data, expert, place, steps))} of ${cell.rows.toLocaleString("en-US")} rows changed`,
      `mean change ${sizeText(cell.mean)}, largest row ${sizeText(cell.maximum)}`,
      `relative change ${sizeText(cell.relative)}`,
    ];
  };
  return (
    <div class="explorer">
      <Threshold data={data} steps={steps} onSteps={setSteps} own={own} names={names} />
      <div class="panels">
        {data.experts.map((id, expert) => {
          const colours = ramps[expert] ?? [];
          const colour = (place: HeatmapCell) => {
            const share = shareOf(data, expert, place, steps);
            return share === null ? null : colourAt(colours, share / most);
          };
          return (
            <section class="card panel" key={id}>
              <header class="row apart">
                <h2>
                  <Own name={names[expert] ?? id} own={own(expert)} />
                </h2>
                <span class="row small soft numeric">
                  <span>{percentText(totalShare(data, expert, steps))} of attention and MLP rows changed</span>
                  <Legend low="0%" high={percentText(most)} colours={colours} />
                </span>
              </header>
              <Heatmap
                {...{ label: `Changes of ${names[expert]}`, layers: data.layers, columns: data.columns }}
                {...{ colour, ink: palette.ink, cursor, onCursor: setCursor, describe: describe(expert) }}
              />
            </section>
          );
        })}
        {(data.paper ?? []).map(({ kind, maps, cells }) => (
          <PaperPanel
            key={kind}
            {...{ columns: data.columns, kind, maps, cells, palette, cursor, onCursor: setCursor }}
          />
        ))}
        {data.pairs.length === 0 ? null : (
          <PairPanel {...{ data, names, steps, most, palette, accentOf, cursor, onCursor: setCursor }} />
        )}
        <LayerChart {...{ data, names, steps, cursor, own }} />
        <ShareTable {...{ data, names, steps, own }} />
      </div>
      <Detail {...{ data, names, place: cursor, steps, own, readRows }} />
    </div>
  );
}

interface ChartProps extends View {
  readonly cursor: HeatmapCell;
}

const CHART_HEIGHT = 96;

function LayerChart({ data, names, steps, cursor, own }: ChartProps) {
  const shares = data.experts.map((_, expert) =>
    Array.from({ length: data.layers }, (_, layer) => layerShare(data, expert, layer, steps) ?? 0),
  );
  const most = Math.max(0.01, ...shares.flat());
  const x = (layer: number) => (100 * (layer + 0.5)) / data.layers;
  const y = (share: number) => CHART_HEIGHT - 1 - (CHART_HEIGHT - 8) * (share / most);
  const heights = names.map((name, expert) => ({ name, most: Math.max(...(shares[expert] ?? [0])) }));
  const label = heights
    .map(({ name, most: top }, expert) => `${name} up to ${percentText(top)}, in layer ${shares[expert]?.indexOf(top)}`)
    .join("; ");
  return (
    <section class="card panel">
      <header class="row apart">
        <h2>All parts, by layer</h2>
        <span class="small soft">layer {cursor.layer}</span>
      </header>
      <div class="heatmap chart">
        <div class="parts axis" aria-hidden="true">
          <span>{percentText(most)}</span>
          <span>0%</span>
        </div>
        <svg
          viewBox={`0 0 100 ${CHART_HEIGHT}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`Changed rows: ${label}`}
        >
          <line class="at" x1={x(cursor.layer)} x2={x(cursor.layer)} y1="0" y2={CHART_HEIGHT} />
          {shares.map((one, expert) => (
            <polyline
              key={names[expert]}
              class={`line ${own(expert)}`}
              points={one.map((share, layer) => `${x(layer).toFixed(2)},${y(share).toFixed(1)}`).join(" ")}
            />
          ))}
        </svg>
        <LayerTicks layers={data.layers} />
      </div>
    </section>
  );
}

/** The shares of the heatmaps, for those who read or copy numbers. */
function ShareTable({ data, names, steps, own }: View) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="card" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>Shares as tables</summary>
      {isOpen
        ? names.map((name, expert) => (
            <Grid
              key={name}
              label={`Shares of ${name}`}
              head={["Layer", ...data.columns]}
              caption={<Own name={name} own={own(expert)} />}
            >
              {Array.from({ length: data.layers }, (_, layer) => (
                <tr key={layer}>
                  <th scope="row">{layer}</th>
                  {data.columns.map((name, column) => (
                    <td key={name}>{percentText(shareOf(data, expert, { layer, column }, steps))}</td>
                  ))}
                </tr>
              ))}
            </Grid>
          ))
        : null}
    </details>
  );
}
