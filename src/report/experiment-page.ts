// An experiment's report as one HTML page with everything inside: no script, no network, light and dark, wide and narrow.
import { formatDuration, plural } from "../core/format.js";
import type { Cell, ExperimentReport, Flips, Overview, ReportHeatmap, ReportTable } from "../experiment/report/data.js";
import { describeCost, describeProgress, formatCell, formatDifference } from "./experiment.js";
import { PAGE_STYLE } from "./experiment-style.js";

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function html(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? character);
}

/** The page. */
export function experimentPage(report: ExperimentReport): string {
  const { overviews, tables, heatmaps, flips } = report;
  const sections = [
    section("overview", "The result", overviews.filter(({ bars }) => bars.length > 0).map(overviewFigure)),
    section("tables", "The paper's tables", tables.map(tableFigure), TABLES_LEAD),
    section("grids", "How many layers", heatmaps.map(heatmapFigure), GRIDS_LEAD),
    section("search", "How configurations were chosen", report.searches.map(searchFigure)),
    section("flips", "What the merges gained and lost", flips.length > 0 ? [flipsFigure(flips)] : [], FLIPS_LEAD),
    section("experts", "The experts", report.experts.length > 0 ? [expertsFigure(report)] : []),
    section("scores", "Every score", report.scores.length > 0 ? [scoresFigure(report)] : []),
    section("cost", "What it cost", [costFigure(report)]),
    section("failures", "What failed", report.failures.length > 0 ? [failuresFigure(report)] : []),
  ].filter(({ body }) => body !== "");
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${html(report.title)}</title>
<style>${PAGE_STYLE}</style>
</head>
<body>
<header>
<h1>${html(report.title)}</h1>
<p class="lead">${leadOf(report)}</p>
<p class="${report.progress.left + report.progress.waiting + report.progress.failed > 0 ? "state open" : "state"}">${html(describeProgress(report))}</p>
${report.notes.map((note) => `<p class="note">${html(note)}</p>`).join("\n")}
<nav>${sections.map(({ id, title }) => `<a href="#${id}">${html(title)}</a>`).join("")}</nav>
</header>
<main>
${sections.map(({ id, title, lead, body }) => `<section id="${id}"><h2>${html(title)}</h2>${lead}${body}</section>`).join("\n")}
</main>
<footer>Made by layergraft ${html(report.layergraft)} from the experiment ${html(report.name)}.</footer>
</body>
</html>
`;
}

const TABLES_LEAD =
  "In the layout of the paper (Bandarkar et al., arXiv 2410.01335). Small figures below are the numbers that it prints; bold is the best of a row.";
const GRIDS_LEAD =
  "A layer swap takes the bottom and top layers of the model from the language expert and the rest from the task expert. The stronger a cell's colour, the better that many layers did.";
const FLIPS_LEAD =
  "The same items, answered by the merge and by a model that it was made from: how many became right, and how many wrong.";

function leadOf({ base, overviews }: ExperimentReport): string {
  const size = base.parameters === undefined ? "" : `, ${html(millions(base.parameters))} parameters`;
  const layers = base.layers === undefined ? "" : `, ${base.layers} layers`;
  const what = overviews.map(({ title }) => title).join(", ");
  return `Experts fine-tuned from <b>${html(base.name.split("/").at(-1) ?? base.name)}</b>${size}${layers}, merged without further training and compared on ${html(what)}.`;
}

function millions(count: number): string {
  if (count >= 1e9) return `${(count / 1e9).toFixed(1)} billion`;
  return count >= 1e6 ? `${(count / 1e6).toFixed(1)} million` : `${Math.round(count / 1000)} thousand`;
}

function section(id: string, title: string, parts: readonly string[], lead?: string) {
  return { id, title, lead: lead === undefined ? "" : `<p>${html(lead)}</p>`, body: parts.join("\n") };
}

/** Bars with the range over pairs; from zero, so that lengths compare. */
function overviewFigure({ title, protocol, items, bars, scale }: Overview): string {
  const most = Math.max(...bars.map(({ high }) => high), scale === "share" ? 0.01 : 1);
  // A little room at the right for the number.
  const at = (value: number) => `${((100 * value) / (most * 1.12)).toFixed(2)}%`;
  const best = Math.max(...bars.map(({ mean }) => mean));
  const rows = bars.map(({ label, kind, mean, low, high, count, detail }) => {
    const range =
      high > low ? `<i class="range" style="left:${at(low)};width:calc(${at(high)} - ${at(low)})"></i>` : "";
    const about = [
      detail,
      high > low
        ? `${formatCell(low, scale)} to ${formatCell(high, scale)} over ${count} models`
        : count > 1
          ? `${count} models`
          : "",
    ];
    return `<tr class="${mean === best ? "best" : ""}"><th scope="row">${html(label)}<small>${html(about.filter((part) => part !== "").join("; "))}</small></th>
<td><span class="bar ${kind}" style="width:${at(mean)}"></span>${range}<b style="left:max(${at(Math.max(mean, count > 1 ? high : 0))}, 0%)">${formatCell(mean, scale)}</b></td></tr>`;
  });
  const hasRange = bars.some(({ count }) => count > 1);
  return `<figure><h3>${html(title)}</h3><p class="caption">${scale === "share" ? "Percent right" : "Score"}, ${html(items)}; ${html(protocol)}.${hasRange ? " Thin lines: from the smallest to the largest over models." : ""}</p>
<table class="bars"><tbody>${rows.join("\n")}</tbody></table></figure>`;
}

function tableCell({ value, scale, interval, range, published, isBest }: Cell): string {
  const about = [
    ...(range
      ? [`${formatCell(range.low, scale)} to ${formatCell(range.high, scale)} over ${range.count} models`]
      : []),
    ...(interval
      ? [`95% interval over items ${formatCell(interval.low, scale)} to ${formatCell(interval.high, scale)}`]
      : []),
  ];
  const title = about.length > 0 ? ` title="${html(about.join("; "))}"` : "";
  const printed = published === undefined ? "" : `<small>${formatCell(published, scale)}</small>`;
  return `<td${title}${isBest ? ' class="best"' : ""}>${formatCell(value, scale)}${printed}</td>`;
}

function tableFigure({ id, title, note, columns, rows }: ReportTable): string {
  const head = columns.map((column) => `<th scope="col">${html(column)}</th>`).join("");
  const body = rows.map(
    ({ label, cells }) => `<tr><th scope="row">${html(label)}</th>${cells.map(tableCell).join("")}</tr>`,
  );
  return `<figure id="${html(id)}"><h3>${html(title)}</h3><p class="caption">${html(note)}</p>
<div class="scroll"><table class="numbers"><thead><tr>${head}</tr></thead><tbody>${body.join("\n")}</tbody></table></div></figure>`;
}

function heatmapFigure({ title, note, rowTitle, columnTitle, rows, columns, cells, marked }: ReportHeatmap): string {
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
<div class="scroll"><table class="heatmap"><thead><tr><th></th><th class="axis" colspan="${columns.length}">${html(columnTitle)} layers</th></tr><tr><th class="axis">${html(rowTitle)} layers</th>${head}</tr></thead><tbody>${body.join("\n")}</tbody></table></div></figure>`;
}

