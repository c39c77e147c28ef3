// The paper's tables (Bandarkar et al., arXiv 2410.01335) from an experiment, with the paper's numbers only beside the same
// benchmark and language.
import type { NumberCell } from "../../report/index.js";
import { type ExperimentPlan, languagesOf } from "../plan/plan-schema.js";
import {
  LAYOUTS,
  type Layout,
  type PaperLanguage,
  SETTINGS,
  type SettingModels,
  TABLE_5,
} from "../published-scores.js";
import { mergesThatFit, settingColumn } from "./columns.js";
import { describeChoice, tasksIn } from "./overview.js";
import type { ReportTable } from "./report-data.js";
import type { Basis, Sheet } from "./score-sheet.js";
import { isMgsm, isWholeMgsm, languageName, taskIn } from "./task-language.js";

export interface TableContext {
  readonly plan: ExperimentPlan;
  readonly sheet: Sheet;
  /** The deciding task, such as `mgsm_{language}`. */
  readonly by: string;
  readonly basis: Basis;
  /** Whether the other basis is reported too. */
  readonly isOneOfTwo: boolean;
}

interface LanguageTask {
  readonly language: string;
  readonly task: string;
}

/** The tables that the plan lists, if they have rows. */
export function paperTables(context: TableContext): ReportTable[] {
  const { plan, isOneOfTwo, basis } = context;
  const [one, two, six] = LAYOUTS.map((layout) =>
    plan.tables.includes(layout.number) ? layoutTables(context, layout) : [],
  );
  // Nothing is chosen among experts, so one of two bases is enough.
  const five = plan.tables.includes(5) && !(isOneOfTwo && basis === "all") ? [tableFive(context)] : [];
  return [one, two, five, six].flatMap((tables) => tables ?? []).filter(({ rows }) => rows.length > 0);
}

/** Why tables lack rows of a language. */
export function paperProblems({ plan, sheet, by }: TableContext): string[] {
  const listed = plan.tables.filter((table) => table !== 5);
  if (listed.length === 0) return [];
  const which = listed.length === 1 ? `table ${listed[0]}` : `tables ${listed.join(", ")}`;
  return languagesOf(plan).flatMap((language) => {
    const task = taskIn(by, language);
    if (task !== undefined && sheet.task(task)) return [];
    const reason =
      task === undefined ? `the name of ${by} does not end in a language's code` : `no model is evaluated on ${task}`;
    return [`The paper's ${which}: no rows for ${languageName(language)}, because ${reason}.`];
  });
}

/** The tables of a layout: one of all languages, or one of each. */
function layoutTables(context: TableContext, layout: Layout): ReportTable[] {
  const { plan, by, sheet } = context;
  const languages = languagesOf(plan).flatMap((language): LanguageTask[] => {
    const task = taskIn(by, language);
    return task !== undefined && sheet.task(task) ? [{ language, task }] : [];
  });
  if (!layout.isPerLanguage) return [layoutTable(context, layout, languages)];
  return languages.map((one) => layoutTable(context, layout, [one]));
}

function layoutTable(context: TableContext, layout: Layout, languages: readonly LanguageTask[]): ReportTable {
  const { sheet, basis, isOneOfTwo } = context;
  const [first] = languages;
  const name = layout.isPerLanguage && first ? `-${first.language}` : "";
  const filled = (text: string) =>
    text
      .replace("{benchmark}", benchmarkTitle(context, languages))
      .replace("{language}", languageName(first?.language ?? ""));
  const chosen = isOneOfTwo ? `, chosen on ${basis === "all" ? "the test items" : "held-out items"}` : "";
  const notes = [
    filled(layout.note),
    itemsNote(context, first?.task ?? ""),
    describeChoice(first?.task ?? "", sheet, basis),
    "Bold: the largest of a row, significant or not.",
    languages.some(({ task, language }) => isMgsm(task, language)) ? "" : NOT_PAPER,
    crowdedNote(sheet, layout, first?.language ?? ""),
  ];
  return {
    ...{ id: `table-${layout.number}${name}${basis === "all" ? "-all" : ""}`, kind: "paper" },
    title: `${filled(layout.title)}${chosen}`,
    note: notes.filter((part) => part !== "").join(" "),
    columns: ["", ...columnTitles(context, layout, languages)],
    rows: languages.flatMap((one) => layoutRows(context, layout, one)),
  };
}

const NOT_PAPER = "The paper's layout without its numbers: those are of MGSM, and this is another task.";

function itemsNote({ basis, sheet }: TableContext, task: string): string {
  const held = basis === "held-out" ? sheet.heldOut(task) : undefined;
  return held
    ? `${held.size} items of each deciding task, which the search did not see; all items of others.`
    : "All items.";
}

/** Names the merges that fit a column after the first, which alone is in it. */
function crowdedNote(sheet: Sheet, layout: Layout, language: string): string {
  const columns = new Set(layout.columns.flatMap((setting) => (SETTINGS[setting] as SettingModels).merge ?? []));
  const crowded = [...columns].flatMap((column) => {
    const [first, ...others] = mergesThatFit(sheet, column, language);
    if (others.length === 0) return [];
    return [`Several merges fit ${column}: ${first} is shown, ${others.join(", ")} only in the main table.`];
  });
  return crowded.length === 0 ? "" : `${crowded.join(" ")} Set \`column\` of a merge to choose it.`;
}

