import {
  csvLines,
  formatNumber,
  formatSpan,
  latexText,
  markdownLines,
  type NumberCell,
  plainCell,
  right,
  type Span,
  type Table,
  terminalLines,
} from "../figures/index.js";
import { formatDuration, plural } from "../kit/printing/index.js";
import type { MethodComparison, ResultsComparison, TaskComparison } from "./compare-results.js";
import { settingsOfModel } from "./results/comparable.js";
import type { Results, TaskResult } from "./results/result-types.js";
import type { Comparison, Score } from "./scoring/scores.js";
import type { EvaluationProgress } from "./task-run.js";
import { answerWords } from "./tasks/open-tasks.js";

export const SCORE_FORMATS = ["table", "markdown", "csv", "latex"] as const;
export type ScoreFormat = (typeof SCORE_FORMATS)[number];

function cellOf(value: number | undefined, scale: Score["scale"]): NumberCell {
  const known = value !== undefined && Number.isFinite(value) ? value : null;
  return { value: known, scale };
}

const spanOf = (interval: Score["interval"], scale: Score["scale"]) => formatSpan(interval, cellOf(0, scale));

/** A score and its interval with the unit of their scale, which points do not have. */
export function scoreTexts({
  value,
  scale,
  interval,
}: Pick<Score, "value" | "scale"> & { interval?: Span | undefined }) {
  const unit = scale === "share" ? "%" : "";
  const score = formatNumber(cellOf(value, scale));
  const span = formatSpan(interval, cellOf(0, scale));
  return { score: `${score}${unit}`, interval: interval ? `${span}${unit}` : span, unit };
}

const TASK_COLUMNS = [
  { label: "task", isGroup: true },
  { label: "protocol", isGroup: true },
];

const taskCells = ({
  title,
  protocol,
  shots,
  answers,
  settings = [],
}: Pick<TaskComparison, "title" | "protocol" | "shots" | "answers" | "settings">) => [
  title,
  [protocol, ...(shots === undefined ? [] : [`${shots}-shot`]), ...answerWords(answers), ...settings].join(", "),
];

/** The scores of an evaluation, a row for each metric of each task; in CSV unrounded, shares from 0 to 1. */
export function scoreLines(results: Results, format: ScoreFormat): string[] {
  const rows = results.tasks.flatMap((task) => task.scores.map((score) => ({ task, score })));
  if (format === "csv") return csvLines(scoreRecords(results, rows));
  const table: Table = {
    id: "scores",
    title: "Scores",
    note: `${results.source}.`,
    columns: [...TASK_COLUMNS, "metric", "score", "± SE", right("95% interval"), right("items")],
    rows: rows.map(({ task, score: { title, value, scale, standardError, interval, items, unscored } }) => [
      ...taskCells({ ...task, settings: settingsOfModel(results, task) }),
      title,
      cellOf(value, scale),
      cellOf(standardError, scale),
      spanOf(interval, scale),
      unscored > 0 ? `${items} (+${unscored} unscored)` : String(items),
    ]),
  };
  return RENDERERS[format](table);
}

const RENDERERS = {
  table: terminalLines,
  markdown: markdownLines,
  latex: (table: Table) => latexText(table).trimEnd().split("\n"),
} as const;

interface ScoreRow {
  readonly task: TaskResult;
  readonly score: Score;
}

function scoreRecords({ source, backend }: Results, rows: readonly ScoreRow[]): Table {
  const columns =
    "source,backend,server,model,task,protocol,shots,metric,scale,score,standard_error,low,high,level,items,unscored,prompts_digest,signature";
  return {
    columns: columns.split(","),
    rows: rows.map(({ task, score: { interval, ...score } }) =>
      [
        ...[source, backend.backend, backend.server, backend.model, task.task, task.protocol, task.shots],
        ...[score.metric, score.scale, score.value, score.standardError],
        ...[interval?.low, interval?.high, interval?.level],
        ...[score.items, score.unscored, task.promptsDigest, score.signature],
      ].map(plainCell),
    ),
  };
}

/** Notes below the scores: signatures, and problems. */
export function scoreNotes({ tasks, sandbox, backend }: Results): string[] {
  const signatures = tasks.flatMap(({ scores }) =>
    scores.flatMap(({ title, signature }) => (signature === undefined ? [] : [`${title}: ${signature}`])),
  );
  const weak = (["network", "processes", "files", "memory"] as const).filter(
    (what) => sandbox && sandbox[what] !== "kernel",
  );
  return [
    ...new Set(signatures),
    ...tasks.flatMap((task) =>
      [...task.notes, ...problemNotes(task, backend.server !== null)].map((note) => `${task.task}: ${note}`),
    ),
    ...weak.map((what) =>
      sandbox?.[what] === "python"
        ? `sandbox: only Python keeps programs from ${WEAK[what]}, not the kernel; this stops accidents, not attacks`
        : `sandbox: nothing keeps programs from ${WEAK[what]}`,
    ),
  ];
}

const WEAK = {
  network: "the network",
  processes: "starting other programs",
  files: "your files",
  memory: "using unlimited memory",
} as const;

