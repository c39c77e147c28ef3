// The threshold: a slider below the distribution of all rows, and the analysis' own thresholds as buttons.
import { useMemo } from "preact/hooks";
import type { Analysis } from "../../protocol/index.ts";
import { Tip } from "../components/basics.tsx";
import { sizeText } from "../format.ts";
import { histogram } from "./figures.ts";

interface Props {
  readonly data: Analysis;
  readonly step: number;
  readonly onStep: (step: number) => void;
  /** Class of an expert's accent. */
  readonly own: (expert: number) => string;
}

const BINS = 60;
const HEIGHT = 36;

export function Threshold({ data, step, onStep, own }: Props) {
  const last = data.steps.length - 1;
  const curves = useMemo(
    () =>
      data.totals.map(({ above, rows }, expert) => {
        const counts = histogram(above, rows, BINS);
        const most = Math.max(1, ...counts.slice(1));
        const y = (count: number) => HEIGHT - 2 - (HEIGHT - 4) * Math.min(1, count / most);
        const points = counts.map((count, i) => `${(100 * i) / (counts.length - 1)},${y(count).toFixed(1)}`).join(" ");
        return <polyline key={data.experts[expert]} points={points} class={`line ${own(expert)}`} />;
      }),
    [data, own],
  );
  return (
    <section class="card threshold" aria-label="Threshold">
      <div class="row apart">
        <label for="threshold" class="label">
          A row counts as changed above <output class="value">{sizeText(data.steps[step] ?? 0)}</output>
        </label>
        <div class="row">
          {data.marks.map((mark) => (
            <button
              type="button"
              key={mark.name}
              aria-pressed={mark.step === step}
              class="quiet"
              onClick={() => onStep(mark.step)}
            >
              {mark.name}
            </button>
          ))}
          <Tip label="What the threshold is">
            The mean absolute change of a row's weights, on a logarithmic scale. auto is the row of an expert that one
            in eight of its rows exceeds. The curves count each expert's rows by their change.
          </Tip>
        </div>
      </div>
      <div class="scale">
        <svg viewBox={`0 0 100 ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          {curves}
          <line class="at" x1={(100 * step) / last} x2={(100 * step) / last} y1="0" y2={HEIGHT} />
        </svg>
        <input
          type="range"
          id="threshold"
          min={0}
          max={last}
          step={1}
          value={step}
          aria-valuetext={sizeText(data.steps[step] ?? 0)}
          onInput={({ currentTarget }) => onStep(Number(currentTarget.value))}
        />
        <div class="row apart small soft numeric">
          <span>{sizeText(data.steps[0] ?? 0)}</span>
          <span>{sizeText(data.steps[last] ?? 0)}</span>
        </div>
      </div>
    </section>
  );
}
