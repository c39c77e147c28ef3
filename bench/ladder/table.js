// The table of the ladder as Markdown: rows are commands, columns rungs, cells CPU seconds and peak memory; below it, each refusal and
// failure once.
import { ROWS } from "./commands.js";
import { RUNGS } from "./models.js";

/** @typedef {import("./main.js").Cell} Cell */

/** @param {import("./main.js").Results} results */
export function printTable({ machine, cells, peers }) {
  const rungs = Object.keys(cells).toSorted((a, b) => placeOf(a) - placeOf(b));
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
  const beside = rungs.flatMap((rung) =>
    Object.entries(peers[rung] ?? {}).map(([row, cell]) => [rung, row, textOf(cells[rung]?.[row]), textOf(cell)]),
  );
  if (beside.length === 0) return;
  console.log("");
  line(["", "command", "layergraft", "the other program"]);
  line(["---", "---", "---", "---"]);
  for (const parts of beside) line(parts);
}

/** @param {string} rung */
const placeOf = (rung) => RUNGS.indexOf(rung.split("@")[0] ?? "");

/** @param {Cell | undefined} cell @param {string[]} [notes] */
function textOf(cell, notes = []) {
  if (!cell) return "";
  const { outcome, seconds, cpuSeconds, peakBytes, message } = cell;
  if (outcome === "skipped") return message;
  const busy = cpuSeconds || seconds;
  const used = `${busy.toFixed(busy < 10 ? 1 : 0)} s, ${(peakBytes / 1e9).toFixed(2)} GB`;
  return outcome === "works" ? used : `${outcome} (${noted(`${outcome}: ${message}`, notes)}), ${used}`;
}

/** The number of a note, the same for refusals of other models, paths and figures. @param {string} note @param {string[]} notes */
function noted(note, notes) {
  const kind = (/** @type {string} */ text) =>
    text
      .replace(/^(\w+: )(soup|swap|ties|slerp|della) of [\w, ]*?(?= in float32)/, "$1MODEL")
      .replace(/^(\w+: )base(\+adapter)?(?= in float32)/, "$1MODEL")
      .replace(/\S*\//g, "")
      .replace(/\b(cache|scratch-\d+)\b/g, "FOLDER");
  const numberless = (/** @type {string} */ text) => kind(text).replace(/[\d.,]+( [kMGTP]B)?|q\d\w+/g, "#");
  const index = notes.findIndex((one) => numberless(one) === numberless(note));
  return index < 0 ? notes.push(kind(note)) : index + 1;
}