function searchFigure({ group, configurations, chosen, chosenOnTest }: ExperimentReport["searches"][number]): string {
  const other =
    chosenOnTest === undefined || chosenOnTest === chosen
      ? ""
      : ` On all items, the reported ones among them, the best is ${html(chosenOnTest)}.`;
  const state = chosen === undefined ? "Nothing is chosen yet." : `Chosen: <b>${html(chosen)}</b>.${other}`;
  const rows = configurations.map(({ label, mean, behind, margin, items, isChosen, isDefault }) => {
    const marks = [...(isChosen ? ["chosen"] : []), ...(isDefault ? ["default"] : [])];
    const small = marks.length > 0 ? `<small>${marks.join(", ")}</small>` : "";
    const against = isChosen ? "–" : `${formatDifference(behind, "share")} ± ${formatCell(margin, "share")}`;
    return `<tr><th scope="row">${html(label)}${small}</th><td>${formatCell(mean, "share")}</td><td>${against}</td><td>${items}</td></tr>`;
  });
  return `<figure><h3>${html(group)}</h3><p class="caption">${state} Compared on the same items, with 95% intervals.</p>
${folded(rows, ["configuration", "mean", "against the best", "items"], "configurations")}</figure>`;
}

/** A table of which only the beginning is open where it is long. */
function folded(rows: readonly string[], columns: readonly string[], what: string, most = 8): string {
  const head = `<thead><tr>${columns.map((column) => `<th scope="col">${html(column)}</th>`).join("")}</tr></thead>`;
  const table = (some: readonly string[]) =>
    `<div class="scroll"><table class="numbers">${head}<tbody>${some.join("\n")}</tbody></table></div>`;
  if (rows.length <= most) return table(rows);
  return `${table(rows.slice(0, most))}<details><summary>${rows.length - most} more ${html(what)}</summary>${table(rows.slice(most))}</details>`;
}

