// The figures of an experiment's page: bars, tables, grids, gains and losses, each as HTML. The page around them is
// experiment-page.ts, their style experiment-style.ts.
import { formatDuration, plural } from "../core/format.js";
import type {
  Cell,
  ExperimentReport,
  Flips,
  Overview,
  OverviewBar,
  ReportHeatmap,
  ReportTable,
  SearchRow,
} from "../experiment/report/data.js";
import { describeCost, formatCell, formatDifference, itemsText, listedScores, textColumnsOf } from "./experiment.js";

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

export function html(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? character);
}

const KINDS: Readonly<Record<OverviewBar["kind"], string>> = {
  ...{ base: "base", expert: "expert", joint: "trained on both", average: "soup", merge: "other merge" },
  ...{ swap: "layer swap" },
};

/** What the colours of the bars mean, of the kinds that there are. */
export function legend(overviews: readonly Overview[]): string {
  const kinds = new Set(overviews.flatMap(({ bars }) => bars.map(({ kind }) => kind)));
  const keys = (Object.keys(KINDS) as OverviewBar["kind"][]).filter((kind) => kinds.has(kind));
  return `<p class="legend">${keys.map((kind) => `<span><i class="key ${kind}"></i>${KINDS[kind]}</span>`).join("")}</p>`;
}

const spanText = ({ low, high }: { low: number; high: number }, scale: Cell["scale"]) =>
  `${formatCell(low, scale)} to ${formatCell(high, scale)}`;

/** The end of the axis: all of it for shares, so that tasks compare; the next round number for points. */
function axisEnd({ scale, bars }: Overview): number {
  if (scale === "share") return 1;
  const most = Math.max(1, ...bars.map(({ high, interval }) => Math.max(high, interval?.high ?? 0)));
  const step = 10 ** Math.floor(Math.log10(most));
  return Math.ceil(most / step) * step;
}

/** Bars from zero, with the 95% interval, and dots at the smallest and the largest of several models. */
export function overviewFigure(overview: Overview): string {
  const { title, protocol, items, choice, verdict, missing, bars, scale } = overview;
  const end = axisEnd(overview);
  const at = (value: number) => `${((100 * Math.min(value, end)) / end).toFixed(2)}%`;
  const rows = bars.map(({ label, kind, mean, low, high, count, detail, interval, isBest }) => {
    const line = (name: string, span: { readonly low: number; readonly high: number } | undefined) =>
      span && span.high > span.low
        ? `<i class="${name}" style="left:${at(span.low)};width:calc(${at(span.high)} - ${at(span.low)})"></i>`
        : "";
    const range = line("range", interval) + (count > 1 ? line("models", { low, high }) : "");
    const about = [
      detail,
      ...(count > 1 ? [`${spanText({ low, high }, scale)} over ${count} models`] : []),
      ...(interval ? [`95%: ${spanText(interval, scale)}`] : []),
    ];
    return `<tr class="${isBest ? "best" : ""}"><th scope="row">${html(label)}<small>${html(about.filter((part) => part !== "").join("; "))}</small></th>
<td><div class="track"><span class="bar ${kind}" style="width:${at(mean)}"></span>${range}</div></td><td class="value">${formatCell(mean, scale)}</td></tr>`;
  });
  const ticks = [0, 0.25, 0.5, 0.75, 1].map(
    (share) => `<span style="left:${100 * share}%">${formatCell(share * end, scale).replace(/\.0$/, "")}</span>`,
  );
  const lines = [
    ...(bars.some(({ interval }) => interval) ? ["Lines: the 95% interval over items."] : []),
    ...(bars.some(({ count }) => count > 1) ? ["Dots: the smallest and the largest of several models."] : []),
  ];
  const note = lines.map((line) => ` ${line}`).join("");
  const sentences = [choice, verdict, missing].filter((sentence) => sentence !== "").join(" ");
  return `<figure id="${html(overview.id)}"><h3>${html(title)}</h3><p class="caption">${scale === "share" ? "Percent right" : "Score"}, on ${html(items)}; ${html(protocol)}.${note}</p>${sentences === "" ? "" : `<p class="said">${html(sentences)}</p>`}
<table class="bars"><tbody>${rows.join("\n")}</tbody><tfoot><tr><th></th><td><div class="ticks">${ticks.join("")}</div></td><td></td></tr></tfoot></table></figure>`;
}

