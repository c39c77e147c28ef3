// Decides what a comparison found: the best alternative, whether a difference is significant, and what to do next. The one place
// that does.
import { type Compared, type Finding, isMerge, type Lead, type Next, type Scale } from "../../figures/index.js";
import { isSignificant } from "../scoring/significance.js";

/** A model, or a row of several, among which the best is found. */
export interface Candidate extends Compared {
  /** What it is one of several configurations of; such are no alternative to one another where there are others. */
  readonly entry: string;
  /** A mean over configurations that are candidates, too: no candidate itself. */
  readonly isSummary?: boolean | undefined;
  /** A point of a figure; like a control, neither the best nor the alternative. */
  readonly isPoint?: boolean | undefined;
}

/** What a merge is among others, by its method. */
export const kindOfMethod = (method: string): "swap" | "average" | "merge" =>
  method === "swap" ? "swap" : method === "soup" ? "average" : "merge";

/** What candidates were compared on. */
export interface ComparedOn<C extends Candidate> {
  readonly scale: Scale;
  /** Items that each was asked. */
  readonly items: number;
  /** What the finding is about. Default: the highest. */
  readonly subject?: C | undefined;
  /** Whether a candidate was chosen on these items. */
  readonly isChosenHere?: ((one: C) => boolean) | undefined;
  /** How far the first is above each of the others, on the same items; undefined where there is no test. */
  readonly leads: (first: C, others: readonly C[]) => readonly (Lead | undefined)[];
  readonly tiedChoices?: Finding["tiedChoices"];
}

/** Scores that differ by less are equal: they are sums in another order. */
const EQUAL = 1e-9;
const isEqual = (a: { readonly score: number }, b: { readonly score: number }) => Math.abs(a.score - b.score) < EQUAL;

/** The candidates that may be best, the highest first; of equal ones, the base last. */
export function ranked<C extends Pick<Candidate, "kind" | "score" | "isSummary" | "isPoint">>(all: readonly C[]): C[] {
  return all
    .filter(({ kind, isSummary, isPoint }) => kind !== "control" && !isSummary && !isPoint)
    .toSorted((a, b) => b.score - a.score || Number(a.kind === "base") - Number(b.kind === "base"));
}

/** The highest of those that may be best, such as the best average. */
export const highest = <C extends Parameters<typeof ranked>[0][number]>(all: readonly C[]): C | undefined =>
  ranked(all)[0];

/** Whether a difference is significant: by its test, or without one by its interval. */
export function isDifferent({ pValue, interval }: Pick<Lead, "pValue" | "interval">): boolean {
  if (pValue !== undefined) return isSignificant(pValue);
  return interval !== undefined && (interval.low > 0 || interval.high < 0);
}

/** Whether the first is significantly above the other. */
export const isAbove = (lead: Pick<Lead, "difference" | "pValue" | "interval"> | undefined): boolean =>
  lead !== undefined && lead.difference > 0 && isDifferent(lead);

