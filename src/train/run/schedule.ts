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

/** For people: `linear, 1,000 steps of warmup`. */
export function describeSchedule(schedule: Schedule, steps: number): string {
  const { kind, warmup, decay_shape: shape, floor } = schedule;
  const rise = warmup > 0 ? `, ${plural(warmup, "step")} of warmup` : "";
  const fall = kind === "wsd" ? `, the last ${plural(decaySteps(schedule, steps), "step")} falling as ${shape}` : "";
  return `${kind}${rise}${fall}${floor > 0 && kind !== "constant" ? `, down to ${floor} of the rate` : ""}`;
}
