// Tables 1, 2, 5 and 6 in the paper's own layout, from one's own experiment, with the paper's numbers beside them where
// the languages are the paper's. Bandarkar et al., arXiv 2410.01335.
import { inLanguages, languagesOf } from "../plan/models.js";
import type { ExperimentPlan } from "../plan/schema.js";
import {
  PAPER_LANGUAGES,
  type PaperLanguage,
  SETTINGS,
  type Setting,
  type Statistic,
  TABLE_1,
  TABLE_2,
  TABLE_5,
  TABLE_6,
} from "../published.js";
import { columnOf, mergesIn, settingColumn } from "./columns.js";
import type { Cell, ReportTable } from "./data.js";
import type { Basis, Sheet } from "./sheet.js";

export interface TableContext {
  readonly plan: ExperimentPlan;
  readonly sheet: Sheet;
  /** The task that decides, such as `mgsm_{language}`. */
  readonly by: string;
  readonly basis: Basis;
}

/** The tables that the plan asks for. */
export function paperTables(context: TableContext): ReportTable[] {
  const { tables } = context.plan;
  return [
    ...(tables.includes(1) ? [tableOne(context)] : []),
    ...(tables.includes(2) ? languagesOf(context.plan).map((language) => tableTwo(context, language)) : []),
    ...(tables.includes(5) ? [tableFive(context)] : []),
    ...(tables.includes(6) ? [tableSix(context)] : []),
  ];
}

export function languageName(code: string): string {
  return PAPER_LANGUAGES[code as PaperLanguage] ?? code;
}

const taskIn = (by: string, language: string) => inLanguages(by, [language])[0] ?? by;

/** A cell's smallest, mean or largest over its models. */
export function statistic(cell: Cell, which: Statistic): Cell {
  const { range, interval, ...rest } = cell;
  if (which === "mean") return { ...rest, ...(interval ? { interval } : {}), ...(range ? { range } : {}) };
  return { ...rest, value: range ? (which === "min" ? range.low : range.high) : cell.value };
}

/** Marks the largest number of a row; several if they are equal. */
export function markBest(cells: readonly Cell[]): Cell[] {
  const values = cells.flatMap(({ value }) => (typeof value === "number" ? [value] : []));
  const most = Math.max(...values);
  return cells.map((cell) => (values.length > 1 && cell.value === most ? { ...cell, isBest: true } : cell));
}

const withPublished = (cell: Cell, published: number | undefined): Cell =>
  published === undefined ? cell : { ...cell, published };

// As written: 32.8 / 100 is not 0.328.
const percent = (value: number | undefined) => (value === undefined ? undefined : Number((value / 100).toFixed(4)));

function itemsNote({ basis, plan, sheet, by }: TableContext): string {
  const [task = by] = inLanguages(by, languagesOf(plan));
  if (basis === "all") {
    return sheet.expansion.searches.length === 0
      ? "All items."
      : "All items; the best configuration was chosen on these very items, as the paper did, so it flatters itself.";
  }
  const held = sheet.heldOut(task);
  return held
    ? `${held.size} items of each task that the search did not see; configurations were chosen on the others.`
    : "All items.";
}

function settingRow(
  context: TableContext,
  columns: readonly Setting[],
  language: string,
  which: Statistic,
  task: string,
): Cell[] {
  const { sheet, plan, basis } = context;
  return columns.map((setting) =>
    statistic(sheet.cell(settingColumn(setting, language, sheet, plan, basis).models, task, basis), which),
  );
}

function tableOne(context: TableContext): ReportTable {
  const { plan, by, basis } = context;
  const rows = languagesOf(plan).flatMap((language) =>
    (["mean", "max"] as const).map((which) => {
      const printed = TABLE_1.rows.find((row) => row.language === language && row.statistic === which);
      const cells = settingRow(context, TABLE_1.columns, language, which, taskIn(by, language));
      return {
        label: `${languageName(language)} ${which}`,
        cells: markBest(cells.map((cell, i) => withPublished(cell, percent(printed?.values[i])))),
      };
    }),
  );
  return {
    id: basis === "all" ? "table-1-all" : "table-1",
    title: `Table 1. ${titleOf(context)}`,
    note: `Mean and maximum over experts or pairs. ${itemsNote(context)}`,
    columns: ["", ...TABLE_1.columns.map((setting) => SETTINGS[setting])],
    rows,
  };
}

