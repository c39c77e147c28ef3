import { plural } from "../../core/index.js";
import type { TrainedCheckpoint } from "../steps/result.js";
import type { TrainStep } from "../steps/step.js";
import type { Family } from "./plan-schema.js";

export interface Selection {
  readonly family: string;
  readonly top: number;
  readonly by: readonly string[];
  /** `within`: points; `base`: its score, from 0 to 1. */
  readonly guards: readonly { readonly task: string; readonly within: number; readonly base: number | undefined }[];
  /** The best first. Scores are from 0 to 1; `guarded` in the order of the guards; `name` of those that were kept. */
  readonly checkpoints: readonly {
    readonly origin: string;
    readonly score: number;
    readonly guarded: readonly (number | undefined)[];
    readonly refusedBy: readonly string[];
    readonly name?: string;
    /** A kept checkpoint in whose place it would be. */
    readonly sameAs?: { readonly name: string; readonly what: "run" | "data" } | undefined;
  }[];
}

/** Scores of the same answers differ in their last bits. */
const TIE = 1e-9;

/** A checkpoint with its mean score, and its scores on the guards. */
export interface Candidate {
  readonly step: TrainStep;
  readonly checkpoint: TrainedCheckpoint;
  readonly origin: string;
  readonly score: number;
  readonly guarded: readonly number[];
}

/**
 * The best checkpoints that pass the guards, named in their order.
 * @param guards floors: the base's score less `within` points
 * @returns `checkpoints`: all of them, the best first
 */
export function chooseCheckpoints(
  family: string,
  rule: NonNullable<Family["select"]>,
  candidates: readonly Candidate[],
  guards: Selection["guards"],
): {
  readonly kept: readonly (Candidate & { readonly name: string })[];
  readonly checkpoints: Selection["checkpoints"];
} {
  const refusedBy = ({ guarded }: Candidate) =>
    guards.flatMap(({ task, within, base = 0 }, i) => ((guarded[i] ?? 0) < base - within / 100 - TIE ? [task] : []));
  const groupOf = ({ step }: Candidate) =>
    rule.one_per === "data" ? (step.data ?? step.key) : rule.one_per_run ? step.key : undefined;
  const ranked = candidates.toSorted((a, b) => b.score - a.score);
  const fit = ranked.filter((one) => refusedBy(one).length === 0);
  const kept = fit
    .filter((one, i) => groupOf(one) === undefined || fit.findIndex((other) => groupOf(other) === groupOf(one)) === i)
    .slice(0, rule.top);
  const nameOf = (one: Candidate) => `${family}-${kept.indexOf(one) + 1}`;
  const sameAs = (one: Candidate) => {
    const first = kept.find((other) => other !== one && groupOf(one) !== undefined && groupOf(other) === groupOf(one));
    return first && { name: nameOf(first), what: first.step === one.step ? ("run" as const) : ("data" as const) };
  };
  return {
    kept: kept.map((one) => ({ ...one, name: nameOf(one) })),
    checkpoints: ranked.map((one) => ({
      origin: one.origin,
      score: one.score,
      guarded: one.guarded,
      refusedBy: refusedBy(one),
      ...(kept.includes(one) ? { name: nameOf(one) } : { sameAs: sameAs(one) }),
    })),
  };
}

const MAX_NAMED = 8;

/**
 * Families that have fewer checkpoints than the plan names.
 * @param missing families and merges of the plan that therefore have no model
 */
export function describeRefusals(selections: readonly Selection[], missing: readonly string[]): string[] {
  const refused = selections.filter((one) => countKept(one) === 0);
  const gone = missing.filter((name) => !refused.some(({ family }) => family === name));
  const lacking = selections.filter((one) => refused.includes(one) || (gone.length > 0 && countKept(one) < one.top));
  if (lacking.length === 0) return [];
  const shown = gone.length > MAX_NAMED ? [...gone.slice(0, MAX_NAMED), `${gone.length - MAX_NAMED} more`] : gone;
  return [
    ...lacking.map(describeRefusal),
    ...(gone.length > 0 ? [`Without these checkpoints, there is no model of ${shown.join(", ")}.`] : []),
  ];
}

const countKept = ({ checkpoints }: Selection) => checkpoints.filter(({ name }) => name !== undefined).length;

/** `Guards refused all 6 checkpoints of math (6 by mmlu, 3 by gsm), so math has no model.` */
function describeRefusal(selection: Selection): string {
  const { family, top, guards, checkpoints } = selection;
  const kept = countKept(selection);
  const by = guards.flatMap(({ task }) => {
    const count = checkpoints.filter(({ refusedBy }) => refusedBy.includes(task)).length;
    return count === 0 ? [] : [`${count} by ${task}`];
  });
  if (kept > 0) {
    const why = by.length === 0 ? "the others are of the same runs or data" : `guards refused ${by.join(", ")}`;
    return `${family} has ${kept} of the ${plural(top, "checkpoint")} that the plan names: ${why}.`;
  }
  const all = checkpoints.length === 1 ? "the only checkpoint" : `all ${checkpoints.length} checkpoints`;
  return `Guards refused ${all} of ${family} (${by.join(", ")}), so ${family} has no model.`;
}