/** The rows of a language. */
function layoutRows({ sheet, by, basis }: TableContext, layout: Layout, { language, task: own }: LanguageTask) {
  const rows = layout.rows.flatMap(({ isEnglish, isAverage, ...row }) => {
    if (isAverage) {
      return [...sheet.averages].map(([task, parts]) => ({
        ...{ ...row, task, label: row.label.replace("{average}", task), isPrinted: isWholeMgsm(parts) },
      }));
    }
    const task = isEnglish ? (language === "en" ? undefined : taskIn(by, "en")) : own;
    if (task === undefined || !sheet.task(task)) return [];
    return [{ ...row, task, isPrinted: isMgsm(task, isEnglish ? "en" : language) }];
  });
  return rows.map(({ statistic, task, label, printed, isPrinted }) => {
    const numbers = isPrinted ? printed[language] : undefined;
    const cells = layout.columns.map((setting, i): NumberCell => {
      const { models } = settingColumn(setting, language, sheet, basis);
      const { range, interval, ...cell } = sheet.cell(models, task, basis);
      const published = asShare(numbers?.[i]);
      if (statistic !== "mean") return { ...cell, value: range?.[LIMITS[statistic]] ?? cell.value, published };
      return { ...cell, ...(interval ? { interval } : {}), ...(range ? { range } : {}), published };
    });
    return [label.replace("{language}", languageName(language)), ...markBest(cells)];
  });
}

const LIMITS = { min: "low", max: "high" } as const;

// Rounded: 32.8 / 100 is not 0.328.
const asShare = (value: number | undefined) => (value === undefined ? undefined : Number((value / 100).toFixed(4)));

/** Marks the largest number of a row, or several equal ones. */
function markBest(cells: readonly NumberCell[]): NumberCell[] {
  const values = cells.flatMap(({ value }) => (typeof value === "number" ? [value] : []));
  const max = Math.max(...values);
  return cells.map((cell) => (values.length > 1 && cell.value === max ? { ...cell, isBest: true } : cell));
}

/** Titles of columns, with details that all languages have in common. */
function columnTitles({ sheet, basis }: TableContext, layout: Layout, languages: readonly LanguageTask[]) {
  if (layout.titles) return layout.titles;
  return layout.columns.map((setting) => {
    const labels = languages.map(({ language }) => {
      const { label, detail } = settingColumn(setting, language, sheet, basis);
      return detail === "" ? label : `${label} (${detail})`;
    });
    return new Set(labels).size === 1 ? (labels[0] ?? "") : SETTINGS[setting].label;
  });
}

/** The benchmark and its protocol: `MGSM, 8-shot`. */
function benchmarkTitle({ sheet, by }: TableContext, languages: readonly LanguageTask[]): string {
  const [first] = languages;
  if (!first) return by;
  const { title = first.task, protocol = "" } = sheet.task(first.task) ?? {};
  // The title of a built-in task ends in its language.
  const isBuiltIn = languages.length > 1 || isMgsm(first.task, first.language);
  return [isBuiltIn ? title.replace(/[ _]\S+$/, "") : title, protocol].filter((part) => part !== "").join(", ");
}

/** The paper's benchmarks, by the beginning of task names. */
const BENCHMARKS: ReadonlyMap<string, string> = new Map(
  Object.entries({ mgsm: "MGSM", belebele: "Belebele", flores: "FLORES", mbpp: "MBPP", mmlu: "MMLU" }),
);

/** Two-letter codes of the paper's languages, by the three-letter codes of other data sets. */
const SHORT: ReadonlyMap<string, string> = new Map(
  Object.entries({ eng: "en", swh: "sw", swa: "sw", tel: "te", ben: "bn", jpn: "ja" }),
);

function printedOf(task: string): (typeof TABLE_5)[number] | undefined {
  const [, first = "", languages = ""] = /^([a-z]+)(?:_(.+))?$/.exec(task) ?? [];
  const of = languages.split("-").map((code) => SHORT.get(code.slice(0, 3)) ?? code);
  return TABLE_5.find((row) => row.benchmark === BENCHMARKS.get(first) && row.of === of.join("-"));
}

/** Experts on every benchmark: base, mean of the task experts, mean of each language's experts. */
function tableFive({ plan, sheet }: TableContext): ReportTable {
  const languages = languagesOf(plan);
  const rows = tasksIn(sheet, plan).map((task) => {
    const printed = printedOf(task);
    const cellOf = (setting: "base" | "math" | "language", language: string, published: number | undefined) => {
      const cell = sheet.cell(settingColumn(setting, language, sheet, "all").models, task, "all");
      return published === undefined ? cell : { ...cell, published };
    };
    const own = languages.map((language) => {
      const value = printed?.own;
      if (typeof value !== "number") return cellOf("language", language, value?.[language as PaperLanguage]);
      return cellOf("language", language, printed?.of.includes(language) ? value : undefined);
    });
    const cells = [cellOf("base", "", printed?.base), cellOf("math", "", printed?.math), ...own];
    return [sheet.titleOf(task), ...markBest(cells)];
  });
  return {
    ...{ id: "table-5", kind: "paper" },
    title: "Table 5. Experts on every benchmark",
    note: "Mean over the experts of each kind. All items. Bold: the largest of a row, significant or not.",
    columns: ["", "base", "math experts", ...languages.map((language) => `${languageName(language)} experts`)],
    rows,
  };
}
