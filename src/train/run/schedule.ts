import { plural } from "../../kit/printing/index.js";
import type { Schedule } from "./run-schema.js";

export const SCHEDULES = ["linear", "wsd", "cosine", "constant"] as const;

export const DECAY_SHAPES = ["1-sqrt", "linear", "cosine"] as const;

/** From 1 at the first step of the decay towards 0, at the step after the last. @param t from 0 to 1 */
const FALL: Readonly<Record<(typeof DECAY_SHAPES)[number], (t: number) => number>> = {
  "1-sqrt": (t) => 1 - Math.sqrt(t),
  linear: (t) => 1 - t,
  cosine: (t) => (1 + Math.cos(Math.PI * t)) / 2,
};

/**
 * The learning rate of a step, as a share of the full rate.
 *
 * linear: (step + 1) / warmup, then (steps - step) / (steps - warmup), which is 1 right after the warmup and never 0.
 * cosine: Loshchilov & Hutter, arXiv 1608.03983, one cycle. wsd (warmup, stable, decay): Hu et al., arXiv 2404.06395,
 * section 4; the decay 1 - sqrt over 20% of the steps: Hägele et al., arXiv 2405.18392, section 3.
 * @param step optimizer step, from 0
 * @param steps of the whole run, at least 1
 */
export function learningRateFactor(schedule: Schedule, step: number, steps: number): number {
  const { kind, warmup, floor } = schedule;
  if (step < warmup) return (step + 1) / warmup;
  if (kind === "constant") return 1;
  const begin = kind === "wsd" ? Math.max(warmup, steps - decaySteps(schedule, steps)) : warmup;
  if (step < begin) return 1;
  const shape = kind === "wsd" ? schedule.decay_shape : kind;
  // One division, so that linear gives the very numbers of its formula.
  const fall = shape === "linear" ? (steps - step) / (steps - begin) : FALL[shape]((step - begin) / (steps - begin));
  return floor === 0 ? fall : floor + (1 - floor) * fall;
}

/** wsd: the steps of the decay, at least one. */
export function decaySteps({ decay_share: share }: Schedule, steps: number): number {
  return Math.max(1, Math.round(share * steps));
}

/**
 * Largest share of a run that a warmup in steps may take. The paper's language experts warm up for a fifth of theirs (arXiv
 * 2410.01335, table 4: 1,000 of 5,000), so a share above a quarter comes from steps that were counted for a longer run.
 */
const MOST_WARMUP = 0.25;

/**
 * What is wrong with a warmup that leaves too little of a run, with its steps, those of the run, and the rate reached.
 * @param run `peak`: full learning rate; `isShare`: whether the warmup was written as a share of the run
 * @returns undefined if the warmup fits
 */
export function warmupProblem(
  { kind, warmup }: Schedule,
  { steps, peak, isShare }: { readonly steps: number; readonly peak: number; readonly isShare: boolean },
): string | undefined {
  const isUnfinished = warmup > steps || (warmup === steps && kind !== "constant");
  if (!isUnfinished && (isShare || warmup <= MOST_WARMUP * steps)) return undefined;
  const percent = Number(((100 * warmup) / steps).toPrecision(3));
  const what =
    warmup > steps
      ? `the rate ends at ${rateText((peak * steps) / warmup)} of ${rateText(peak)} and never falls`
      : isUnfinished
        ? `the rate reaches ${rateText(peak)} at the last step and never falls`
        : `the rate reaches ${rateText(peak)} after ${percent}% of the run`;
  return `warmup of ${plural(warmup, "step")}, run of ${plural(steps, "step")}: ${what}`;
}

/** A learning rate with at most three digits: `2e-7`, `4.89e-8`. */
export function rateText(rate: number): string {
  return Number(rate.toPrecision(3)).toExponential();
}

/** For people: `linear, 1,000 steps of warmup`. */
export function describeSchedule(schedule: Schedule, steps: number): string {
  const { kind, warmup, decay_shape: shape, floor } = schedule;
  const rise = warmup > 0 ? `, ${plural(warmup, "step")} of warmup` : "";
  const fall = kind === "wsd" ? `, the last ${plural(decaySteps(schedule, steps), "step")} falling as ${shape}` : "";
  return `${kind}${rise}${fall}${floor > 0 && kind !== "constant" ? `, down to ${floor} of the rate` : ""}`;
}
