import { highest } from "../../evaluate/findings/index.js";
import {
  type Figure,
  findingText,
  findingVerdict,
  findingWords,
  formatNumber,
  formatSpan,
  ownClass,
  type Page,
  right,
  type Section,
  type Table,
  type TextCell,
} from "../../figures/index.js";
import { formatDuration, formatSome, plural } from "../../kit/printing/index.js";
import { byExpertTable } from "./best-by-expert.js";
import { CHANGES_LEAD, OVERLAPS_LEAD } from "./grids.js";
import { linesTable } from "./lines.js";
import { moreRecipes, RECIPES_LEAD, VARIANTS } from "./recipes.js";
import type {
  ExperimentReport,
  Flips,
  MatrixReport,
  Overview,
  OverviewBar,
  PlanReport,
  ReportHead,
  ReportHeatmap,
  ReportRecipe,
  ReportTable,
  ReportVariant,
  SearchRow,
} from "./report-data.js";
import { progressFigure } from "./searches.js";
import {
  controlTables,
  costTable,
  DIFFERENCES,
  expertsTable,
  flipsTable,
  languageTable,
  leadsTable,
  scoreList,
  searchTables,
} from "./tables.js";

import { highestText } from "./variants.js";

/** Limits of the page for a large report; its files have everything. */
const MAX_COMPARISONS = 50;
const MAX_NAMED = 6;
const MAX_SCORES = 400;
const MAX_RECIPES = 60;

/** @param isVariant whether the page of all variants links to it */
export function experimentPage(report: ExperimentReport, isVariant = false): Page {
  const { failures, progress } = report;
  const overviews = report.kind === "plan" ? report.overviews.filter(({ bars }) => bars.length > 0) : [];
  const headline = overviews.find(({ finding }) => finding !== undefined);
  const failed = failures.map(({ label, reason }) => [label, reason]);
  const sections: Section[] = [
    ...(report.kind === "matrix" ? [variantsSection(report)] : []),
    // What the author asked for, whole, before what every report has.
    {
      id: "tables",
      title: "Tables of the plan",
      figures: report.tables.map((table) => ({ kind: "table", ...table, what: "row", isWhole: true })),
    },
    ...(report.kind === "plan" ? planSections(report, overviews, headline) : [languageSection(report.scores)]),
    {
      id: "notes",
      title: "Notes",
      figures:
        report.stepNotes.length > 0
          ? [tableFigure({ columns: ["note", "steps"], rows: report.stepNotes.map(noteRow) }, "note")]
          : [],
    },
    {
      id: "costs",
      title: "What it cost",
      figures: [untitled({ ...costTable(report.cost), note: describeCost(report) }, "kind")],
    },
    {
      id: "failures",
      title: "What failed",
      figures: failures.length > 0 ? [tableFigure({ columns: ["step", "reason"], rows: failed }, "step")] : [],
    },
  ];
  return {
    title: report.title,
    lead: report.kind === "plan" ? leadOf(report) : `${axesOf(report.variants)}. Each variant has a page of its own.`,
    notes: report.notes,
    ...(isVariant ? { up: { text: "All variants", href: "../../index.html" } } : {}),
    verdicts: report.kind === "matrix" ? highestVerdict(report) : headlineVerdict(headline, overviews.length > 1),
    state: {
      text: [describeProgress(report), ...report.warnings, describeBackend(report)].join(" "),
      isOpen: progress.left + progress.waiting + progress.failed > 0 || report.warnings.length > 0,
    },
    sections: withOwnIds(sections.filter(({ figures }) => figures.length > 0)),
    footer: `${report.intervals} ${DIFFERENCES} Made by layergraft ${report.layergraft} from the experiment ${report.name}.`,
  };
}

function highestVerdict({ highest, compared }: MatrixReport): Page["verdicts"] {
  const text = highestText(highest);
  return text === "" ? [] : [{ title: compared[0]?.title ?? "", text, isOpen: true }];
}

/** Of the first task; the others' are with their bars. */
const headlineVerdict = (headline: Overview | undefined, isTitled: boolean): Page["verdicts"] =>
  headline ? [findingVerdict(headline.finding, isTitled ? headline.title : "")] : [];

const variantsSection = ({ compared, variants }: MatrixReport): Section => ({
  id: "variants",
  title: "The variants",
  figures: compared.map((table) => variantsFigure(table, variants)),
});

