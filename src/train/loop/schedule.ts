// How the learning rate goes over a run: a factor per optimizer step. Knows neither weights nor data.
import { plural } from "../../core/index.js";

export const SCHEDULES = ["linear", "wsd", "cosine", "constant"] as const;
export type ScheduleKind = (typeof SCHEDULES)[number];

export const DECAY_SHAPES = ["1-sqrt", "linear", "cosine"] as const;
export type DecayShape = (typeof DECAY_SHAPES)[number];

export interface Schedule {
  readonly kind: ScheduleKind;
  /** Optimizer steps over which the rate rises, in equal parts, to its full value at the last of them. */
  readonly warmup: number;
  /** wsd: the share of all steps in which the rate falls, at the end. */
  readonly decayShare: number;
  /** wsd: how it falls. */
  readonly decayShape: DecayShape;
  /** The share of the rate that it falls to; 0 for nothing. Not for constant. */
  readonly floor: number;
}

/** What falls from 1 at the first step of the decay towards 0, which the step after the last would have. */
const FALL: Readonly<Record<DecayShape, (t: number) => number>> = {
  "1-sqrt": (t) => 1 - Math.sqrt(t),
  linear: (t) => 1 - t,
  cosine: (t) => (1 + Math.cos(Math.PI * t)) / 2,
};

/**
 * The share of the full learning rate that a step is made with.
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
  const shape = kind === "wsd" ? schedule.decayShape : kind;
  // One division, so that linear gives the very numbers of its formula.
  const fall = shape === "linear" ? (steps - step) / (steps - begin) : FALL[shape]((step - begin) / (steps - begin));
  return floor === 0 ? fall : floor + (1 - floor) * fall;
}

/** wsd: the steps of the decay; at least one, so that the rate falls at all. */
export function decaySteps({ decayShare }: Pick<Schedule, "decayShare">, steps: number): number {
  return Math.max(1, Math.round(decayShare * steps));
}

/** For people: `linear, 1,000 steps of warmup`. */
export function describeSchedule(schedule: Schedule, steps: number): string {
  const { kind, warmup, decayShape, floor } = schedule;
  const rise = warmup > 0 ? `, ${plural(warmup, "step")} of warmup` : "";
  const fall =
    kind === "wsd" ? `, the last ${plural(decaySteps(schedule, steps), "step")} falling as ${decayShape}` : "";
  return `${kind}${rise}${fall}${floor > 0 && kind !== "constant" ? `, down to ${floor} of the rate` : ""}`;
}
