// Answers by model and task, gathered from the steps that asked: the sheet that every table is read from.
import { scoreItems, wilsonInterval } from "../../evaluate/index.js";
import type { NumberCell, Scale, Span } from "../../report/index.js";
import type { AskedModel, Expansion } from "../plan/expand.js";
import type { ExpertModel, MergeModel, Model } from "../plan/plan-models.js";
import type { SearchOutcome } from "../plan/search-configurations.js";
import type { Facts, Results, TaskFacts } from "../steps/facts.js";
import type { ItemResult } from "../steps/result.js";
import type { TaskRequest } from "../steps/step.js";

/** Stands for models that are not known yet, so that their score is unknown, too, and not "none". */
export const UNKNOWN_MODEL = "?";

/** Which items scores are of: all, or those that no search saw. */
export type Basis = "all" | "held-out";

/** One model's answers to one task, as far as they are there. */
export interface Answers {
  readonly request: TaskRequest;
  readonly facts: TaskFacts;
  /** Of several steps together, in the task's order. */
  readonly items: readonly ItemResult[];
  /** The score of a task that was asked whole, from 0 to 1. */
  readonly whole: number | undefined;
}

export class Sheet {
  readonly expansion: Expansion;
  readonly #answers = new Map<string, Map<string, Answers>>();
  readonly #asked: ReadonlyMap<string, AskedModel>;

  constructor(expansion: Expansion, facts: Facts, results: Results) {
    this.expansion = expansion;
    this.#asked = new Map(expansion.models.map((asked) => [asked.model.name, asked]));
    for (const { model, tasks } of expansion.models) {
      const byTask = new Map<string, Answers>();
      for (const { request, steps } of tasks) {
        const found = steps.map(({ key }) => results.evaluated(key));
        const items = found.flatMap((one) => one?.items ?? []).toSorted((a, b) => a.index - b.index);
        const whole = steps.length === 1 && steps[0]?.items === null ? found[0]?.score : undefined;
        byTask.set(request.task, { request, facts: facts.task(request), items, whole });
      }
      this.#answers.set(model.name, byTask);
    }
  }

  get models(): readonly (Model | ExpertModel | MergeModel)[] {
    return [...this.#asked.values()].map(({ model }) => model);
  }

  get merges(): readonly MergeModel[] {
    return this.models.filter((model): model is MergeModel => model.kind === "merge");
  }

  /** Experts that are reported; not the checkpoints that they were chosen among. */
  get experts(): readonly ExpertModel[] {
    return this.models.filter(
      (model): model is ExpertModel => model.kind === "expert" && !("isCandidate" in model && model.isCandidate),
    );
  }

  answers(model: string, task: string): Answers | undefined {
    return this.#answers.get(model)?.get(task);
  }

  tasksOf(model: string): readonly Answers[] {
    return [...(this.#answers.get(model)?.values() ?? [])];
  }

  /** The items of a task that a basis takes; undefined for all of them. */
  heldOut(task: string): ReadonlySet<number> | undefined {
    for (const { splits } of this.expansion.searches) {
      const split = splits.get(task);
      if (split && split.held.length > 0) return new Set(split.held);
    }
    return undefined;
  }

  /** A model's items of a basis; undefined unless all of them are there. */
  items(model: string, task: string, basis: Basis): readonly ItemResult[] | undefined {
    const answers = this.answers(model, task);
    if (!answers) return undefined;
    const held = basis === "held-out" ? this.heldOut(task) : undefined;
    const items = held ? answers.items.filter(({ index }) => held.has(index)) : answers.items;
    return items.length === (held?.size ?? answers.facts.items) && items.length > 0 ? items : undefined;
  }

  /** The search of a merge's group, if there was one. */
  searchOf(group: string): SearchOutcome | undefined {
    return this.expansion.searches.find((search) => search.group === group);
  }

  /** Whether a model is asked a task at all, be its answers there or not. */
  isAsked(model: string, task: string): boolean {
    return this.answers(model, task) !== undefined;
  }

  /** Means over models of one task, with the interval over items and the range over models; of those that are asked it. */
  cell(models: readonly string[], task: string, basis: Basis): NumberCell & { readonly scale: Scale } {
    const asked = models.filter((model) => this.isAsked(model, task));
    const scale = this.#scaleOf(asked, task);
    if (models.includes(UNKNOWN_MODEL)) return { value: undefined, scale };
    if (asked.length === 0) return { value: null, scale };
    const each = asked.map((model) => this.#valueOf(model, task, basis));
    const known = each.filter((value) => value !== undefined);
    if (known.length < each.length) return { value: undefined, scale };
    const value = known.reduce((sum, one) => sum + one, 0) / known.length;
    const range = { low: Math.min(...known), high: Math.max(...known), count: known.length };
    const interval = this.#interval(asked, task, basis);
    return { value, scale, ...(known.length > 1 ? { range } : {}), ...(interval ? { interval } : {}) };
  }

  /** What each item is worth on average over models, by its id; undefined unless the score is a mean over items. */
  itemMeans(models: readonly string[], task: string, basis: Basis): ReadonlyMap<string, number> | undefined {
    const sums = new Map<string, { sum: number; count: number }>();
    for (const model of models) {
      if (!this.answers(model, task)?.facts.isMean) return undefined;
      for (const { id, value } of this.items(model, task, basis) ?? []) {
        if (typeof value !== "number") continue;
        const { sum, count } = sums.get(id) ?? { sum: 0, count: 0 };
        sums.set(id, { sum: sum + value, count: count + 1 });
      }
    }
    return new Map([...sums].map(([id, { sum, count }]) => [id, sum / count]));
  }

  #scaleOf(models: readonly string[], task: string): Scale {
    return models.map((model) => this.answers(model, task)).find((one) => one)?.facts.scale ?? "share";
  }

  #valueOf(model: string, task: string, basis: Basis): number | undefined {
    const answers = this.answers(model, task);
    if (!answers) return undefined;
    if (!answers.facts.isMean) {
      // A corpus score is of the whole corpus.
      return answers.whole === undefined
        ? undefined
        : answers.facts.scale === "points"
          ? 100 * answers.whole
          : answers.whole;
    }
    const items = this.items(model, task, basis);
    return items && meanOf(items);
  }

  /** Over items, each the mean over models: those are no independent samples. */
  #interval(models: readonly string[], task: string, basis: Basis): Span | undefined {
    const means = this.itemMeans(models, task, basis);
    return means && means.size > 0 ? intervalOf(means) : undefined;
  }
}

/**
 * 95% interval of a mean over items: Wilson's where each is right or wrong; else the bootstrap, and where that has no
 * width, because all items are alike, Wilson's again, which is the wider one of values from 0 to 1.
 */
export function intervalOf(means: ReadonlyMap<string, number>): Span | undefined {
  const values = [...means.values()];
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const items = [...means].map(([id, value]) => ({ id, verdict: { value } }));
  const [score] = scoreItems([{ name: "value", title: "", of: "value", by: "mean", scale: "share" }], items);
  const { low, high } = score?.interval ?? { low: mean, high: mean };
  if (low < high) return { low, high };
  return values.every((value) => value >= 0 && value <= 1) ? wilsonInterval(mean, values.length) : undefined;
}

export function meanOf(items: readonly ItemResult[]): number | undefined {
  const values = items.flatMap(({ value }) => (typeof value === "number" ? [value] : []));
  return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0) / values.length;
}
