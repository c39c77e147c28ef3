// How an experiment will go on: the steps that cannot be named yet, found by expanding its plan with results that stand in
// for those to come, and the time until all is done, by giving steps to workers as the runner does. Nothing is run.
import { type Expansion, expandPlan, type Waiting } from "../plan/expand.js";
import type { ExpertModel, MergeModel, Model } from "../plan/plan-models.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import { checkpointCounts } from "../plan/training-runs.js";
import type { Facts, ItemResult, Results, SuggestedRecipe, TrainedCheckpoint } from "../steps/facts.js";
import type { EvaluateStep, Step, TrainStep } from "../steps/step.js";

export interface Forecast {
  /** The plan's steps and models to the end: those of later only as many as there will be, not which. */
  readonly expansion: Expansion;
  /** Steps that cannot be named yet. */
  readonly later: readonly Step[];
  /** The same in words, with how many of each. */
  readonly waiting: readonly Waiting[];
  /** Seconds from now until all is done, and those of work that this is. */
  readonly wallSeconds: number;
}

export interface ForecastOptions {
  readonly plan: ExperimentPlan;
  readonly facts: Facts;
  readonly results: Results;
  /** Of steps whose results are there. */
  readonly isDone: (key: string) => boolean;
  /** Seconds of a step that is not done; default: all take the same. */
  readonly secondsOf?: (step: Step) => number;
  /** Steps that run side by side; default: as many as there are. */
  readonly workers?: number;
}

/**
 * How many steps must end before the plan is expanded again. Up to a hundred steps, each end is looked at, as the runner
 * does; of a plan of thousands, which takes half a second to expand, an eighth must be news.
 */
function newsEnough({ steps: { length } }: Expansion): number {
  return Math.min((length / 100) ** 2, length / 8);
}

/** Plays the rest of an experiment. */
export function forecastExperiment(options: ForecastOptions): Forecast {
  const { plan, facts, isDone, secondsOf = () => 1, workers = Number.POSITIVE_INFINITY } = options;
  const future = new FutureResults(plan, options.results);
  let expansion = future.expand(facts);
  const now = new Set(expansion.steps.map(({ key }) => key));
  const ended = (key: string) => isDone(key) || future.has(key);
  const running: { step: Step; end: number }[] = [];
  const begun = new Set<string>();
  let [time, news] = [0, 0];
  let pending = expansion.steps.filter(({ key }) => !isDone(key));
  for (;;) {
    const left: Step[] = [];
    for (const step of pending) {
      if (running.length < workers && step.needs.every(ended)) {
        begun.add(step.key);
        insert(running, { step, end: time + secondsOf(step) });
      } else {
        left.push(step);
      }
    }
    pending = left;
    const wantsWork = running.length < workers && news > 0;
    if (wantsWork && (running.length === 0 || news >= newsEnough(expansion))) {
      news = 0;
      expansion = future.expand(facts);
      pending = expansion.steps.filter(({ key }) => !ended(key) && !begun.has(key));
      if (pending.length > 0) continue;
    }
    const next = running.shift();
    if (!next) break;
    time = next.end;
    future.add(next.step);
    news++;
  }
  const later = expansion.steps.filter(({ key }) => !now.has(key));
  return { expansion, later, waiting: waitingOf(expansion, later), wallSeconds: time };
}

/** Keeps the list in the order of the ends. */
function insert(running: { step: Step; end: number }[], entry: { step: Step; end: number }): void {
  let [low, high] = [0, running.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((running[middle]?.end ?? 0) <= entry.end) low = middle + 1;
    else high = middle;
  }
  running.splice(low, 0, entry);
}

/** Results that are there, and, of steps that a forecast has done, such as could come. */
class FutureResults implements Results {
  readonly #plan: ExperimentPlan;
  readonly #known: Results;
  readonly #done = new Map<string, Step>();
  /** Steps that ask a default configuration. */
  readonly #ofDefault = new Set<string>();
  readonly #suggested: readonly SuggestedRecipe[];

