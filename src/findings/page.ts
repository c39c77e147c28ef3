// An experiment's report as a page.
import {
  type BarFigure,
  type CommandsFigure,
  type Figure,
  formatNumber,
  formatSpan,
  type GridFigure,
  type Page,
  type PageCell,
  pageCell,
  right,
  type Section,
  type Span,
  type Table,
  tableFigure,
} from "../report/index.js";
import { linesFigure } from "./lines.js";
import { describeBackend, describeCost, describeProgress } from "./markdown.js";
import { OVERLAPS_LEAD } from "./overlaps.js";
import { moreRecipes, RECIPES_LEAD, VARIANTS } from "./recipes.js";
import type {
  ExperimentReport,
  Flips,
  Overview,
  OverviewBar,
  ReportHeatmap,
  ReportRecipe,
  ReportTable,
  SearchRow,
} from "./report-data.js";
import { progressFigure } from "./searches.js";
import { controlTables, expertsTable, leadsTable, scoreList, searchTables } from "./tables.js";

/** Limits of the page for a large report; its files have everything. */
const MAX_COMPARISONS = 50;
const MAX_NAMED = 6;
const MAX_SCORES = 400;
const MAX_VERDICTS = 3;
const MAX_RECIPES = 60;

/** @param isVariant whether the page of all variants links to it */
export function experimentPage(report: ExperimentReport, isVariant = false): Page {
  const { heatmaps, flips, searches, experts, failures, progress, recipes } = report;
  const shownRecipes = recipes.slice(0, MAX_RECIPES);
  const overviews = report.overviews.filter(({ bars }) => bars.length > 0);
  const published = report.tables.filter(({ kind }) => kind === "published");
  const language = report.tables.filter(({ kind }) => kind === "language");
  const cost = report.tables.find(({ kind }) => kind === "cost") ?? { columns: [], rows: [] };
  const scores = scoreList(report, MAX_SCORES);
  // The same colour in each figure.
  const shares = { low: 0, high: Math.max(0, ...report.overlaps.flatMap(({ cells }) => cells.flat()).map(Number)) };
  const tasks = [...new Set(flips.map(({ task }) => task))];
  const failed: Table = { columns: ["step", "reason"], rows: failures.map(({ label, reason }) => [label, reason]) };
  const compared = report.tables.filter(({ kind }) => kind === "variants");
  const sections: Section[] = [
    {
      id: "variants",
      title: "The variants",
      lead: report.intervals,
      figures: compared.map((table) => variantsFigure(table, report.variants)),
    },
    {
      id: "overview",
      title: "The result",
      lead: report.intervals,
      legend: legendOf(overviews),
      figures: overviews.flatMap((overview) => [barFigure(overview, shownRecipes), ...leadFigure(overview)]),
    },
    {
      id: "published",
      title: "Published scores",
      figures: published.map((table) => tableFigure(table, "row", { id: table.id, caption: table.note })),
    },
    { id: "lines", title: "Scores along one setting", figures: report.lines.map(linesFigure) },
    {
      id: "overlaps",
      title: "What pairs of experts both changed",
      lead: OVERLAPS_LEAD,
      figures: report.overlaps.map((overlap) => ({ ...gridFigure(overlap, shares), isDense: true })),
    },
    {
      id: "grids",
      title: "Scores over the grid",
      lead: gridsLead(heatmaps),
      figures: heatmaps.map((heatmap) => gridFigure(heatmap)),
    },
    { id: "search", title: "How configurations were chosen", figures: searches.flatMap(searchFigures) },
    {
      id: "recipes",
      title: "Recipes",
      lead: RECIPES_LEAD + moreRecipes(recipes.length - shownRecipes.length),
      figures: shownRecipes.length > 0 ? [{ kind: "commands", commands: shownRecipes.map(recipeCommand) }] : [],
    },
    {
      id: "flips",
      title: "What the merges gained and lost",
      lead: "The same items, answered by the merge and by a model that it was made from: how many became right, and how many wrong.",
      figures: tasks.map((task) => flipsFigure(task, flips)),
    },
    {
      id: "language",
      title: "The language of the answers",
      figures: language.map((table) => tableFigure(table, "row", { caption: table.note })),
    },
    {
      id: "experts",
      title: "The experts",
      figures: [
        ...(experts.length > 0 ? [tableFigure(expertsTable(report), "expert")] : []),
        ...report.tables
          .filter(({ kind }) => kind === "selection")
          .map((table) => tableFigure(table, "checkpoint", { title: table.title, caption: table.note })),
      ],
    },
    {
      id: "scores",
      title: "Every score",
      // The variants' own pages list theirs.
      figures:
        scores.rows.length > 0 && compared.length === 0 ? [tableFigure(scores, "score", { caption: scores.note })] : [],
    },
    {
      id: "cost",
      title: "What it cost",
      figures: [tableFigure(cost, "kind", { caption: describeCost(report) })],
    },
    {
      id: "failures",
      title: "What failed",
      figures: failures.length > 0 ? [tableFigure(failed, "step")] : [],
    },
  ];
  return {
    title: report.title,
    lead: leadOf(report),
    notes: report.notes,
    ...(isVariant ? { up: { text: "All variants", href: "../../index.html" } } : {}),
    verdicts: [{ title: compared[0]?.title ?? "", verdict: report.verdict, bars: [] }, ...overviews]
      .filter(({ verdict }) => verdict !== "")
      .slice(0, MAX_VERDICTS)
      .map(({ title, verdict, bars }) => ({
        ...{ title: overviews.length + compared.length > 1 ? title : "", text: verdict },
        isOpen: !bars.some(({ isBest }) => isBest),
      })),
    state: {
      text: [describeProgress(report), ...report.warnings, describeBackend(report)].join(" "),
      isOpen: progress.left + progress.waiting + progress.failed > 0 || report.warnings.length > 0,
    },
    sections: sections.filter(({ figures }) => figures.length > 0),
    footer: `Made by layergraft ${report.layergraft} from the experiment ${report.name}.`,
  };
}

