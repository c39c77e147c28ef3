// From an experiment, finished or not, to the data of its report.

import { groupBy } from "../../core/group.js";
import { VERSION } from "../../core/version.js";
import { compareItems, type JudgedItem } from "../../evaluate/index.js";
import type { Experiment, ExperimentStatus } from "../experiment.js";
import { decidingTasks, inLanguages, languagesOf, type MergeModel } from "../plan/models.js";
import type { SearchOutcome } from "../plan/searching.js";
import { PUBLISHED_NOTES, SETTINGS, type Setting } from "../published.js";
import type { ItemResult } from "../steps/facts.js";
import { best, mergesIn, settingColumn } from "./columns.js";
import type {
  CostRow,
  ExperimentReport,
  Flips,
  Overview,
  OverviewBar,
  ReportHeatmap,
  ScoreRow,
  SearchRow,
} from "./data.js";
import { columnOf, paperTables, type TableContext } from "./paper-tables.js";
import { type Basis, meanOf, Sheet } from "./sheet.js";

/** Gathers everything that a report says. Of what is not done yet it says so. */
export function gatherReport(experiment: Experiment, status: ExperimentStatus): ExperimentReport {
  const { plan, world } = experiment;
  const sheet = new Sheet(status.expansion, world.facts, status.store);
  const [first] = plan.evaluate.tasks;
  const by = plan.search.by ?? (typeof first === "string" ? first : (first?.task ?? ""));
  const { choose_on } = plan.search;
  const bases: Basis[] = choose_on === "both" ? ["held-out", "all"] : choose_on === "test" ? ["all"] : ["held-out"];
  const contexts = bases.map((basis): TableContext => ({ plan, sheet, by, basis }));
  const main = contexts[0] as TableContext;
  const tables = contexts.flatMap((context) => paperTables(context));
  const unique = [...new Map(tables.map((table) => [table.id, table])).values()];
  return {
    name: plan.name,
    title: plan.title ?? plan.name,
    notes: [...(plan.notes === undefined ? [] : [plan.notes]), ...(plan.tables.length > 0 ? PUBLISHED_NOTES : [])],
    layergraft: VERSION,
    base: { name: plan.base, parameters: world.base?.parameters, layers: world.base?.layers },
    progress: {
      done: status.counts.done,
      failed: status.counts.failed,
      left: status.counts.left + status.counts.running,
      waiting: status.counts.waiting,
    },
    failures: status.steps.flatMap(({ step, state }) =>
      state.state === "failed" ? [{ label: step.label, reason: state.reason }] : [],
    ),
    overviews:
      languagesOf(plan).length > 0
        ? languagesOf(plan).map((language) => overview(main, language))
        : [overview(main, "")],
    tables: unique,
    heatmaps: sheet.expansion.searches.flatMap((search) => heatmaps(main, search)),
    searches: sheet.expansion.searches.map((search) => searchRow(search, sheet)),
    flips: flips(main),
    scores: scores(sheet),
    experts: sheet.experts.flatMap(({ name, family, origin }) =>
      origin === undefined ? [] : [{ name, family, origin }],
    ),
    cost: cost(status),
  };
}

const BAR_KINDS: Readonly<Record<Setting, OverviewBar["kind"]>> = {
  ...{ base: "base", language: "expert", math: "expert", joint: "joint", soup: "average", ties: "merge" },
  ...{ default: "swap", best: "swap" },
};

