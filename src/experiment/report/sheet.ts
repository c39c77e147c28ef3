// Answers by model and task, gathered from the steps that asked: the sheet that every table is read from.
import { scoreItems } from "../../evaluate/index.js";
import type { AskedModel, Expansion } from "../plan/expand.js";
import type { ExpertModel, MergeModel, Model } from "../plan/models.js";
import type { SearchOutcome } from "../plan/searching.js";
import type { Facts, ItemResult, Results, TaskFacts } from "../steps/facts.js";
import type { TaskRequest } from "../steps/step.js";
import type { Cell } from "./data.js";

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

  /** Means over models of one task, with the interval over items and the range over models. */
  cell(models: readonly string[], task: string, basis: Basis): Cell {
    const scale = this.#scaleOf(models, task);
    const each = models.map((model) => this.#valueOf(model, task, basis));
    const known = each.filter((value) => value !== undefined);
    if (models.length === 0) return { value: null, scale };
    if (known.length < each.length) return { value: undefined, scale };
    const value = known.reduce((sum, one) => sum + one, 0) / known.length;
    const range = { low: Math.min(...known), high: Math.max(...known), count: known.length };
    const interval = this.#interval(models, task, basis);
    return { value, scale, ...(known.length > 1 ? { range } : {}), ...(interval ? { interval } : {}) };
  }

  #scaleOf(models: readonly string[], task: string): Cell["scale"] {
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
  #interval(models: readonly string[], task: string, basis: Basis): Cell["interval"] {
    const sums = new Map<string, { sum: number; count: number }>();
    for (const model of models) {
      if (!this.answers(model, task)?.facts.isMean) return undefined;
      for (const { id, value } of this.items(model, task, basis) ?? []) {
        if (typeof value !== "number") continue;
        const { sum, count } = sums.get(id) ?? { sum: 0, count: 0 };
        sums.set(id, { sum: sum + value, count: count + 1 });
      }
    }
    const items = [...sums].map(([id, { sum, count }]) => ({ id, verdict: { value: sum / count } }));
    const [score] = scoreItems([{ name: "value", title: "", of: "value", by: "mean", scale: "share" }], items);
    return score?.interval && { low: score.interval.low, high: score.interval.high };
  }
}

export function meanOf(items: readonly ItemResult[]): number | undefined {
  const values = items.flatMap(({ value }) => (typeof value === "number" ? [value] : []));
  return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0) / values.length;
}
