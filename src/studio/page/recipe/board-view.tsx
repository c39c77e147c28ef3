// The board: a tower for each model, whose lit cells the merge takes, from the output at the top to the input. Click or drag to take
// layers; arrow keys and Enter do the same. Where changes were measured, a bar in each cell says how much of it changed.
// biome-ignore-all lint/a11y/useSemanticElements: a table has no cursor that arrow keys move
// biome-ignore-all lint/a11y/useFocusableInteractive: only the cursor is in the order of tabs
// biome-ignore-all lint/a11y/useAriaPropsSupportedByRole: cells of a grid have labels
import { useRef, useState } from "preact/hooks";
import { assign, type Board, HALVES, type Half, isWhole } from "../../recipe/board.js";
import { Either, ownClass, Tip } from "../components/basics.js";
import { percentText } from "../format.js";
import { actionOf } from "../keys.js";

export interface Tower {
  /** As the recipe names it. */
  readonly source: string;
  readonly name: string;
  readonly own: number | "base" | "merge";
}

/** Share of rows that a model changed in a layer, or in a half of it; null where that was not measured. */
export type ShareOf = (source: string, layer: number, half: Half | undefined) => number | null;

interface Props {
  readonly board: Board;
  readonly towers: readonly Tower[];
  /** Undefined where it only shows a suggestion. */
  readonly onChange: ((board: Board) => void) | undefined;
  readonly shareOf: ShareOf;
  /** Whether whole layers of one model are all there is to choose. */
  readonly isSimple?: boolean;
}

/** A cell: the outside is the row after the last layer. */
interface BoardPlace {
  readonly tower: number;
  readonly row: number;
  readonly half: number;
}

/** Rows down and cells to the right. */
const STEPS: Readonly<Record<string, readonly [down: number, right: number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  Home: [-Number.MAX_VALUE, 0],
  End: [Number.MAX_VALUE, 0],
};

const HALF_NAMES: Readonly<Record<Half, string>> = { attention: "attention", mlp: "MLP" };

