// The threshold: a slider below the distribution of all rows, and the analysis' own thresholds as buttons.
import { useMemo } from "preact/hooks";
import { Button, Tip } from "../components/basics.js";
import { sizeText } from "../format.js";
import { histogram, type Steps, type View } from "./figures.js";

interface Props extends View {
  readonly onSteps: (steps: Steps) => void;
}

const BINS = 60;
const HEIGHT = 36;

export function Threshold({ data, names, steps, onSteps, own }: Props) {
  const last = data.steps.length - 1;
  const isShared = new Set(steps).size === 1;
  const [first = 0] = steps;
  const thresholdAt = (step: number) => sizeText(data.steps[step] ?? 0);
  const text = isShared ? thresholdAt(first) : steps.map((step, i) => `${names[i]} ${thresholdAt(step)}`).join(", ");
  const curves = useMemo(
    () =>
      data.totals.map(({ above, rows }, expert) => {
        const counts = histogram(above, rows, BINS);
        const most = Math.max(1, ...counts.slice(1));
        const y = (count: number) => HEIGHT - 2 - (HEIGHT - 4) * Math.min(1, count / most);
        const points = counts.map((count, i) => `${(100 * i) / (counts.length - 1)},${y(count).toFixed(1)}`).join(" ");
        // Told apart without colours, too; from the seventh on, by the pattern of their class.
        const dash = ["none", "7 4", "2 3"][expert % 3];
        const style = expert < 6 ? { "--dash": dash } : {};
        return <polyline key={data.experts[expert]} points={points} class={`line ${own(expert)}`} style={style} />;
      }),
    [data, own],
  );
  return (
    <section class="card threshold" aria-label="Threshold">
      <div class="row apart">
        <label for="threshold" class="label">
          A row counts as changed above <output class="value">{text}</output>
        </label>
        <div class="row">
          {data.marks.map((mark) => (
            <Button
              text={new Set(mark.steps).size > 1 ? `${mark.name}, each its own` : mark.name}
              key={mark.name}
              aria-pressed={mark.steps.join() === steps.join()}
              class="quiet"
              onClick={() => onSteps(mark.steps)}
            />
          ))}
          <Tip label="What the threshold is">
            The mean absolute change of a row's weights, on a logarithmic scale. auto gives each expert its own: the row
            that one in eight of the rows in its layers exceeds. Moving the slider sets one for all. The curves count
            each expert's rows by their change.
          </Tip>
        </div>
      </div>
      <div class="scale">
        <svg viewBox={`0 0 100 ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          {curves}
          {(isShared ? [first] : steps).map((step, i) => {
            const x = (100 * step) / last;
            return (
              <line key={data.experts[i]} class={`at ${isShared ? "" : own(i)}`} x1={x} x2={x} y1="0" y2={HEIGHT} />
            );
          })}
        </svg>
        <input
          type="range"
          id="threshold"
          min={0}
          max={last}
          step={1}
          value={first}
          aria-valuetext={text}
          onInput={({ currentTarget }) => onSteps(steps.map(() => Number(currentTarget.value)))}
        />
        <div class="row apart small soft numeric">
          <span>{thresholdAt(0)}</span>
          <span>{thresholdAt(last)}</span>
        </div>
      </div>
    </section>
  );
}