/** Undefined if there are fewer than two candidates, and none is given as the subject. @param all in the order of their rows */
export function findingAbout<C extends Candidate>(all: readonly C[], on: ComparedOn<C>): Finding | undefined {
  const own = all.filter(({ isSummary }) => !isSummary).toSorted((a, b) => b.score - a.score);
  const may = ranked(own);
  const subject = on.subject ?? may[0];
  if (!subject) return undefined;
  const rest = may.filter((one) => one !== subject);
  const alternative = rest.find(({ entry }) => entry !== subject.entry) ?? rest[0];
  // Another configuration of it is named by its row.
  const isOther = alternative?.entry !== subject.entry;
  const named = (one: C): Compared => comparedOf(one, isOther ? one.name : one.label);
  const head = {
    scale: on.scale,
    metric: "",
    subject: named(subject),
    alternative: alternative && named(alternative),
    difference: alternative ? subject.score - alternative.score : 0,
    hasOtherMerges: rest.some((one) => isMerge(one) && one.entry !== subject.entry),
    others: rest.length,
    isPair: false,
    flips: undefined,
    tiedChoices: on.tiedChoices,
    limit: limitOf(all, on.scale),
    leads: [],
    lead: undefined,
    tied: [],
    equals: [],
    unclear: [],
    controls: [],
    isBest: false,
  };
  const found = (outcome: Finding["outcome"], more: Partial<Finding> = {}): Finding => {
    const finding = { ...head, outcome, ...more };
    return { ...finding, next: nextOf(finding, on.items) };
  };
  if (!alternative) return on.subject ? found("alone") : undefined;
  // A subject that is given is compared with its equals, too.
  const tied = on.subject ? [] : rest.filter((one) => isEqual(one, subject));
  if (tied.length > 0) return found("tied", { tied: tied.map((one) => named(one)) });
  if (on.isChosenHere?.(subject)) return found("optimistic");
  const others = own.filter((one) => one !== subject);
  const leads = on.leads(subject, others);
  const leadOver = (one: C) => leads[others.indexOf(one)];
  const lead = leadOver(alternative);
  if (!lead || leads.includes(undefined)) return found("untested");
  // A control may be above the highest.
  const isUnclear = (one: C) => one.score >= subject.score || !isAbove(leadOver(one));
  const unclear = rest.filter(isUnclear);
  const controls = own.filter((one) => one !== subject && !may.includes(one) && isUnclear(one));
  // At the floor, ties say nothing.
  const equals = rest.filter((one) => one.entry !== alternative.entry && one.score > 0 && isEqual(one, alternative));
  const outcome = !isDifferent(lead) ? "unclear" : lead.difference > 0 ? "above" : "below";
  const row = (some: readonly C[]) => some.map((one) => comparedOf(one, one.name));
  return found(outcome, {
    lead,
    leads: leads.filter((one) => one !== undefined),
    difference: lead.difference,
    unclear: row(unclear),
    controls: row(controls),
    isBest: unclear.length === 0,
    equals: row(equals),
  });
}

const comparedOf = ({ label, detail, kind, score }: Candidate, name: string): Compared => {
  return { name, label, detail, kind, score };
};

/** The end of the scale that all candidates are at. */
function limitOf(all: readonly Candidate[], scale: Scale): Finding["limit"] {
  if (all.length < 2) return undefined;
  if (all.every((one) => isAt(one, ceilingOf(scale)))) return "ceiling";
  return all.every((one) => isAt(one, 0)) ? "floor" : undefined;
}

const ceilingOf = (scale: Scale) => (scale === "points" ? 100 : 1);
const isAt = (one: { readonly score: number }, score: number) => isEqual(one, { score });

/** Where so many times the items would be needed, a study will not be made. */
const MOST_TIMES = 20;

/** What to do next. @param asked items so far */
export function nextOf(finding: Omit<Finding, "next">, asked: number): Next | undefined {
  const { subject, outcome, lead, scale, hasOtherMerges, isPair, isBest, controls } = finding;
  const isLonely = isMerge(subject) && !hasOtherMerges && !isPair;
  const limit = finding.limit ?? (outcome === "tied" && isAt(subject, ceilingOf(scale)) ? "ceiling" : undefined);
  if (limit) return { do: "ask another task", limit };
  if (outcome === "alone") return { do: "score its models" };
  if (outcome === "optimistic") return { do: "score other items" };
  if (outcome === "tied") return { do: "ask more items", items: undefined, asked };
  if (outcome === "below") return subject.kind === "swap" ? { do: "try other layers" } : { do: "take the alternative" };
  if (outcome === "above") {
    if (isLonely) return { do: "score other merges" };
    return isBest && controls.length === 0 ? { do: "stop" } : undefined;
  }
  if (outcome !== "unclear" || !lead) return undefined;
  if (Object.keys(lead.resampled.factors).length > 0) return { do: "train more experts" };
  if (lead.needed === undefined) return undefined;
  const items = roundUp(lead.needed);
  return items > MOST_TIMES * asked ? { do: "choose otherwise", items, asked } : { do: "ask more items", items, asked };
}

/** To two digits: the difference that it is for is an estimate. */
function roundUp(value: number): number {
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(value)) - 1);
  return Math.ceil(value / unit) * unit;
}
