// The main table of each task: a row for the base, each family of experts and each merge, under the plan's names.
import { type Candidate, findingAbout, kindOfMethod } from "../../evaluate/findings/index.js";
import { type Finding, listed } from "../../figures/index.js";
import { findLanguage, groupBy } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import type { MergeModel } from "../expand/plan-models.js";
import { identityOf } from "../plan/configurations.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import { decidingScores, inLanguages, languagesOf } from "../plan/plan-tasks.js";
import type { Role } from "../plan/plan-values.js";
import { fieldsAt, pointOf } from "../plan/space.js";
import { compareRow } from "./comparisons.js";
import type { Overview, OverviewBar, OverviewRow } from "./report-data.js";
import { mergeInWords } from "./row-words.js";
import { type Sheet, scoreIn, UNKNOWN_MODEL } from "./score-sheet.js";

/** How an average is formed. */
export const AVERAGE_PROTOCOL = "each task counting alike";

/** The English name of a language; a code that no table has stays. */
export const languageName = (code: string) => findLanguage(code)?.name ?? code;

/** Models of a merge by their languages, each with the merge's name, and their languages where others have different ones. */
export function byLanguage(merge: string, models: readonly MergeModel[]): (readonly [string, readonly MergeModel[]])[] {
  const groups = [...groupBy(models, ({ languages }) => languages.map(languageName).join(" and "))];
  return groups.map(([languages, own]) => [groups.length > 1 ? `${merge}, ${languages}` : merge, own]);
}

/** Every task of a reported model, in the order of the plan, then the averages. */
export function tasksIn(sheet: Sheet, plan: ExperimentPlan): string[] {
  const asked = [...sheet.experts, ...sheet.merges, { name: "base" }].flatMap(({ name }) =>
    sheet.tasksOf(name).map(({ request }) => request.task),
  );
  const planned = plan.evaluate.tasks.flatMap(({ task }) => inLanguages(task, languagesOf(plan)));
  return [...new Set([...planned.filter((task) => asked.includes(task)), ...asked, ...sheet.averages.keys()])];
}

/** @param layers of the base; undefined if they are not known */
export function overviews(sheet: Sheet, plan: ExperimentPlan, layers: number | undefined): Overview[] {
  return tasksIn(sheet, plan).flatMap((task): Overview[] => {
    const rows = rowsOf(task, sheet, plan, layers);
    const found = overview(task, rows, sheet);
    const choice = [found.choice, checkpointChoice(task, rows, sheet, plan)].filter((part) => part !== "").join(" ");
    return [{ ...found, choice }];
  });
}

const ROLES: Readonly<Record<Role, string>> = {
  task: "task expert",
  language: "language expert",
  joint: "trained on both",
  other: "expert",
};

function rowsOf(task: string, sheet: Sheet, plan: ExperimentPlan, layers: number | undefined): OverviewRow[] {
  const experts = Object.entries(plan.experts).flatMap(([expertFamily, { role, language }], own): OverviewRow[] => {
    const models = sheet.experts
      .filter((expert) => expert.expertFamily === expertFamily && sheet.isEvaluated(expert.name, task))
      .map(({ name }) => name);
    if (models.length === 0) return [];
    const detail =
      role === "language" && language !== undefined ? `${ROLES[role]}, ${languageName(language)}` : ROLES[role];
    const kind = role === "joint" ? "joint" : "expert";
    return [{ label: expertFamily, entry: expertFamily, about: "", detail, own, kind, models, isChosen: false }];
  });
  const merges = [...new Map(sheet.merges.map(({ merge }) => [merge.name, merge])).values()].flatMap((merge) => {
    const models = sheet.merges.filter(
      (model) =>
        model.merge.name === merge.name &&
        sheet.isEvaluated(model.name, task) &&
        (merge.figure === undefined || model.configuration.isDefault),
    );
    // An average over languages joins merges that are asked different ones; where all are asked the same tasks, as the ten of MGSM,
    // each language keeps its rows.
    const asksAll = (name: string) => sheet.partsOf(task).every((part) => sheet.isEvaluated(name, part));
    const reported = models.filter((model) => sheet.isReported(model));
    if (sheet.averages.has(task) && !reported.every(({ name }) => asksAll(name))) {
      return mergeRows(merge.name, models, task, sheet, layers);
    }
    return byLanguage(merge.name, models).flatMap(([name, inLanguage]) =>
      mergeRows(name, inLanguage, task, sheet, layers),
    );
  });
  const about = "the experts start from it";
  const base: OverviewRow = {
    label: "base",
    entry: "base",
    about,
    detail: "",
    kind: "base",
    models: ["base"],
    isChosen: false,
  };
  return [...(sheet.isEvaluated("base", task) ? [base] : []), ...experts, ...merges];
}

