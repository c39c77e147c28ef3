// The paper's tables from one's own experiment, with the paper's numbers beside them where benchmark and language are the
// paper's, and nowhere else. Bandarkar et al., arXiv 2410.01335.
import type { NumberCell } from "../../report/index.js";
import { type ExperimentPlan, languagesOf } from "../plan/plan-schema.js";
import { LAYOUTS, type Layout, type PaperLanguage, SETTINGS, type Statistic, TABLE_5 } from "../published.js";
import { mergesThatFit, settingColumn } from "./columns.js";
import type { ReportTable } from "./data.js";
import { describeChoice, tasksIn } from "./overview.js";
import { titleOf } from "./rows.js";
import type { Basis, Sheet } from "./sheet.js";
import { isMgsm, languageName, taskIn } from "./task-language.js";

export interface TableContext {
  readonly plan: ExperimentPlan;
  readonly sheet: Sheet;
  /** The task that decides, such as `mgsm_{language}`. */
  readonly by: string;
  readonly basis: Basis;
  /** Whether the other basis has tables of its own. */
  readonly isOneOfTwo: boolean;
}

/** The tables that the plan asks for, as far as the experiment has rows for them. */
export function paperTables(context: TableContext): ReportTable[] {
  const { plan, isOneOfTwo, basis } = context;
  const wanted = (layout: Layout) => (plan.tables.includes(layout.number) ? tablesOf(context, layout) : []);
  const [one, two, six] = LAYOUTS.map(wanted);
  // Nothing is chosen among experts: one of the two bases is enough.
  const five = plan.tables.includes(5) && !(isOneOfTwo && basis === "all") ? [tableFive(context)] : [];
  return [one, two, five, six].flatMap((tables) => tables ?? []).filter(({ rows }) => rows.length > 0);
}

/** What a table would need that the plan's names do not tell, in a sentence for each. */
export function paperProblems({ plan, sheet, by }: TableContext): string[] {
  const wanted = plan.tables.filter((table) => table !== 5);
  if (wanted.length === 0) return [];
  return languagesOf(plan).flatMap((language) => {
    const task = taskIn(by, language);
    if (task !== undefined && isAskedAtAll(sheet, task)) return [];
    const which = wanted.length === 1 ? `table ${wanted[0]}` : `tables ${wanted.join(", ")}`;
    return [
      task === undefined
        ? `The paper's ${which}: no rows for ${languageName(language)}, because the name of ${by} does not end in a language's code.`
        : `The paper's ${which}: no rows for ${languageName(language)}, because no model is asked ${task}.`,
    ];
  });
}

const isAskedAtAll = (sheet: Sheet, task: string) => sheet.models.some(({ name }) => sheet.isAsked(name, task));

/** A cell's smallest, mean or largest over its models. */
function statisticOf(cell: NumberCell, which: Statistic): NumberCell {
  const { range, interval, ...rest } = cell;
  if (which === "mean") return { ...rest, ...(interval ? { interval } : {}), ...(range ? { range } : {}) };
  return { ...rest, value: range ? (which === "min" ? range.low : range.high) : cell.value };
}

/** Marks the largest number of a row; several if they are equal. */
function markBest(cells: readonly NumberCell[]): NumberCell[] {
  const values = cells.flatMap(({ value }) => (typeof value === "number" ? [value] : []));
  const most = Math.max(...values);
  return cells.map((cell) => (values.length > 1 && cell.value === most ? { ...cell, isBest: true } : cell));
}

const withPublished = (cell: NumberCell, published: number | undefined): NumberCell =>
  published === undefined ? cell : { ...cell, published };

// As written: 32.8 / 100 is not 0.328.
const percent = (value: number | undefined) => (value === undefined ? undefined : Number((value / 100).toFixed(4)));

/** What holds for all numbers of a table of one task: its items, how configurations were chosen, what is not there. */
function notesOf({ basis, sheet }: TableContext, tasks: readonly (string | undefined)[], isPaper: boolean): string {
  const [task = ""] = tasks.flatMap((one) => (one !== undefined && isAskedAtAll(sheet, one) ? [one] : []));
  const held = basis === "held-out" ? sheet.heldOut(task) : undefined;
  return [
    held
      ? `${held.size} items of each deciding task, which the search did not see; all items of others.`
      : "All items.",
    describeChoice(task, sheet, basis),
    "Bold: the largest of a row, significant or not.",
    isPaper ? "" : NOT_PAPER,
  ]
    .filter((part) => part !== "")
    .join(" ");
}

const NOT_PAPER = "The paper's layout without its numbers: those are of MGSM, and this is another task.";

/** Merges that could stand in the same column, of which only the first does. */
function crowdedNote(sheet: Sheet, columns: readonly string[], language: string): string {
  const crowded = columns.flatMap((column) => {
    const [first, ...others] = mergesThatFit(sheet, column, language);
    return others.length === 0
      ? []
      : [`Of ${column} there are several: ${first} stands here, ${others.join(", ")} in the main table only.`];
  });
  return crowded.length === 0 ? "" : ` ${crowded.join(" ")} The field \`column\` of a merge says which stands here.`;
}

function titled({ isOneOfTwo, basis }: TableContext, title: string): string {
  return isOneOfTwo ? `${title}, chosen on ${basis === "all" ? "the test items" : "held-out items"}` : title;
}

/** The languages whose task the plan's names tell, with the task. */
function languagesWithTask({ plan, sheet, by }: TableContext): { language: string; task: string }[] {
  return languagesOf(plan).flatMap((language) => {
    const task = taskIn(by, language);
    return task !== undefined && isAskedAtAll(sheet, task) ? [{ language, task }] : [];
  });
}

