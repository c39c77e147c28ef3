// The board on the first page of the documentation: every swap of the example's models with its recorded score, without a server.
import { render } from "preact";
import { useState } from "preact/hooks";
import { formatRanges } from "../../../kit/printing/format.js";
import { presetLayers } from "../../../merge/layer-owner.js";
import { isWhole } from "../../recipe/board.js";
import { Interval } from "../components/interval.js";
import { BoardView } from "../recipe/board-view.js";
import { commandOf, LANGUAGE, LAYERS, layersOf, START, TASK } from "./command.js";

/** As docs/living.js records them. */
export interface Recorded {
  readonly items: number;
  /** Items that each swap solves: bit L of its index is set where layer L is the language expert's. */
  readonly right: readonly number[];
  /** 95% intervals of the shares by how many are right. */
  readonly intervals: Readonly<Record<string, readonly [low: number, high: number]>>;
  /** Shares of changed rows by layer. */
  readonly changed: { readonly task: readonly number[]; readonly language: readonly number[] };
}

const TOWERS = [
  { source: TASK, name: "math expert", own: 0 },
  { source: LANGUAGE, name: "Swahili expert", own: 1 },
];

const { bottom, top } = presetLayers(LAYERS);
/** Layers of the language expert by the paper's default. */
const PAPER = [...Array(LAYERS).keys()].filter((layer) => layer < bottom || layer >= LAYERS - top);

function Living({ data }: { data: Recorded }) {
  const [board, setBoard] = useState(START);
  const layers = layersOf(board);
  const indexOf = (some: readonly number[]) => some.reduce((sum, layer) => sum + 2 ** layer, 0);
  const solved = (index: number) => data.right[index] ?? 0;
  const right = solved(indexOf(layers));
  const bars = [
    { name: "this merge", right, own: "own-merge" },
    { name: "no layer swapped", right: solved(0), own: "own-1" },
    { name: "the paper's default", right: solved(indexOf(PAPER)), own: "own-base" },
  ];
  const percent = (count: number) => `${((100 * count) / data.items).toFixed(0)}%`;
  const said =
    layers.length === 0
      ? "All layers are the math expert's. Take a layer from the Swahili expert."
      : `${layers.length > 1 ? "Layers" : "Layer"} ${formatRanges(layers)} of ${LAYERS} from the Swahili expert.`;
  return (
    <section class="living" aria-label="Choose the layers of a merge">
      <BoardView
        {...{ board, towers: TOWERS, isSimple: true }}
        onChange={(next) => next.rows.every(isWhole) && setBoard({ ...next, outside: START.outside })}
        shareOf={(source, layer) => data.changed[source === TASK ? "task" : "language"][layer] ?? null}
      />
      <p class="small soft">
        Click the layers of a model to take them. The scores of all {2 ** LAYERS} swaps are recorded on the same{" "}
        {data.items} problems, so the highest of them is optimistic.
      </p>
      <div class="living-result">
        <p class="living-score" role="status">
          <strong>{percent(right)}</strong> of {data.items} Swahili word problems solved. {said}
        </p>
        <table class="living-bars">
          <tbody>
            {bars.map(({ name, right: count, own }) => {
              const [low, high] = data.intervals[count] ?? [0, 0];
              return (
                <tr key={name} class={own}>
                  <th scope="row">{name}</th>
                  <td>{percent(count)}</td>
                  <td>
                    <Interval
                      score={{ score: "", interval: "", value: count / data.items, low, high }}
                      axis={{ low: 0, high: 1, ticks: ["0", "50", "100"] }}
                    />
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
        <code class="living-command">{commandOf(board)}</code>
      </div>
    </section>
  );
}

/** Draws the board into an element. */
export function mount(element: Element | ShadowRoot, data: Recorded): void {
  render(<Living data={data} />, element);
}
