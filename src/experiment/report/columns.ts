// The columns of the paper's tables, for one language: which models each is the mean of.
import type { Expansion } from "../plan/expand.js";
import type { MergeModel } from "../plan/models.js";
import type { ExperimentPlan } from "../plan/schema.js";
import type { Setting } from "../published.js";
import type { Basis, Sheet } from "./sheet.js";

/** The models of a column, and what a reader should know of them. */
export interface Column {
  readonly models: readonly string[];
  readonly detail: string;
}

/** What a merge stands for in the paper's tables: said by the plan, or known by its method. */
export function columnOf({ merge, members, source }: MergeModel): string | undefined {
  if (merge.column !== undefined) return merge.column;
  if (typeof source === "string" || merge.suggest || members.length > 2) return undefined;
  return { soup: "soup", ties: "ties", swap: "swap" }[source.method];
}

/** The merges of a column for a language: those whose language it is. */
export function mergesIn(sheet: Sheet, column: string, language: string): MergeModel[] {
  return sheet.merges.filter((model) => columnOf(model) === column && model.languages.includes(language));
}

/**
 * The models of one of the paper's columns.
 * @param basis for the best configuration: chosen on the items of the search, or on all
 */
export function settingColumn(
  setting: Setting,
  language: string,
  sheet: Sheet,
  plan: ExperimentPlan,
  basis: Basis,
): Column {
  const experts = (role: string) =>
    sheet.experts.filter(
      (one) => one.role === role && (role !== "language" || plan.experts[one.family]?.language === language),
    );
  const column = (models: readonly { name: string }[], detail = ""): Column => ({
    models: models.map(({ name }) => name),
    detail,
  });
  switch (setting) {
    case "base":
      return column([{ name: "base" }]);
    case "language":
    case "math":
    case "joint":
      return column(experts(setting === "math" ? "task" : setting));
    case "soup":
    case "ties":
      return best(mergesIn(sheet, setting, language), sheet.expansion, basis);
    case "default": {
      const models = mergesIn(sheet, "swap", language).filter(({ configuration }) => configuration.isDefault);
      return column(models, models[0]?.configuration.label ?? "");
    }
    case "best":
      return best(mergesIn(sheet, "swap", language), sheet.expansion, basis);
  }
}

/** The models of the chosen configuration; all of them where there is only one, none while the search goes on. */
export function best(models: readonly MergeModel[], { searches }: Expansion, basis: Basis): Column {
  const [first] = models;
  const search = searches.find(({ group }) => group === first?.group);
  if (!first) return { models: [], detail: "" };
  if (!search) return { models: models.map(({ name }) => name), detail: first.configuration.label };
  const label = basis === "all" ? (search.chosenOnTest ?? search.chosen) : search.chosen;
  const chosen = models.filter(({ configuration }) => configuration.label === label);
  // A name that no model has, so that the cell says that it is not known yet.
  return chosen.length > 0
    ? { models: chosen.map(({ name }) => name), detail: label ?? "" }
    : { models: ["?"], detail: "" };
}
