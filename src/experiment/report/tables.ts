import {
  type Cell,
  count,
  type Finding,
  findingText,
  formatSpan,
  type Lead,
  type NumberCell,
  right,
  type Table,
  terminalLines,
} from "../../figures/index.js";
import { groupBy } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import type { Flips, Overview, PlanReport, ReportHead, ReportTable, ScoreRow, SearchRow } from "./report-data.js";

export const INTERVALS =
  "Intervals are 95% over items: Wilson's score interval (1927) where each item is right or wrong, else the bootstrap's. Significance is of tests on the same items, and over experts where rows have several, at 5% with Holm's correction.";

/** The rules that `compareItems` and `crossedDifference` follow. */
export const DIFFERENCES =
  "Where the models of two rows fill a grid of experts, their difference's interval and p are over other experts as well as other items (Student's t); otherwise over items (McNemar's exact test, or sign flips where items are not just right or wrong). Intervals of differences are 95%, on the same items: where each item is right or wrong in both, Newcombe's for paired shares joined with that of McNemar's exact test, else the bootstrap's, which has none where no item changed.";

export const number = (value: number | null | undefined, scale: NumberCell["scale"]): NumberCell => ({
  value: value !== undefined && Number.isFinite(value) ? value : null,
  scale,
});

export const signed = (value: number | undefined, scale: NumberCell["scale"]) => ({
  ...number(value, scale),
  isSigned: true,
});

/** How far the highest row is above the others; undefined if nothing is known. */
export function leadsTable({ id, title, scale, finding }: Overview): ReportTable | undefined {
  if (!finding || finding.leads.length === 0) return undefined;
  const { subject, leads } = finding;
  return leadTable({ id: `lead-${id}`, title: `The lead of ${subject.label}, ${title}`, note: LEADS, scale, leads });
}

/** Each swap against its controls, whether or not it is highest. */
export function controlTables({ id, title, scale, controls }: Overview): ReportTable[] {
  return controls.map(({ of, leads }, i) =>
    leadTable({
      id: `controls-${id}${i > 0 ? `-${i + 1}` : ""}`,
      title: `${of} against its controls, ${title}`,
      note: `The swap less each control, both in the default configuration. ${LEADS}`,
      scale,
      leads,
    }),
  );
}

type LeadTable = Pick<ReportTable, "id" | "title" | "note"> & Pick<Finding, "scale" | "leads">;

function leadTable({ scale, leads, ...head }: LeadTable): ReportTable {
  return {
    ...head,
    columns: ["over", ...LEAD_COLUMNS],
    rows: leads.map((lead): Cell[] => [lead.over, ...leadCells(lead, scale)]),
  };
}

export const LEAD_COLUMNS = ["difference", "95% from", "95% to", "p (Holm)", "detectable", "resampled"];

export function leadCells(lead: Lead, scale: Overview["scale"]): Cell[] {
  const { difference, interval, pValue, detectable, resampled } = lead;
  return [
    ...[difference, interval?.low, interval?.high].map((value) => signed(value, scale)),
    number(pValue, "probability"),
    number(detectable, scale),
    [...Object.entries(resampled.factors), ["items", resampled.items] as const]
      .map(([name, size]) => `${size} ${name}`)
      .join(" x "),
  ];
}

export const LEADS =
  "Differences on the same items. p: how often chance alone would give a difference at least as large, corrected for the number of comparisons (Holm); significant below 5%. Detectable: the smallest difference that 80 of 100 such studies would show; none where no possible one would. Resampled: what was drawn at random, again and again, for the interval.";

/** The rounds of a search, if there are several, and its configurations. */
export function searchTables(search: SearchRow): ReportTable[] {
  return [...(search.rounds.length > 1 ? [roundsTable(search)] : []), configurationsTable(search)];
}

function configurationsTable({ id, group, configurations, rounds, summary }: SearchRow): ReportTable {
  return {
    id,
    title: `Configurations of ${group}`,
    note: `${summary} Differences are from the best of the same round, on the same items; ± is a 95% interval, with none where no item differs.`,
    columns: [
      ...["configuration", "", "mean", "against the best", "± (95%)", "items"],
      ...(rounds.length > 1 ? ["round"] : []),
    ],
    rows: configurations.map(({ label, mean, behind, margin, items, round, isChosen, isDefault }) => [
      label,
      [...(isChosen ? ["chosen"] : []), ...(isDefault ? ["default"] : [])].join(", "),
      ...[mean, behind, margin > 0 ? margin : null].map((value) => number(value, "share")),
      count(items),
      ...(rounds.length > 1 ? [count(round)] : []),
    ]),
  };
}

function roundsTable({ id, group, rounds }: SearchRow): ReportTable {
  return {
    id: `${id}-rounds`,
    title: `Rounds of the search among ${group}`,
    note: "Items are those that each configuration had been asked by then. Dropped: the worse ones (of tied ones the later in the plan) and those significantly worse than the best.",
    columns: ["round", "configurations", "items", "dropped"],
    rows: rounds.map(({ configurations, items, dropped }, i) => [
      String(i + 1),
      ...[configurations, items, dropped].map(count),
    ]),
  };
}

