// The columns of the paper's tables, for one language: which models each is the mean of, and what it is to be called.
// Rows of the main tables, under the plan's own names, are rows.ts's.
import type { MergeModel } from "../plan/plan-models.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import { SETTINGS, type Setting } from "../published.js";
import { chosenLabel, defaultName } from "./rows.js";
import { type Basis, type Sheet, UNKNOWN_MODEL } from "./sheet.js";

/** The models of a column, and what a reader should know of them. */
export interface Column {
  /** Empty where the experiment has nothing of the kind. */
  readonly models: readonly string[];
  /** The paper's name of the column, or, where what stands there is not quite that, what it is. */
  readonly label: string;
  /** Such as the configuration. */
  readonly detail: string;
}

/** What a merge stands for in the paper's tables: said by the plan, or known by its method. */
export function columnOf({ merge, members, source }: MergeModel): string | undefined {
  if (merge.column !== undefined) return merge.column;
  if (typeof source === "string" || merge.suggest || members.length > 2) return undefined;
  return { soup: "soup", ties: "ties", swap: "swap" }[source.method];
}

/** The names of a plan's merges that fit a column: those that the plan puts there, or, where it puts none, by method. */
export function mergesThatFit(sheet: Sheet, column: string, language: string): string[] {
  const fitting = sheet.merges.filter((model) => columnOf(model) === column && model.languages.includes(language));
  const named = fitting.filter(({ merge }) => merge.column !== undefined);
  return [...new Set((named.length > 0 ? named : fitting).map(({ merge }) => merge.name))];
}

/** The merges of a column for a language: of the first merge of the plan that fits, for two are no mean of one. */
export function mergesIn(sheet: Sheet, column: string, language: string): MergeModel[] {
  const [first] = mergesThatFit(sheet, column, language);
  return sheet.merges.filter((model) => model.merge.name === first && model.languages.includes(language));
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
  const label = SETTINGS[setting];
  const experts = (role: string): Column => {
    const models = sheet.experts.filter(
      (one) => one.role === role && (role !== "language" || plan.experts[one.family]?.language === language),
    );
    const families = [...new Set(models.map(({ family }) => family))];
    return { models: models.map(({ name }) => name), label, detail: families.length > 1 ? families.join(", ") : "" };
  };
  switch (setting) {
    case "base":
      return { models: ["base"], label, detail: "" };
    case "language":
    case "math":
    case "joint":
      return experts(setting === "math" ? "task" : setting);
    case "soup":
    case "ties":
      return best(mergesIn(sheet, setting, language), sheet, basis, label);
    case "default": {
      const models = mergesIn(sheet, "swap", language);
      const defaults = models.filter(({ configuration }) => configuration.isDefault);
      const what = isSearched(models, sheet) ? `, ${defaultName(models)}` : "";
      const isNamed = models.length === 0 || models[0]?.merge.default !== undefined;
      return {
        models: defaults.map(({ name }) => name),
        label: isNamed ? label : `layer swap${what}`,
        detail: defaults[0]?.configuration.label ?? "",
      };
    }
    case "languageSoups":
    case "multilingualSoup": {
      const merges = mergesIn(sheet, setting === "languageSoups" ? "language" : "multilingual", language);
      const defaults = merges.filter(({ configuration }) => configuration.isDefault);
      return { models: defaults.map(({ name }) => name), label, detail: "" };
    }
    case "best": {
      const models = mergesIn(sheet, "swap", language);
      // Where nothing was searched, there is one configuration, and it stands in the column before.
      if (models.length > 0 && !isSearched(models, sheet)) return { models: [], label, detail: "none was searched" };
      return best(models, sheet, basis, label);
    }
  }
}

function isSearched(models: readonly MergeModel[], sheet: Sheet): boolean {
  return models.some(({ group }) => sheet.searchOf(group));
}

/** The models of the chosen configuration, each family of pairs its own; all of them where nothing was searched. */
function best(models: readonly MergeModel[], sheet: Sheet, basis: Basis, label: string): Column {
  const [first] = models;
  if (!first) return { models: [], label, detail: "" };
  if (!isSearched(models, sheet)) {
    const names = models.map(({ name }) => name);
    return { models: names, label: label.replace(", best configuration", ""), detail: first.configuration.label };
  }
  const chosen = models.filter((model) => model.configuration.label === chosenLabel(sheet, model.group, basis));
  if (chosen.length === 0) return { models: [UNKNOWN_MODEL], label, detail: "" };
  const details = [...new Set(chosen.map(({ configuration }) => configuration.label))];
  return { models: chosen.map(({ name }) => name), label, detail: details.join(" or ") };
}