function mergeRows(
  name: string,
  models: readonly MergeModel[],
  task: string,
  sheet: Sheet,
  layers: number | undefined,
): OverviewRow[] {
  const row = (label: string, some: readonly MergeModel[], isChosen = false): OverviewRow => ({
    label,
    entry: name,
    about: mergeInWords(some, layers),
    detail: configurationsIn(some),
    kind: kindOf(some),
    isChosen,
    models: some.map((model) => model.name),
  });
  const searched = models.filter(({ group }) => sheet.searchOf(group));
  // One row of all draws.
  if (models.some(({ merge }) => merge.controlOf !== undefined)) return [row(name, models)];
  if (searched.length === 0) {
    return [...groupBy(models, ({ configuration }) => configuration.label).values()].map((some) => ({
      ...row(name, some),
      ...(some.some(({ merge }) => merge.figure !== undefined) ? { isPoint: true } : {}),
    }));
  }
  const defaults = models.filter(({ configuration }) => configuration.isDefault);
  const chosen = models.filter(({ configuration, group }) => configuration.label === sheet.chosenLabel(group));
  const isOpen = searched.some(({ group }) => sheet.chosenLabel(group) === undefined);
  const standard = `${name}, ${defaultName(models)}`;
  const where = chosenOn(task, models, sheet);
  const best = `${name}, ${where}`;
  const isDefault =
    chosen.length > 0 && chosen.length === defaults.length && chosen.every((model) => defaults.includes(model));
  const all = configurationsEvaluated(models, task, sheet);
  // The first of a grid means nothing to a reader.
  const isNamed = models.some(({ merge }) => merge.default !== undefined || merge.space !== undefined);
  return [
    ...(isDefault || defaults.length === 0 ? [] : [row(standard, defaults)]),
    ...(chosen.length === 0 || isDefault ? [] : [row(best, chosen, true)]),
    ...(isDefault
      ? [{ ...row(isNamed ? `${standard} and ${where}` : best, chosen, true), labels: [standard, best] }]
      : []),
    ...(isOpen ? [{ ...row(best, []), models: [UNKNOWN_MODEL], detail: "" }] : []),
    ...(all === 0 ? [] : [{ ...row(`${name}, mean over ${all} configurations`, models), detail: "", isSummary: true }]),
  ];
}

/** Number of configurations if all are evaluated on the task and there are more than the rows above; otherwise 0. */
function configurationsEvaluated(models: readonly MergeModel[], task: string, sheet: Sheet): number {
  const labels = new Set(models.map(({ configuration }) => configuration.label));
  const isWhole = models.every(({ name }) => sheet.items(name, task) !== undefined);
  return isWhole && labels.size > 2 && sheet.searchOf(models[0]?.group ?? "")?.splits.has(task) ? labels.size : 0;
}

/** What the configuration is that is reported without a search. */
function defaultName(models: readonly MergeModel[]): string {
  const [first] = models;
  if (first?.merge.suggest) return "first suggestion";
  if (first?.merge.default !== undefined) return "default";
  const { space } = first?.merge ?? {};
  if (space !== undefined) {
    const fields = models.find(({ configuration }) => configuration.isDefault)?.configuration.fields ?? {};
    const isMiddle = identityOf(fields) === identityOf(fieldsAt(space, pointOf(space, {})));
    return isMiddle ? "middle of the space" : "first of the grid";
  }
  return Object.keys(first?.merge.grid ?? {}).length > 0 ? "first of the grid" : "first configuration";
}

/** By what configurations were chosen, as seen from a task; other items of it are the rule. */
function chosenOn(task: string, models: readonly MergeModel[], sheet: Sheet): string {
  const groups = new Set(models.map(({ group }) => group));
  const deciding = new Set([...groups].flatMap((group) => [...(sheet.searchOf(group)?.splits.keys() ?? [])]));
  if (!deciding.has(task)) return `chosen on ${[...deciding].map((name) => sheet.titleOf(name)).join(" and ")}`;
  return sheet.heldOut(task) ? "chosen" : "chosen on these items";
}

/** Configurations of a row. Each group has its own search, so they may differ. */
function configurationsIn(models: readonly MergeModel[]): string {
  const byLabel = groupBy(models, ({ configuration }) => configuration.label);
  if (models.some(({ merge }) => merge.controlOf !== undefined)) return [...byLabel.keys()].join("; ");
  if (byLabel.size === 1) return models[0]?.configuration.label ?? "";
  return [...byLabel]
    .map(
      ([label, some]) =>
        `${label} of ${[...new Set(some.map(({ expertFamilies }) => expertFamilies.join(" and ")))].join(", ")}`,
    )
    .join("; ");
}

