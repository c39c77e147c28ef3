// For each task, a table with a line for each variant and a column for each row of its main table.

import type { Cell, NumberCell } from "../../figures/index.js";
import { groupBy } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import { decidingTask, plannedTask } from "../plan/plan-tasks.js";
import type { Highest, Overview, OverviewBar, ReportTable, ReportVariant } from "./report-data.js";

type PlannedVariant = ReportVariant & { readonly plan: ExperimentPlan };

/** The main table of a variant, and the task as the plan writes it. */
interface Placed {
  readonly variant: PlannedVariant;
  readonly overview: Overview;
  readonly task: string;
}

/** The tables that compare the variants, that of the deciding task first; and which row is highest how often. */
export function compareVariants(variants: readonly PlannedVariant[]): {
  readonly compared: readonly ReportTable[];
  readonly highest: Highest;
} {
  const placed = variants.flatMap((variant) =>
    variant.report.overviews
      .filter(({ bars }) => bars.length > 0)
      .map((overview): Placed => ({ variant, overview, task: plannedTask(overview.task, variant.plan) })),
  );
  const isDeciding = (group: readonly Placed[]) =>
    group.some(({ task, variant }) => task === decidingTask(variant.plan));
  const groups = [...groupBy(placed, ({ task }) => task).values()];
  const sorted = groups.toSorted((a, b) => Number(isDeciding(b)) - Number(isDeciding(a)));
  return { compared: sorted.map((group) => variantsTable(group, variants)), highest: highestIn(sorted[0] ?? []) };
}

/** Rows that a sentence names. */
const MAX_NAMED = 3;

/** Rows that are compared: no controls, and no means of other rows. */
const isCompared = ({ kind, isSummary }: OverviewBar) => kind !== "control" && !isSummary;

function variantsTable(group: readonly Placed[], variants: readonly PlannedVariant[]): ReportTable {
  const [first] = group as readonly [Placed];
  const scale = first.overview.scale;
  const cells = new Map(group.map(({ variant, overview }) => [variant.id, cellsOf(overview)]));
  const labels = [...new Set([...cells.values()].flatMap((own) => [...own.keys()]))];
  const rows = variants.map(({ id, title }): Cell[] => [
    title,
    ...labels.map((label) => cells.get(id)?.get(label) ?? { value: null, scale }),
  ]);
  const means = labels.map((_, i): NumberCell => {
    const values = rows.map((row) => (row[i + 1] as NumberCell).value);
    const known = values.filter((value) => typeof value === "number");
    const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
    return { value: known.length === values.length ? mean : null, scale };
  });
  const titles = [...new Set(group.map(({ overview }) => overview.title))];
  const name = first.task.replace(/\.ya?ml$|[{}]/g, "").replace(/\W+/g, "-");
  return {
    id: `variants-${name}`,
    title: titles.join(", "),
    note: `${scale === "share" ? "Percent right" : "Scores"}; a row for each variant. In bold: significantly above every other row of the variant's own table. A mean is of all variants, where all have it. ${highestText(highestIn(group))}`.trim(),
    columns: ["variant", ...labels],
    rows: [...rows, ...(variants.length > 1 ? [[`mean of ${plural(variants.length, "variant")}`, ...means]] : [])],
  };
}

function cellsOf({ bars, scale }: Overview): Map<string, NumberCell> {
  const compared = bars.filter(isCompared);
  const hasOne = (label: string) => compared.filter((bar) => bar.label === label).length === 1;
  return new Map(
    compared.flatMap(({ label, labels = [label], detail, mean, interval, isBest }) =>
      labels.map(
        (one) => [hasOne(label) ? one : `${one}, ${detail}`, { value: mean, scale, interval, isBest }] as const,
      ),
    ),
  );
}

/** Which row is highest in how many variants. */
function highestIn(group: readonly Placed[]): Highest {
  const found = group.map(({ overview: { finding, bars } }) => {
    // Without a finding, the only row.
    const label = finding ? finding.subject.label : (bars.find(isCompared)?.label ?? "");
    return { label: finding?.outcome === "tied" ? "" : label, isBest: finding?.isBest === true };
  });
  const counts = [...groupBy(found, ({ label }) => label)].toSorted(([, a], [, b]) => b.length - a.length);
  return {
    of: group.length,
    rows: counts.flatMap(([label, some]) =>
      label === "" ? [] : [{ label, highest: some.length, best: some.filter(({ isBest }) => isBest).length }],
    ),
    tied: counts.find(([label]) => label === "")?.[1].length ?? 0,
  };
}

/** `swap is highest in 14 of 24 variants (significantly in 3), soup in 9, tied in 1.`; empty for one variant. */
export function highestText({ of, rows, tied }: Highest): string {
  if (of < 2) return "";
  const others = rows.slice(MAX_NAMED).reduce((sum, { highest }) => sum + highest, 0);
  const parts = rows.slice(0, MAX_NAMED).map(({ label, highest, best }, i) => {
    const where = i === 0 ? `is highest in ${highest} of ${of} variants` : `in ${highest}`;
    return `${label} ${where}${best > 0 ? ` (significantly in ${best})` : ""}`;
  });
  if (parts.length === 0) return `The highest rows are tied in ${tied} of ${of} variants.`;
  return `${[...parts, ...(others > 0 ? [`other rows in ${others}`] : []), ...(tied > 0 ? [`a tie in ${tied}`] : [])].join(", ")}.`;
}