function flipsFigure(flips: readonly Flips[]): string {
  const most = Math.max(1, ...flips.flatMap(({ gained, lost }) => [gained.length, lost.length]));
  const rows = flips.map(({ model, against, task, difference, interval, scale, gained, lost, pValue }) => {
    const bar = (ids: readonly string[], kind: string) =>
      `<span class="flip ${kind}" style="width:${((45 * ids.length) / most).toFixed(1)}%"></span>`;
    const bounds = interval
      ? `<small>${formatDifference(interval.low, scale)} to ${formatDifference(interval.high, scale)}</small>`
      : "";
    const list = (ids: readonly string[], what: string) =>
      ids.length === 0 ? "" : `<p>${what}: ${ids.map((id) => `<code>${html(id)}</code>`).join(" ")}</p>`;
    return `<tr><th scope="row">${html(model)}<small>against ${html(against)}, ${html(task)}</small></th>
<td class="flips"><span class="side">${bar(lost, "lost")}${lost.length}</span><span class="side">${gained.length}${bar(gained, "gained")}</span></td>
<td>${formatDifference(difference, scale)}${bounds}</td><td>${pValue === undefined ? "–" : pValue < 0.001 ? "&lt; 0.001" : pValue.toFixed(3)}</td>
<td><details><summary>items</summary>${list(gained, "gained")}${list(lost, "lost")}</details></td></tr>`;
  });
  return `<figure>${folded(rows, ["merge", "lost | gained", "difference", "p", ""], "comparisons")}</figure>`;
}

function expertsFigure({ experts }: ExperimentReport): string {
  const rows = experts.map(
    ({ name, family, origin }) =>
      `<tr><th scope="row">${html(name)}</th><td class="text">${html(family)}</td><td class="text">${html(origin)}</td></tr>`,
  );
  return `<figure>${folded(rows, ["expert", "family", "checkpoint"], "experts")}</figure>`;
}

function scoresFigure({ scores }: ExperimentReport): string {
  const rows = scores.map(({ model, task, protocol, cell, items, of }) => {
    const bounds = cell.interval
      ? `<small>${formatCell(cell.interval.low, cell.scale)} to ${formatCell(cell.interval.high, cell.scale)}</small>`
      : "";
    return `<tr><th scope="row">${html(model)}</th><td class="text">${html(task)}<small>${html(protocol)}</small></td><td>${formatCell(cell.value, cell.scale)}${bounds}</td><td>${items === of ? of : `${items} of ${of}`}</td></tr>`;
  });
  return `<figure>${folded(rows, ["model", "task", "score", "items"], "scores")}</figure>`;
}

function costFigure(report: ExperimentReport): string {
  const rows = report.cost.rows.map(
    ({ what, steps, seconds }) =>
      `<tr><th scope="row">${html(what)}</th><td>${plural(steps, "step")}</td><td>${html(formatDuration(seconds))}</td></tr>`,
  );
  const table = rows.length > 0 ? folded(rows, ["", "steps", "time"], "rows") : "";
  return `<figure><p class="caption">${html(describeCost(report))}</p>${table}</figure>`;
}

function failuresFigure({ failures }: ExperimentReport): string {
  return `<ul>${failures.map(({ label, reason }) => `<li><b>${html(label)}</b>: ${html(reason)}</li>`).join("")}</ul>`;
}
