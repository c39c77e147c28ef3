// Where experts changed: the view of an analysis, in the studio and as a page of its own.
import { useMemo, useState } from "preact/hooks";
import { formatRanges } from "../../../kit/printing/format.js";
import { changeOf, comparedChanges, whereChanged } from "../../../merge/compared-changes.js";
import type { Analysis } from "../../protocol/index.js";
import { ownClass, Segments } from "../components/basics.js";
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
import { Heatmap } from "./heatmap.js";
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
  const [cursor, setPlace] = useState<HeatmapCell>(() => topPlace(data, steps));
  const [isOpen, setOpen] = useState(false);
  const setCursor = (place: HeatmapCell) => {
    setPlace(place);
    setOpen(true);
  };
  const palette = usePalette();
  const own = useMemo(() => (expert: number) => ownClass(accentOf(expert)), [accents]);
  const [scale, setScale] = useState<"all" | "own">("all");
  const most = useMemo(() => scaleOf(data, steps), [data, steps]);
  const layerShares = useMemo(
    () =>
      data.experts.map((_, expert) =>
        Array.from({ length: data.layers }, (_, layer) => layerShare(data, expert, layer, steps) ?? 0),
      ),
    [data, steps],
  );
  const finding = useMemo(() => comparedChanges(data, names), [data, names]);
  const where = useMemo(() => whereChanged(data, names, formatRanges), [data, names]);
  const ramps = useMemo(
    () => data.experts.map((_, expert) => ramp(palette.empty, palette.expert(accentOf(expert)))),
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
      `all parts of the layer ${percentText(layerShares[expert]?.[place.layer] ?? null)}`,
      `mean change ${sizeText(cell.mean)}, largest row ${sizeText(cell.maximum)}`,
      `relative change ${sizeText(cell.relative)}`,
    ];
  };
  /** Maps as strips, side by side. */
  const isDeep = data.experts.length > 2 || data.layers > 48;
  return (
    <div class="explorer">
      {finding === "" && where === "" ? null : (
        <section class="card row apart finding" aria-label="Where and how much they changed">
          <div class="stack tight">
            {where === "" ? null : <p class="where">{where}</p>}
            {finding === "" ? null : <p class="much">{finding}</p>}
          </div>
          {finding === "" ? null : (
            <Segments
              label="Scale of the colours"
              options={[
                ["all", "One scale"],
                ["own", "A scale for each"],
              ]}
              value={scale}
              onChange={setScale}
            />
          )}
        </section>
      )}
      <Threshold data={data} steps={steps} onSteps={setSteps} own={own} names={names} />
      <div class={`panels ${isDeep ? "strips" : ""}`}>
        {data.experts.map((id, expert) => {
          const colours = ramps[expert] ?? [];
          const top = scale === "all" ? most : scaleOf(data, steps, expert);
          const colour = (place: HeatmapCell) => {
            const share = shareOf(data, expert, place, steps);
            return share === null ? null : colourAt(colours, share / top);
          };
          const number = (place: HeatmapCell) => {
            const share = shareOf(data, expert, place, steps);
            return share === null ? null : String(Math.round(100 * share));
          };
          const longest = Math.max(0.01, ...(scale === "all" ? layerShares.flat() : (layerShares[expert] ?? [])));
          const bars = {
            colour: palette.expert(accentOf(expert)),
            of: (layer: number) => (layerShares[expert]?.[layer] ?? 0) / longest,
          };
          return (
            <section class="card panel" key={id}>
              <header class="row apart">
                <h2>
                  <Own name={names[expert] ?? id} own={own(expert)} />
                </h2>
                <span class="row small soft numeric">
                  <span>{percentText(totalShare(data, expert, steps))} of rows changed</span>
                  <span>mean change {sizeText(changeOf(data, expert).mean)}</span>
                  <Legend low="0%" high={percentText(top)} colours={colours} />
                </span>
              </header>
              <Heatmap
                {...{ label: `Changes of ${names[expert]}`, layers: data.layers, columns: data.columns }}
                {...{ colour, number, bars, ink: palette.ink }}
                {...{ cursor, onCursor: setCursor, describe: describe(expert) }}
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
        <ShareTable {...{ data, names, steps, own }} />
      </div>
      <Detail {...{ data, names, place: cursor, steps, own, readRows, isOpen, onClose: () => setOpen(false) }} />
    </div>
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
              head={["Layer", ...data.columns, "all"]}
              caption={<Own name={name} own={own(expert)} />}
            >
              {Array.from({ length: data.layers }, (_, i) => data.layers - 1 - i).map((layer) => (
                <tr key={layer}>
                  <th scope="row">{layer}</th>
                  {data.columns.map((name, column) => (
                    <td key={name}>{percentText(shareOf(data, expert, { layer, column }, steps))}</td>
                  ))}
                  <td>{percentText(layerShare(data, expert, layer, steps))}</td>
                </tr>
              ))}
            </Grid>
          ))
        : null}
    </details>
  );
}