export function BoardView({ board, towers, onChange, shareOf, isSimple = false }: Props) {
  const layers = board.rows.length;
  const [isSplit, setSplit] = useState(!board.rows.every(isWhole));
  const [adds, setAdds] = useState(false);
  const [cursor, setCursor] = useState<BoardPlace>({ tower: 0, row: 0, half: 0 });
  /** Where a drag, or a selection by keyboard, began. */
  const [anchor, setAnchor] = useState<BoardPlace | null>(null);
  const grid = useRef<HTMLDivElement>(null);
  const isDragging = useRef(false);
  const [hovered, setHovered] = useState<BoardPlace | null>(null);
  /** Rows from the top. */
  const rows = [...Array.from({ length: layers }, (_, i) => layers - 1 - i), ...(isSimple ? [] : [layers])];
  const inLayers = (row: number) => (row === layers ? 0 : row);

  const halvesAt = ({ half }: BoardPlace): readonly Half[] => (isSplit ? [HALVES[half] as Half] : HALVES);
  const apply = (from: BoardPlace, to: BoardPlace, isAdding: boolean): Board => {
    const source = towers[from.tower]?.source ?? "";
    if (from.row === layers) return assign(board, "outside", source, isAdding);
    const cells = { from: from.row, to: inLayers(to.row), halves: halvesAt(from) };
    return assign(board, cells, source, isAdding);
  };
  const shown = anchor ? apply(anchor, cursor, adds) : board;
  const take = (to: BoardPlace, isAdding = adds) => {
    onChange?.(apply(anchor ?? to, to, isAdding && !isSimple));
    setAnchor(null);
  };
  const focus = (place: BoardPlace) => {
    setCursor(place);
    grid.current?.querySelector<HTMLElement>(`[data-place="${keyOf(place)}"]`)?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const action = actionOf("Board", event);
    if (!action) return;
    event.preventDefault();
    if (action === "take" || action === "average") return take(cursor, adds || action === "average");
    if (action === "drop") return setAnchor(null);
    const within = (value: number, count: number) => Math.max(0, Math.min(count - 1, value));
    const [down, right] = STEPS[event.key] ?? [0, 0];
    const row = rows[within(rows.indexOf(cursor.row) + down, rows.length)] ?? 0;
    const halves = isSplit ? HALVES.length : 1;
    const at = within(cursor.tower * halves + cursor.half + right, towers.length * halves);
    const isSelecting = action === "select" && onChange !== undefined;
    setAnchor(isSelecting ? (anchor ?? cursor) : null);
    focus(isSelecting ? { ...cursor, row: inLayers(row) } : { tower: Math.floor(at / halves), row, half: at % halves });
  };
  const onFocusIn = ({ target }: FocusEvent) => {
    const key = target instanceof HTMLElement ? target.dataset.place : undefined;
    if (key !== undefined) setCursor(placeOfKey(key));
  };
  const placeOf = (event: PointerEvent): BoardPlace | undefined => {
    // The board of the documentation is in a shadow root.
    const root = grid.current?.getRootNode() as Document | ShadowRoot | undefined;
    const cell = root?.elementFromPoint(event.clientX, event.clientY)?.closest<HTMLElement>("[data-place]");
    return cell ? placeOfKey(cell.dataset.place ?? "") : undefined;
  };
  const onPointerMove = (event: PointerEvent) => {
    const place = placeOf(event);
    setHovered(place ?? null);
    if (isDragging.current && place && anchor) {
      setCursor({ ...anchor, row: anchor.row === layers ? layers : inLayers(place.row) });
    }
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
    const isRange = event.shiftKey && cursor.tower === place.tower && cursor.row < layers && place.row < layers;
    setAnchor(isRange ? cursor : place);
    focus(place);
  };
  const told = hovered ?? cursor;
  const shares = Array.from({ length: layers }, (_, row) =>
    towers.flatMap(({ source }) => (isSplit ? HALVES : [undefined]).map((half) => shareOf(source, row, half))),
  );
  /** The share that fills a cell. */
  const most = Math.max(0.01, ...shares.flat().map((share) => share ?? 0));

  return (
    <div class="board">
      {onChange && !isSimple ? (
        <div class="row">
          <Either label="What a click does" texts={["Take", "Average"]} value={adds} onChange={setAdds} />
          <Either label="What a row is" texts={["Layers", "Halves"]} value={isSplit} onChange={setSplit} />
          <span class="hint">
            {adds
              ? "Click or drag: layers are averaged with this model, or no longer."
              : "Click or drag along a tower to take its layers; Shift+click takes a range, Ctrl averages (stripes). Or use arrow keys and Enter."}
          </span>
        </div>
      ) : null}
      <div
        {...{ class: "towers", role: "grid", "aria-label": "Whose each layer is", ref: grid, onKeyDown, onFocusIn }}
        style={{ "--rows": layers }}
        {...{ "aria-readonly": onChange === undefined, onPointerDown, onPointerMove, onPointerUp }}
        onPointerLeave={() => setHovered(null)}
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
              {isSplit ? <span class="halves">attention, MLP</span> : null}
            </span>
          ))}
        </div>
        {rows.map((row) => (
          <div key={row} class={row === layers ? "board-row outside" : "board-row"} role="row">
            <span class={`layer-number ${isNumbered(row, layers) ? "" : "unshown"}`} role="rowheader">
              {row === layers - 1 ? "output " : row === 0 ? "input " : ""}
              {row === layers ? "outside" : row}
              {row === layers ? (
                <Tip label="What is outside">
                  Tensors that belong to no layer: the embeddings, the last norm and the output head.
                </Tip>
              ) : null}
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
                      share={row === layers ? null : shareOf(tower.source, row, half)}
                      most={most}
                      isCursor={keyOf(place) === keyOf({ ...cursor, half: isSplit && row < layers ? cursor.half : 0 })}
                    />
                  );
                })}
              </span>
            ))}
          </div>
        ))}
      </div>
      <p class="small soft numeric" role={isSimple ? undefined : "status"}>
        {describe(told.row, layers, isSplit ? HALVES[told.half] : undefined)}
        {towers.map(({ source, name }) => {
          const share = told.row === layers ? null : shareOf(source, told.row, isSplit ? HALVES[told.half] : undefined);
          return share === null ? null : `, ${name} ${percentText(share)}`;
        })}
        {shares.flat().some((share) => share !== null) ? (
          <>
            {` of rows changed. A full bar is ${percentText(most)}.`}
            <Tip label="What a changed row is">
              A row of a matrix has the weights of one input feature, and their mean absolute change is its change. It
              counts as changed above the expert's own threshold, which one in eight of its rows exceeds.
            </Tip>
          </>
        ) : (
          <>
            . <a href="#/changes">Measure changes</a> to see them here.
          </>
        )}
      </p>
    </div>
  );
}

interface CellProps {
  readonly place: BoardPlace;
  readonly what: string;
  readonly tower: Tower;
  readonly owners: readonly string[];
  readonly share: number | null;
  /** The share that fills the cell. */
  readonly most: number;
  readonly isCursor: boolean;
}

function Cell({ place, what, tower, owners, share, most, isCursor }: CellProps) {
  const isTaken = owners.includes(tower.source);
  const isAveraged = isTaken && owners.length > 1;
  const state = isAveraged ? `averaged, ${owners.length} models` : isTaken ? "taken" : "not taken";
  return (
    <span
      {...{ class: `cell ${isAveraged ? "averaged" : isTaken ? "taken" : ""}`, role: "gridcell" }}
      {...{ "data-place": keyOf(place), tabIndex: isCursor ? 0 : -1, "aria-selected": isTaken }}
      aria-label={`${what} of ${tower.name}: ${state}${share === null ? "" : `, ${percentText(share)} of rows changed`}`}
    >
      {share === null ? null : <i style={{ width: `${Math.min(100, (100 * share) / most)}%` }} />}
    </span>
  );
}

const describe = (row: number, layers: number, half: Half | undefined) =>
  row === layers ? "Outside the layers" : `Layer ${row}${half ? `, ${HALF_NAMES[half]}` : ""}`;
/** Whether a row has its number: in a deep model some have, and not the one beside that of the output. */
function isNumbered(row: number, layers: number): boolean {
  const every = layers > 60 ? 5 : layers > 34 ? 2 : 1;
  return row >= layers - 1 || row === 0 || (row % every === 0 && (every === 1 || row < layers - 2));
}
const keyOf = ({ tower, row, half }: BoardPlace) => `${tower} ${row} ${half}`;

function placeOfKey(key: string): BoardPlace {
  const [tower = 0, row = 0, half = 0] = key.split(" ").map(Number);
  return { tower, row, half };
}
