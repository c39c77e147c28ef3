// Expands and "runs" plans without models or data: tasks have twenty items, and a function gives their values.

import { type Expansion, expandPlan } from "../../src/experiment/expand/expand-plan.js";
import { type Facts, type Results, recipeIdentities } from "../../src/experiment/expand/facts.js";
import { parsePlan } from "../../src/experiment/plan/plan-file.js";
import type { ExperimentPlan } from "../../src/experiment/plan/plan-schema.js";
import type {
  Changed,
  EvaluationResult,
  ItemResult,
  Overlap,
  SuggestedRecipe,
  TrainedCheckpoint,
} from "../../src/experiment/steps/result.js";
import type { EvaluateStep, Step } from "../../src/experiment/steps/step.js";

export const ITEMS = 20;

/** FLORES has BLEU. */
const scaleOf = (task: string) => (task.startsWith("flores") ? "points" : "share");

export const fakeFacts: Facts = {
  verbs: new Map(),
  modelIdentity: (source) => ({ identity: `id:${source}`, folder: `/models/${source}` }),
  recipeIdentity: recipeIdentities(),
  dataIdentity: (run) => JSON.stringify(run.data),
  task: ({ task, limit }) => ({
    ...{ name: task, title: task, protocol: "fake@1, 0-shot", items: Math.min(ITEMS, limit ?? ITEMS) },
    example: `What is asked by ${task}?`,
    ...{ digest: `items of ${task}`, scale: scaleOf(task), isMean: true, executes: false },
    metric: { name: "value", title: "", of: "value", by: "mean", scale: scaleOf(task) },
  }),
};

/** Runs plans without running anything. */
export class FakeWorld {
  readonly plan: ExperimentPlan;
  /** Keys of all steps that were "run", in order. */
  readonly ran: Step[] = [];
  readonly #done = new Map<string, Step>();
  readonly #worth: (step: EvaluateStep, item: number) => number | null;
  readonly #isTied: (step: EvaluateStep, item: number) => boolean;
  readonly #checkpoints: readonly TrainedCheckpoint[];
  readonly #suggested: readonly SuggestedRecipe[];
  readonly #overlap: Overlap | undefined;
  readonly #changed: Changed | undefined;
  readonly #asides: EvaluationResult["asides"];
  readonly #facts: Facts;

  constructor(
    plan: string | ExperimentPlan,
    options: {
      worth?: (step: EvaluateStep, item: number) => number | null;
      isTied?: (step: EvaluateStep, item: number) => boolean;
      checkpoints?: readonly TrainedCheckpoint[];
      suggested?: readonly SuggestedRecipe[];
      overlap?: Overlap | undefined;
      changed?: Changed | undefined;
      asides?: EvaluationResult["asides"];
      facts?: Facts;
    } = {},
  ) {
    this.plan = typeof plan === "string" ? parsePlan(plan) : plan;
    this.#worth = options.worth ?? (() => 1);
    this.#isTied = options.isTied ?? (() => false);
    this.#checkpoints = options.checkpoints ?? [{ path: "last", samples: 100 }];
    this.#suggested = options.suggested ?? [];
    this.#overlap = options.overlap;
    this.#changed = options.changed;
    this.#asides = options.asides;
    this.#facts = options.facts ?? fakeFacts;
  }

  get results(): Results {
    return {
      trained: (key) => (this.#done.has(key) ? this.#checkpoints : undefined),
      suggested: (key) => (this.#done.has(key) ? this.#suggested : undefined),
      overlap: (key) => (this.#done.has(key) ? this.#overlap : undefined),
      changed: (key) => (this.#done.has(key) ? this.#changed : undefined),
      evaluated: (key) => {
        const step = this.#done.get(key);
        if (step?.kind !== "evaluate") return undefined;
        const items = this.#items(step);
        const score = items.reduce((sum, { value }) => sum + Number(value), 0) / items.length;
        return { items, score, asides: this.#asides };
      },
    };
  }

  expand(): Expansion {
    return expandPlan(this.plan, this.#facts, this.results);
  }

  /** Runs what can be run, once. */
  round(): Expansion {
    const expansion = this.expand();
    const ready = expansion.steps.filter(
      ({ key, needs }) => !this.#done.has(key) && needs.every((need) => this.#done.has(need)),
    );
    for (const step of ready) {
      this.#done.set(step.key, step);
      this.ran.push(step);
    }
    return expansion;
  }

  /** Runs to the end. */
  finish(): Expansion {
    for (let before = -1; before !== this.ran.length; ) {
      before = this.ran.length;
      this.round();
    }
    return this.expand();
  }

  #items(step: EvaluateStep): ItemResult[] {
    const places = step.items ?? Array.from({ length: ITEMS }, (_, i) => i);
    return places.map((index) => ({
      ...{ index, id: `item ${index}`, value: this.#worth(step, index) },
      ...(this.#isTied(step, index) ? { tied: true as const } : {}),
    }));
  }
}
