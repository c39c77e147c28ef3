// The columns of the paper's tables for one language: the models of each, and its title.
import type { MergeModel } from "../plan/plan-models.js";
import { SETTINGS, type Setting, type SettingModels } from "../published-scores.js";
import { defaultName } from "./overview.js";
import { type Basis, type Sheet, UNKNOWN_MODEL } from "./score-sheet.js";

export interface Column {
  /** Empty if the experiment has none. */
  readonly models: readonly string[];
  /** The paper's name; another one if the models are not quite what the paper had. */
  readonly label: string;
  /** The configuration, or the families of several experts. */
  readonly detail: string;
}

/** The column of a merge: the plan's, otherwise by its method. */
function columnOf({ merge, members, source }: MergeModel): string | undefined {
  if (merge.column !== undefined) return merge.column;
  if (typeof source === "string" || merge.suggest || members.length > 2) return undefined;
  return ["soup", "ties", "swap"].find((method) => method === source.method);
}

/** Names of the merges that fit a column: those that the plan puts there, otherwise by method. The first one is used. */
export function mergesThatFit(sheet: Sheet, column: string, language: string): string[] {
  const fitting = sheet.merges.filter(
    (model) => model.merge.controlOf === undefined && columnOf(model) === column && model.languages.includes(language),
  );
  const named = fitting.filter(({ merge }) => merge.column !== undefined);
  return [...new Set((named.length > 0 ? named : fitting).map(({ merge }) => merge.name))];
}

/** The models of a column. @param basis by which the best configuration is chosen */
export function settingColumn(setting: Setting, language: string, sheet: Sheet, basis: Basis): Column {
  const { label, role, merge, configuration }: SettingModels = SETTINGS[setting];
  if (role !== undefined) {
    const models = sheet.experts.filter(
      (one) => one.role === role && (role !== "language" || one.languages.includes(language)),
    );
    const families = [...new Set(models.map(({ family }) => family))];
    return { models: models.map(({ name }) => name), label, detail: families.length > 1 ? families.join(", ") : "" };
  }
  if (merge === undefined) return { models: ["base"], label, detail: "" };
  const [name] = mergesThatFit(sheet, merge, language);
  const models = sheet.merges.filter(
    (model) =>
      model.merge.name === name &&
      model.languages.includes(language) &&
      (model.merge.figure === undefined || model.configuration.isDefault),
  );
  if (configuration === "default") return defaultColumn(setting, models, sheet, label);
  const isSearched = models.some(({ group }) => sheet.searchOf(group));
  // Without a search, the only configuration is in the column of the default.
  if (setting === "best" && models.length > 0 && !isSearched) return { models: [], label, detail: "none was searched" };
  return bestColumn(models, sheet, basis, label);
}

function defaultColumn(setting: Setting, models: readonly MergeModel[], sheet: Sheet, label: string): Column {
  const defaults = models.filter(({ configuration }) => configuration.isDefault);
  const names = defaults.map(({ name }) => name);
  if (setting !== "default") return { models: names, label, detail: "" };
  const isNamed = models.length === 0 || models[0]?.merge.default !== undefined;
  const which = models.some(({ group }) => sheet.searchOf(group)) ? `, ${defaultName(models)}` : "";
  return {
    models: names,
    label: isNamed ? label : `layer swap${which}`,
    detail: defaults[0]?.configuration.label ?? "",
  };
}

/** The models of the chosen configurations, one for each group; all models if there was no search. */
function bestColumn(models: readonly MergeModel[], sheet: Sheet, basis: Basis, label: string): Column {
  const [first] = models;
  if (!first) return { models: [], label, detail: "" };
  if (!models.some(({ group }) => sheet.searchOf(group))) {
    const names = models.map(({ name }) => name);
    return { models: names, label: label.replace(", best configuration", ""), detail: first.configuration.label };
  }
  const chosen = models.filter(({ configuration, group }) => configuration.label === sheet.chosenLabel(group, basis));
  if (chosen.length === 0) return { models: [UNKNOWN_MODEL], label, detail: "" };
  const details = [...new Set(chosen.map(({ configuration }) => configuration.label))];
  return { models: chosen.map(({ name }) => name), label, detail: details.join(" or ") };
}
