import type { Board } from "../../recipe/board.js";
import { ownClass } from "../components/basics.js";
import type { Tower } from "./board-view.js";

/** Whose each layer is, from the input at the left: the MLP above attention, averages as stripes. */
export function Thumbnail({ board, towers }: { board: Board; towers: readonly Tower[] }) {
  const ownOf = (source: string) => ownClass(towers.find((tower) => tower.source === source)?.own ?? "base");
  return (
    <svg class="thumbnail" viewBox={`0 0 ${board.rows.length} 2`} preserveAspectRatio="none" aria-hidden="true">
      {board.rows.flatMap(({ attention, mlp }, layer) =>
        [mlp, attention].flatMap((owners, half) =>
          owners.map((source, i) => (
            <rect
              key={`${layer} ${half} ${source}`}
              class={ownOf(source)}
              {...{ x: layer + i / owners.length, y: half, width: 1 / owners.length, height: 1 }}
            />
          )),
        ),
      )}
    </svg>
  );
}