  constructor(plan: ExperimentPlan, known: Results) {
    this.#plan = plan;
    this.#known = known;
    this.#suggested = USUAL_SUGGESTIONS.map(([name, fields]) => ({
      ...{ name, reason: "" },
      recipe: { method: "swap", task: "task", language: "language", ...fields },
    }));
  }

  expand(facts: Facts): Expansion {
    const expansion = expandPlan(this.#plan, facts, this);
    for (const { model, tasks } of expansion.models) {
      if (!("configuration" in model) || !model.configuration.isDefault) continue;
      for (const { key } of tasks.flatMap(({ steps }) => steps)) this.#ofDefault.add(key);
    }
    return expansion;
  }

  has(key: string): boolean {
    return this.#done.has(key);
  }

  add(step: Step): void {
    this.#done.set(step.key, step);
  }

  trained(key: string): readonly TrainedCheckpoint[] | undefined {
    const known = this.#known.trained(key);
    const step = this.#done.get(key);
    return known ?? (step ? checkpointCounts(step as TrainStep).map(checkpointAfter) : undefined);
  }

  suggested(key: string): readonly SuggestedRecipe[] | undefined {
    return this.#known.suggested(key) ?? (this.#done.has(key) ? this.#suggested : undefined);
  }

  evaluated(key: string): { readonly items: readonly ItemResult[]; readonly score: number } | undefined {
    const known = this.#known.evaluated(key);
    const step = this.#done.get(key);
    if (known || !step) return known;
    // All alike but for a trace, so that no configuration is worse beyond chance, and the default is not the best: what
    // is chosen beside it is asked, too.
    const { items } = step as EvaluateStep;
    const value = this.#ofDefault.has(key) ? 0 : Number.parseInt(key.slice(-6), 16) * 1e-9;
    return {
      score: 0.5,
      items: (items ?? [0]).map((index, i) => ({ index, id: `${index}`, value: i === 0 ? value : 0 })),
    };
  }
}

function checkpointAfter(samples: number): TrainedCheckpoint {
  return { path: `later/checkpoint-${samples}`, samples };
}

/** As many different configurations as an analysis usually suggests. */
const USUAL_SUGGESTIONS: readonly (readonly [name: string, fields: object])[] = [
  ["paper-default", { bottom: 1, top: 1 }],
  ["paper-magnitude", { bottom: 1, top: 1, weights: "magnitude" }],
  ["paper-largest", { bottom: 1, top: 1, bottom_transition: 1, top_transition: 1 }],
  ["paper-5-1", { bottom: 1, top: 0 }],
  ["shares-by-layer", { method: "share_swap", by: "layer", tau: 0.001, alpha: 0.5 }],
  ["shares-by-module", { method: "share_swap", by: "module", tau: 0.001, alpha: 0.5 }],
  ["profile", { layers: { language: "0" } }],
  ["reverse", { outside: "language", layers: { language: "0" } }],
  ["attention-from-language", { layers: { language: "all" }, parts: "attention" }],
];

/** Later steps in words: what they are for, in the order in which they come. */
function waitingOf({ models, steps }: Expansion, later: readonly Step[]): Waiting[] {
  const what = new Map<string, string>();
  for (const { model, tasks } of models) {
    for (const { key } of tasks.flatMap((task) => task.steps)) {
      if (!what.has(key)) what.set(key, purposeOf(model));
    }
  }
  const counts = new Map<string, number>();
  const isLater = new Set(later.map(({ key }) => key));
  for (const { key, kind } of steps) {
    if (!isLater.has(key)) continue;
    const purpose = what.get(key) ?? (kind === "analyze" ? "analyses of pairs" : "training");
    counts.set(purpose, (counts.get(purpose) ?? 0) + 1);
  }
  return [...counts].map(([purpose, count]) => ({ what: purpose, steps: count }));
}

function purposeOf(model: Model | ExpertModel | MergeModel): string {
  if ("merge" in model) return `scores of ${model.group}`;
  if ("isCandidate" in model && model.isCandidate) return `scores of checkpoints of ${model.family}`;
  return "family" in model ? `scores of ${model.family}` : `scores of ${model.name}`;
}
