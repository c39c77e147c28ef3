import type { Board } from "../../recipe/board.js";
import { ownClass } from "../components/basics.js";
import type { Tower } from "./board-view.js";

/** Whose each layer is, the output at the top: attention at the left of the MLP, averages as stripes. */
export function Thumbnail({ board, towers }: { board: Board; towers: readonly Tower[] }) {
  const ownOf = (source: string) => ownClass(towers.find((tower) => tower.source === source)?.own ?? "base");
  return (
    <svg class="thumbnail" viewBox={`0 0 2 ${board.rows.length}`} preserveAspectRatio="none" aria-hidden="true">
      {board.rows.flatMap(({ attention, mlp }, layer) =>
        [attention, mlp].flatMap((owners, half) =>
          owners.map((source, i) => (
            <rect
              key={`${layer} ${half} ${source}`}
              class={ownOf(source)}
              {...{
                x: half + i / owners.length,
                y: board.rows.length - 1 - layer,
                width: 1 / owners.length,
                height: 1,
              }}
            />
          )),
        ),
      )}
    </svg>
  );
}
