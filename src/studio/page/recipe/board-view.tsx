// The board: a tower for each model, whose lit cells the merge takes. Click or drag to take layers; arrow keys and Enter do the
// same.
// biome-ignore-all lint/a11y/useSemanticElements: a table has no cursor that arrow keys move
// biome-ignore-all lint/a11y/useFocusableInteractive: only the cursor is in the order of tabs
// biome-ignore-all lint/a11y/useAriaPropsSupportedByRole: cells of a grid have labels
import { useRef, useState } from "preact/hooks";
import { assign, type Board, HALVES, type Half, isWhole } from "../../recipe/board.ts";
import { ownClass, Segments } from "../components/basics.tsx";

export interface Tower {
  /** As the recipe names it. */
  readonly source: string;
  readonly name: string;
  readonly own: number | "base";
}

interface Props {
  readonly board: Board;
  readonly towers: readonly Tower[];
  /** Undefined where the recipe's method decides by itself whose layers are. */
  readonly onChange: ((board: Board) => void) | undefined;
}

/** A cell: the outside is the row after the last layer. */
interface Place {
  readonly tower: number;
  readonly row: number;
  readonly half: number;
}

const HALF_NAMES: Readonly<Record<Half, string>> = { attention: "attention", mlp: "MLP" };

export function BoardView({ board, towers, onChange }: Props) {
  const layers = board.rows.length;
  const [isSplit, setSplit] = useState(!board.rows.every(isWhole));
  const [adds, setAdds] = useState(false);
  const [cursor, setCursor] = useState<Place>({ tower: 0, row: 0, half: 0 });
  /** Where a drag, or a selection by keyboard, began. */
  const [anchor, setAnchor] = useState<Place | null>(null);
  const grid = useRef<HTMLDivElement>(null);
  const isDragging = useRef(false);

  const halvesAt = ({ half }: Place): readonly Half[] => (isSplit ? [HALVES[half] as Half] : HALVES);
  const apply = (from: Place, to: Place, isAdding: boolean): Board => {
    const source = towers[from.tower]?.source ?? "";
    if (from.row === layers) return assign(board, "outside", source, isAdding);
    const cells = { from: from.row, to: Math.min(to.row, layers - 1), halves: halvesAt(from) };
    return assign(board, cells, source, isAdding);
  };
  const shown = anchor ? apply(anchor, cursor, adds) : board;
  const take = (to: Place, isAdding = adds) => {
    onChange?.(apply(anchor ?? to, to, isAdding));
    setAnchor(null);
  };
  const focus = (place: Place) => {
    setCursor(place);
    grid.current?.querySelector<HTMLElement>(`[data-place="${keyOf(place)}"]`)?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const halves = isSplit ? HALVES.length : 1;
    const across = cursor.tower * halves + cursor.half;
    const column = (step: number) => Math.max(0, Math.min(towers.length * halves - 1, across + step));
    const go = (row: number, at = across) => {
      event.preventDefault();
      if (event.shiftKey && onChange) setAnchor(anchor ?? cursor);
      else setAnchor(null);
      const place = { tower: Math.floor(at / halves), row: Math.max(0, Math.min(layers, row)), half: at % halves };
      focus(event.shiftKey ? { ...cursor, row: Math.min(place.row, layers - 1) } : place);
    };
    if (event.key === "ArrowDown") go(cursor.row + 1);
    else if (event.key === "ArrowUp") go(cursor.row - 1);
    else if (event.key === "ArrowRight") go(cursor.row, column(1));
    else if (event.key === "ArrowLeft") go(cursor.row, column(-1));
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(layers);
    else if (event.key === "Escape") setAnchor(null);
    else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      take(cursor, adds || event.ctrlKey || event.metaKey);
    }
  };
  const onFocusIn = ({ target }: FocusEvent) => {
    const key = target instanceof HTMLElement ? target.dataset.place : undefined;
    if (key !== undefined) setCursor(placeOfKey(key));
  };
  const placeOf = (event: PointerEvent): Place | undefined => {
    const cell = document.elementFromPoint(event.clientX, event.clientY)?.closest<HTMLElement>("[data-place]");
    return cell ? placeOfKey(cell.dataset.place ?? "") : undefined;
  };
  const onPointerMove = (event: PointerEvent) => {
    const place = isDragging.current ? placeOf(event) : undefined;
    if (place && anchor)
      setCursor({ ...anchor, row: anchor.row === layers ? layers : Math.min(place.row, layers - 1) });
  };
  const onPointerUp = (event: PointerEvent) => {
    if (!isDragging.current) return;
    isDragging.current = false;
    take(cursor, adds || event.ctrlKey || event.metaKey);
  };
  const onPointerDown = (event: PointerEvent) => {
    const place = placeOf(event);
    if (!place || !onChange || event.button !== 0) return;
    isDragging.current = true;
    setAnchor(place);
    focus(place);
  };

  return (
    <div class="board">
      {onChange ? (
        <div class="row">
          <Segments
            label="What a click does"
            options={[
              [0, "Take"],
              [1, "Average"],
            ]}
            value={adds ? 1 : 0}
            onChange={(value) => setAdds(value === 1)}
          />
          <Segments
            label="What a row is"
            options={[
              [0, "Layers"],
              [1, "Halves"],
            ]}
            value={isSplit ? 1 : 0}
            onChange={(value) => setSplit(value === 1)}
          />
          <span class="hint">
            {adds
              ? "Click or drag: layers are averaged with this model, or no longer."
              : "Click or drag down a tower to take its layers, or use arrow keys and Enter. Ctrl averages. Stripes: averaged. Outside: embeddings, last norm and head."}
          </span>
        </div>
      ) : null}
      <div
        {...{ class: "towers", role: "grid", "aria-label": "Whose each layer is", ref: grid, onKeyDown, onFocusIn }}
        {...{ "aria-readonly": onChange === undefined, onPointerDown, onPointerMove, onPointerUp }}
        data-towers={towers.length}
      >
        <div class="board-row heads" role="row">
          <span class="layer-number" role="columnheader">
            Layer
          </span>
          {towers.map(({ name, own, source }) => (
            <span key={source} class={`tower-head ${ownClass(own)}`} role="columnheader" title={source}>
              <span class="mark" aria-hidden="true" />
              <span class="cut">{name}</span>
            </span>
          ))}
        </div>
        {Array.from({ length: layers + 1 }, (_, row) => (
          <div key={row} class={row === layers ? "board-row outside" : "board-row"} role="row">
            <span class="layer-number" role="rowheader">
              {row === layers ? "outside" : row}
            </span>
            {towers.map((tower, at) => (
              <span key={tower.source} class={`tower ${ownClass(tower.own)}`}>
                {(isSplit && row < layers ? HALVES : [undefined]).map((half, i) => {
                  const place = { tower: at, row, half: i };
                  const owners = row === layers ? shown.outside : (shown.rows[row]?.[half ?? "attention"] ?? []);
                  return (
                    <Cell
                      key={half ?? "whole"}
                      place={place}
                      what={describe(row, layers, half)}
                      tower={tower}
                      owners={owners}
                      isCursor={keyOf(place) === keyOf({ ...cursor, half: isSplit && row < layers ? cursor.half : 0 })}
                    />
                  );
                })}
              </span>
            ))}
          </div>
        ))}
      </div>
    </div>
  );
}

interface CellProps {
  readonly place: Place;
  readonly what: string;
  readonly tower: Tower;
  readonly owners: readonly string[];
  readonly isCursor: boolean;
}

function Cell({ place, what, tower, owners, isCursor }: CellProps) {
  const isTaken = owners.includes(tower.source);
  const isAveraged = isTaken && owners.length > 1;
  const state = isAveraged ? `averaged, ${owners.length} models` : isTaken ? "taken" : "not taken";
  return (
    <span
      {...{ class: `cell ${isAveraged ? "averaged" : isTaken ? "taken" : ""}`, role: "gridcell" }}
      {...{ "data-place": keyOf(place), tabIndex: isCursor ? 0 : -1, "aria-selected": isTaken }}
      aria-label={`${what} of ${tower.name}: ${state}`}
    />
  );
}

const describe = (row: number, layers: number, half: Half | undefined) =>
  row === layers ? "Outside the layers" : `Layer ${row}${half ? `, ${HALF_NAMES[half]}` : ""}`;
const keyOf = ({ tower, row, half }: Place) => `${tower} ${row} ${half}`;

function placeOfKey(key: string): Place {
  const [tower = 0, row = 0, half = 0] = key.split(" ").map(Number);
  return { tower, row, half };
}
