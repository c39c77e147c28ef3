// Where experts changed: the view of an analysis, in the studio and as a page of its own.
import { useMemo, useState } from "preact/hooks";
import type { Analysis } from "../../protocol/index.ts";
import { ownClass } from "../components/basics.tsx";
import { Own } from "../components/grid.tsx";
import { percentText, sizeText } from "../format.ts";
import { colourAt, ramp, usePalette } from "./colour.ts";
import { Detail, type ReadRows } from "./detail.tsx";
import { cellOf, type Place, type Steps, scaleOf, shareOf, topPlace, totalShare } from "./figures.ts";
import { Heatmap } from "./heatmap.tsx";
import { LayerChart } from "./layer-chart.tsx";
import { Legend } from "./legend.tsx";
import { PairPanel } from "./pair-panel.tsx";
import { ShareTable } from "./share-table.tsx";
import { Threshold } from "./threshold.tsx";

interface Props {
  readonly data: Analysis;
  /** Names of the experts, where they have other ones by now. */
  readonly names?: readonly string[];
  /** Position of an expert's accent, where it is not that of the expert. */
  readonly accentOf?: (expert: number) => number;
  readonly readRows?: ReadRows;
}

const same = (expert: number) => expert;

export function Explorer({ data, names = data.experts, accentOf = same, readRows }: Props) {
  const [steps, setSteps] = useState<Steps>(() => data.marks[0]?.steps ?? []);
  const [cursor, setCursor] = useState<Place>(() => topPlace(data, steps));
  const palette = usePalette();
  const own = useMemo(() => (expert: number) => ownClass(accentOf(expert)), [accentOf]);
  const most = useMemo(() => scaleOf(data, steps), [data, steps]);
  const ramps = useMemo(
    () => data.experts.map((_, expert) => ramp(palette.empty, palette.experts[accentOf(expert) % 6] ?? palette.empty)),
    [data, palette, accentOf],
  );
  const describe = (expert: number) => (place: Place) => {
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
          const colour = (place: Place) => {
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
