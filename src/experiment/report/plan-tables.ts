// The tables that a plan lists, with its own rows and columns: such as those of a paper, in its order.
import type { CrossedModel } from "../../evaluate/scoring/index.js";
import type { Cell, NumberCell } from "../../figures/index.js";
import { groupBy } from "../../kit/index.js";
import { meaningOf, membersOf } from "../plan/expert-names.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import { inLanguages, languagesOf, plannedTask } from "../plan/plan-tasks.js";
import { type ComparedRow, compareCrossed, compareRows } from "./comparisons.js";
import { tasksIn } from "./overview.js";
import type { ReportTable } from "./report-data.js";
import { type Sheet, UNKNOWN_MODEL } from "./score-sheet.js";
import { LEAD_COLUMNS, LEADS, leadCells } from "./tables.js";

type Planned = ExperimentPlan["tables"][number];
type Column = Planned["columns"][number];
type Statistic = Planned["rows"][number]["show"][number];

export function planTables(sheet: Sheet, plan: ExperimentPlan): ReportTable[] {
  return plan.tables.map(({ name, note = "", rows, columns, languages }, i) => {
    const placed = rows.flatMap(({ tasks, show }) => {
      if (!tasks.some(hasLanguage)) return tasks.map((task) => ({ task, codes: languages, show }));
      // One language after the other, each with all of the tasks.
      return (languages ?? languagesOf(plan)).flatMap((code) =>
        tasks.map((task) => ({ task: inLanguages(task, [code]).join(), codes: [code], show })),
      );
    });
    const hasStatistics = rows.some(({ show }) => show.join() !== "mean");
    return {
      id: `table-${i + 1}`,
      title: name,
      note: [note, ...(hasStatistics ? [] : ["Means over models."])].filter((part) => part !== "").join(" "),
      columns: ["", ...(hasStatistics ? [""] : []), ...columns.map(({ title }) => title)],
      rows: placed.flatMap(({ task, codes, show }) =>
        show.map((statistic): Cell[] => [
          sheet.titleOf(task),
          ...(hasStatistics ? [statistic] : []),
          ...columns.map((column) => cellOf(column, { task, codes, statistic }, sheet, plan)),
        ]),
      ),
    };
  });
}

const hasLanguage = (task: string) => task.includes("{language}");

interface Place {
  readonly task: string;
  /** Languages whose models are meant; undefined: all. */
  readonly codes: readonly string[] | undefined;
  readonly statistic: Statistic;
}

/** A pair of `comparisons` on a task that both are asked, with the models that are. */
interface Pair {
  readonly first: ComparedRow;
  readonly over: ComparedRow;
  readonly task: string;
}

function pairsOf(sheet: Sheet, plan: ExperimentPlan): Pair[] {
  const tasks = tasksIn(sheet, plan);
  const row = (label: string) => ({
    label,
    models: modelsOf({ title: label, of: [label], at: "default" }, undefined, sheet, plan),
  });
  return plan.comparisons.flatMap(([first = "", second = ""]) => {
    const [own, other] = [row(first), row(second)];
    return tasks.flatMap((task) => {
      const asked = [own, other].map(({ label, models }) => ({
        label,
        models: models.filter((name) => sheet.isEvaluated(name, task)),
      }));
      const [one, over] = asked as [typeof own, typeof other];
      return one.models.length > 0 && over.models.length > 0 ? [{ first: one, over, task }] : [];
    });
  });
}

/** The difference of each pair of `comparisons` on every task that both are asked; undefined if there is none yet. */
export function comparisonTable(sheet: Sheet, plan: ExperimentPlan): ReportTable | undefined {
  const found = compareRows(pairsOf(sheet, plan), sheet);
  if (found.length === 0) return undefined;
  return {
    id: "comparisons",
    title: "Compared in pairs",
    note: `The first less the second. ${LEADS}`,
    columns: ["first", "second", "task", ...LEAD_COLUMNS],
    rows: found.map(({ of: { first, task }, lead }) => {
      const { scale } = sheet.cell(first.models, task);
      return [first.label, lead.over, sheet.titleOf(task), ...leadCells(lead, scale)];
    }),
  };
}

/** A variant of a matrix with its scores. */
export interface ScoredVariant {
  readonly id: string;
  readonly plan: ExperimentPlan;
  readonly sheet: Sheet;
}