function planSections(report: PlanReport, overviews: readonly Overview[], headline: Overview | undefined): Section[] {
  const { heatmaps, flips, searches, experts, recipes, published, selections, changes, overlaps } = report;
  const shownRecipes = recipes.slice(0, MAX_RECIPES);
  const tasks = [...new Set(flips.map(({ task }) => task))];
  return [
    {
      id: "overview",
      title: "The result",
      figures: overviews.flatMap((overview) => [
        barFigure(overview === headline ? { ...overview, finding: undefined } : overview, shownRecipes),
        ...leadFigure(overview),
      ]),
    },
    {
      id: "published-scores",
      title: "Published scores",
      figures: published ? [untitled(published, "row")] : [],
    },
    {
      id: "lines",
      title: "Scores along one setting",
      figures: report.lines.map((lines) => ({ kind: "lines", ...lines, table: linesTable(lines) })),
    },
    { id: "changes", title: "Where the experts changed", lead: CHANGES_LEAD, figures: denseGrids(changes) },
    { id: "overlaps", title: "What pairs of experts both changed", lead: OVERLAPS_LEAD, figures: denseGrids(overlaps) },
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
      lead: flipsTable(flips).note,
      figures: tasks.map((task) => flipsFigure(task, flips)),
    },
    languageSection(report.scores),
    {
      id: "experts",
      title: "The experts",
      figures: [
        ...(experts.length > 0 ? [tableFigure(expertsTable(report), "expert")] : []),
        ...selections.map((table) => tableFigure(table, "checkpoint")),
      ],
    },
    scoresSection(report.scores),
    stepsSection(report.steps),
  ];
}

/** What steps with other verbs wrote and show. */
function stepsSection(steps: PlanReport["steps"] = []): Section {
  const files = steps.map(({ label, value, out = value }) => [label, out]);
  const shown = steps.flatMap(({ label, figures }) =>
    figures.map((one): Figure => {
      if (one.kind === "table") {
        const title = [label, one.title].filter((text) => text !== "").join(": ");
        return { kind: "table", what: "row", title, columns: one.columns, rows: one.rows };
      }
      const rows = one.kind === "text" ? one.lines : one.entries.flatMap(({ name, lines }) => [name, ...lines]);
      return { kind: "table", what: "line", columns: [label], rows: rows.map((line) => [line]) };
    }),
  );
  const list: Figure = { kind: "table", what: "step", columns: ["step", "written"], rows: files };
  return { id: "steps", title: "Other commands", figures: steps.length > 0 ? [list, ...shown] : [] };
}

function languageSection(scores: PlanReport["scores"]): Section {
  const language = languageTable(scores);
  return {
    id: "answers",
    title: "The language of the answers",
    figures: language.rows.length > 0 ? [untitled(language, "row")] : [],
  };
}

function scoresSection(scores: PlanReport["scores"]): Section {
  const list = scoreList({ scores }, MAX_SCORES);
  return {
    id: "scores",
    title: "Every score",
    figures: list.rows.length > 0 ? [{ kind: "table", ...list, what: "score", hasIntervals: true }] : [],
  };
}

/** Grids with the same colour for the same value in each. */
function denseGrids(grids: readonly ReportHeatmap[]): Figure[] {
  const span = { low: 0, high: Math.max(0, ...grids.flatMap(({ cells }) => cells.flat()).map(Number)) };
  return grids.map((grid) => ({ kind: "grid", ...grid, span, isDense: true }));
}

const noteRow = ({ note, steps }: ReportHead["stepNotes"][number]) => [
  note,
  steps.length === 0 ? "the plan" : formatSome(steps, MAX_NAMED),
];

const tableFigure = (table: Table, what: string): Figure => ({ kind: "table", ...table, what });

/** A table whose title is that of its section. */
const untitled = ({ title: _, ...table }: Table, what: string): Figure => tableFigure(table, what);

/** Each figure is a file, and names that differ only in punctuation have the same id. */
function withOwnIds(sections: readonly Section[]): Section[] {
  const uses = new Map<string, number>();
  const own = ({ id, ...figure }: Figure): Figure => {
    if (id === undefined) return figure;
    const use = (uses.get(id) ?? 0) + 1;
    uses.set(id, use);
    return { ...figure, id: use === 1 ? id : `${id}-${use}` };
  };
  return sections.map((section) => ({ ...section, figures: section.figures.map(own) }));
}

function describeProgress({ progress: { done, failed, left, waiting } }: ReportHead): string {
  if (failed + left + waiting === 0) return `Complete: ${plural(done, "step")}.`;
  const part = (count: number, text: string) => (count > 0 ? [text.replace("#", count.toLocaleString("en-US"))] : []);
  const parts = [
    `${done.toLocaleString("en-US")} done`,
    ...part(left, "# left"),
    ...part(waiting, "about # that depend on results"),
    ...part(failed, "# failed"),
  ];
  return `Incomplete. Steps: ${parts.join(", ")}. A number that is not known yet is written as …`;
}

function describeBackend({ backend }: ReportHead): string {
  return `Evaluated with: ${backend}.`;
}

function describeCost({ cost: { mergeSeconds, seconds } }: ReportHead): string {
  if (seconds === 0) return "Nothing has been timed yet.";
  const share = (100 * mergeSeconds) / seconds;
  return `Making the merges took ${formatDuration(mergeSeconds)} of ${formatDuration(seconds)} (${share < 0.1 ? "under 0.1" : share.toFixed(1)}%).`;
}

