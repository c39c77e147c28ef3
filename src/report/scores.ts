// Scores and comparisons as tables: for the terminal, as Markdown, as CSV. Plain data in, lines out.
// No two protocols share a column: the protocol's full name stands in every row, beside the score.
import { formatFixed, formatShare } from "../core/format.js";
import type { ResultsComparison } from "../evaluate/compare.js";
import type { Results, TaskResult } from "../evaluate/results/index.js";
import type { Comparison, Score } from "../evaluate/scores.js";
import { formatTable } from "./table.js";

export const SCORE_FORMATS = ["table", "markdown", "csv"] as const;
export type ScoreFormat = (typeof SCORE_FORMATS)[number];

type Scale = Score["scale"];

/** `43.2`: a share as percent, points as they are; `-` for what is not there. */
export function formatScore(value: number, scale: Scale): string {
  if (!Number.isFinite(value)) return "-";
  return scale === "share" ? formatShare(value) : formatFixed(value, 2);
}

function formatInterval(interval: { low: number; high: number } | undefined, scale: Scale): string {
  return interval ? `${formatScore(interval.low, scale)} to ${formatScore(interval.high, scale)}` : "-";
}

/**
 * The scores of an evaluation, a row for each metric of each task.
 * @returns lines without line ends; in CSV, values are unrounded and shares are from 0 to 1
 */
export function scoreLines(results: Results, format: ScoreFormat): string[] {
  const rows = results.tasks.flatMap((task) => task.scores.map((score) => ({ task, score })));
  if (format === "csv") return csvScores(results, rows);
  const header = ["task", "protocol", "metric", ">score", ">± SE", ">95% interval", ">items"];
  const cells = rows.map(({ task, score }, i) => {
    const isFirst = rows[i - 1]?.task !== task;
    const { scale, value, standardError, interval, items, unscored } = score;
    return [
      isFirst ? task.title : "",
      isFirst ? `${task.protocol}, ${task.shots}-shot` : "",
      score.title,
      formatScore(value, scale),
      formatScore(standardError, scale),
      formatInterval(interval, scale),
      unscored > 0 ? `${items} (+${unscored} unscored)` : String(items),
    ];
  });
  return format === "markdown" ? markdownTable(header, cells, [0, 1]) : formatTable(header, cells);
}

interface ScoreRow {
  readonly task: TaskResult;
  readonly score: Score;
}

function csvScores({ source, backend }: Results, rows: readonly ScoreRow[]): string[] {
  const header =
    "source,backend,server,model,task,protocol,shots,metric,scale,score,standard_error,low,high,level,items,unscored,prompts_digest,signature";
  return [
    header,
    ...rows.map(({ task, score }) =>
      csvLine([
        source,
        backend.backend,
        backend.server,
        backend.model,
        task.task,
        task.protocol,
        task.shots,
        score.metric,
        score.scale,
        score.value,
        score.standardError,
        score.interval?.low,
        score.interval?.high,
        score.interval?.level,
        score.items,
        score.unscored,
        task.promptsDigest,
        score.signature,
      ]),
    ),
  ];
}

/** What stands below the scores: signatures, and everything that went otherwise than one would wish. */
export function scoreNotes({ tasks, sandbox }: Results): string[] {
  const signatures = tasks.flatMap(({ scores }) =>
    scores.flatMap(({ title, signature }) => (signature === undefined ? [] : [`${title}: ${signature}`])),
  );
  const weak = (["network", "processes", "files", "memory"] as const).filter(
    (what) => sandbox && sandbox[what] !== "kernel",
  );
  return [
    ...new Set(signatures),
    ...tasks.flatMap((task) => [...task.notes, ...faultNotes(task)].map((note) => `${task.task}: ${note}`)),
    ...weak.map((what) =>
      sandbox?.[what] === "python"
        ? `sandbox: Python itself keeps programs from ${WEAK[what]}, the kernel here does not; that holds against accidents only`
        : `sandbox: nothing keeps programs from ${WEAK[what]} here`,
    ),
  ];
}

const WEAK = {
  network: "the network",
  processes: "starting others",
  files: "your files",
  memory: "taking memory",
} as const;