/** A table of the variants, each with a link to its page. */
function variantsFigure(table: ReportTable, variants: ExperimentReport["variants"]): Figure {
  const { id, title, note: caption } = table;
  const figure = tableFigure(table, "variant", { id, title, caption });
  const rows = figure.rows.map(([first, ...cells], i): PageCell[] => {
    const variant = variants[i];
    if (!first || !variant) return [...(first ? [first] : []), ...cells];
    const { progress } = variant.report;
    const isOpen = progress.left + progress.waiting + progress.failed > 0;
    const href = `${VARIANTS}/${encodeURIComponent(variant.id)}/index.html`;
    return [{ ...first, href, ...(isOpen ? { small: "incomplete" } : {}) }, ...cells];
  });
  return { ...figure, rows, isWhole: true };
}

function leadOf({ base, overviews, variants, experts }: ExperimentReport): string {
  if (variants.length > 0) return `${axesOf(variants)}. Each variant has a page of its own.`;
  const size = base.parameters === undefined ? "" : `, ${millions(base.parameters)} parameters`;
  const layers = base.layers === undefined ? "" : `, ${base.layers} layers`;
  const titles = [...new Set(overviews.map(({ title }) => title.replace(/, chosen on .*$/, "")))];
  const what = titles.length > 4 ? `${titles.length} tasks` : titles.join(", ");
  const starts = [...new Set(experts.map(({ from }) => from))].filter((from) => from !== "base");
  const trained = starts.length > 2 ? `${starts.length} models made of such experts` : starts.join(" and ");
  const merged = starts.length > 0 ? `and then from ${trained}, merged` : "merged without further training";
  return `Experts fine-tuned from ${shortName(base.name)}${size}${layers}, ${merged} and compared on ${what}.`;
}

/** `12 variants of one plan: model (llama, aya), how (full, LoRA), language (Swahili, Bengali, Telugu)` */
function axesOf(variants: ExperimentReport["variants"]): string {
  const axes = Object.keys(variants[0]?.values ?? {}).map((axis) => {
    const values = new Set(variants.map(({ values }) => values[axis] ?? ""));
    return `${axis} (${[...values].join(", ")})`;
  });
  return `${variants.length} variants of one plan: ${axes.join(", ")}`;
}

