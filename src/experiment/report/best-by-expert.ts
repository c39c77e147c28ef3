// The configuration that is best for each expert of a search, as the paper reports that one math expert needs fewer layers.
import type { Cell } from "../../figures/index.js";
import { plural } from "../../kit/printing/index.js";
import type { MergeModel } from "../expand/plan-models.js";
import { rankConfigurations, type SearchOutcome } from "../search/search.js";
import type { ReportTable, SearchRow } from "./report-data.js";
import type { Sheet } from "./score-sheet.js";
import { number } from "./tables.js";

/** Each expert of a search that is in several merges, with its best configuration over them; empty if all are one pair. */
export function bestByExpert(search: SearchOutcome, sheet: Sheet): SearchRow["byExpert"] {
  const models = sheet.merges.filter(({ group }) => group === search.group);
  const pairs = new Set(models.map(({ members }) => members.join()));
  if (pairs.size < 2) return [];
  return sheet.experts.flatMap(({ name: expert }): SearchRow["byExpert"] => {
    const own = models.filter(({ members }) => members.includes(expert));
    if (own.length === 0 || own.length === models.length) return [];
    const ranked = rankConfigurations(answersTo(search, own, sheet), search.chosen);
    const [best] = ranked;
    if (!best || !Number.isFinite(best.mean)) return [];
    const chosen = ranked.find(({ configuration }) => configuration === search.chosen);
    const ties = ranked.filter(({ mean }) => Math.abs(mean - best.mean) < 1e-9).length - 1;
    const merges = new Set(own.map(({ members }) => members.join())).size;
    return [{ expert, merges, best: best.configuration, mean: best.mean, ties, chosen }];
  });
}

/** Answers to the items of the first round, which every configuration was asked. */
function answersTo({ splits }: SearchOutcome, models: readonly MergeModel[], sheet: Sheet) {
  return models.flatMap(({ name, configuration }) =>
    [...splits].map(([task, { rounds }]) => {
      const seen = new Set(rounds[0]);
      const items = sheet.answers(name, task)?.items.filter(({ index }) => seen.has(index)) ?? [];
      return { configuration: configuration.label, task, items };
    }),
  );
}

export function byExpertTable({ id, group, chosen = "", byExpert }: SearchRow): ReportTable {
  const others = byExpert.filter(({ best }) => best !== chosen).length;
  const answer =
    others === 0
      ? `It is the chosen one for each expert: ${chosen}.`
      : `For ${others} of ${plural(byExpert.length, "expert")} it is not the chosen one, ${chosen}.`;
  return {
    id: `${id}-by-expert`,
    title: `Best configuration of each expert, ${group}`,
    note: `Over the merges that an expert is in, on the items of the search, so the best ones' scores are optimistic. ${answer}`,
    columns: [
      "expert",
      "merges",
      "best configuration",
      "tied with",
      "mean",
      "chosen",
      "chosen against best",
      "± (95%)",
    ],
    rows: byExpert.map(({ expert, merges, best, mean, ties, chosen: common }): Cell[] => [
      expert,
      { value: merges, scale: "count" },
      best,
      { value: ties, scale: "count" },
      ...[mean, common?.mean, common?.behind, common && common.margin > 0 ? common.margin : null].map((value) =>
        number(value, "share"),
      ),
    ]),
  };
}
