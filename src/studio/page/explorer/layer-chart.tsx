import { percentText } from "../format.ts";
import { layerShare, type Place, type View } from "./figures.ts";
import { LayerTicks } from "./heatmap.tsx";

interface Props extends View {
  readonly cursor: Place;
}

const HEIGHT = 96;

export function LayerChart({ data, names, steps, cursor, own }: Props) {
  const shares = data.experts.map((_, expert) =>
    Array.from({ length: data.layers }, (_, layer) => layerShare(data, expert, layer, steps) ?? 0),
  );
  const most = Math.max(0.01, ...shares.flat());
  const x = (layer: number) => (100 * (layer + 0.5)) / data.layers;
  const y = (share: number) => HEIGHT - 1 - (HEIGHT - 8) * (share / most);
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
        <svg viewBox={`0 0 100 ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`Changed rows: ${label}`}>
          <line class="at" x1={x(cursor.layer)} x2={x(cursor.layer)} y1="0" y2={HEIGHT} />
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
