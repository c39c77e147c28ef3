// The swap that the board on the documentation's first page shows, as a command.
import { formatRanges } from "../../../kit/printing/format.js";
import { type Board, boardOfRecipe } from "../../recipe/board.js";

/** The example's experts. */
export const [TASK, LANGUAGE] = ["math-expert", "swahili-expert"];
export const LAYERS = 8;
/** The board before a click: no layer is swapped. */
export const START = boardOfRecipe(
  { method: "swap", task: TASK, language: LANGUAGE, bottom: 0, top: 0 },
  LAYERS,
) as Board;

/** Layers of the language expert. */
export const layersOf = ({ rows }: Board): number[] =>
  rows.flatMap(({ mlp }, layer) => (mlp.length === 1 && mlp[0] === LANGUAGE ? [layer] : []));

/** The words of a swap on the command line. */
export function commandOf(board: Board): string {
  const layers = layersOf(board);
  const rows = board.rows.map((_, layer) => layers.includes(layer));
  const bottom = rows.includes(false) ? rows.indexOf(false) : 0;
  const top = layers.length - bottom;
  const isAtEnds = rows.includes(false) && rows.slice(LAYERS - top).every((isTaken) => isTaken);
  const chosen = isAtEnds ? `--bottom ${bottom} --top ${top}` : `--layers ${formatRanges(layers).replaceAll(" ", "")}`;
  return [["layergraft", "swap", chosen].join(" "), `--task ${TASK}`, `--language ${LANGUAGE}`, "--out merged"].join(
    " \\\n  ",
  );
}
