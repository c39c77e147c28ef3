// Which checkpoints of a family's runs become its experts.
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
