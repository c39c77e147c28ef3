// The table of the ladder as Markdown: rows are commands, columns rungs; below it, each refusal and failure once.
import { ROWS } from "./commands.js";
import { RUNGS } from "./models.js";

/** @typedef {import("./main.js").Cell} Cell */

/** @param {import("./main.js").Results} results */
export function printTable({ machine, cells, peers }) {
  const rungs = RUNGS.filter((rung) => cells[rung]);
  console.log(`${machine}\n`);
  /** @type {string[]} */
  const notes = [];
  const line = (/** @type {string[]} */ parts) => console.log(`| ${parts.join(" | ")} |`);
  line(["", ...rungs]);
  line(["---", ...rungs.map(() => "---")]);
  for (const { name } of ROWS) {
    if (rungs.some((rung) => cells[rung]?.[name]))
      line([name, ...rungs.map((rung) => textOf(cells[rung]?.[name], notes))]);
  }
  console.log("");
  for (const [index, note] of notes.entries()) console.log(`${index + 1}. ${note}`);
  const beside = RUNGS.flatMap((rung) =>
    Object.entries(peers[rung] ?? {}).map(([row, cell]) => [rung, row, textOf(cells[rung]?.[row]), textOf(cell)]),
  );
  if (beside.length === 0) return;
  console.log("");
  line(["", "command", "layergraft", "the other program"]);
  line(["---", "---", "---", "---"]);
  for (const parts of beside) line(parts);
}

/** @param {Cell | undefined} cell @param {string[]} [notes] */
function textOf(cell, notes = []) {
  if (!cell) return "";
  const { outcome, seconds, peakBytes, message } = cell;
  if (outcome === "works") return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s, ${(peakBytes / 1e9).toFixed(1)} GB`;
  if (outcome === "skipped") return message;
  return `${outcome} (${noted(`${outcome}: ${message}`, notes)})`;
}

/** The number of a note, the same for messages that differ in paths and figures alone. @param {string} note @param {string[]} notes */
function noted(note, notes) {
  const kind = (/** @type {string} */ text) => text.replace(/(\/[^\s,;:+]+)|[\d.,]+/g, "#");
  const index = notes.findIndex((one) => kind(one) === kind(note));
  return index < 0 ? notes.push(note.replace(/\/\S+\/(?=[^/\s]+)/g, "")) : index + 1;
}
