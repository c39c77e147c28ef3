// How a search went: its rounds, the configurations dropped in each, and ties. Recomputed from results by the rules of
// plan/compare-configurations.ts.
import { plural } from "../../core/index.js";
import { type Candidate, rankConfigurations, survivors } from "../plan/compare-configurations.js";
import type { MergeModel } from "../plan/plan-models.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import type { SearchOutcome } from "../plan/search-configurations.js";
import type { SearchedConfiguration, SearchRow } from "./data.js";
import type { Sheet } from "./sheet.js";

export function searchRow(search: SearchOutcome, sheet: Sheet, plan: ExperimentPlan): SearchRow {
  const { group, chosen, chosenOnTest, splits } = search;
  const models = sheet.merges.filter((model) => model.group === group);
  const { rounds, configurations } = replay(search, models, sheet, plan);
  const best = configurations.find(({ isChosen }) => isChosen);
  const tied =
    best === undefined
      ? []
      : configurations.filter(({ round, mean }) => round === best.round && Math.abs(mean - best.mean) < 1e-9);
  const row = {
    ...{ id: `search-${group.replace(/\W+/g, "-")}`, group, chosen, chosenOnTest, rounds, configurations },
    ...{ how: plan.search.how, chooseOn: plan.search.choose_on },
    plannedRounds: roundsIn(search),
    size: new Set(models.map(({ configuration }) => configuration.label)).size,
    tasks: [...splits].map(([task, { rounds: inRounds, held }]) => {
      const searched = inRounds.flat().length;
      return { title: sheet.titleOf(task), searched, all: searched + held.length };
    }),
    ties: tied.length > 1 ? tied.map(({ label }) => label) : [],
  };
  return { ...row, summary: describeSearch(row) };
}

/** How a search went, in sentences. */
function describeSearch(search: Omit<SearchRow, "summary">): string {
  const { tasks, chooseOn, how, rounds, plannedRounds, size, configurations, chosen, chosenOnTest, ties } = search;
  const where = tasks.map(({ title, searched, all }) => `${searched} of the ${all} items of ${title}`).join(" and ");
  const rest = chooseOn === "test" ? "the same that are reported" : "the others are for the comparison";
  const many = plural(size, "configuration");
  const isOpen = rounds.length < plannedRounds;
  const open = isOpen ? ` (${rounds.length === 0 ? "none" : rounds.length} of them done)` : "";
  const parts = [
    `${how === "halving" ? `Successive halving of ${many} in ${plural(plannedRounds, "round")}${open}` : `All of ${many}`}, on ${where}; ${rest}.`,
    chosen === undefined ? "Nothing is chosen yet." : `Chosen: ${chosen}.`,
  ];
  if (ties.length > 0) {
    const names = ties.filter((label) => label !== chosen);
    const shown = names.length > 4 ? `${names.slice(0, 3).join("; ")} and ${names.length - 3} more` : names.join("; ");
    const isDefault = configurations.some((one) => one.isDefault && one.label === chosen);
    const preferred = isDefault ? "; the default is preferred" : "";
    parts.push(`Tied: ${shown} did exactly as well${preferred}. The choice among them is arbitrary.`);
  }
  if (chosenOnTest !== undefined && chooseOn !== "test") {
    parts.push(
      chosenOnTest === chosen
        ? "It is also the best on all items, including the reported ones."
        : `On all items, including the reported ones, the best is ${chosenOnTest}.`,
    );
  }
  return parts.join(" ");
}

function roundsIn({ splits }: SearchOutcome): number {
  return Math.max(0, ...[...splits.values()].map(({ rounds }) => rounds.length));
}

/** The rounds that have all results, and each configuration in its last round. */
function replay(search: SearchOutcome, models: readonly MergeModel[], sheet: Sheet, plan: ExperimentPlan) {
  const { chosen } = search;
  const count = roundsIn(search);
  const preferred = models.find(({ configuration }) => configuration.isDefault)?.configuration.label;
  let active = new Set(models.map(({ configuration }) => configuration.label));
  const rounds: SearchRow["rounds"][number][] = [];
  // Configurations dropped in each round, the last round first; and those that are left.
  const dropped: SearchedConfiguration[][] = [];
  let left: SearchedConfiguration[] = [];
  for (let round = 0; round < count; round++) {
    const found = candidatesOf(search, models, active, round, sheet);
    if (!found) break;
    const ranked = rankConfigurations(found, preferred);
    const kept = round < count - 1 ? new Set(survivors(ranked, plan.search.keep)) : active;
    rounds.push({
      ...{ configurations: active.size, dropped: active.size - kept.size },
      items: Math.max(0, ...ranked.map(({ items }) => items)),
    });
    const isDefault = (label: string) =>
      models.some(({ configuration, merge }) => {
        return merge.default !== undefined && configuration.isDefault && configuration.label === label;
      });
    const toRow = (some: typeof ranked) =>
      some.map(({ configuration, mean, behind, margin, items }) => ({
        ...{ label: configuration, mean, behind, margin, items, round: round + 1 },
        ...{ isChosen: configuration === chosen, isDefault: isDefault(configuration) },
      }));
    const isOut = ({ configuration }: (typeof ranked)[number]) => round < count - 1 && !kept.has(configuration);
    dropped.unshift(toRow(ranked.filter(isOut)));
    left = toRow(ranked.filter((one) => !isOut(one)));
    active = kept;
  }
  dropped.unshift(left);
  return { rounds, configurations: dropped.flat() };
}

/** Results of the active configurations up to a round; undefined if some are missing. */
function candidatesOf(
  { splits }: SearchOutcome,
  models: readonly MergeModel[],
  active: ReadonlySet<string>,
  round: number,
  sheet: Sheet,
): Candidate[] | undefined {
  const candidates: Candidate[] = [];
  for (const { name, configuration } of models) {
    if (!active.has(configuration.label)) continue;
    for (const [task, split] of splits) {
      const indexes = new Set(split.rounds.slice(0, round + 1).flat());
      const items = sheet.answers(name, task)?.items.filter(({ index }) => indexes.has(index)) ?? [];
      if (items.length < indexes.size) return undefined;
      candidates.push({ configuration: configuration.label, task, items });
    }
  }
  return candidates;
}
