// The ways of making models that one task compares, each under the name that the plan gives it: the base, each family of
// experts, each merge in its reported configurations. Which models each is the mean of; numbers are overview.ts's.
import { groupBy } from "../../core/index.js";
import type { MergeModel } from "../plan/plan-models.js";
import type { ExperimentPlan, Role } from "../plan/plan-schema.js";
import type { OverviewBar } from "./data.js";
import { type Basis, type Sheet, UNKNOWN_MODEL } from "./sheet.js";
import { languageName } from "./task-language.js";

/** Models that are averaged in one row. */
export interface Way {
  readonly label: string;
  /** The configuration, or what experts are trained on. */
  readonly detail: string;
  readonly kind: OverviewBar["kind"];
  readonly models: readonly string[];
  /** Whether a search chose them. */
  readonly isChosen: boolean;
  /** Whether it is the mean of what others are, too, and nothing that one would take. */
  readonly isSummary?: boolean;
}

const ROLES: Readonly<Record<Role, string>> = {
  ...{ task: "task expert", language: "language expert", joint: "trained on both", other: "expert" },
};

/** The ways that a task compares, in the order of the plan. */
export function waysOf(task: string, sheet: Sheet, plan: ExperimentPlan, basis: Basis): Way[] {
  const experts = Object.entries(plan.experts).flatMap(([family, { role, language }]): Way[] => {
    const models = sheet.experts
      .filter((expert) => expert.family === family && sheet.isAsked(expert.name, task))
      .map(({ name }) => name);
    if (models.length === 0) return [];
    const detail = role === "language" && language !== undefined ? `${ROLES[role]}, ${language}` : ROLES[role];
    return [{ label: family, detail, kind: role === "joint" ? "joint" : "expert", models, isChosen: false }];
  });
  const merges = plan.merges.flatMap((merge) => {
    const models = sheet.merges.filter((model) => model.merge.name === merge.name && sheet.isAsked(model.name, task));
    const byLanguage = [...groupBy(models, ({ languages }) => languages.map(languageName).join(" and "))];
    return byLanguage.flatMap(([languages, inLanguage]) => {
      const name = byLanguage.length > 1 ? `${merge.name}, ${languages}` : merge.name;
      return mergeWays(name, inLanguage, task, sheet, basis);
    });
  });
  const base: Way = { label: "base", detail: "", kind: "base", models: ["base"], isChosen: false };
  return [...(sheet.isAsked("base", task) ? [base] : []), ...experts, ...merges];
}

function mergeWays(name: string, models: readonly MergeModel[], task: string, sheet: Sheet, basis: Basis): Way[] {
  const way = (label: string, some: readonly MergeModel[], isChosen = false): Way => ({
    ...{ label, detail: configurationsIn(some), kind: kindOf(some), isChosen },
    models: some.map((model) => model.name),
  });
  const isSearched = models.some(({ group }) => sheet.searchOf(group));
  if (!isSearched) {
    return [...groupBy(models, ({ configuration }) => configuration.label).values()].map((some) => way(name, some));
  }
  const defaults = models.filter(({ configuration }) => configuration.isDefault);
  const chosen = models.filter((model) => model.configuration.label === chosenLabel(sheet, model.group, basis));
  const standard = `${name}, ${defaultName(models)}`;
  const best = `${name}, chosen on ${chosenOn(task, models, sheet, basis)}`;
  const isSame =
    chosen.length > 0 && chosen.length === defaults.length && chosen.every((model) => defaults.includes(model));
  const all = wholeMean(models, task, sheet, basis);
  return [
    ...(isSame || defaults.length === 0 ? [] : [way(standard, defaults)]),
    ...(chosen.length === 0
      ? []
      : [way(isSame ? `${standard} and ${best.slice(name.length + 2)}` : best, chosen, true)]),
    // While the search goes on; a name that no model has says so.
    ...(models.some(({ group }) => sheet.searchOf(group) && chosenLabel(sheet, group, basis) === undefined)
      ? [{ ...way(best, []), models: [UNKNOWN_MODEL], detail: "" }]
      : []),
    ...(all === 0 ? [] : [{ ...way(`${name}, mean over ${all} configurations`, models), detail: "", isSummary: true }]),
  ];
}

