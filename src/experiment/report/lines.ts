import { isDifferent } from "../../evaluate/findings/index.js";
import { holmAdjust } from "../../evaluate/scoring/index.js";
import { type Cell, count, type Table } from "../../figures/index.js";
import { groupBy } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import type { MergeModel } from "../expand/plan-models.js";
import { fieldTitle, lineField } from "../plan/configurations.js";
import type { ExperimentPlan, Merge } from "../plan/plan-schema.js";
import { familyInRound, mergeInRound, repeatedIn } from "../plan/settle.js";
import { byLanguage, tasksIn } from "./overview.js";
import type { LinePoint, ReportLines } from "./report-data.js";
import { compareValues, type Sheet, scoreIn } from "./score-sheet.js";
import { number, signed } from "./tables.js";

/** A figure for each merge with `figure: line`, each of its tasks and each language. */
export function lineFigures(sheet: Sheet, plan: ExperimentPlan): ReportLines[] {
  return plan.merges.flatMap((merge) => {
    const field = lineField(merge);
    if (merge.figure !== "line" || field === undefined) return [];
    return tasksIn(sheet, plan).flatMap((task) => {
      const models = sheet.merges.filter(
        (model) => model.merge.name === merge.name && sheet.isEvaluated(model.name, task),
      );
      return byLanguage(merge.name, models).flatMap(
        ([name, own]) => linesOf(gridDrawing(name, merge, field, own), task, sheet) ?? [],
      );
    });
  });
}

/** What a figure shows, before its scores. */
interface Drawing {
  /** Of the merge; empty if the lines are of several. */
  readonly name: string;
  readonly xTitle: string;
  /** Place that the others are compared with. */
  readonly reference: number | undefined;
  /** Models by place, in ascending order. */
  readonly lines: readonly {
    readonly label: string;
    readonly places: readonly { readonly x: number; readonly models: readonly string[] }[];
  }[];
  /** Families whose experts are drawn across the figure, beside the base. */
  readonly expertFamilies: readonly string[];
}

function gridDrawing(name: string, merge: Merge, field: string, models: readonly MergeModel[]): Drawing {
  const others = Object.keys(merge.grid).filter((other) => other !== field);
  const inGrid = models.filter(({ configuration: { fields } }) =>
    others.every((other) => Object.hasOwn(fields, other)),
  );
  const labelOf = ({ configuration: { fields } }: MergeModel) =>
    others.map((other) => `${fieldTitle(other)} ${plainly(fields[other])}`).join(", ");
  const at = ({ configuration }: MergeModel) => configuration.fields[field] as number;
  const standard = models.find(({ configuration }) => configuration.isDefault);
  return {
    name,
    xTitle: fieldTitle(field),
    reference: standard && at(standard),
    lines: [...groupBy(inGrid, labelOf)].map(([label, own]) => ({
      label,
      places: [...groupBy(own, at)]
        .sort(([a], [b]) => a - b)
        .map(([x, some]) => ({ x, models: some.map((model) => model.name) })),
    })),
    expertFamilies: [...new Set(models.flatMap((model) => model.expertFamilies))],
  };
}

/** A figure for each task of a plan with rounds: its merges and the families that train again, over the rounds. */
export function roundFigures(sheet: Sheet, plan: ExperimentPlan): ReportLines[] {
  const { expertFamilies, merges } = repeatedIn(plan);
  const rounds = Array.from({ length: plan.rounds?.count ?? 0 }, (_, i) => i + 1);
  return tasksIn(sheet, plan).flatMap((task) => {
    const line = (label: string, modelsIn: (round: number) => readonly { readonly name: string }[]) => ({
      label,
      places: rounds.flatMap((x) => {
        const models = modelsIn(x).flatMap(({ name }) => (sheet.isEvaluated(name, task) ? [name] : []));
        return models.length > 0 ? [{ x, models }] : [];
      }),
    });
    const lines = [
      ...merges.map(({ name }) =>
        line(name, (round) => {
          const own = sheet.merges.filter(({ merge }) => merge.name === mergeInRound(name, round));
          return own.filter(({ group, configuration }) =>
            sheet.searchOf(group) ? configuration.label === sheet.chosenLabel(group) : configuration.isDefault,
          );
        }),
      ),
      ...expertFamilies.map((name) =>
        line(name, (round) => sheet.experts.filter(({ expertFamily }) => expertFamily === familyInRound(name, round))),
      ),
    ];
    return linesOf({ name: "", xTitle: "round", reference: 1, lines, expertFamilies: [] }, task, sheet) ?? [];
  });
}