function tableCell({ value, scale, interval, range, published, isBest, text }: Cell): string {
  if (text !== undefined) return `<td class="text">${html(text)}</td>`;
  const about = [
    ...(range ? [`${spanText(range, scale)} over ${range.count} models`] : []),
    ...(interval ? [`95% interval over items ${spanText(interval, scale)}`] : []),
  ];
  const title = about.length > 0 ? ` title="${html(about.join("; "))}"` : "";
  const printed = published === undefined ? "" : `<small>${formatCell(published, scale)}</small>`;
  return `<td${title}${isBest ? ' class="best"' : ""}>${html(formatCell(value, scale))}${printed}</td>`;
}

/** A table as it is; of a long one only the beginning is open. */
export function plainTable(table: ReportTable, what: string): string {
  const rows = table.rows.map(
    ({ label, cells }) => `<tr><th scope="row">${html(label)}</th>${cells.map(tableCell).join("")}</tr>`,
  );
  return folded(rows, table.columns, textColumnsOf(table), what);
}

export function tableFigure(table: ReportTable): string {
  return `<figure id="${html(table.id)}"><h3>${html(table.title)}</h3><p class="caption">${html(table.note)}</p>
${plainTable(table, "row")}</figure>`;
}

/** The rounds of a search, its outcome, its configurations. */
export function searchFigure(
  { group, summary, configurations, rounds }: SearchRow,
  tables: readonly ReportTable[],
): string {
  const inRounds = tables.map((table) => plainTable(table, "round")).join("");
  const rows = configurations.map(({ label, mean, behind, margin, items, round, isChosen, isDefault }) => {
    const marks = [...(isChosen ? ["chosen"] : []), ...(isDefault ? ["default"] : [])];
    const small = marks.length > 0 ? `<small>${marks.join(", ")}</small>` : "";
    const against = isChosen
      ? "–"
      : `${formatDifference(behind, "share")}${margin > 0 ? ` ± ${formatCell(margin, "share")}` : ""}`;
    const last = rounds.length > 1 ? `<td>${round}</td>` : "";
    return `<tr><th scope="row">${html(label)}${small}</th><td>${formatCell(mean, "share")}</td><td>${against}</td><td>${items}</td>${last}</tr>`;
  });
  const columns = [
    "configuration",
    "mean",
    "against the best, ± 95%",
    "items",
    ...(rounds.length > 1 ? ["last round"] : []),
  ];
  return `<figure><h3>${html(group)}</h3><p class="caption">${html(summary)}</p>${inRounds}
${rows.length === 0 ? "" : folded(rows, columns, new Set([0]), "configuration")}</figure>`;
}

export function heatmapFigure({
  title,
  note,
  rowTitle,
  columnTitle,
  rows,
  columns,
  cells,
  marked,
}: ReportHeatmap): string {
  const values = cells.flat().filter((value) => value !== null);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const shade = (value: number) => (high > low ? (value - low) / (high - low) : 1);
  const head = columns.map((column) => `<th scope="col">${html(column)}</th>`).join("");
  const body = rows.map((label, row) => {
    const inRow = columns.map((_, column) => {
      const value = cells[row]?.[column] ?? null;
      const marks = marked.filter((mark) => mark.row === row && mark.column === column).map(({ what }) => what);
      if (value === null) return "<td></td>";
      const depth = shade(value);
      const small = marks.length > 0 ? `<small>${marks.join(", ")}</small>` : "";
      return `<td class="heat${depth > 0.55 ? " deep" : ""}${marks.includes("chosen") ? " chosen" : ""}" style="--depth:${(100 * depth).toFixed(0)}%">${formatCell(value, "share")}${small}</td>`;
    });
    return `<tr><th scope="row">${html(label)}</th>${inRow.join("")}</tr>`;
  });
  return `<figure><h3>${html(title)}</h3><p class="caption">${html(note)}</p>
<div class="scroll"><table class="heatmap"><thead><tr><th></th><th class="axis" colspan="${columns.length}">${html(columnTitle)}</th></tr><tr><th class="axis">${html(rowTitle)}</th>${head}</tr></thead><tbody>${body.join("\n")}</tbody></table></div></figure>`;
}

/** A table of which only the beginning is open where it is long. @param what of one row, for the line that opens it */
function folded(
  rows: readonly string[],
  columns: readonly string[],
  textColumns: ReadonlySet<number>,
  what: string,
  most = 8,
): string {
  const titles = columns.map(
    (column, i) => `<th scope="col"${textColumns.has(i) ? ' class="text"' : ""}>${html(column)}</th>`,
  );
  const table = (some: readonly string[]) =>
    `<div class="scroll" tabindex="0"><table class="numbers"><thead><tr>${titles.join("")}</tr></thead><tbody>${some.join("\n")}</tbody></table></div>`;
  // A fold of one or two rows would hide no more than it takes.
  if (rows.length <= most + 2) return table(rows);
  const more = plural(rows.length - most, `more ${what}`);
  return `${table(rows.slice(0, most))}<details><summary>${html(more)}</summary>${table(rows.slice(most))}</details>`;
}

