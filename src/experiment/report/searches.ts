import type { Lines } from "../../figures/index.js";
import { plural } from "../../kit/printing/index.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import type { SearchOutcome } from "../search/search.js";
import { bestByExpert } from "./best-by-expert.js";
import type { SearchedConfiguration, SearchRow } from "./report-data.js";
import type { Sheet } from "./score-sheet.js";

export function searchRow(search: SearchOutcome, sheet: Sheet, plan: ExperimentPlan): SearchRow {
  const { group, chosen, splits, plannedRounds } = search;
  const models = sheet.merges.filter((model) => model.group === group);
  const standard = models.find(({ configuration, merge }) => merge.default !== undefined && configuration.isDefault);
  const isInSpace = models.some(({ merge }) => merge.space !== undefined);
  const rounds = search.rounds.map(({ ranked, kept }) => ({
    configurations: ranked.length,
    dropped: ranked.length - kept.size,
    items: Math.max(0, ...ranked.map(({ items }) => items)),
  }));
  const configurations = lastRounds(search, standard?.configuration.label);
  const best = configurations.find(({ isChosen }) => isChosen);
  const tied =
    best === undefined
      ? []
      : configurations.filter(({ round, mean }) => round === best.round && Math.abs(mean - best.mean) < 1e-9);
  const row = {
    id: `search-${group.replace(/\W+/g, "-")}`,
    group,
    chosen,
    rounds,
    configurations,
    how: plan.search.how,
    chooseOn: plan.search.choose_on,
    plannedRounds,
    size: new Set(models.map(({ configuration }) => configuration.label)).size,
    tasks: [...splits].map(([task, { rounds: inRounds, held }]) => {
      const searched = inRounds.flat().length;
      return { title: sheet.titleOf(task), searched, all: searched + held.length };
    }),
    evaluated: progressIn(search),
    byExpert: chosen === undefined ? [] : bestByExpert(search, sheet),
    ties: tied.length > 1 ? tied.map(({ label }) => label) : [],
  };
  return { ...row, summary: describeSearch(row, { budget: plan.search.budget, isInSpace }) };
}

function progressIn({ evaluated = [] }: SearchOutcome): SearchRow["evaluated"] {
  let best = Number.NEGATIVE_INFINITY;
  return evaluated.map(({ configuration: label, mean, generation }) => {
    best = Math.max(best, Number.isFinite(mean) ? mean : best);
    return { label, mean, best, generation };
  });
}

/** The score of each evaluation in a space, and the best so far. */
export function progressFigure({ id, group, how, evaluated }: SearchRow): Lines {
  const isAdaptive = how === "cma-es";
  const generations = isAdaptive
    ? " Generation 0 is what the plan names; a configuration that is proposed again is not evaluated again."
    : "";
  const numbered = evaluated.map((one, i) => ({ ...one, x: i + 1 }));
  const drawn = numbered.filter(({ mean }) => Number.isFinite(mean));
  return {
    id: `${id}-progress`,
    title: `Progress of the search in ${group}`,
    note: `Scores on the items of the search, in the order of evaluation.${generations}`,
    verdict: "",
    xTitle: "evaluation",
    scale: "share",
    references: [],
    lines: [
      { label: "best so far", points: drawn.map(({ x, best }) => ({ x, mean: best })) },
      { label: "this evaluation", points: drawn.map(({ x, mean }) => ({ x, mean })) },
    ],
    table: {
      columns: ["evaluation", ...(isAdaptive ? ["generation"] : []), "configuration", "score", "best so far"],
      rows: numbered.map(({ x, label, mean, best, generation }) => [
        String(x),
        ...(isAdaptive ? [String(generation)] : []),
        label,
        ...[mean, best].map((value) => ({ value: Number.isFinite(value) ? value : null, scale: "share" }) as const),
      ]),
    },
  };
}

/** How a search went, in sentences. @param budget of a search in a space */
function describeSearch(
  search: Omit<SearchRow, "summary">,
  { budget, isInSpace }: { readonly budget: number; readonly isInSpace: boolean },
): string {
  const { evaluated } = search;
  const { tasks, chooseOn, how, rounds, plannedRounds, size, configurations, chosen, ties } = search;
  const where = tasks.map(({ title, searched, all }) => `${searched} of the ${all} items of ${title}`).join(" and ");
  const rest = chooseOn === "test" ? "its score on these is optimistic" : "the others are for the comparison";
  const many = plural(size, "configuration");
  const isOpen = rounds.length < plannedRounds;
  const open = isOpen ? ` (${rounds.length === 0 ? "none" : rounds.length} of them done)` : "";
  const grid = `${how === "random" && isInSpace ? "Random" : "Grid"} search over ${many}`;
  const ways: Readonly<Record<string, string>> = {
    halving: `Successive halving of ${many} in ${plural(plannedRounds, "round")}${open}`,
    ...(isInSpace ? { "cma-es": `CMA-ES, ${evaluated.length} of at most ${plural(budget, "evaluation")}` } : {}),
  };
  const parts = [
    `${ways[how] ?? grid}, on ${where}; ${rest}.`,
    chosen === undefined ? "Nothing is chosen yet." : `Chosen: ${chosen}.`,
  ];
  if (ties.length > 0) {
    const names = ties.filter((label) => label !== chosen);
    const shown = names.length > 4 ? `${names.slice(0, 3).join("; ")} and ${names.length - 3} more` : names.join("; ");
    const isDefault = configurations.some((one) => one.isDefault && one.label === chosen);
    const why = isDefault ? "The default wins a tie." : "The choice among them is arbitrary.";
    parts.push(`Tied: ${shown} scored the same. ${why}`);
  }
  return parts.join(" ");
}

/** Each configuration in its last round: those that are left, then those dropped, the last round first. */
function lastRounds({ rounds, chosen }: SearchOutcome, standard: string | undefined): SearchedConfiguration[] {
  const inRounds = rounds.map(({ ranked, kept }, i) => {
    const rows = ranked.map(
      ({ configuration: label, ...found }): SearchedConfiguration => ({
        label,
        ...found,
        round: i + 1,
        isChosen: label === chosen,
        isDefault: label === standard,
      }),
    );
    return { left: rows.filter(({ label }) => kept.has(label)), dropped: rows.filter(({ label }) => !kept.has(label)) };
  });
  return [...(inRounds.at(-1)?.left ?? []), ...inRounds.reverse().flatMap(({ dropped }) => dropped)];
}
