// Grids of numbers: scores over two fields of a grid, and what pairs of experts both changed by layer.

import { layerGrid } from "../../figures/index.js";
import { groupBy } from "../../kit/index.js";
import { formatPercent } from "../../kit/printing/index.js";
import type { Expansion } from "../expand/expand-plan.js";
import type { Results } from "../expand/facts.js";
import type { MergeModel } from "../expand/plan-models.js";
import { fieldTitle, plainly } from "../plan/configurations.js";
import type { SearchOutcome } from "../search/search.js";
import { rankConfigurations } from "../search/search.js";
import type { Overlap } from "../steps/result.js";
import type { JsonValue } from "../steps/step.js";
import type { ReportHeatmap } from "./report-data.js";
import type { Sheet } from "./score-sheet.js";

const MAX_FIGURES = 6;

/** One figure for each value of the fields that are not axes; none if no field has several numbers. */
export function gridFigures(sheet: Sheet, search: SearchOutcome): ReportHeatmap[] {
  const models = sheet.merges.filter(({ group, merge }) => group === search.group && !merge.suggest && !merge.space);
  const [first] = models;
  if (!first) return [];
  const [rowField, columnField] = axesOf(models);
  if (rowField === undefined) return [];
  const items = [...search.splits.values()].flatMap(({ rounds }) => rounds[0] ?? []).length;
  const pairs = new Set(models.map(({ members }) => members.join(" "))).size;
  const tasks = [...search.splits.keys()].map((task) => sheet.titleOf(task)).join(" and ");
  const note = `Percent right${pairs > 1 ? `, mean over ${pairs} pairs` : ""}, on the ${items} items of ${tasks} that every configuration was asked.`;
  const restOf = ({ configuration: { fields } }: MergeModel) =>
    Object.entries(fields)
      .filter(([field]) => field !== rowField && field !== columnField)
      .map(([field, value]) => `${fieldTitle(field)} ${plainly(value)}`)
      .join(", ");
  const figures = [...groupBy(models, restOf)].slice(0, MAX_FIGURES);
  return figures.map(([rest, inFigure], i): ReportHeatmap => {
    // A single field is the columns of one row.
    const [down, across] = columnField === undefined ? [undefined, rowField] : [rowField, columnField];
    const rows = down === undefined ? [undefined] : valuesOf(inFigure, down);
    const columns = valuesOf(inFigure, across);
    const at = (row: number | undefined, column: number) =>
      inFigure.filter(
        (model) => (down === undefined || settingOf(model, down) === row) && settingOf(model, across) === column,
      );
    const ranked = new Map(
      rankConfigurations(
        rows.flatMap((row) =>
          columns.flatMap((column) => searched(sheet, at(row, column), search, `${row} ${column}`)),
        ),
      ).map((one) => [one.configuration, one]),
    );
    const grid = rows.map((row) =>
      columns.map((column) => {
        const found = ranked.get(`${row} ${column}`);
        return found && Number.isFinite(found.mean) ? found : null;
      }),
    );
    const fixed = [rest, ...fixedLayers(first, [down, across])].filter((part) => part !== "");
    return {
      id: `grid-${search.group.replace(/\W+/g, "-")}-${i + 1}`,
      merge: first.merge.name,
      title: [search.group, ...fixed].join(", "),
      note,
      rowTitle: down === undefined ? "" : fieldTitle(down),
      columnTitle: fieldTitle(across),
      rows: rows.map((row) => (row === undefined ? "mean" : String(row))),
      columns: columns.map(String),
      cells: grid.map((row) => row.map((one) => one?.mean ?? null)),
      behind: grid.map((row) => row.map((one) => one && { behind: one.behind, margin: one.margin })),
      marked: rows.flatMap((row, r) =>
        columns.flatMap((column, c) => {
          const marks = at(row, column).flatMap(({ configuration: { label, isDefault }, merge }) => [
            ...(isDefault && merge.default !== undefined ? ["default" as const] : []),
            ...(label === search.chosen ? ["chosen" as const] : []),
          ]);
          return [...new Set(marks)].map((what) => ({ row: r, column: c, what }));
        }),
      ),
    };
  });
}