/** The ways of making models, one bar each, on the deciding task. */
function overview(context: TableContext, language: string): Overview {
  const { sheet, plan, by, basis } = context;
  const [task = by] = inLanguages(by, language === "" ? [] : [language]);
  const facts = sheet.answers("base", task)?.facts;
  const bars: OverviewBar[] = [];
  const add = (label: string, kind: OverviewBar["kind"], models: readonly string[], detail: string) => {
    const { value, range } = sheet.cell(models, task, basis);
    if (typeof value !== "number") return;
    bars.push({
      label,
      kind,
      mean: value,
      low: range?.low ?? value,
      high: range?.high ?? value,
      count: models.length,
      detail,
    });
  };
  for (const setting of Object.keys(SETTINGS) as Setting[]) {
    const { models, detail } = settingColumn(setting, language, sheet, plan, basis);
    // Where nothing was searched, the default is the best.
    if (setting === "best" && !mergesIn(sheet, "swap", language).some(({ group }) => sheet.searchOf(group))) continue;
    const expert = sheet.experts.find(({ name }) => name === models[0]);
    const label = setting === "math" && expert ? `${expert.family} expert` : SETTINGS[setting];
    add(
      label
        .replace(", best configuration", setting === "best" ? ", chosen" : "")
        .replace(", default configuration", ", default"),
      BAR_KINDS[setting],
      models,
      detail,
    );
  }
  // Merges that no column of the paper's stands for.
  const others = sheet.merges.filter(
    (model) =>
      !["soup", "ties", "swap"].includes(columnOf(model) ?? "") &&
      (language === "" || model.languages.includes(language)),
  );
  for (const models of groupBy(others, ({ group }) => group).values()) {
    const { models: chosen, detail } = best(models, sheet.expansion, basis);
    add(models[0]?.merge.name ?? "", "merge", chosen, detail);
  }
  const held = basis === "held-out" ? sheet.heldOut(task) : undefined;
  return {
    title: facts?.title ?? task,
    protocol: facts?.protocol ?? "",
    scale: facts?.scale ?? "share",
    items: held ? `${held.size} items that no search saw` : `${facts?.items ?? 0} items`,
    bars,
  };
}

/** Scores of a search over bottom and top layers; one figure for each value of the other fields, at most six. */
function heatmaps({ sheet }: TableContext, search: SearchOutcome): ReportHeatmap[] {
  const models = sheet.merges.filter(({ group, merge }) => group === search.group && !merge.suggest);
  const [task = ""] = search.splits.keys();
  const items = itemsOfAll(search, task).size;
  const of = (model: MergeModel, field: string) => model.configuration.fields[field];
  const values = (field: string) =>
    [...new Set(models.map((model) => of(model, field)))]
      .filter((value) => typeof value === "number")
      .sort((a, b) => a - b);
  const [rows, columns] = [values("bottom"), values("top")];
  if (rows.length < 2 && columns.length < 2) return [];
  const restOf = ({ configuration: { fields } }: MergeModel) =>
    Object.entries(fields)
      .filter(([field]) => field !== "bottom" && field !== "top")
      .map(([field, value]) => `${field.replaceAll("_", " ")} ${JSON.stringify(value)}`)
      .join(", ");
  const figures = [...groupBy(models, restOf)];
  return figures.slice(0, 6).map(([rest, inFigure], i): ReportHeatmap => {
    const at = (row: number, column: number) =>
      inFigure.filter(
        (model) => (of(model, "bottom") ?? rows[0]) === row && (of(model, "top") ?? columns[0]) === column,
      );
    const cells = rows.map((row) =>
      (columns.length > 0 ? columns : [0]).map((column) => searchMean(sheet, at(row, column), search)),
    );
    const marked = rows.flatMap((row, r) =>
      (columns.length > 0 ? columns : [0]).flatMap((column, c) => {
        const label = at(row, column)[0]?.configuration;
        return [
          ...(label?.isDefault ? [{ row: r, column: c, what: "default" as const }] : []),
          ...(label && label.label === search.chosen ? [{ row: r, column: c, what: "chosen" as const }] : []),
        ];
      }),
    );
    return {
      id: `grid-${search.group.replace(/\W+/g, "-")}-${i + 1}`,
      title: rest === "" ? search.group : `${search.group}, ${rest}`,
      note: `Mean over pairs, on the ${items} items that every configuration was asked; bottom layers (b) against top layers (u) from the language expert.`,
      ...{
        rowTitle: "bottom",
        columnTitle: "top",
        rows: rows.map(String),
        columns: (columns.length > 0 ? columns : [0]).map(String),
        cells,
        marked,
      },
    };
  });
}

/** Items of a task that every configuration was asked: those of the first round, which halving lets all of them begin. */
function itemsOfAll(search: SearchOutcome, task: string): ReadonlySet<number> {
  return new Set(search.splits.get(task)?.rounds[0]);
}