/** The configuration that a group's search chose; undefined while it goes on. @param basis all: by all items */
export function chosenLabel(sheet: Sheet, group: string, basis: Basis): string | undefined {
  const search = sheet.searchOf(group);
  return basis === "all" ? (search?.chosenOnTest ?? search?.chosen) : search?.chosen;
}

/** Whether a merge is what tables are of: the default configuration, a chosen one, or one that nothing else stood against. */
export function isReported(sheet: Sheet, { group, configuration }: MergeModel, basis: Basis): boolean {
  if (!sheet.searchOf(group)) return true;
  return configuration.isDefault || configuration.label === chosenLabel(sheet, group, basis);
}

/** Configurations, if each was asked all items of the task; else 0. */
function wholeMean(models: readonly MergeModel[], task: string, sheet: Sheet, basis: Basis): number {
  const labels = new Set(models.map(({ configuration }) => configuration.label));
  const search = sheet.expansion.searches.find(({ group }) => group === models[0]?.group);
  const isWhole = models.every(({ name }) => sheet.items(name, task, basis) !== undefined);
  // On a task that did not decide, only what is reported was asked.
  // One or two are the rows above it.
  return isWhole && labels.size > 2 && search?.splits.has(task) ? labels.size : 0;
}

/** What the configuration is that is reported without any search: the plan's default, or what stands first. */
export function defaultName(models: readonly MergeModel[]): string {
  const [first] = models;
  if (first?.merge.suggest) return "first suggestion";
  if (first?.merge.default !== undefined) return "default";
  return Object.keys(first?.merge.grid ?? {}).length > 0 ? "first of the grid" : "first configuration";
}

/** By which items the configurations of models were chosen, as seen from a task. */
function chosenOn(task: string, models: readonly MergeModel[], sheet: Sheet, basis: Basis): string {
  const searches = [...new Set(models.map(({ group }) => group))].map((group) => sheet.searchOf(group));
  const deciding = [...new Set(searches.flatMap((search) => [...(search?.splits.keys() ?? [])]))];
  if (!deciding.includes(task)) return deciding.map((name) => titleOf(sheet, name)).join(" and ");
  return basis === "all" ? "these items" : "other items";
}

/** The tasks that decided where a task is asked; itself, where it did. */
export function decidingOf(sheet: Sheet, task: string): string[] {
  const searches = sheet.expansion.searches.filter(({ group }) =>
    sheet.merges.some((model) => model.group === group && sheet.isAsked(model.name, task)),
  );
  return [...new Set(searches.flatMap(({ splits }) => [...splits.keys()]))];
}

/** What a task is called. */
export function titleOf(sheet: Sheet, task: string): string {
  for (const { name } of sheet.models) {
    const facts = sheet.answers(name, task)?.facts;
    if (facts) return facts.title;
  }
  return task;
}

function configurationsIn(models: readonly MergeModel[]): string {
  const labels = groupBy(models, ({ configuration }) => configuration.label);
  if (labels.size === 1) return models[0]?.configuration.label ?? "";
  // Each family of pairs has a search of its own, and may have another best.
  return [...labels]
    .map(
      ([label, some]) =>
        `${label} of ${[...new Set(some.map(({ group }) => group.replace(/^.* of /, "")))].join(", ")}`,
    )
    .join("; ");
}

function kindOf([first]: readonly MergeModel[]): OverviewBar["kind"] {
  const method = typeof first?.source === "object" ? first.source.method : "";
  return method === "swap" ? "swap" : method === "soup" ? "average" : "merge";
}