function faultNotes({ faults, items, answeredBy }: TaskResult): string[] {
  const of = (count: number, what: string): string[] => (count > 0 ? [`${count} of ${items} ${what}`] : []);
  const nextToken = answeredBy["next token"] ?? 0;
  return [
    ...of(nextToken, "weighed by the log-probabilities of the next token"),
    ...of(faults.refused, "refused by the server or too long for the model; see the samples"),
    ...of(faults.missing, "lack a choice in the server's list of likely next tokens"),
    ...of(faults.unscored, "without a verdict, and in no score"),
    ...of(faults.cut, "answers reached the bound of new tokens"),
    ...Object.entries(faults.executions ?? {}).flatMap(([outcome, count]) => of(count, `programs: ${outcome}`)),
  ];
}

/** The comparison of two evaluations, a row for each metric of each task. */
export function comparisonLines(comparison: ResultsComparison, format: ScoreFormat): string[] {
  const rows = comparison.tasks.flatMap((task) => task.comparisons.map((one) => ({ task, one })));
  if (format === "csv") {
    return [
      "task,protocol,shots,metric,scale,items,first,second,difference,low,high,level,gained,lost,p_value,left_out",
      ...rows.map(({ task, one }) =>
        csvLine([
          task.task,
          task.protocol,
          task.shots,
          one.metric,
          one.scale,
          one.items,
          one.first,
          one.second,
          one.difference,
          one.interval?.low,
          one.interval?.high,
          one.interval?.level,
          isCounted(one) ? one.gained.length : undefined,
          isCounted(one) ? one.lost.length : undefined,
          one.pValue,
          one.leftOut,
        ]),
      ),
    ];
  }
  const header = [
    "task",
    "protocol",
    "metric",
    ">first",
    ">second",
    ">difference",
    ">95% interval",
    ">gained",
    ">lost",
    ">p",
  ];
  const cells = rows.map(({ task, one }, i) => {
    const isFirst = rows[i - 1]?.task !== task;
    return [
      isFirst ? task.title : "",
      isFirst ? `${task.protocol}, ${task.shots}-shot` : "",
      one.title,
      formatScore(one.first, one.scale),
      formatScore(one.second, one.scale),
      `${one.difference > 0 ? "+" : ""}${formatScore(one.difference, one.scale)}`,
      formatInterval(one.interval, one.scale),
      isCounted(one) ? String(one.gained.length) : "",
      isCounted(one) ? String(one.lost.length) : "",
      one.pValue === undefined ? "" : one.pValue < 0.001 ? "<0.001" : one.pValue.toFixed(3),
    ];
  });
  return format === "markdown" ? markdownTable(header, cells, [0, 1]) : formatTable(header, cells);
}

/** Whether items are right or wrong, so that flips can be counted. */
function isCounted({ pValue }: Comparison): boolean {
  return pValue !== undefined;
}

/** @param repeated columns whose empty cells take the value above, as Markdown tables are cut up and sorted */
function markdownTable(header: readonly string[], rows: readonly string[][], repeated: readonly number[]): string[] {
  const cell = (text: string): string => text.replaceAll("|", "\\|").replaceAll("\n", " ");
  const line = (cells: readonly string[]): string => `| ${cells.map(cell).join(" | ")} |`;
  const filled = rows.map((row) => [...row]);
  for (const [i, row] of filled.entries()) {
    for (const column of repeated) row[column] ||= filled[i - 1]?.[column] ?? "";
  }
  return [
    line(header.map((title) => title.replace(/^>/, ""))),
    `| ${header.map((title) => (title.startsWith(">") ? "---:" : "---")).join(" | ")} |`,
    ...filled.map(line),
  ];
}

/** One line of CSV (RFC 4180). What is not there, or no number, is empty. */
function csvLine(cells: readonly (string | number | null | undefined)[]): string {
  return cells
    .map((cell) => {
      if (cell === null || cell === undefined || (typeof cell === "number" && !Number.isFinite(cell))) return "";
      const text = String(cell);
      return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    })
    .join(",");
}