interface LanguageTask {
  readonly language: string;
  /** Undefined where the name of the deciding task does not tell. */
  readonly task: string | undefined;
}

/** The tables of a layout: one of all languages whose task is known, or one of each language. */
function tablesOf(context: TableContext, layout: Layout): ReportTable[] {
  const { plan, by } = context;
  if (!layout.isPerLanguage) return [layoutTable(context, layout, languagesWithTask(context))];
  return languagesOf(plan).map((language) => layoutTable(context, layout, [{ language, task: taskIn(by, language) }]));
}

function layoutTable(context: TableContext, layout: Layout, languages: readonly LanguageTask[]): ReportTable {
  const { sheet, basis } = context;
  const [first] = languages;
  const name = layout.isPerLanguage && first ? `-${first.language}` : "";
  const tasks = languages.flatMap(({ task }) => task ?? []);
  const filled = (text: string) =>
    text
      .replace("{benchmark}", benchmarkTitle(context, tasks))
      .replace("{language}", languageName(first?.language ?? ""));
  const isPaper = languages.some(({ task, language }) => isMgsm(task, language));
  const crowded = crowdedNote(sheet, layout.crowded, first?.language ?? "");
  return {
    ...{ id: `table-${layout.number}${name}${basis === "all" ? "-all" : ""}`, kind: "paper" },
    title: titled(context, filled(layout.title)),
    note: `${filled(layout.note)} ${notesOf(context, tasks, isPaper)}${crowded}`,
    columns: ["", ...columnTitles(context, layout, languages)],
    rows: languages.flatMap((one) => layoutRows(context, layout, one)),
  };
}

/** The rows of a language whose tasks are asked. */
function layoutRows({ sheet, plan, by, basis }: TableContext, layout: Layout, { language, task: own }: LanguageTask) {
  return layout.rows.flatMap(({ statistic, isEnglish = false, label, printed }) => {
    const task = isEnglish ? (language === "en" ? undefined : taskIn(by, "en")) : own;
    if (task === undefined || !isAskedAtAll(sheet, task)) return [];
    const numbers = isMgsm(task, isEnglish ? "en" : language) ? printed[language] : undefined;
    const cells = layout.columns.map((setting, i) => {
      const { models } = settingColumn(setting, language, sheet, plan, basis);
      return withPublished(statisticOf(sheet.cell(models, task, basis), statistic), percent(numbers?.[i]));
    });
    return [[label.replace("{language}", languageName(language)), ...markBest(cells)]];
  });
}

/** Titles of columns over several languages: what they have in common. */
function columnTitles({ sheet, plan, basis }: TableContext, layout: Layout, languages: readonly LanguageTask[]) {
  if (layout.titles) return layout.titles;
  return layout.columns.map((setting) => {
    const labels = languages.map(({ language }) => {
      const { label, detail } = settingColumn(setting, language, sheet, plan, basis);
      return detail === "" ? label : `${label} (${detail})`;
    });
    return new Set(labels).size === 1 ? (labels[0] ?? "") : SETTINGS[setting];
  });
}

/** The benchmark that tasks are of, and how it is asked: `MGSM, 8-shot`. */
function benchmarkTitle({ sheet, by }: TableContext, tasks: readonly string[]): string {
  const [task] = tasks;
  if (task === undefined) return by;
  const { protocol } = sheet.models.flatMap(({ name }) => sheet.answers(name, task)?.facts ?? [])[0] ?? {};
  // The title of a built-in task ends in its language.
  const title =
    tasks.length > 1 || task.startsWith("mgsm_") ? titleOf(sheet, task).replace(/[ _]\S+$/, "") : titleOf(sheet, task);
  return protocol === undefined || protocol === "" ? title : `${title}, ${protocol}`;
}

/** Names of the paper's benchmarks by how tasks begin. */
const BENCHMARKS = { mgsm: "MGSM", belebele: "Belebele", flores: "FLORES", mbpp: "MBPP", mmlu: "MMLU" } as const;

/** Two-letter codes of the paper's languages, by the three-letter ones that tasks of other sets use. */
const SHORT: ReadonlyMap<string, string> = new Map(
  Object.entries({ eng: "en", swh: "sw", swa: "sw", tel: "te", ben: "bn", jpn: "ja" }),
);

function benchmarkOf(task: string): { benchmark: string; of: string } | undefined {
  const match = /^([a-z]+)(?:_(.+))?$/.exec(task);
  const first = match?.[1] ?? "";
  if (!match || !Object.hasOwn(BENCHMARKS, first)) return undefined;
  const benchmark = BENCHMARKS[first as keyof typeof BENCHMARKS];
  const codes = (match[2] ?? "").split("-").map((code) => SHORT.get(code.slice(0, 3)) ?? code);
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
  const tasks = tasksIn(sheet, plan);
  const asked = (models: readonly string[], task: string) => models.filter((name) => sheet.answers(name, task));
  const rows = tasks.map((task) => {
    const named = benchmarkOf(task);
    const printed = TABLE_5.find((row) => row.benchmark === named?.benchmark && row.of === named?.of);
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
    return [titleOf(sheet, task), ...markBest(cells)];
  });
  return {
    ...{ id: "table-5", kind: "paper" },
    title: "Table 5. Experts on every benchmark",
    note: "Mean over the experts of each kind. All items. Bold: the largest of a row, significant or not.",
    columns: ["", "base", "math experts", ...languages.map((language) => `${languageName(language)} experts`)],
    rows,
  };
}