function problemNotes({ problems, ties, items, answers, answeredBy }: TaskResult, isServer: boolean): string[] {
  const isWrong = problems.unscored < problems.refused + problems.missing;
  const wrong = isWrong ? ", and count as wrong" : "";
  const asked = items * (answers?.repeats ?? 1);
  const of = (count: number, what: string): string[] => (count > 0 ? [`${count} of ${asked} ${what}`] : []);
  const nextToken = answeredBy["next token"] ?? 0;
  return [
    ...of(nextToken, "scored by the log-probabilities of the next token"),
    ...of(
      problems.refused,
      `${isServer ? "refused by the server, or too long for the model" : "without an answer, such as prompts too long for the model"}${wrong}; see the samples`,
    ),
    ...of(problems.missing, `have a choice that is missing from the server's list of likely next tokens${wrong}`),
    ...of(
      problems.tied,
      `have tied choices; ${ties === "first" ? "the first one counts" : "a tie of k choices is worth 1/k"}`,
    ),
    ...of(problems.unscored, "have no verdict and are not in the scores"),
    ...of(problems.cut, "answers reached the limit of new tokens"),
    ...Object.entries(problems.executions ?? {}).flatMap(([outcome, count]) => of(count, `programs: ${outcome}`)),
  ];
}

/**
 * The comparison of evaluations, a row for each method after the first, on each metric of each task. CSV is unrounded, with
 * shares from 0 to 1 and metrics by their names in the results; it has an empty field where there is no number.
 */
export function comparisonLines(comparison: ResultsComparison, format: ScoreFormat): string[] {
  const { methods } = comparison;
  if (format === "csv") {
    const columns =
      "task,protocol,shots,metric,scale,reference,result,method,items,first,second,difference,low,high,level,gained,lost,discordance,p_value,p_adjusted,detectable,left_out";
    const records = rowsOf(comparison).map(({ task, one }) => [
      ...[task.task, task.protocol, task.shots, one.metric, one.scale],
      ...[methods[0]?.name, one.method + 1, methods[one.method]?.name],
      ...[one.items, one.first, one.second],
      ...[one.difference, one.interval?.low, one.interval?.high, one.interval?.level],
      ...[...flipsOf(one), one.discordance, one.pValue, one.pAdjusted, one.detectable, one.leftOut],
    ]);
    return csvLines({ columns: columns.split(","), rows: records.map((record) => record.map(plainCell)) });
  }
  return RENDERERS[format](comparisonTable(comparison));
}

const rowsOf = ({ tasks }: ResultsComparison) =>
  tasks.flatMap((task) => task.comparisons.map((one) => ({ task, one })));

/** A row for each method after the first, on each metric of each task. */
export function comparisonTable(comparison: ResultsComparison): Table {
  const { methods } = comparison;
  const hasSeveral = methods.length > 2;
  return {
    id: "comparison",
    title: "Comparison",
    note: `${methods.map(({ name }, i) => `${i + 1}: ${name}`).join("; ")}.`,
    columns: [
      ...[...TASK_COLUMNS, { label: "metric", isGroup: hasSeveral }, ...(hasSeveral ? [right("result")] : [])],
      ...["first", hasSeveral ? "score" : "second", "difference", right("95% interval")],
      ...["gained", "lost", hasSeveral ? "p (Holm)" : "p", "detectable"].map(right),
    ],
    rows: rowsOf(comparison).map(({ task, one }) => [
      ...[...taskCells(task), one.title, ...(hasSeveral ? [String(one.method + 1)] : [])],
      ...[cellOf(one.first, one.scale), cellOf(one.second, one.scale)],
      { ...cellOf(one.difference, one.scale), isSigned: true },
      spanOf(one.interval, one.scale),
      ...flipsOf(one).map((flips) => (flips === undefined ? "–" : String(flips))),
      one.pAdjusted === undefined ? "–" : formatNumber({ value: one.pAdjusted, scale: "probability" }),
      showsNone(one) ? "none" : formatNumber(cellOf(one.detectable, one.scale)),
    ]),
  };
}

/** Whether items flip, or vary, but too few are there to show a difference of any size. */
const showsNone = ({ detectable, discordance, interval }: MethodComparison): boolean =>
  detectable === undefined && (discordance === undefined ? interval !== undefined : discordance > 0);

/** Notes below a comparison: tasks that were not compared, items that were left out, and where too few items are there. */
export function comparisonNotes({ methods, tasks, skipped }: ResultsComparison): string[] {
  const rows = tasks.flatMap(({ task, comparisons }) => comparisons.map((one) => ({ task, one })));
  const nameOf = (task: string, { title, method }: MethodComparison) =>
    `${task}, ${title}${methods.length > 2 ? `, result ${method + 1}` : ""}`;
  return [
    ...skipped.map(({ task, reason }) => `${task} not compared: ${reason}`),
    ...tasks.flatMap(({ task, tied }) => (tied > 0 ? [`${task}: ${plural(tied, "item")} with tied choices`] : [])),
    ...rows.flatMap(({ task, one }) =>
      one.leftOut > 0
        ? [`${nameOf(task, one)}: ${one.leftOut} left out; one evaluation lacks the item or its verdict`]
        : [],
    ),
    ...(rows.some(({ one }) => showsNone(one))
      ? ["detectable none: too few items for 80% power; compare more items"]
      : []),
  ];
}

/** Items gained and lost; undefined unless each item is right or wrong. */
function flipsOf({ discordance, gained, lost }: Comparison): (number | undefined)[] {
  return discordance === undefined ? [undefined, undefined] : [gained.length, lost.length];
}

/** `strict 41.7  3 refused  2.1 items/s`. */
export function progressDetail({ score, metric, scale, refused, itemsPerSecond: rate }: EvaluationProgress): string {
  return [
    ...(score === undefined ? [] : [`${metric} ${formatNumber(cellOf(score, scale))}`]),
    ...(refused > 0 ? [`${refused} refused`] : []),
    ...(rate === undefined ? [] : [rate >= 1 ? `${rate.toFixed(1)} items/s` : `${formatDuration(1 / rate)} per item`]),
  ].join("  ");
}