/** Comparisons of a task that the page has; and items of each that it names, where there are more comparisons than that. */
const MOST_COMPARISONS = 50;
const MOST_NAMED = 6;
const MOST_SCORES = 400;

/** Of one task. */
export function flipsFigure(title: string, all: readonly Flips[]): string {
  const isLarge = all.length > MOST_COMPARISONS;
  const flips = all.slice(0, MOST_COMPARISONS);
  const most = Math.max(1, ...flips.flatMap(({ gained, lost }) => [gained.length, lost.length]));
  const rows = flips.map(({ model, against, difference, interval, scale, gained, lost, pValue }) => {
    const bar = (ids: readonly string[], kind: string) =>
      `<span class="flip ${kind}" style="width:${((45 * ids.length) / most).toFixed(1)}%"></span>`;
    const bounds = interval
      ? `<small>${formatDifference(interval.low, scale)} to ${formatDifference(interval.high, scale)}</small>`
      : "";
    const list = (ids: readonly string[], what: string) =>
      ids.length === 0 ? "" : `<p>${what}: ${named(ids, isLarge ? MOST_NAMED : ids.length)}</p>`;
    return `<tr><th scope="row">${html(model)}<small>against ${html(against)}</small></th>
<td class="flips"><span class="side">${bar(lost, "lost")}${lost.length}</span><span class="side">${gained.length}${bar(gained, "gained")}</span></td>
<td>${formatDifference(difference, scale)}${bounds}</td><td>${html(formatCell(pValue ?? null, "probability"))}</td>
<td><details><summary>items</summary>${list(gained, "gained")}${list(lost, "lost")}</details></td></tr>`;
  });
  const note = isLarge
    ? `<p class="caption">The first ${flips.length} of ${all.length.toLocaleString("en-US")} comparisons; all of them are in gained-lost.csv, and with every item in report.json.</p>`
    : "";
  return `<figure><h3>${html(title)}</h3>${note}${folded(rows, ["merge", "lost | gained", "difference, 95%", "p", ""], new Set([0, 4]), "comparison")}</figure>`;
}

function named(ids: readonly string[], most: number): string {
  const shown = ids.slice(0, most).map((id) => `<code>${html(id)}</code>`);
  return [...shown, ...(ids.length > most ? [`and ${ids.length - most} more`] : [])].join(" ");
}

export function expertsFigure({ experts }: ExperimentReport): string {
  const rows = experts.map(
    ({ name, family, origin }) =>
      `<tr><th scope="row">${html(name)}</th><td class="text">${html(family)}</td><td class="text">${html(origin)}</td></tr>`,
  );
  return `<figure>${folded(rows, ["expert", "family", "checkpoint"], new Set([0, 1, 2]), "expert")}</figure>`;
}

export function scoresFigure(report: ExperimentReport): string {
  const { listed, note } = listedScores(report, MOST_SCORES);
  const rows = listed.map(({ model, task, protocol, cell, ...row }) => {
    const bounds = cell.interval
      ? `<small>${formatCell(cell.interval.low, cell.scale)} to ${formatCell(cell.interval.high, cell.scale)}</small>`
      : "";
    return `<tr><th scope="row">${html(model)}</th><td class="text">${html(task)}<small>${html(protocol)}</small></td><td>${formatCell(cell.value, cell.scale)}${bounds}</td><td>${itemsText(row)}</td></tr>`;
  });
  const caption = note === "" ? "" : `<p class="caption">${html(note)}</p>`;
  return `<figure>${caption}${folded(rows, ["model", "task", "score, 95%", "items"], new Set([0, 1]), "score")}</figure>`;
}

export function costFigure(report: ExperimentReport): string {
  const rows = report.cost.rows.map(
    ({ what, steps, seconds }) =>
      `<tr><th scope="row">${html(what)}</th><td>${steps.toLocaleString("en-US")}</td><td>${html(formatDuration(seconds))}</td></tr>`,
  );
  const table = rows.length > 0 ? folded(rows, ["", "steps", "time"], new Set([0]), "kind") : "";
  return `<figure>${table}<p class="caption">${html(describeCost(report))}</p></figure>`;
}

export function failuresFigure({ failures }: ExperimentReport): string {
  return `<ul>${failures.map(({ label, reason }) => `<li><b>${html(label)}</b>: ${html(reason)}</li>`).join("")}</ul>`;
}
