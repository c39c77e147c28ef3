// The main table of each task: every way of making models, with its uncertainty, how its configuration was chosen, and
// whether the highest is significantly above the others.
import { plural } from "../../core/index.js";
import { signFlipTest } from "../../evaluate/index.js";
import { inLanguages } from "../plan/plan-models.js";
import { type ExperimentPlan, languagesOf } from "../plan/plan-schema.js";
import type { Overview, OverviewBar } from "./data.js";
import { decidingOf, titleOf, type Way, waysOf } from "./rows.js";
import type { Basis, Sheet } from "./sheet.js";

/** Every task that a reported model is asked, in the order of the plan. */
export function tasksIn(sheet: Sheet, plan: ExperimentPlan): string[] {
  const asked = [...sheet.experts, ...sheet.merges, { name: "base" }].flatMap(({ name }) =>
    sheet.tasksOf(name).map(({ request }) => request.task),
  );
  const languages = languagesOf(plan);
  const planned = plan.evaluate.tasks.flatMap(({ task }) => inLanguages(task, languages));
  return [...new Set([...planned.filter((task) => asked.includes(task)), ...asked])];
}

/** The main tables of a basis. @param isOneOfTwo whether the other basis is reported, too */
export function overviews(sheet: Sheet, plan: ExperimentPlan, basis: Basis, isOneOfTwo: boolean): Overview[] {
  return tasksIn(sheet, plan).flatMap((task): Overview[] => {
    const ways = waysOf(task, sheet, plan, basis);
    if (isOneOfTwo && basis === "all" && isTheSame(task, ways, sheet, plan)) return [];
    return [overview(task, ways, sheet, basis, isOneOfTwo)];
  });
}

/** Whether the other basis has the same models on the same items: no search changed them, or both chose alike. */
function isTheSame(task: string, ways: readonly Way[], sheet: Sheet, plan: ExperimentPlan): boolean {
  if (!ways.some(({ isChosen }) => isChosen)) return true;
  const modelsOf = (some: readonly Way[]) => JSON.stringify(some.map(({ models }) => models));
  return sheet.heldOut(task) === undefined && modelsOf(ways) === modelsOf(waysOf(task, sheet, plan, "held-out"));
}

function overview(task: string, ways: readonly Way[], sheet: Sheet, basis: Basis, isOneOfTwo: boolean): Overview {
  const cells = ways.map((way) => ({ way, cell: sheet.cell(way.models, task, basis) }));
  const known = cells.filter(({ cell }) => typeof cell.value === "number");
  const missing = cells.filter(({ cell }) => cell.value === undefined).map(({ way }) => way.label);
  const facts = known.map(({ way }) => sheet.answers(way.models[0] ?? "", task)?.facts).find((one) => one);
  const { best, verdict } = compareWays(
    known.map(({ way, cell }) => ({ way, mean: cell.value as number })),
    task,
    sheet,
    basis,
  );
  const all = facts?.items ?? 0;
  const held = basis === "held-out" ? sheet.heldOut(task)?.size : undefined;
  const isSearched = decidingOf(sheet, task).length > 0;
  const suffix = isOneOfTwo && isSearched ? `, chosen on ${basis === "all" ? "the test items" : "held-out items"}` : "";
  return {
    task,
    id: `main-${task.replace(/\.ya?ml$/, "").replace(/\W+/g, "-")}${isOneOfTwo && basis === "all" ? "-all" : ""}`,
    title: `${facts?.title ?? titleOf(sheet, task)}${suffix}`,
    protocol: facts?.protocol ?? "",
    scale: cells[0]?.cell.scale ?? "share",
    items: held === undefined ? plural(all, "item") : `the ${held} of ${all} items that no search saw`,
    choice: choiceOf(task, ways, sheet, basis),
    verdict,
    missing: missing.length === 0 ? "" : `Not known yet: ${listed(missing, 6)}.`,
    bars: known.map(({ way: { label, kind, detail, models }, cell: { value, range, interval } }): OverviewBar => {
      const mean = value as number;
      return {
        ...{ label, kind, mean, detail, low: range?.low ?? mean, high: range?.high ?? mean, interval },
        ...{ count: range?.count ?? 1, models, isBest: label === best?.label && detail === best.detail },
      };
    }),
  };
}

