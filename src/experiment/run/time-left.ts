// Seconds of the steps that are left, from finished ones: training by tokens, evaluation by items, each by what is most alike.
import { canonicalJson } from "../../kit/files/index.js";
import type { PlannedTrainStep } from "../expand/plan-models.js";
import { type EvaluateStep, KINDS, type StepKind } from "../steps/step.js";
import type { EstimatedVariant } from "./estimate.js";
import { trainingOutlook } from "./training-outlook.js";

/** A step, or what is known of one that depends on results. */
interface Work {
  /** What has the same speed, from most to least alike. */
  readonly alike: readonly string[];
  /** Tokens, items, or 1 of other steps. */
  readonly units: number;
  /** Duration of a finished step. */
  readonly seconds?: number | undefined;
}

/** @returns undefined until a step of each kind that is left is done */
export function secondsLeft(
  variants: readonly EstimatedVariant[],
  waitingSteps: (kind: StepKind) => number,
  secondsOf: (key: string) => number | undefined,
): number | undefined {
  const known = knownWork(variants, secondsOf);
  const waiting = waitingWork(variants);
  let seconds = 0;
  for (const kind of KINDS) {
    const own = known.get(kind) ?? [];
    const later = waiting.get(kind) ?? { work: [], steps: 0 };
    const left = [...own.filter((one) => one.seconds === undefined), ...later.work];
    // Steps of which nothing else is known.
    const others = Math.max(0, waitingSteps(kind) - later.steps);
    if (left.length + others === 0) continue;
    const done = own.filter((one) => one.seconds !== undefined);
    if (done.length === 0) return undefined;
    const secondsPer = ratesOf(done);
    for (const { alike, units } of left) seconds += units * secondsPer(alike);
    seconds += (others * sum(done.map((one) => one.seconds ?? 0))) / done.length;
  }
  return seconds;
}

const sum = (values: readonly number[]) => values.reduce((total, one) => total + one, 0);

/** Seconds for a unit: those of the most alike finished steps. Every list ends with the kind, which all have. */
function ratesOf(done: readonly Work[]): (alike: readonly string[]) => number {
  const totals = new Map<string, { seconds: number; units: number }>();
  for (const { alike, units, seconds = 0 } of done) {
    for (const key of alike) {
      const total = totals.get(key) ?? { seconds: 0, units: 0 };
      totals.set(key, { seconds: total.seconds + seconds, units: total.units + units });
    }
  }
  return (alike) => {
    const { seconds, units } = totals.get(alike.find((key) => totals.has(key)) ?? "") ?? { seconds: 0, units: 1 };
    return seconds / units;
  };
}

/** The steps of all variants, each once. */
function knownWork(
  variants: readonly EstimatedVariant[],
  secondsOf: (key: string) => number | undefined,
): Map<StepKind, Work[]> {
  const works = new Map<StepKind, Work[]>(KINDS.map((kind) => [kind, []]));
  const counted = new Set<string>();
  for (const variant of variants) {
    for (const step of variant.expansion.steps) {
      if (counted.has(step.key)) continue;
      counted.add(step.key);
      const run = variant.expansion.runs.get(step.key);
      const what =
        step.kind === "evaluate"
          ? evaluationWork(step.request.task, itemsOf(step, variant))
          : run
            ? trainingWork(run, variant)
            : { alike: [step.kind], units: 1 };
      works.get(step.kind)?.push({ ...what, seconds: secondsOf(step.key) });
    }
  }
  return works;
}

function itemsOf({ request, items }: EvaluateStep, { facts }: EstimatedVariant): number {
  return items?.length ?? facts.task(request).items;
}

function evaluationWork(task: string, items: number): Work {
  return { alike: [`evaluate ${task}`, "evaluate"], units: Math.max(1, items) };
}

function trainingWork(run: PlannedTrainStep, { base, facts }: EstimatedVariant): Work {
  const { seed: _seed, out: _out, base: _base, mask, ...settings } = run.settings;
  const { method, train = "" } = settings;
  const same = canonicalJson(JSON.parse(JSON.stringify({ ...settings, mask: mask?.share })));
  return {
    alike: [`train ${same}`, `train ${method} ${train}`, "train"],
    units: base === undefined ? 1 : Math.max(1, trainingOutlook(run, base, facts).tokens),
  };
}

/** What is known of the steps that depend on results, and how many steps that is. */
function waitingWork(variants: readonly EstimatedVariant[]): Map<StepKind, { work: Work[]; steps: number }> {
  const works = new Map<StepKind, { work: Work[]; steps: number }>();
  const counted = new Set<string>();
  for (const variant of variants) {
    for (const { kind = "evaluate", steps, runs, items, of } of variant.expansion.waiting) {
      const work = [
        ...(runs ?? []).map((run) => trainingWork(run, variant)),
        ...(items ?? []).map(({ task, count }) => evaluationWork(task, count)),
      ];
      if (work.length === 0) continue;
      const own = works.get(kind) ?? { work: [], steps: 0 };
      works.set(kind, own);
      if (of !== undefined && counted.has(of)) continue;
      if (of !== undefined) counted.add(of);
      own.work.push(...work);
      own.steps += steps;
    }
  }
  return works;
}