/** Mean of models over the items that all of them were asked. */
function searchMean(sheet: Sheet, models: readonly MergeModel[], search: SearchOutcome): number | null {
  const means = models.flatMap(({ name }) =>
    [...search.splits.keys()].flatMap((task) => {
      const seen = itemsOfAll(search, task);
      const mean = meanOf(sheet.answers(name, task)?.items.filter(({ index }) => seen.has(index)) ?? []);
      return mean === undefined ? [] : [mean];
    }),
  );
  return means.length === 0 ? null : means.reduce((sum, mean) => sum + mean, 0) / means.length;
}

function searchRow({ group, ranked, chosen, chosenOnTest }: SearchOutcome, sheet: Sheet): SearchRow {
  const isDefault = new Set(
    sheet.merges
      .filter((model) => model.group === group && model.configuration.isDefault)
      .map(({ configuration }) => configuration.label),
  );
  return {
    ...{ group, chosen, chosenOnTest },
    configurations: ranked.map(({ configuration, mean, behind, margin, items }) => ({
      ...{ label: configuration, mean, behind, margin, items },
      ...{ isChosen: configuration === chosen, isDefault: isDefault.has(configuration) },
    })),
  };
}

/** What reported merges gained and lost against the base and their experts, on the deciding task. */
function flips(context: TableContext): Flips[] {
  const { sheet, plan, basis } = context;
  return sheet.merges.flatMap((model) => {
    const search = sheet.searchOf(model.group);
    const { label, isDefault } = model.configuration;
    if (search && !isDefault && label !== search.chosen) return [];
    return decidingTasks(model, plan).flatMap(({ task }) =>
      ["base", ...model.members].flatMap((against): Flips[] => {
        const [own, other] = [sheet.items(model.name, task, basis), sheet.items(against, task, basis)];
        const facts = sheet.answers(model.name, task)?.facts;
        if (!own || !other || !facts?.isMean) return [];
        const metric = { name: "value", title: "", of: "value", by: "mean", scale: "share" } as const;
        const { difference, interval, gained, lost, pValue } = compareItems(metric, other.map(judged), own.map(judged));
        const bounds = interval && { low: interval.low, high: interval.high };
        return [
          {
            model: model.name,
            against,
            task: facts.title,
            scale: facts.scale,
            difference,
            interval: bounds,
            gained,
            lost,
            pValue,
          },
        ];
      }),
    );
  });
}

const judged = ({ id, value }: ItemResult): JudgedItem => ({ id, verdict: value === null ? null : { value } });

function scores(sheet: Sheet): ScoreRow[] {
  return sheet.models.flatMap((model) =>
    sheet.tasksOf(model.name).flatMap(({ request, facts, items, whole }): ScoreRow[] => {
      if (items.length === 0) return [];
      const mean = facts.isMean
        ? meanOf(items)
        : whole === undefined
          ? undefined
          : facts.scale === "points"
            ? 100 * whole
            : whole;
      const isCandidate = "isCandidate" in model && model.isCandidate === true;
      const isWhole = items.length === facts.items;
      const cell = isWhole ? sheet.cell([model.name], request.task, "all") : { value: mean, scale: facts.scale };
      return [
        {
          ...{ model: model.name, kind: isCandidate ? "candidate" : model.kind, task: facts.title },
          ...{ protocol: facts.protocol, cell, items: items.length, of: facts.items },
        },
      ];
    }),
  );
}

const COST_NAMES = { train: "training", analyze: "analyses", evaluate: "evaluations" } as const;

function cost({ steps, store }: ExperimentStatus): ExperimentReport["cost"] {
  let [mergeSeconds, seconds] = [0, 0];
  const rows = new Map<string, CostRow>();
  for (const { step, state } of steps) {
    if (state.state !== "done") continue;
    const isMerge = step.kind === "evaluate" && typeof step.model !== "string";
    const what = isMerge ? "evaluations of merges" : COST_NAMES[step.kind];
    const { steps: count = 0, seconds: sum = 0 } = rows.get(what) ?? {};
    rows.set(what, { what, steps: count + 1, seconds: sum + state.seconds });
    seconds += state.seconds;
    mergeSeconds += store.evaluated(step.key)?.mergeSeconds ?? 0;
  }
  return { rows: [...rows.values()], mergeSeconds, seconds };
}