function tableTwo(context: TableContext, language: string): ReportTable {
  const { by, basis, plan } = context;
  const isSwahili = language === "sw";
  const own = taskIn(by, language);
  const english = taskIn(by, "en");
  const statistics: readonly (readonly [Statistic, string, string])[] = [
    ["min", own, `${languageName(language)} min`],
    ["mean", own, `${languageName(language)} mean`],
    ["max", own, `${languageName(language)} max`],
    ["mean", english, "English mean"],
  ];
  const rows = statistics
    .filter(([, task]) => task === own || context.sheet.answers("base", task))
    .map(([which, task, label]) => {
      const of = task === own ? "sw" : "en";
      const printed = isSwahili ? TABLE_2.rows.find((row) => row.task === of && row.statistic === which) : undefined;
      const cells = settingRow(context, TABLE_2.columns, language, which, task);
      return { label, cells: markBest(cells.map((cell, i) => withPublished(cell, percent(printed?.values[i])))) };
    });
  const columns = TABLE_2.columns.map((setting) => {
    const { detail } = settingColumn(setting, language, context.sheet, plan, basis);
    return detail === "" ? SETTINGS[setting] : `${SETTINGS[setting]} (${detail})`;
  });
  return {
    id: `table-2-${language}${basis === "all" ? "-all" : ""}`,
    title: `Table 2. ${languageName(language)} in detail`,
    note: `${titleOf(context)}. Minimum, mean and maximum over experts or pairs. ${itemsNote(context)}`,
    columns: ["", ...columns],
    rows,
  };
}

function titleOf({ sheet, by, plan }: TableContext): string {
  const [task = by] = inLanguages(by, languagesOf(plan));
  const facts = sheet.answers("base", task)?.facts;
  return facts ? `${facts.title.replace(/ \S+$/, "")}, ${facts.protocol}` : task;
}

/** Names of the paper's benchmarks by how tasks begin. */
const BENCHMARKS = { mgsm: "MGSM", belebele: "Belebele", flores: "FLORES", mbpp: "MBPP", mmlu: "MMLU" } as const;

/** Two-letter codes of the paper's languages, by the three-letter ones that tasks of other sets use. */
const SHORT: Readonly<Record<string, string>> = { eng: "en", swh: "sw", swa: "sw", tel: "te", ben: "bn", jpn: "ja" };

function benchmarkOf(task: string): { benchmark: string; of: string } | undefined {
  const match = /^([a-z]+)(?:_(.+))?$/.exec(task);
  const benchmark = BENCHMARKS[match?.[1] as keyof typeof BENCHMARKS];
  if (!match || !benchmark) return undefined;
  const codes = (match[2] ?? "").split("-").map((code) => SHORT[code.slice(0, 3)] ?? SHORT[code] ?? code);
  return { benchmark, of: codes.join("-") };
}

/** Experts on every benchmark: base, the mean of the task experts, of each language's experts. */
function tableFive(context: TableContext): ReportTable {
  const { plan, sheet } = context;
  const languages = languagesOf(plan);
  const math = sheet.experts.filter(({ role }) => role === "task").map(({ name }) => name);
  const ownOf = (language: string) =>
    sheet.experts
      .filter(({ role, family }) => role === "language" && plan.experts[family]?.language === language)
      .map(({ name }) => name);
  const tasks = [
    ...new Set(sheet.models.flatMap(({ name }) => sheet.tasksOf(name).map(({ request }) => request.task))),
  ];
  const asked = (models: readonly string[], task: string) => models.filter((name) => sheet.answers(name, task));
  const rows = tasks.map((task) => {
    const named = benchmarkOf(task);
    const printed = TABLE_5.find((row) => row.benchmark === named?.benchmark && row.of === named?.of);
    const facts = sheet.tasksOf("base").find(({ request }) => request.task === task)?.facts;
    const own = languages.map((language) => {
      const value =
        typeof printed?.own === "number"
          ? named?.of.includes(language)
            ? printed.own
            : undefined
          : printed?.own?.[language as PaperLanguage];
      return withPublished(sheet.cell(asked(ownOf(language), task), task, "all"), value);
    });
    const cells = [
      withPublished(sheet.cell(asked(["base"], task), task, "all"), printed?.base),
      withPublished(sheet.cell(asked(math, task), task, "all"), printed?.math),
      ...own,
    ];
    return { label: facts?.title ?? task, cells: markBest(cells) };
  });
  return {
    id: "table-5",
    title: "Table 5. Experts on every benchmark",
    note: "Mean over the experts of each kind. All items.",
    columns: ["", "base", "math experts", ...languages.map((language) => `${languageName(language)} experts`)],
    rows,
  };
}

/** With souping first. */
function tableSix(context: TableContext): ReportTable {
  const { plan, sheet, by, basis } = context;
  const keys = Object.keys(TABLE_6.columns) as (keyof typeof TABLE_6.columns)[];
  const rows = languagesOf(plan).map((language) => {
    const printed = TABLE_6.rows.find((row) => row.language === language);
    const cells = keys.map((key, i) => {
      const models =
        key === "soup" || key === "default"
          ? settingColumn(key, language, sheet, plan, basis).models
          : mergesIn(sheet, key, language)
              .filter(({ configuration }) => configuration.isDefault)
              .map(({ name }) => name);
      return withPublished(sheet.cell(models, taskIn(by, language), basis), percent(printed?.values[i]));
    });
    return { label: languageName(language), cells: markBest(cells) };
  });
  return {
    id: basis === "all" ? "table-6-all" : "table-6",
    title: "Table 6. With souping first",
    note: `${titleOf(context)}. ${itemsNote(context)}`,
    columns: ["", ...Object.values(TABLE_6.columns)],
    rows,
  };
}

export { columnOf };