function kindOf([first]: readonly MergeModel[]): OverviewRow["kind"] {
  if (first?.merge.controlOf !== undefined) return "control";
  const method = typeof first?.source === "object" ? first.source.method : "";
  return kindOfMethod(method);
}

function overview(task: string, rows: readonly OverviewRow[], sheet: Sheet): Overview {
  const cells = rows.map((row) => ({ row, cell: sheet.cell(row.models, task) }));
  const known = cells.flatMap(({ row, cell }) => {
    const score = scoreIn(cell);
    return score ? [{ row, ...score }] : [];
  });
  const missing = cells.filter(({ cell }) => cell.value === undefined).map(({ row }) => row.label);
  const facts = cells.map(({ row }) => sheet.answers(row.models[0] ?? "", task)?.facts).find((one) => one);
  const scale = cells[0]?.cell.scale ?? "share";
  const finding = rowFinding(task, known.map(candidateOf), sheet);
  const controlled = describeControls(rows, task, sheet);
  return {
    task,
    id: `main-${task.replace(/\.ya?ml$/, "").replace(/\W+/g, "-")}`,
    title: facts?.title ?? sheet.titleOf(task),
    protocol: facts?.protocol ?? AVERAGE_PROTOCOL,
    example: facts?.example,
    scale,
    items: itemsOf(task, sheet),
    choice: rows.some(({ isChosen }) => isChosen) ? describeChoice(task, sheet) + controlled : "",
    finding,
    controls: controlLeads(task, rows, sheet),
    missing: missing.length === 0 ? "" : `Not known yet: ${listed(missing, 6)}.`,
    rows: cells
      .filter(({ cell }) => cell.value !== null)
      .map(({ row: { label, kind, own, about, detail } }) => ({ label, kind, own, about, detail })),
    bars: known.map(({ row, ...score }): OverviewBar => {
      const { label, detail } = finding?.subject ?? {};
      return { ...row, ...score, isBest: finding?.isBest === true && row.label === label && row.detail === detail };
    }),
  };
}

/** `the 150 of 250 items that no search saw`; of an average, those of each task. */
function itemsOf(task: string, sheet: Sheet): string {
  const all = sheet.task(task)?.items ?? 0;
  const held = sheet.heldOut(task)?.size;
  const parts = sheet.averages.get(task);
  if (!parts) return held === undefined ? plural(all, "item") : `the ${held} of ${all} items that no search saw`;
  const each = [...groupBy(parts, (part) => itemsOf(part, sheet))];
  return each
    .map(
      ([items, some]) =>
        `${items} of ${listed(
          some.map((part) => sheet.titleOf(part)),
          12,
        )}`,
    )
    .join(", and ");
}

/** How configurations were chosen, as seen from a task. */
function describeChoice(task: string, sheet: Sheet): string {
  const deciding = sheet.decidingTasks(task);
  if (deciding.length === 0) return "";
  const sizes = deciding.map((name) => {
    const all = sheet.expansion.searches.map(({ splits }) => splits.get(name)).find((split) => split);
    const searched = all?.rounds.flat().length ?? 0;
    return { name, searched, all: searched + (all?.held.length ?? 0) };
  });
  const own = sizes.find(({ name }) => name === task);
  const others = sizes.filter((one) => one !== own);
  const isOnTest = sizes.every(({ searched, all }) => searched === all);
  if (isOnTest && own) {
    const further = others.map(({ name, all }) => ` and all ${all} items of ${sheet.titleOf(name)}`).join("");
    return `Configurations were chosen on these same items${further}, as in the paper, so the chosen one's score is optimistic.`;
  }
  if (isOnTest) {
    const where = others.map(({ name, all }) => `all ${all} items of ${sheet.titleOf(name)}`);
    return `Configurations were chosen on ${where.join(", ")}: the test items of ${where.length === 1 ? "that task" : "those tasks"}.`;
  }
  const where = [
    ...(own ? [`${own.searched} other items of ${sheet.titleOf(task)}`] : []),
    ...others.map(({ name, searched }) => `${searched} items of ${sheet.titleOf(name)}`),
  ];
  return `Configurations were chosen on ${listed(where, 12)}.`;
}

/** What a reader must know of the controls among the rows, in a sentence; empty if there are none. */
function describeControls(rows: readonly OverviewRow[], task: string, sheet: Sheet): string {
  const controls = rows.filter(({ kind }) => kind === "control").flatMap(({ models }) => models);
  if (controls.length === 0) return "";
  const asked = Math.max(...controls.map((name) => sheet.answers(name, task)?.facts.items ?? 0));
  const fewer = asked > 0 && asked < (sheet.task(task)?.items ?? 0) ? `, and are asked ${asked} of the items` : "";
  return ` Controls have the default configuration${fewer}.`;
}