/**
 * The same over the variants of a matrix, which are paired: each is a draw, as items are. Variants with the same answers of both
 * rows, which share their models, count once. Undefined if no pair is in two variants.
 */
export function pooledTable(variants: readonly ScoredVariant[]): ReportTable | undefined {
  const all = variants.flatMap(({ id, plan, sheet }) =>
    pairsOf(sheet, plan).map((pair) => {
      const { first, over, task } = pair;
      const valuesOf = ({ models }: ComparedRow): CrossedModel[] => {
        const values = models.includes(UNKNOWN_MODEL) ? undefined : sheet.itemMeans(models, task);
        return values && values.size > 0 ? [{ levels: { variants: id }, values }] : [];
      };
      const rows = { first: valuesOf(first), second: valuesOf(over) };
      const answers = [first, over].map(({ models }) => models.flatMap((name) => sheet.stepKeys(name, task)).sort());
      const scale = sheet.cell(first.models, task).scale;
      return { pair, rows, answers: JSON.stringify(answers), scale, task: plannedTask(task, plan) };
    }),
  );
  const known = all.filter(({ rows: { first, second } }) => first.length > 0 && second.length > 0);
  const groups = groupBy(known, ({ pair: { first, over }, task }) => JSON.stringify([first.label, over.label, task]));
  const pooled = [...groups.values()].flatMap((some) => {
    const distinct = [...groupBy(some, ({ answers }) => answers).values()].flatMap(([one]) => one ?? []);
    const [one] = distinct;
    if (!one || distinct.length < 2) return [];
    const first = distinct.flatMap(({ rows }) => rows.first);
    const second = distinct.flatMap(({ rows }) => rows.second);
    return [{ of: one, over: one.pair.over.label, first, second }];
  });
  const found = compareCrossed(pooled);
  if (found.length === 0) return undefined;
  return {
    id: "comparisons",
    title: "Compared in pairs, over the variants",
    note: `The first less the second, paired in each variant. Variants count as drawn at random, though some share experts; those with the same models of both count once. ${LEADS}`,
    columns: ["first", "second", "task", ...LEAD_COLUMNS],
    rows: found.map(({ of: { pair, task, scale }, lead }) => [
      pair.first.label,
      lead.over,
      task,
      ...leadCells(lead, scale),
    ]),
  };
}

function cellOf(column: Column, { task, codes, statistic }: Place, sheet: Sheet, plan: ExperimentPlan): NumberCell {
  const models = modelsOf(column, codes, sheet, plan);
  const { value, range, scale } = sheet.cell(models, task);
  if (statistic === "mean" || typeof value !== "number") return { value, scale };
  return { value: (statistic === "min" ? range?.low : range?.high) ?? value, scale };
}

/** Names of the models of a column that are in one of the languages, with `UNKNOWN_MODEL` in place of those to come. */
function modelsOf({ of, at }: Column, codes: Place["codes"], sheet: Sheet, plan: ExperimentPlan): string[] {
  const members = membersOf(plan);
  const isMeant = ({ languages }: Named) => codes === undefined || languages.some((code) => codes.includes(code));
  return of.flatMap((name): string[] => {
    if (name === "base") return ["base"];
    const named = meaningOf(name, members)?.members;
    if (named) {
      const own = new Set(named.map((member) => member.name));
      return known(
        sheet.experts.filter((expert) => own.has(expert.name)),
        isMeant,
        sheet,
      );
    }
    const merges = sheet.merges.filter(({ merge }) => merge.name === name);
    const found = merges.flatMap((model) => {
      const { configuration, group } = model;
      if (!sheet.searchOf(group) || at === "default") return configuration.isDefault ? [model] : [];
      const chosen = sheet.chosenLabel(group);
      if (chosen === undefined) return configuration.isDefault ? [{ ...model, name: UNKNOWN_MODEL }] : [];
      return configuration.label === chosen ? [model] : [];
    });
    return known(found, isMeant, sheet);
  });
}

type Named = { readonly name: string; readonly languages: readonly string[] };

function known(all: readonly Named[], isMeant: (model: Named) => boolean, { expansion }: Sheet): string[] {
  if (all.length === 0 && expansion.waiting.length > 0) return [UNKNOWN_MODEL];
  return all.filter(isMeant).map(({ name }) => name);
}