const settingOf = ({ configuration }: MergeModel, field: string): JsonValue | undefined => configuration.fields[field];

function valuesOf(models: readonly MergeModel[], field: string): number[] {
  const values = models.map((model) => settingOf(model, field)).filter((value) => typeof value === "number");
  return [...new Set(values)].sort((a, b) => a - b);
}

/** At most two fields with several numbers: layers first, then in the order of the plan. */
function axesOf(models: readonly MergeModel[]): string[] {
  const fields = [...new Set(models.flatMap(({ configuration }) => Object.keys(configuration.fields)))];
  const layers = ["bottom", "top"].filter((field) => fields.includes(field));
  return [...layers, ...fields.filter((field) => !layers.includes(field))]
    .filter((field) => valuesOf(models, field).length > 1)
    .slice(0, 2);
}

/** Layers that the recipe sets and configurations do not. */
function fixedLayers({ merge, configuration }: MergeModel, axes: readonly (string | undefined)[]): string[] {
  return ["bottom", "top"].flatMap((field) => {
    const value = merge.recipe?.[field];
    return axes.includes(field) || field in configuration.fields || typeof value !== "number"
      ? []
      : [`${field} ${value}`];
  });
}

/** What models of a cell got on the items of the first round, as in the table of the search. */
function searched(sheet: Sheet, models: readonly MergeModel[], search: SearchOutcome, configuration: string) {
  return models.flatMap(({ name }) =>
    [...search.splits].map(([task, { rounds }]) => {
      const seen = new Set(rounds[0]);
      const items = sheet.answers(name, task)?.items.filter(({ index }) => seen.has(index)) ?? [];
      return { configuration, task, items };
    }),
  );
}

export const OVERLAPS_LEAD =
  "Of the rows (input features) that at least one of two experts changed by more than its threshold, the share that both did, in percent. The threshold is the one that an eighth of the rows of an expert's matrices exceeds. A cell has no number where neither changed a row so much.";

/** A figure for each pair whose analysis is done: layers from the top, and projections. */
export function overlapFigures({ overlaps }: Pick<Expansion, "overlaps">, results: Results): ReportHeatmap[] {
  return overlaps.flatMap(({ experts: [a, b], key }): ReportHeatmap[] => {
    const found = results.overlap(key);
    if (!found) return [];
    const { columns, cells } = found;
    return [
      {
        id: `overlap-${`${a}-${b}`.replace(/\W+/g, "-")}`,
        title: `Changed rows that ${a} and ${b} share`,
        note: describeTotal(found),
        ...layerGrid(columns, cells, "projection"),
      },
    ];
  });
}

function describeTotal({ total, shares: [x = 0, y = 0] }: Overlap): string {
  if (total === null) return "Neither expert changed a row by more than its threshold.";
  const chance = (x * y) / (x + y - x * y);
  return `Over the whole model, with embeddings and norms, ${formatPercent(total)}; ${formatPercent(chance)} if the experts had changed as many rows drawn at random.`;
}

export const CHANGES_LEAD =
  "The share of the rows (input features) of each matrix that fine-tuning changed by more than a threshold, in percent: the mean absolute change of a row is compared.";

/** A figure for each expert whose analysis is done: layers from the top, and projections. */
export function changeFigures({ changes }: Pick<Expansion, "changes">, results: Results): ReportHeatmap[] {
  return changes.flatMap(({ expert, key }): ReportHeatmap[] => {
    const found = results.changed(key);
    if (!found) return [];
    const { columns, cells, threshold, total } = found;
    return [
      {
        id: `changes-${expert.replace(/\W+/g, "-")}`,
        title: `Rows that ${expert} changed by more than ${threshold.toExponential(1)}`,
        note: `Over the whole model, with embeddings and norms, ${formatPercent(total)}.`,
        ...layerGrid(columns, cells, "projection"),
      },
    ];
  });
}