/** How far each swap is above its controls, which have its default configuration. */
function controlLeads(task: string, rows: readonly OverviewRow[], sheet: Sheet): Overview["controls"] {
  const compared = rows.flatMap((row) => {
    const control = sheet.merges.find(({ name }) => name === row.models[0]);
    if (row.kind !== "control" || !control || sheet.cell(row.models, task).value === undefined) return [];
    const swap = control.merge.controlOf ?? "";
    // A control without a language expert is one of the swaps of all languages.
    const models = sheet.merges.filter(
      ({ name, merge, configuration, languages }) =>
        merge.name === swap &&
        configuration.isDefault &&
        languages.every((code) => control.languages.includes(code)) &&
        sheet.isEvaluated(name, task),
    );
    return [{ row, of: { label: swap, models: models.map(({ name }) => name) } }];
  });
  return [...groupBy(compared, ({ of }) => of.models.join()).values()].flatMap((some) => {
    const of = some[0]?.of ?? { label: "", models: [] };
    const own = rows.find(({ models, isSummary }) => !isSummary && models.join() === of.models.join());
    const others = some.map(({ row }) => row);
    const leads = compareRow(of, others, task, sheet);
    return leads.length > 0 ? [{ of: own?.label ?? of.label, leads }] : [];
  });
}

/** Which families' checkpoints were chosen on the items of a task, in a sentence; empty if none were. */
function checkpointChoice(task: string, rows: readonly OverviewRow[], sheet: Sheet, plan: ExperimentPlan): string {
  const names = new Set(rows.flatMap(({ models }) => models));
  const merged = sheet.merges.flatMap(({ name, expertFamilies }) => (names.has(name) ? expertFamilies : []));
  const parts = sheet.partsOf(task);
  const chosen = Object.entries(plan.experts).flatMap(([expertFamily, { select, language }]) => {
    const own = sheet.models.filter((model) => "expertFamily" in model && model.expertFamily === expertFamily);
    const kept = sheet.experts.filter((expert) => expert.expertFamily === expertFamily);
    const isShown = merged.includes(expertFamily) || kept.some(({ name }) => names.has(name));
    const isChoice = own.length > 2 * kept.length; // each kept checkpoint is a candidate, too
    const languages = language === undefined ? languagesOf(plan) : [language];
    const by = decidingScores(select?.by ?? [], plan, languages).flatMap(({ tasks }) => tasks);
    return isShown && isChoice && by.some((one) => parts.includes(one)) ? [expertFamily] : [];
  });
  if (chosen.length === 0) return "";
  return `Checkpoints of ${listed(chosen)} were chosen on these items, so their scores and those of their merges are optimistic.`;
}

/** Answers to items with choices that are tied; undefined if none are. */
function tiedChoices(rows: readonly OverviewRow[], task: string, sheet: Sheet): Finding["tiedChoices"] {
  const models = [...new Set(rows.flatMap(({ models }) => models))];
  const answers = models.flatMap((name) => sheet.partsOf(task).flatMap((part) => sheet.items(name, part) ?? []));
  const tied = answers.filter((item) => item.tied).length;
  return tied === 0 ? undefined : { answers: tied, of: answers.length };
}

/** A row with its score, as a candidate for the best. */
export const candidateOf = ({ row, mean }: { readonly row: OverviewRow; readonly mean: number }) => ({
  ...row,
  name: row.entry,
  score: mean,
});

/** What rows show: of the highest, or of `subject`. */
export function rowFinding(
  task: string,
  rows: readonly (OverviewRow & Candidate)[],
  sheet: Sheet,
  subject?: OverviewRow & Candidate,
): Finding | undefined {
  const deciding = sheet.decidingTasks(task);
  const isSeen = (part: string) => deciding.includes(part) && sheet.heldOut(part) === undefined;
  return findingAbout(rows, {
    scale: sheet.cell(rows[0]?.models ?? [], task).scale,
    subject,
    items: Math.max(0, ...rows.flatMap(({ models }) => models.map((name) => itemsAsked(name, task, sheet)))),
    isChosenHere: ({ isChosen }) => isChosen && sheet.partsOf(task).some(isSeen),
    leads: (first, others) => {
      const found = compareRow(first, others, task, sheet);
      // One for each, in their order, or none can be told from another's.
      return found.length === others.length ? found : others.map(() => undefined);
    },
    tiedChoices: tiedChoices(rows, task, sheet),
  });
}

const itemsAsked = (model: string, task: string, sheet: Sheet) =>
  sheet.partsOf(task).reduce((sum, part) => sum + (sheet.items(model, part)?.length ?? 0), 0);
