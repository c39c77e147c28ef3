import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { type Bars, type Figure, type Grid, type Lines, marksOf, type Page, type TableFigure } from "./figures.js";
import { axisAround, axisWithin, placeOn, type Span, scoreAxis } from "./scores.js";
import { escaped } from "./svg.js";
import { type Cell, columnsOf, formatNumber, formatSpan, isNumber } from "./table.js";

export async function reportPage(page: Page): Promise<string> {
  const sections = page.sections.map((section) => ({ ...section, figures: section.figures.map(drawnFigure) }));
  const text = await pageWithData("#report-page", { ...page, sections });
  return text.replace("<title>Report</title>", () => headOf(page));
}

/** What programs that show a link to a page read, which run no script. */
function headOf({ title, lead, verdicts, picture }: Page): string {
  const meta = (name: string, content: string) => `<meta property="og:${name}" content="${escaped(content)}">`;
  const said = verdicts[0]?.text ?? lead;
  return [
    `<title>${escaped(title)}</title>`,
    `<meta name="description" content="${escaped(said)}">`,
    ...[meta("type", "article"), meta("title", title), meta("description", said)],
    ...(picture === undefined
      ? []
      : [
          ...[meta("image", picture), meta("image:width", "1200"), meta("image:height", "630")],
          ...[meta("image:alt", said), '<meta name="twitter:card" content="summary_large_image">'],
        ]),
  ].join("\n");
}

/** A figure as the script of assets/report.html draws it: with rounded numbers, and positions as shares of axes. */
export function drawnFigure(figure: Figure) {
  const { kind, title, note: caption } = figure;
  const head = { kind, title, caption };
  if (kind === "table") return { ...head, ...drawnTable(figure) };
  if (kind === "bars") return { ...head, ...drawnBars(figure) };
  if (kind === "grid") return { ...head, ...drawnGrid(figure) };
  if (kind === "lines") return { ...head, ...drawnLines(figure) };
  return { ...head, commands: figure.commands };
}

function drawnTable(table: TableFigure) {
  const { id, rows, what, isWhole, hasIntervals } = table;
  const columns = columnsOf(table).map(({ label, align }) => ({ label, align }));
  const most = Math.max(1, ...rows.flat().flatMap((cell) => countsIn(cell)));
  const cells = rows.map((row) => row.map((cell) => drawnCell(cell, most)));
  return { id, columns, rows: cells, what, isWhole, hasIntervals };
}

function countsIn(cell: Cell): readonly number[] {
  return typeof cell === "object" && "balance" in cell && cell.balance ? [cell.balance.lost, cell.balance.gained] : [];
}

/** @param most the largest count of the table, of which the lengths of bars are shares */
function drawnCell(cell: Cell, most: number) {
  if (typeof cell === "string") return { text: cell };
  if (!isNumber(cell)) {
    const counts = countsIn(cell);
    const [lost = 0, gained = 0] = counts;
    return counts.length === 0 ? cell : { ...cell, balance: { lost: lost / most, gained: gained / most, counts } };
  }
  const { interval, range, isBest } = cell;
  const hint = [
    ...(range ? [`${formatSpan(range, cell)} over ${range.count} models`] : []),
    ...(interval ? [`95% interval over items ${formatSpan(interval, cell)}`] : []),
  ].join("; ");
  return { text: formatNumber(cell), hint: hint === "" ? undefined : hint, isBest: isBest || undefined };
}

function drawnBars({ id, verdict, next = "", below = "", scale, rows }: Bars) {
  const axis = scoreAxis(rows, scale);
  const placed = ({ low, high }: Span) => [placeOn(axis, low), placeOn(axis, high)];
  const hasSeveral = rows.some(({ count }) => count > 1);
  return {
    id,
    conclusion: [verdict, next].filter((text) => text !== "").join(" "),
    below: [
      ...(below === "" ? [] : [below]),
      ...(rows.some(({ interval }) => interval) ? ["Lines: the 95% interval over items."] : []),
      ...(rows.length > 1 && rows.some(({ kind }) => kind === "base") ? ["Dashes: the base's score."] : []),
      ...(hasSeveral ? ["Bands: from the smallest to the largest of several models."] : []),
    ].join(" "),
    ticks: axis.ticks.map((tick) => formatTick(tick, scale)),
    rows: rows.map((row) => {
      const { label, kind, mean: value, target, detail, interval, count } = row;
      const ofModels = count > 1 ? [`${formatSpan(row, { scale })} over ${count} models`] : [];
      return {
        label,
        kind,
        at: placeOn(axis, value),
        value: { text: formatNumber({ value, scale }), isBest: row.isBest || undefined },
        target,
        about: [...(detail === "" ? [] : [detail]), ...ofModels].join("; "),
        interval: interval && placed(interval),
        span: interval && formatSpan(interval, { scale }),
        range: count > 1 ? placed(row) : undefined,
      };
    }),
  };
}

