// How far the highest row of a task is above the others, over items and, where rows have several, over experts.
import {
  type CrossedModel,
  crossedDifference,
  detectableDifference,
  holmAdjust,
  itemsNeeded,
} from "../../evaluate/scoring/index.js";
import type { Lead } from "../../figures/index.js";
import type { MergeModel } from "../expand/plan-models.js";
import { compareValues, type Sheet, spanOf } from "./score-sheet.js";

export interface ComparedRow {
  readonly label: string;
  readonly models: readonly string[];
}

/**
 * The lead of a row over others, with Holm's correction for their number. Merges of several pairs are crossed with the
 * experts that they are made of (`crossedDifference`); where a row is one model, only items vary.
 * @returns one for each other row that has items in common with the first
 */
export function compareRow(first: ComparedRow, others: readonly ComparedRow[], task: string, sheet: Sheet): Lead[] {
  return compareRows(
    others.map((over) => ({ first, over, task })),
    sheet,
  ).map(({ lead }) => lead);
}

interface CrossedComparison {
  /** Label of the other row. */
  readonly over: string;
  readonly first: readonly CrossedModel[];
  readonly second: readonly CrossedModel[];
}

interface Comparison {
  readonly first: ComparedRow;
  readonly over: ComparedRow;
  readonly task: string;
}

/** The lead of a row over another on a task, for several such, with Holm's correction for all of those that have items in common. */
export function compareRows<C extends Comparison>(
  all: readonly C[],
  sheet: Sheet,
): { readonly of: C; readonly lead: Lead }[] {
  const models = new Map<string, CrossedModel[]>();
  const crossed = (row: ComparedRow, task: string) => {
    const key = JSON.stringify([task, row.models]);
    const own = models.get(key) ?? modelsOf(row, task, sheet);
    models.set(key, own);
    return own;
  };
  return compareCrossed(
    all.map((of) => ({
      of,
      over: of.over.label,
      first: crossed(of.first, of.task),
      second: crossed(of.over, of.task),
    })),
  );
}

/** The lead of the first models over the second, for several such, with Holm's correction for those that have items in common. */
export function compareCrossed<C>(
  all: readonly (CrossedComparison & { readonly of: C })[],
): { readonly of: C; readonly lead: Lead }[] {
  const found = all.flatMap(({ of, over, first, second }) => {
    const lead = leadOver(second, first);
    return lead ? [{ of, over, lead }] : [];
  });
  const adjusted = holmAdjust(found.map(({ lead }) => lead.pValue));
  const comparisons = Math.max(1, found.length);
  return found.map(({ of, over, lead: { detectableIn, ...lead } }, i) => {
    const { difference, resampled } = lead;
    // More items do not make experts alike.
    const isOverItems = Object.keys(resampled.factors).length === 0;
    const inItems = detectableIn && isOverItems ? { ...detectableIn, items: resampled.items } : undefined;
    return {
      of,
      lead: {
        ...lead,
        over,
        pValue: adjusted[i],
        detectable: detectableIn && withinScale(detectableDifference(detectableIn, { comparisons })),
        needed: inItems && itemsNeeded(difference, inItems, { comparisons }),
      },
    };
  });
}

/** Shares differ by at most 1. */
const withinScale = (value: number | undefined) => (value !== undefined && value <= 1 ? value : undefined);

function leadOver(other: readonly CrossedModel[], own: readonly CrossedModel[]) {
  const crossed = crossedDifference(other, own);
  if (crossed.over.items === 0) return undefined;
  const { difference, interval, pValue, degrees, over } = crossed;
  if (Object.keys(over.factors).length > 0) {
    const detectableIn = interval && { standardError: interval.deviation, degrees };
    return { difference, interval: spanOf(interval), pValue: pValue ?? 1, resampled: over, detectableIn };
  }
  const [before, after] = [other, own].map((models) => {
    const ids = [...(models[0]?.values.keys() ?? [])].filter((id) => models.every(({ values }) => values.has(id)));
    return new Map(
      ids.map((id) => [id, models.reduce((sum, { values }) => sum + (values.get(id) ?? 0), 0) / models.length]),
    );
  });
  const found = before && after && compareValues(before, after);
  if (!found) return undefined;
  const { difference: byItems, discordance, items, deviation: standardError } = found;
  const byError = standardError === undefined ? undefined : { standardError };
  return {
    difference: byItems,
    interval: found.interval,
    pValue: found.pValue,
    resampled: over,
    detectableIn: discordance === undefined ? byError : { items, discordance },
  };
}

/**
 * The models of a row with the experts that they are made of, and their values; none of tasks that are not a mean over
 * items. Where models are asked different tasks of an average, only their mean is one, and only items vary.
 */
function modelsOf({ models }: ComparedRow, task: string, sheet: Sheet): CrossedModel[] {
  const areAsked = models.every((name) => sheet.partsOf(task).every((part) => sheet.answers(name, part) !== undefined));
  if (!areAsked) {
    const values = sheet.itemMeans(models, task);
    return values && values.size > 0 ? [{ levels: {}, values }] : [];
  }
  return models.flatMap((name) => {
    const values = sheet.itemMeans([name], task);
    return values && values.size > 0 ? [{ levels: levelsOf(name, sheet), values }] : [];
  });
}

/** An expert by family; several of one family, as in a soup of all, are one level together. */
function levelsOf(name: string, sheet: Sheet): Record<string, string> {
  const model = sheet.models.find((one) => one.name === name);
  if (!model || model.kind === "base") return {};
  if (!("members" in model)) return "expertFamily" in model ? { [model.expertFamily]: name } : {};
  const { members, expertFamilies }: MergeModel = model;
  const levels: Record<string, string> = {};
  for (const [i, member] of members.entries()) {
    const expertFamily =
      sheet.experts.find((expert) => expert.name === member)?.expertFamily ?? expertFamilies[i] ?? member;
    levels[expertFamily] = levels[expertFamily] === undefined ? member : `${levels[expertFamily]} + ${member}`;
  }
  return levels;
}