/** The last two parts: `base/last` of a folder, `meta-llama/Llama-3.1-8B` of the hub. */
function shortName(path: string): string {
  const parts = path.split("/").filter((part) => part !== "" && part !== "." && part !== "..");
  return parts.slice(-2).join("/") || path;
}

function millions(parameters: number): string {
  if (parameters >= 1e9) return `${(parameters / 1e9).toFixed(1)} billion`;
  return parameters >= 1e6 ? `${(parameters / 1e6).toFixed(1)} million` : `${Math.round(parameters / 1000)} thousand`;
}

const KINDS: Readonly<Record<OverviewBar["kind"], string>> = {
  base: "base",
  expert: "expert",
  joint: "trained on both",
  average: "soup",
  merge: "other merge",
  swap: "layer swap",
  control: "control",
};

export function legendOf(overviews: readonly Overview[]) {
  const kinds = new Set<string>(overviews.flatMap(({ bars }) => bars.map(({ kind }) => kind)));
  return Object.entries(KINDS).flatMap(([kind, label]) => (kinds.has(kind) ? [{ kind, label }] : []));
}

/** Distances of ticks that people read easily. */
const ROUND = [1, 2, 5, 10];

/** An axis around the values, with about four steps; from zero where that is near. */
function axisOf({ scale, bars }: Overview): { low: number; high: number; ticks: number[] } {
  const values = bars.flatMap(({ mean, low, high, interval }) => [mean, low, high, interval?.low, interval?.high]);
  const known = values.filter((value) => value !== undefined);
  const [least, most] = [Math.min(...known), Math.max(...known)];
  const quarter = Math.max(most - least, scale === "share" ? 0.04 : 1) / 4;
  const power = 10 ** Math.floor(Math.log10(quarter));
  const step = power * (ROUND.find((one) => one * power >= quarter * 0.999) ?? 10);
  // In whole steps, so that sums of decimals do not miss a tick.
  const from = least < 2 * step ? Math.min(0, Math.floor(least / step)) : Math.floor(least / step + 1e-9);
  const to = Math.max(from + 1, Math.ceil(most / step - 1e-9));
  const ticks = Array.from({ length: to - from + 1 }, (_, i) => (from + i) * step);
  return { low: from * step, high: to * step, ticks };
}

/** @param recipes to which the labels of rows link */
export function barFigure(overview: Overview, recipes: readonly ReportRecipe[] = []): BarFigure {
  const ids = new Map(recipes.map(({ model, id }) => [model, id]));
  const targetOf = ([first = ""]: readonly string[]) => (ids.has(first) ? { target: anchorOf(ids.get(first)) } : {});
  const { id, title, protocol, items, choice, verdict, missing, bars, scale } = overview;
  const { low: start, high: end, ticks } = axisOf(overview);
  const at = (value: number) => Math.max(0, Math.min(1, (value - start) / (end - start)));
  const placed = ({ low, high }: Span) => [at(low), at(high)] as const;
  const hasSeveral = bars.some((bar) => bar.count > 1);
  const lines = [
    ...(bars.some(({ interval }) => interval) ? [" Lines: the 95% interval over items."] : []),
    ...(hasSeveral ? [" Bands: from the smallest to the largest of several models."] : []),
  ];
  return {
    kind: "bars",
    id,
    title,
    caption: `${scale === "share" ? "Percent right" : "Score"}, on ${items}; ${protocol}.${lines.join("")}`,
    conclusion: [choice, verdict, missing].filter((sentence) => sentence !== "").join(" "),
    ticks: ticks.map((tick) => formatNumber({ value: tick, scale }).replace(/\.0$/, "")),
    rows: bars.map(({ label, kind, mean, low, high, detail, interval, isBest, ...bar }) => ({
      label,
      kind,
      at: at(mean),
      value: pageCell({ value: mean, scale, isBest }),
      ...(bar.isSummary ? {} : targetOf(bar.models)),
      about: [
        ...(detail === "" ? [] : [detail]),
        ...(bar.count > 1 ? [`${formatSpan({ low, high }, { scale })} over ${bar.count} models`] : []),
      ].join("; "),
      ...(interval ? { interval: placed(interval), span: formatSpan(interval, { scale }) } : {}),
      ...(bar.count > 1 ? { range: placed({ low, high }) } : {}),
    })),
  };
}