function drawnGrid(grid: Grid) {
  const { rowTitle, columnTitle, columns, rows, cells, digits, isDense, own } = grid;
  const values = cells.flat().filter((value) => typeof value === "number");
  const { low, high } = grid.span ?? { low: Math.min(...values), high: Math.max(...values) };
  const cellAt = (row: number, column: number) => {
    const value = cells[row]?.[column] ?? null;
    if (typeof value !== "number") return value;
    const text = formatNumber({ value, scale: "share", ...(digits === undefined ? {} : { digits }) });
    return { text, marks: marksOf(grid, row, column), depth: high > low ? (value - low) / (high - low) : 0 };
  };
  return {
    rowTitle,
    columnTitle,
    columns,
    rows: rows.map((label, row) => ({ label, cells: columns.map((_, column) => cellAt(row, column)) })),
    isDense,
    own,
  };
}

function drawnLines(figure: Lines) {
  const { note, verdict: conclusion, lines, xTitle } = figure;
  // Their intervals could not be told apart otherwise.
  const isDodged = lines.length > 1 && lines.some(({ points }) => points.some(({ interval }) => interval));
  const caption = isDodged ? `${note} Points of one ${xTitle} are drawn side by side.` : note;
  return { conclusion, caption, isDodged, ...placeLines(figure) };
}

/**
 * Puts data, and the tokens and components that all pages share, into the template of a page.
 * @param template an import of package.json, such as `#analysis-page`
 * @param data plain JSON
 */
export async function pageWithData(template: string, data: unknown): Promise<string> {
  const { resolve } = createRequire(import.meta.url);
  const files = [template, "#page-tokens", "#page-components"].map((name) => readFile(resolve(name), "utf8"));
  const [text = "", ...styles] = await Promise.all(files);
  // Only "<" can end a script element early; JSON allows it as an escape.
  const json = JSON.stringify(data).replaceAll("<", "\\u003c");
  return text.replace("/* __TOKENS__ */", () => styles.join("\n")).replace('"__DATA__"', () => json);
}

export const formatTick = (value: number, scale: Lines["scale"]) => formatNumber({ value, scale }).replace(/\.0$/, "");

/** Lines with positions as shares of the axes, from 0 at the left and at the bottom to 1. */
export function placeLines({
  xTitle,
  scale,
  yTitle = scale === "share" ? "percent right" : "score",
  lines,
  references,
}: Pick<Lines, "xTitle" | "yTitle" | "scale" | "lines" | "references">) {
  const points = lines.flatMap((line) => line.points);
  const xs = points.map((point) => point.x);
  // Such as rounds, which have nothing in between.
  const x = axisWithin(xs, xs.every(Number.isInteger) ? 1 : 0);
  const y = axisAround([
    ...points.flatMap(({ mean, interval }) => [mean, interval?.low ?? mean, interval?.high ?? mean]),
    ...references.map(({ mean }) => mean),
  ]);
  return {
    xTitle,
    yTitle,
    xTicks: x.ticks.map((tick) => ({ at: placeOn(x, tick), text: String(tick) })),
    yTicks: y.ticks.map((tick) => ({ at: placeOn(y, tick), text: formatTick(tick, scale) })),
    references: references.map(({ label, mean }) => ({
      at: placeOn(y, mean),
      text: `${label} ${formatNumber({ value: mean, scale })}`,
    })),
    lines: lines.map(({ label, points: own }) => ({
      label,
      points: own.map(({ x: place, mean, interval }) => ({
        at: [placeOn(x, place), placeOn(y, mean)] as const,
        ...(interval ? { interval: [placeOn(y, interval.low), placeOn(y, interval.high)] as const } : {}),
        // The line and its place, in words.
        where: `${label === "" ? "" : `${label}, `}${xTitle} ${place}`,
        value: formatNumber({ value: mean, scale }) + (interval ? ` (95%: ${formatSpan(interval, { scale })})` : ""),
      })),
    })),
  };
}