export function flipsTable(flips: readonly Flips[]): ReportTable {
  return {
    id: "gained-lost",
    title: "What each merge gained and lost",
    note: "Items that became right, and that became wrong, against a model that the merge could replace.",
    columns: ["merge", "against", "task", "difference", "95% from", "95% to", "gained", "lost", "p"],
    rows: flips.map(({ model, against, task, scale, difference, interval, gained, lost, pValue }) => [
      ...[model, against, task],
      ...[difference, interval?.low, interval?.high].map((value) => signed(value, scale)),
      ...[count(gained.length), count(lost.length), number(pValue, "probability")],
    ]),
  };
}

/** How much of the answers of reported models is in the asked language. Without rows if nothing was measured. */
export function languageTable(scores: readonly ScoreRow[]): ReportTable {
  const measured = scores.filter(({ asides, isReported }) => isReported && asides.length > 0);
  // One below the other for comparison.
  const rows = [...groupBy(measured, ({ task }) => task).values()].flat();
  const titles = [...new Set(rows.flatMap(({ asides }) => asides.map(({ title }) => title)))];
  return {
    id: "language",
    title: "The language of the answers",
    note: "Mean over answers of the share of their letters in passages of the asked language (franc's trigrams) and in its script. Reasoning between think tags is measured apart. Answers without letters, or too short to tell, are left out.",
    columns: ["model", "task", ...titles.flatMap((title) => [title, "of answers"])],
    rows: rows.map(({ model, task, asides }) => [
      ...[model, task],
      ...titles.flatMap((title) => {
        const found = asides.find((one) => one.title === title);
        return [number(found?.value, "share"), count(found?.items ?? null)];
      }),
    ]),
  };
}

export function costTable({ rows }: ReportHead["cost"]): ReportTable {
  return {
    id: "cost",
    title: "What it cost",
    note: "Seconds of all steps of a kind together.",
    columns: ["", "steps", "time"],
    rows: rows.map(({ what, steps, seconds }) => [what, count(steps), number(seconds, "seconds")]),
  };
}

/** Every score and every average, for CSV. */
export function scoresTable({ scores, backend }: Pick<ReportHead, "scores" | "backend">): Table {
  const axes = [...new Set(scores.flatMap(({ values = {} }) => Object.keys(values)))];
  const counts = ["low", "high", "items", "of", "unanswered"];
  return {
    columns: [...axes, "model", "kind", "task", "protocol", "scale", "score", ...counts, "backend"],
    rows: scores.map(({ values, model, kind, task, protocol, cell, items, of, unanswered, ...row }): Cell[] => [
      ...axes.map((axis) => values?.[axis] ?? ""),
      ...[model, kind, task, protocol, cell.scale, cell],
      ...[cell.interval?.low, cell.interval?.high, items, of, unanswered].map(count),
      row.backend ?? backend,
    ]),
  };
}

/** Every score; if there are more than `max`, the first of reported models, and a note. */
export function scoreList({ scores }: Pick<ReportHead, "scores">, max: number): Table & { readonly note: string } {
  const listed = scores.length > max ? scores.filter(({ isReported }) => isReported).slice(0, max) : scores;
  const note =
    listed.length === scores.length
      ? ""
      : `The first ${plural(listed.length, "score")} of models that are reported; all ${scores.length.toLocaleString("en-US")}, with those of the searches, are in scores.csv.`;
  return {
    note,
    columns: ["model", "task", "protocol", right("score"), right("95% interval"), right("items")],
    rows: listed.map(({ model, task, protocol, cell, ...row }) => [
      ...[model, task, protocol, cell, formatSpan(cell.interval, cell), itemsText(row)],
    ]),
  };
}

/** `250`, `100 of 250, 3 unanswered` */
function itemsText({ items, of, unanswered }: Pick<ScoreRow, "items" | "of" | "unanswered">): string {
  const evaluated = items === of ? String(of) : `${items} of ${of}`;
  return unanswered === 0 ? evaluated : `${evaluated}, ${unanswered} unanswered`;
}

export function expertsTable({ experts }: Pick<PlanReport, "experts">): Table {
  return {
    columns: ["expert", "family", "trained from", "training", "checkpoint"],
    rows: experts.map(({ name, family, from, how, origin }) => [name, family, from, how, origin]),
  };
}

/** A longer configuration is printed below the table. */
const MAX_DETAIL = 32;

/** The main table of a task with its notes. */
export function overviewLines({ title, protocol, items, choice, finding, missing, bars, scale }: Overview): string[] {
  const hasSeveral = bars.some((bar) => bar.count > 1);
  const isLong = ({ detail }: Overview["bars"][number]) => detail.length > MAX_DETAIL;
  const details = bars.filter(isLong).map(({ label, detail }) => `${label}: ${detail}`);
  const rows = bars.map((bar) => {
    const { label, detail, mean, low, high, interval, isBest } = bar;
    const number = (value: number) => ({ value, scale });
    return [
      detail === "" || isLong(bar) ? label : `${label} (${detail})`,
      { ...number(mean), isBest },
      formatSpan(interval, { scale }),
      ...(hasSeveral ? [low, high].map((value) => (bar.count > 1 ? number(value) : "")) : []),
      ...(hasSeveral ? [count(bar.count)] : []),
    ];
  });
  const columns = ["", hasSeveral ? "mean" : "score", right("95% interval")];
  const several = hasSeveral ? ["min", "max", "models"].map(right) : [];
  return [
    `${title}, on ${items}; ${protocol}`,
    "",
    ...terminalLines({ columns: [...columns, ...several], rows }),
    "",
    ...(details.length > 0 ? [...details, ""] : []),
    ...[findingText(finding), choice, missing].filter((sentence) => sentence !== ""),
  ];
}