function linesOf(
  { name, xTitle, reference, lines: places, expertFamilies }: Drawing,
  task: string,
  sheet: Sheet,
): ReportLines | undefined {
  const drawn = places.map(({ label, places: own }) => {
    const against = own.find(({ x }) => x === reference)?.models ?? [];
    const points = own.flatMap(({ x, models }): LinePoint[] => {
      const score = scoreIn(sheet.cell(models, task));
      if (!score) return [];
      const { mean, interval, low, high } = score;
      const difference = x !== reference && against.length > 0 ? differenceOf(models, against, task, sheet) : {};
      return [{ x, mean, interval, low, high, models, ...difference }];
    });
    return { label, points };
  });
  const lines = adjusted(drawn.filter(({ points }) => points.length > 0));
  const facts = sheet.task(task);
  if (lines.length === 0 || !facts) return undefined;
  const held = sheet.heldOut(task)?.size;
  const references = [
    { label: "base", models: ["base"] },
    ...expertFamilies.map((expertFamily) => ({
      label: expertFamily,
      models: sheet.experts.filter((expert) => expert.expertFamily === expertFamily).map((expert) => expert.name),
    })),
  ].flatMap(({ label, models: named }) => {
    const score = scoreIn(sheet.cell(named, task));
    return score ? [{ label, mean: score.mean }] : [];
  });
  const several = Math.max(...lines.flatMap(({ points }) => points.map((point) => point.models.length)));
  return {
    id: `line-${`${name === "" ? xTitle : name}-${task.replace(/\.ya?ml$/, "")}`.replace(/\W+/g, "-")}`,
    title: `${name === "" ? "" : `${name}: `}${facts.title} by ${xTitle}`,
    scale: facts.scale,
    xTitle,
    lines,
    references,
    note: [
      `On ${held === undefined ? plural(facts.items, "item") : `the ${held} of ${facts.items} items that no search saw`}; ${facts.protocol}.`,
      ...(several > 1 ? [`Means over ${several} models.`] : []),
      "Intervals are 95% over items.",
    ].join(" "),
    reference,
    verdict: verdictOf(lines, xTitle, reference),
  };
}

const plainly = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));

/** How the models of a point compare with those of the reference, on the same items. */
function differenceOf(
  models: readonly string[],
  against: readonly string[],
  task: string,
  sheet: Sheet,
): Pick<LinePoint, "difference" | "between" | "pValue"> {
  const [own, other] = [models, against].map((some) => sheet.itemMeans(some, task));
  const found = own && other && compareValues(other, own);
  return found ? { difference: found.difference, between: found.interval, pValue: found.pValue } : {};
}

/** P values adjusted for all comparisons of a figure. */
function adjusted(lines: ReportLines["lines"]): ReportLines["lines"] {
  const all = holmAdjust(lines.flatMap(({ points }) => points.map(({ pValue }) => pValue)));
  let next = 0;
  return lines.map(({ label, points }) => ({
    label,
    points: points.map((point) => {
      const pValue = all[next++];
      return pValue === undefined ? point : { ...point, pValue };
    }),
  }));
}

/** Which points differ from the reference, in sentences. */
function verdictOf(lines: ReportLines["lines"], xTitle: string, reference: number | undefined): string {
  if (lines.every(({ points }) => points.every(({ pValue }) => pValue === undefined))) return "";
  const how = "(tests on the same items, at 5%, with Holm's correction)";
  const differing = (sign: number) =>
    lines.flatMap(({ label, points }) => {
      const places = placesOf(points, ({ difference = 0, pValue }) => isDifferent({ pValue }) && sign * difference > 0);
      return places === "" ? [] : [label === "" ? places : `${label} at ${places}`];
    });
  const [lower, higher] = [differing(-1), differing(1)];
  const [less, more] = [lower.join("; "), higher.join("; ")];
  const than = `than at ${xTitle} ${reference} ${how}`;
  if (less === "" && more === "") return `No point differs significantly from ${xTitle} ${reference} ${how}.`;
  if (less === "") return `Significantly higher ${than}: ${more}.`;
  return `Significantly lower ${than}: ${less}.${more === "" ? "" : ` Significantly higher: ${more}.`}`;
}

/** `0.05 to 0.5 and 0.85`: the places of some points; three or more neighbors are a range. */
function placesOf(points: readonly LinePoint[], isMeant: (point: LinePoint) => boolean): string {
  const runs: number[][] = [[]];
  for (const point of points) {
    if (isMeant(point)) runs.at(-1)?.push(point.x);
    else runs.push([]);
  }
  const parts = runs.flatMap((run) => (run.length > 2 ? [`${run[0]} to ${run.at(-1)}`] : run.map(String)));
  return parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}

export function linesTable({ xTitle, scale, lines }: ReportLines): Table {
  const hasLabels = lines.some(({ label }) => label !== "");
  const points = lines.flatMap(({ points: own }) => own);
  const hasSeveral = points.some(({ models }) => models.length > 1);
  const isCompared = points.some(({ difference }) => difference !== undefined);
  return {
    columns: [
      ...(hasLabels ? ["line"] : []),
      ...[xTitle, hasSeveral ? "mean" : "score", "95% from", "95% to"],
      ...(hasSeveral ? ["min", "max", "models"] : []),
      ...(isCompared ? ["difference", "difference from", "difference to", "p (Holm)"] : []),
    ],
    rows: lines.flatMap(({ label, points: own }) =>
      own.map(({ x, mean, interval, low, high, models, difference, between, pValue }): Cell[] => [
        ...(hasLabels ? [label] : []),
        { value: x, scale: "setting" },
        ...[mean, interval?.low, interval?.high].map((value) => number(value, scale)),
        ...(hasSeveral ? [number(low, scale), number(high, scale), count(models.length)] : []),
        ...(isCompared ? [difference, between?.low, between?.high].map((value) => signed(value, scale)) : []),
        ...(isCompared ? [number(pValue, "probability")] : []),
      ]),
    ),
  };
}
