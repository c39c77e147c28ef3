import { type Cell, formatNumber } from "../../figures/index.js";
import { formatSome, plural } from "../../kit/printing/index.js";
import type { Selection } from "../expand/choose-checkpoints.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import type { PublishedScore } from "../plan/published.js";
import type { Overview, ReportTable } from "./report-data.js";
import type { Sheet } from "./score-sheet.js";

/** Every checkpoint of a family with `select`: its scores, and why it was refused. */
export function selectionTable(
  { expertFamily, top, by, scale, guards, checkpoints }: Selection,
  sheet: Sheet,
): ReportTable {
  const kept = checkpoints.filter(({ name }) => name !== undefined).length;
  const refused = checkpoints.filter(({ refusedBy }) => refusedBy.length > 0).length;
  const floors = guards.map(({ task, within, base }) => {
    const { scale = "share" } = sheet.task(task) ?? {};
    const score = formatNumber({ value: points(base, scale), scale });
    const bound = within < 0 ? `at least ${-within} above` : `at most ${within} below`;
    return `${sheet.titleOf(task)}: ${bound} the base's ${score}`;
  });
  const isStandard = scale === "z-score";
  const decided = by.map((task) => sheet.titleOf(task)).join(" and ");
  const how = isStandard
    ? ", on average of their z-scores over these checkpoints, as percent and points cannot be averaged"
    : by.length > 1
      ? ", on average"
      : "";
  return {
    id: `checkpoints-${expertFamily}`,
    title: `Checkpoints of ${expertFamily}`,
    note: [
      `${kept} of ${plural(checkpoints.length, "checkpoint")} kept; ${top} wanted. Best first by ${decided}${how}; tied ones in the order of the plan.`,
      ...(floors.length > 0 ? [`Guards: ${floors.join("; ")}. They refused ${refused}.`] : []),
    ].join(" "),
    columns: [
      "checkpoint",
      isStandard ? `${decided} (mean z-score)` : decided,
      ...guards.map(({ task }) => `${sheet.titleOf(task)} against the base`),
      "outcome",
    ],
    rows: checkpoints.map(({ origin, score, guarded, refusedBy, name, sameAs }): Cell[] => [
      origin,
      isStandard ? { value: score, scale: "setting", isSigned: true } : { value: points(score, scale), scale },
      ...guarded.map((value = 0, i): Cell => {
        const { task = "", base = 0 } = guards[i] ?? {};
        return {
          value: points(value - base, scaleOf(task, sheet)) ?? null,
          scale: scaleOf(task, sheet),
          isSigned: true,
        };
      }),
      name !== undefined
        ? `kept as ${name}`
        : refusedBy.length > 0
          ? `refused by ${refusedBy.map((task) => sheet.titleOf(task)).join(" and ")}`
          : sameAs
            ? `same run as ${sameAs}`
            : `below the best ${top}`,
    ]),
  };
}

const scaleOf = (task: string | undefined, sheet: Sheet) => sheet.task(task ?? "")?.scale ?? "share";

/** Steps keep a hundredth of a score in points. */
function points(value: number | undefined, scale: "share" | "points"): number | undefined {
  return value !== undefined && scale === "points" ? 100 * value : value;
}

/**
 * A row for each published score whose task and row the main tables have, with why the two cannot be compared, if so;
 * undefined if there are none. The note names the rows of either side that the other does not have.
 */
export function publishedTable(
  published: readonly PublishedScore[],
  overviews: readonly Overview[],
  asked: ExperimentPlan["evaluate"]["tasks"],
): ReportTable | undefined {
  const rows: Cell[][] = [];
  const missing: string[] = [];
  const found = new Set<string>();
  for (const { task, row, score, min, max, differs } of published) {
    const overview = overviews.find((one) => one.task === task);
    const bar = overview?.bars.find(({ label, labels = [] }) => label === row || labels.includes(row));
    if (!overview || (!bar && !overview.rows.some(({ label }) => label === row))) {
      missing.push(`${row} of ${task}`);
      continue;
    }
    const { scale } = overview;
    for (const label of [row, bar?.label ?? row, ...(bar?.labels ?? [])]) found.add(`${task} ${label}`);
    const own = { value: bar?.mean, interval: bar?.interval, scale };
    const range = bar && bar.count > 1 ? [bar.low, bar.high] : [null, null];
    const printed = [score, min, max].map((value) => ({ value: onScale(value, scale), scale, digits: 1 }));
    const limit = asked.find((one) => isInLanguage(task, one.task))?.limit;
    const why = differs || (limit === undefined ? "" : `no: at most ${plural(limit, "item")} asked`);
    const cells = [...range.map((value) => ({ value, scale })), ...printed];
    rows.push([overview.title, row, own, ...cells, why === "" ? "yes" : why]);
  }
  if (rows.length === 0) return undefined;
  const alone = overviews.flatMap(({ task, rows: own }) =>
    own.flatMap(({ label }) => (found.has(`${task} ${label}`) ? [] : [`${label} of ${task}`])),
  );
  const absent = missing.length === 0 ? "" : ` Not in the main tables: ${formatSome(missing)}.`;
  const unpublished = alone.length === 0 ? "" : ` Without a published score: ${formatSome(alone)}.`;
  return {
    id: "published",
    title: "Published scores",
    note: `Means over the models of a row, with their minimum and maximum. Other prompts give other absolute numbers.${absent}${unpublished}`,
    columns: ["task", "row", "score", "min", "max", "published", "published min", "published max", "comparable"],
    rows,
  };
}

/** Whether a task is the one that a plan names, in one of its languages. */
const isInLanguage = (task: string, named: string) => {
  const [before = "", after] = named.split("{language}");
  return after === undefined ? task === named : task.startsWith(before) && task.endsWith(after);
};

// Rounded: 32.8 / 100 is not 0.328.
function onScale(value: number | undefined, scale: Overview["scale"]): number | null {
  if (value === undefined) return null;
  return scale === "share" ? Number((value / 100).toFixed(6)) : value;
}
