// An experiment's report as one HTML page with everything inside: no script, no network, light and dark, wide and narrow.
import type { ExperimentReport, ReportTable } from "../experiment/report/data.js";
import { describeProgress } from "./experiment.js";
import {
  costFigure,
  expertsFigure,
  failuresFigure,
  flipsFigure,
  heatmapFigure,
  html,
  legend,
  overviewFigure,
  scoresFigure,
  searchFigure,
  tableFigure,
} from "./experiment-figures.js";
import { PAGE_STYLE } from "./experiment-style.js";

/** The page. */
export function experimentPage(report: ExperimentReport): string {
  const { heatmaps, flips, searches } = report;
  const overviews = report.overviews.filter(({ bars }) => bars.length > 0);
  const paper = report.tables.filter(({ kind }) => kind === "paper");
  const bars = overviews.length > 0 ? [legend(overviews), ...overviews.map(overviewFigure)] : [];
  const sections = [
    section("overview", "The result", bars, report.intervals),
    section("tables", "The paper's tables", paper.map(tableFigure), tablesLead(paper)),
    section("grids", "Scores over the grid", heatmaps.map(heatmapFigure), gridsLead(report)),
    section(
      "search",
      "How configurations were chosen",
      searches.map((search) => searchFigure(search, roundsOf(report, search.id))),
    ),
    section("flips", "What the merges gained and lost", flips.length > 0 ? flipsFigures(flips) : [], FLIPS_LEAD),
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

function tablesLead(tables: readonly ReportTable[]): string {
  const isPrinted = tables.some(({ rows }) =>
    rows.some(({ cells }) => cells.some(({ published }) => published !== undefined)),
  );
  return `In the layout of the paper (Bandarkar et al., arXiv 2410.01335).${isPrinted ? " Small figures below are the numbers that it prints." : ""}`;
}

function gridsLead({ heatmaps }: ExperimentReport): string {
  const isOfLayers = heatmaps.some(({ rowTitle, columnTitle }) =>
    [rowTitle, columnTitle].some((title) => title === "bottom" || title === "top"),
  );
  return `${isOfLayers ? "A layer swap takes the bottom and top layers of the model from the language expert and the rest from the task expert. " : ""}The stronger a cell's colour, the better its configuration did.`;
}

const roundsOf = ({ tables }: ExperimentReport, id: string) => tables.filter((table) => table.id === `${id}-rounds`);

/** One figure for each task. */
function flipsFigures(flips: ExperimentReport["flips"]): string[] {
  const tasks = [...new Set(flips.map(({ task }) => task))];
  return tasks.map((task) =>
    flipsFigure(
      task,
      flips.filter((one) => one.task === task),
    ),
  );
}

const FLIPS_LEAD =
  "The same items, answered by the merge and by a model that it was made from: how many became right, and how many wrong.";

function leadOf({ base, overviews }: ExperimentReport): string {
  const size = base.parameters === undefined ? "" : `, ${html(millions(base.parameters))} parameters`;
  const layers = base.layers === undefined ? "" : `, ${base.layers} layers`;
  const titles = [...new Set(overviews.map(({ title }) => title.replace(/, chosen on .*$/, "")))];
  const what = titles.length > 4 ? `${titles.length} tasks` : titles.join(", ");
  return `Experts fine-tuned from <b>${html(shortName(base.name))}</b>${size}${layers}, merged without further training and compared on ${html(what)}.`;
}

/** `base/last` of a folder, `meta-llama/Llama-3.1-8B` of the hub: the last part alone often says little. */
function shortName(path: string): string {
  const parts = path.split("/").filter((part) => part !== "" && part !== "." && part !== "..");
  return parts.slice(-2).join("/") || path;
}

function millions(count: number): string {
  if (count >= 1e9) return `${(count / 1e9).toFixed(1)} billion`;
  return count >= 1e6 ? `${(count / 1e6).toFixed(1)} million` : `${Math.round(count / 1000)} thousand`;
}

function section(id: string, title: string, parts: readonly string[], lead?: string) {
  return { id, title, lead: lead === undefined ? "" : `<p>${html(lead)}</p>`, body: parts.join("\n") };
}
