// The tables that a plan lists, with its own rows and columns: such as those of a paper, in its order.
import type { Cell, NumberCell } from "../../figures/index.js";
import { meaningOf, membersOf } from "../plan/expert-names.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import { inLanguages, languagesOf } from "../plan/plan-tasks.js";
import { compareRows } from "./comparisons.js";
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

/** The difference of each pair of `comparisons` on every task that both are asked; undefined if there is none yet. */
export function comparisonTable(sheet: Sheet, plan: ExperimentPlan): ReportTable | undefined {
  const tasks = tasksIn(sheet, plan);
  const row = (label: string) => ({
    label,
    models: modelsOf({ title: label, of: [label], at: "default" }, undefined, sheet, plan),
  });
  const all = plan.comparisons.flatMap(([first = "", second = ""]) => {
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
  const found = compareRows(all, sheet);
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