function variantsFigure(table: ReportTable, variants: MatrixReport["variants"]): Figure {
  const linkOf = ({ id, title, report: { progress } }: ReportVariant): TextCell => ({
    text: title,
    href: `${VARIANTS}/${encodeURIComponent(id)}/index.html`,
    ...(progress.left + progress.waiting + progress.failed > 0 ? { small: "incomplete" } : {}),
  });
  // A row of means is after those of the variants.
  const rows = table.rows.map(([first = "", ...cells], i) => [variants[i] ? linkOf(variants[i]) : first, ...cells]);
  return { ...table, kind: "table", rows, what: "variant", isWhole: true };
}

function leadOf({ base, overviews, experts }: PlanReport): string {
  const size = base.parameters === undefined ? "" : `, ${millions(base.parameters)} parameters`;
  const layers = base.layers === undefined ? "" : `, ${base.layers} layers`;
  const titles = [...new Set(overviews.map(({ title }) => title))];
  const what = titles.length > 4 ? `${titles.length} tasks` : titles.join(", ");
  const starts = [...new Set(experts.map(({ from }) => from))].filter((from) => from !== "base");
  const trained = starts.length > 2 ? `${starts.length} models made of such experts` : starts.join(" and ");
  const merged = starts.length > 0 ? `and then from ${trained}, merged` : "merged without further training";
  const named = overviews.flatMap(({ bars }) => bars.flatMap(({ own, label }) => (own === undefined ? [] : [label])));
  const names = [...new Set(named)];
  const who = names.length > 0 && names.length < 5 ? ` (${names.join(", ")})` : "";
  const swaps = overviews[0]?.bars.filter(({ kind, about }) => kind === "swap" && about !== "") ?? [];
  const swap = highest(swaps.map((bar) => ({ ...bar, score: bar.mean })));
  const taken = swap ? ` The ${swaps.length > 1 ? "best " : ""}layer swap takes ${swap.about}.` : "";
  return `Experts${who} fine-tuned from ${shortName(base.name)}${size}${layers}, ${merged} and compared on ${what}.${taken}`;
}

/** `12 variants of one plan: model (llama, aya), how (full, LoRA), language (Swahili, Bengali, Telugu)` */
function axesOf(variants: MatrixReport["variants"]): string {
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

/** @param recipes to which the labels of rows link */
export function barFigure(overview: Overview, recipes: readonly ReportRecipe[] = []): Figure {
  const anchors = new Map(recipes.map(({ model, id }) => [model, anchorOf(id)]));
  const { id, title, protocol, example = "", items, choice, finding, missing, bars, scale } = overview;
  return {
    kind: "bars",
    id,
    title,
    note: `${scale === "share" ? "Percent right" : "Score"}, on ${items}; ${protocol}.${exampleText(example)}`,
    verdict: findingText(finding && { ...finding, next: undefined }),
    next: finding ? findingWords(finding).next : "",
    below: [choice, missing].filter((sentence) => sentence !== "").join(" "),
    scale,
    rows: bars.map(({ own, ...bar }) => ({
      ...bar,
      detail: inWords(bar),
      kind: own === undefined ? bar.kind : ownClass(own),
      target: bar.isSummary ? undefined : anchors.get(bar.models[0] ?? ""),
    })),
  };
}

/** What a row is, for people. */
export const inWords = ({ about, detail }: Pick<OverviewBar, "about" | "detail">) =>
  about === "" || detail === "" ? about + detail : `${about} (${detail})`;

/** Characters of an example, whose question is at the end. */
const MAX_EXAMPLE = 200;

/** An item, for readers who do not know the task. */
export function exampleText(prompt: string): string {
  const text = prompt.trim();
  if (text === "") return "";
  return ` Such as: “${text.length > MAX_EXAMPLE ? `…${text.slice(-MAX_EXAMPLE)}` : text}”`;
}

const anchorOf = (id: string) => `recipe-${id}`;

function recipeCommand({
  id,
  model,
  rows,
  text,
  command,
}: ReportRecipe): Extract<Figure, { kind: "commands" }>["commands"][number] {
  const inRows = rows.length === 0 ? "" : `In the ${rows.length === 1 ? "row" : "rows"} ${rows.join("; ")}. `;
  const about = `${inRows}File: recipes/${id}.yaml.`;
  return { what: model, command, id: anchorOf(id), file: { about, text } };
}

function leadFigure(overview: Overview): Figure[] {
  return [leadsTable(overview) ?? [], controlTables(overview)].flat().map((table) => tableFigure(table, "row"));
}

function gridsLead(heatmaps: readonly ReportHeatmap[]): string {
  const isOfLayers = heatmaps.some(({ rowTitle, columnTitle }) =>
    [rowTitle, columnTitle].some((title) => title === "bottom" || title === "top"),
  );
  return `${isOfLayers ? "A layer swap takes the bottom and top layers of the model from the language expert and the rest from the task expert. " : ""}The stronger a cell's colour, the better its configuration did.`;
}

function searchFigures(search: SearchRow): Figure[] {
  const tables = [
    ...searchTables(search).map((table) => tableFigure(table, "configuration")),
    ...(search.byExpert.length > 0 ? [tableFigure(byExpertTable(search), "expert")] : []),
  ];
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
