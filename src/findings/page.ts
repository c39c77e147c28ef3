import {
  type Commands,
  type Figure,
  formatNumber,
  formatSpan,
  ownClass,
  type Page,
  right,
  type Section,
  type Table,
  type TextCell,
} from "../report/index.js";
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
  ReportVariant,
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
  const tablesOf = (of: ReportTable["kind"]) => report.tables.filter(({ kind }) => kind === of);
  const compared = tablesOf("variants");
  const [cost = { columns: [], rows: [] }] = tablesOf("cost");
  const scores = scoreList(report, MAX_SCORES);
  // The same colour in each figure.
  const shares = { low: 0, high: Math.max(0, ...report.overlaps.flatMap(({ cells }) => cells.flat()).map(Number)) };
  const tasks = [...new Set(flips.map(({ task }) => task))];
  const failed: Table = { columns: ["step", "reason"], rows: failures.map(({ label, reason }) => [label, reason]) };
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
      figures: tablesOf("published").map((table) => tableFigure(table, "row", { id: table.id, note: table.note })),
    },
    {
      id: "lines",
      title: "Scores along one setting",
      figures: report.lines.map((lines) => ({ kind: "lines", ...lines })),
    },
    {
      id: "overlaps",
      title: "What pairs of experts both changed",
      lead: OVERLAPS_LEAD,
      figures: report.overlaps.map((overlap) => ({ kind: "grid", ...overlap, span: shares, isDense: true })),
    },
    {
      id: "grids",
      title: "Scores over the grid",
      lead: gridsLead(heatmaps),
      figures: heatmaps.map((heatmap) => ({ kind: "grid", ...heatmap })),
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
      figures: tablesOf("language").map((table) => tableFigure(table, "row", { note: table.note })),
    },
    {
      id: "experts",
      title: "The experts",
      figures: [
        ...(experts.length > 0 ? [tableFigure(expertsTable(report), "expert")] : []),
        ...tablesOf("selection").map(
          ({ id: _, ...table }): Figure => ({ ...table, kind: "table", what: "checkpoint" }),
        ),
      ],
    },
    {
      id: "scores",
      title: "Every score",
      // The variants' own pages list theirs.
      figures:
        scores.rows.length > 0 && compared.length === 0
          ? [{ kind: "table", ...scores, what: "score", hasIntervals: true }]
          : [],
    },
    {
      id: "cost",
      title: "What it cost",
      figures: [tableFigure(cost, "kind", { note: describeCost(report) })],
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

/** A table under another title and note. */
function tableFigure({ columns, rows }: Table, what: string, head: Pick<Table, "id" | "title" | "note"> = {}): Figure {
  return { kind: "table", ...head, columns, rows, what };
}

function variantsFigure(table: ReportTable, variants: ExperimentReport["variants"]): Figure {
  const linkOf = ({ id, title, report: { progress } }: ReportVariant): TextCell => ({
    text: title,
    href: `${VARIANTS}/${encodeURIComponent(id)}/index.html`,
    ...(progress.left + progress.waiting + progress.failed > 0 ? { small: "incomplete" } : {}),
  });
  // A row of means is after those of the variants.
  const rows = table.rows.map(([first = "", ...cells], i) => [variants[i] ? linkOf(variants[i]) : first, ...cells]);
  return { ...table, kind: "table", rows, what: "variant", isWhole: true };
}

function leadOf({ base, overviews, variants, experts }: ExperimentReport): string {
  if (variants.length > 0) return `${axesOf(variants)}. Each variant has a page of its own.`;
  const size = base.parameters === undefined ? "" : `, ${millions(base.parameters)} parameters`;
  const layers = base.layers === undefined ? "" : `, ${base.layers} layers`;
  const titles = [...new Set(overviews.map(({ title }) => title))];
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

/** Experts have colours of their own. */
const KINDS: Readonly<Partial<Record<OverviewBar["kind"], string>>> = {
  base: "base",
  average: "soup",
  merge: "other merge",
  swap: "layer swap",
  control: "control",
};

export function legendOf(overviews: readonly Overview[]) {
  const kinds = new Set<string>(overviews.flatMap(({ bars }) => bars.map(({ kind }) => kind)));
  return Object.entries(KINDS).flatMap(([kind, label]) => (kinds.has(kind) ? [{ kind, label }] : []));
}

/** @param recipes to which the labels of rows link */
export function barFigure(overview: Overview, recipes: readonly ReportRecipe[] = []): Figure {
  const anchors = new Map(recipes.map(({ model, id }) => [model, anchorOf(id)]));
  const { id, title, protocol, items, choice, verdict, missing, bars, scale } = overview;
  return {
    kind: "bars",
    id,
    title,
    note: `${scale === "share" ? "Percent right" : "Score"}, on ${items}; ${protocol}.`,
    verdict: [choice, verdict, missing].filter((sentence) => sentence !== "").join(" "),
    scale,
    rows: bars.map(({ own, ...bar }) => ({
      ...bar,
      kind: own === undefined ? bar.kind : ownClass(own),
      target: bar.isSummary ? undefined : anchors.get(bar.models[0] ?? ""),
    })),
  };
}

const anchorOf = (id: string) => `recipe-${id}`;

function recipeCommand({ id, model, rows, text, command }: ReportRecipe): Commands["commands"][number] {
  const inRows = rows.length === 0 ? "" : `In the ${rows.length === 1 ? "row" : "rows"} ${rows.join("; ")}. `;
  const about = `${inRows}File: recipes/${id}.yaml.`;
  return { what: model, command, id: anchorOf(id), file: { about, text } };
}

function leadFigure(overview: Overview): Figure[] {
  const tables = [leadsTable(overview) ?? [], controlTables(overview)].flat();
  return tables.map((table) => ({ ...table, kind: "table", what: "row" }));
}

function gridsLead(heatmaps: readonly ReportHeatmap[]): string {
  const isOfLayers = heatmaps.some(({ rowTitle, columnTitle }) =>
    [rowTitle, columnTitle].some((title) => title === "bottom" || title === "top"),
  );
  return `${isOfLayers ? "A layer swap takes the bottom and top layers of the model from the language expert and the rest from the task expert. " : ""}The stronger a cell's colour, the better its configuration did.`;
}

function searchFigures(search: SearchRow): Figure[] {
  const tables = searchTables(search).map((table, i) =>
    tableFigure(table, "configuration", i === 0 ? { title: search.group, note: search.summary } : {}),
  );
  return search.evaluated.length > 1 ? [...tables, { kind: "lines", ...progressFigure(search) }] : tables;
}

export function flipsFigure(task: string, flips: readonly Flips[]): Figure {
  const all = flips.filter((one) => one.task === task);
  const shown = all.slice(0, MAX_COMPARISONS);
  const isLarge = all.length > shown.length;
  const list = (label: string, ids: readonly string[]) => {
    const items = ids.slice(0, isLarge ? MAX_NAMED : ids.length);
    return ids.length === 0 ? [] : [{ label, items, more: ids.length - items.length }];
  };
  const note = isLarge
    ? `The first ${shown.length} of ${all.length.toLocaleString("en-US")} comparisons; all of them are in gained-lost.csv, and with every item in report.json.`
    : "";
  return {
    kind: "table",
    title: task,
    note,
    what: "comparison",
    columns: ["merge", "lost | gained", right("difference, 95%"), right("p"), ""],
    rows: shown.map(({ model, against, difference, interval, scale, gained, lost, pValue }) => [
      { text: model, small: `against ${against}` },
      { text: "", balance: { lost: lost.length, gained: gained.length } },
      {
        text: formatNumber({ value: difference, scale, isSigned: true }),
        ...(interval ? { small: formatSpan(interval, { scale, isSigned: true }) } : {}),
      },
      { value: pValue ?? null, scale: "probability" },
      { text: "items", lists: [...list("gained", gained), ...list("lost", lost)] },
    ]),
  };
}