/** How the chosen configurations were chosen, as seen from a task. */
function choiceOf(task: string, ways: readonly Way[], sheet: Sheet, basis: Basis): string {
  if (!ways.some(({ isChosen }) => isChosen)) return "";
  return describeChoice(task, sheet, basis);
}

/** The same of any table of a task. */
export function describeChoice(task: string, sheet: Sheet, basis: Basis): string {
  const deciding = decidingOf(sheet, task);
  if (deciding.length === 0) return "";
  const sizes = deciding.map((name) => {
    const all = sheet.expansion.searches.map(({ splits }) => splits.get(name)).find((split) => split);
    const searched = all?.rounds.flat().length ?? 0;
    return { name, searched, all: searched + (all?.held.length ?? 0) };
  });
  const own = sizes.find(({ name }) => name === task);
  const others = sizes.filter((one) => one !== own);
  if (basis === "all" && own) {
    const further = others.map(({ name, all }) => ` and all ${all} items of ${titleOf(sheet, name)}`).join("");
    return `Configurations were chosen on these same items${further}, as in the paper, so the chosen one's score is optimistic.`;
  }
  if (basis === "all") {
    const where = others.map(({ name, all }) => `all ${all} items of ${titleOf(sheet, name)}`);
    return `Configurations were chosen on ${where.join(", ")}: the test items of ${where.length === 1 ? "that task" : "those tasks"}.`;
  }
  const where = [
    ...(own ? [`the other ${own.searched}`] : []),
    ...others.map(({ name, searched }) => `${searched} items of ${titleOf(sheet, name)}`),
  ];
  return `Configurations were chosen on ${where.join(", ")}.`;
}

interface Compared {
  readonly way: Way;
  readonly mean: number;
}

/** The highest, if its lead over each other way is significant on the same items; and a sentence either way. */
function compareWays(rows: readonly Compared[], task: string, sheet: Sheet, basis: Basis) {
  const [first, ...rest] = rows.filter(({ way }) => !way.isSummary).toSorted((a, b) => b.mean - a.mean);
  if (!first || rest.length === 0) return { verdict: "" };
  const alike = rest.filter(({ mean }) => Math.abs(mean - first.mean) < 1e-9);
  if (alike.length > 0) {
    const names = [first, ...alike].map(({ way }) => way.label);
    return { verdict: `No best is marked: ${listed(names)} are tied.` };
  }
  const top = sheet.itemMeans(first.way.models, task, basis);
  if (!top || top.size === 0)
    return { verdict: "Whether the highest score is significantly above the others is unknown." };
  const unclear = rest.filter(({ way }) => {
    const own = sheet.itemMeans(way.models, task, basis) ?? new Map<string, number>();
    const differences = [...top].flatMap(([id, value]) => value - (own.get(id) ?? Number.NaN));
    return signFlipTest(differences.filter(Number.isFinite)) >= 0.05;
  });
  const how = "sign-flip tests on the same items, at 5%";
  if (first.way.isChosen && basis === "all" && decidingOf(sheet, task).includes(task)) {
    return { verdict: `No best is marked: ${first.way.label} is highest, but it was chosen on these items.` };
  }
  if (unclear.length === 0) {
    return { best: first.way, verdict: `${first.way.label} is significantly above every other row (${how}).` };
  }
  const names = listed(unclear.map(({ way }) => way.label));
  return {
    verdict: `No best is marked: ${first.way.label} is highest, but not significantly above ${names} (${how}).`,
  };
}

/** `a, b and c`; of more than `most`, how many others there are. Labels have commas in them. */
function listed(names: readonly string[], most = 3): string {
  const quoted = names.map((name) => (name.includes(",") ? `“${name}”` : name));
  const shown = quoted.length > most ? [...quoted.slice(0, most - 1), `${quoted.length - most + 1} more`] : quoted;
  return shown.length < 2 ? (shown[0] ?? "") : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}