const anchorOf = (id = "") => `recipe-${id}`;

function recipeCommand({ id, model, rows, text, command }: ReportRecipe): CommandsFigure["commands"][number] {
  const inRows = rows.length === 0 ? "" : `In the ${rows.length === 1 ? "row" : "rows"} ${rows.join("; ")}. `;
  const about = `${inRows}File: recipes/${id}.yaml.`;
  return { what: model, command, id: anchorOf(id), file: { about, text } };
}

function leadFigure(overview: Overview): Figure[] {
  const tables = [leadsTable(overview) ?? [], controlTables(overview)].flat();
  return tables.map((table) => tableFigure(table, "row", { id: table.id, title: table.title, caption: table.note }));
}

function gridsLead(heatmaps: readonly ReportHeatmap[]): string {
  const isOfLayers = heatmaps.some(({ rowTitle, columnTitle }) =>
    [rowTitle, columnTitle].some((title) => title === "bottom" || title === "top"),
  );
  return `${isOfLayers ? "A layer swap takes the bottom and top layers of the model from the language expert and the rest from the task expert. " : ""}The stronger a cell's colour, the better its configuration did.`;
}

/** @param span values without colour and with all of it (default: the lowest and highest) */
function gridFigure(heatmap: ReportHeatmap, span?: Span): GridFigure {
  const { title, note, rowTitle, columnTitle, rows, columns, cells, marked } = heatmap;
  const values = cells.flat().filter((value) => value !== null);
  const { low, high } = span ?? { low: Math.min(...values), high: Math.max(...values) };
  return {
    kind: "grid",
    title,
    caption: note,
    rowTitle,
    columnTitle,
    columns,
    rows: rows.map((label, row) => ({
      label,
      cells: columns.map((_, column) => {
        const value = cells[row]?.[column] ?? null;
        if (value === null) return null;
        const marks = marked.filter((mark) => mark.row === row && mark.column === column).map(({ what }) => what);
        const depth = high > low ? (value - low) / (high - low) : 0;
        return { text: formatNumber({ value, scale: "share" }), marks, depth };
      }),
    })),
  };
}

/** The tables of a search below its summary, and its progress. */
function searchFigures(search: SearchRow): Figure[] {
  const tables = searchTables(search).map((table, i) =>
    tableFigure(table, "configuration", i === 0 ? { title: search.group, caption: search.summary } : {}),
  );
  return search.evaluated.length > 1 ? [...tables, progressFigure(search)] : tables;
}

/** What merges gained and lost on one task. */
function flipsFigure(task: string, flips: readonly Flips[]): Figure {
  const all = flips.filter((one) => one.task === task);
  const shown = all.slice(0, MAX_COMPARISONS);
  const isLarge = all.length > shown.length;
  const most = Math.max(1, ...shown.flatMap(({ gained, lost }) => [gained.length, lost.length]));
  const list = (label: string, ids: readonly string[]) => {
    const items = ids.slice(0, isLarge ? MAX_NAMED : ids.length);
    return ids.length === 0 ? [] : [{ label, items, more: ids.length - items.length }];
  };
  const caption = isLarge
    ? `The first ${shown.length} of ${all.length.toLocaleString("en-US")} comparisons; all of them are in gained-lost.csv, and with every item in report.json.`
    : "";
  const rows = shown.map(({ model, against, difference, interval, scale, gained, lost, pValue }): PageCell[] => {
    const counts = [lost.length, gained.length] as const;
    return [
      { text: model, small: `against ${against}` },
      { text: "", balance: { lost: counts[0] / most, gained: counts[1] / most, counts } },
      {
        text: formatNumber({ value: difference, scale, isSigned: true }),
        ...(interval ? { small: formatSpan(interval, { scale, isSigned: true }) } : {}),
      },
      pageCell({ value: pValue ?? null, scale: "probability" }),
      { text: "items", lists: [...list("gained", gained), ...list("lost", lost)] },
    ];
  });
  const columns = ["merge", "lost | gained", right("difference, 95%"), right("p"), ""];
  return { ...tableFigure({ columns, rows: [] }, "comparison", { title: task, caption }), rows };
}
