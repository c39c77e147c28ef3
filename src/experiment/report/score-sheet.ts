// The results of an experiment by model and task, from which every table is made.

import {
  averageScore,
  compareItems,
  type ScoredItems,
  scoreItems,
  wilsonInterval,
} from "../../evaluate/scoring/index.js";
import type { NumberCell, Scale, Score, Span } from "../../figures/index.js";
import { groupBy } from "../../kit/index.js";
import type { Expansion } from "../expand/expand-plan.js";
import type { Facts, Results, TaskFacts } from "../expand/facts.js";
import type { ExpertModel, MergeModel, PlanModel } from "../expand/plan-models.js";
import type { EvaluatedModel } from "../expand/step-list.js";
import type { SearchOutcome } from "../search/search.js";
import type { EvaluationResult, ItemResult } from "../steps/result.js";
import type { TaskRequest } from "../steps/step.js";

/** In place of models that a search has yet to choose; its score is unknown. */
export const UNKNOWN_MODEL = "?";

/** Items of a score: those that are reported, of which a search that holds items out saw none, or all. */
export type Items = "reported" | "all";

/** Results of a model on a task so far. */
export interface Answers {
  readonly request: TaskRequest;
  readonly facts: TaskFacts;
  /** Of all steps together, in the task's order. */
  readonly items: readonly ItemResult[];
  /** Score from 0 to 1 if one step evaluated all items. */
  readonly whole: number | undefined;
  /** What is measured beside the score, over all items together. */
  readonly asides: readonly Aside[];
}

export type Aside = NonNullable<EvaluationResult["asides"]>[number];

export class Sheet {
  readonly expansion: Expansion;
  /** Tasks by the name of their average. Where a method takes a task, it takes such a name, too. */
  readonly averages: ReadonlyMap<string, readonly string[]>;
  readonly #answers = new Map<string, Map<string, Answers>>();
  readonly #asked: ReadonlyMap<string, EvaluatedModel>;

  /** @param averages tasks by the name of their average */
  constructor(
    expansion: Expansion,
    facts: Facts,
    results: Results,
    averages: ReadonlyMap<string, readonly string[]> = new Map(),
  ) {
    this.expansion = expansion;
    this.averages = averages;
    this.#asked = new Map(expansion.models.map((asked) => [asked.model.name, asked]));
    for (const { model, tasks } of expansion.models) {
      const byTask = new Map<string, Answers>();
      for (const { request, steps } of tasks) {
        const found = steps.map(({ key }) => results.evaluated(key));
        const items = found.flatMap((one) => one?.items ?? []).toSorted((a, b) => a.index - b.index);
        const whole = steps.length === 1 && steps[0]?.items === null ? found[0]?.score : undefined;
        const asides = asidesOf(found.flatMap((one) => one?.asides ?? []));
        byTask.set(request.task, { request, facts: facts.task(request), items, whole, asides });
      }
      this.#answers.set(model.name, byTask);
    }
  }

  get models(): readonly (PlanModel | ExpertModel | MergeModel)[] {
    return [...this.#asked.values()].map(({ model }) => model);
  }

  get merges(): readonly MergeModel[] {
    return this.models.filter((model): model is MergeModel => model.kind === "merge");
  }

  /** Experts without the checkpoints that they were chosen among. */
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

  /** Facts of a task, if any model is evaluated on it. */
  task(task: string): TaskFacts | undefined {
    return this.models.flatMap(({ name }) => this.answers(name, task)?.facts ?? [])[0];
  }

  titleOf(task: string): string {
    return this.task(task)?.title ?? task;
  }

  /** The tasks of an average; a task alone. */
  partsOf(task: string): readonly string[] {
    return this.averages.get(task) ?? [task];
  }

  /** Held-out items of a task; undefined if all items are reported. */
  heldOut(task: string): ReadonlySet<number> | undefined {
    for (const { splits } of this.expansion.searches) {
      const split = splits.get(task);
      if (split && split.held.length > 0) return new Set(split.held);
    }
    return undefined;
  }

  /** A model's items; undefined unless all of them are there. */
  items(model: string, task: string, which: Items = "reported"): readonly ItemResult[] | undefined {
    const answers = this.answers(model, task);
    if (!answers) return undefined;
    const held = which === "reported" ? this.heldOut(task) : undefined;
    const items = held ? answers.items.filter(({ index }) => held.has(index)) : answers.items;
    return items.length === (held?.size ?? answers.facts.items) && items.length > 0 ? items : undefined;
  }

  searchOf(group: string): SearchOutcome | undefined {
    return this.expansion.searches.find((search) => search.group === group);
  }

  /** The configuration that a group's search chose; undefined while it runs. */
  chosenLabel(group: string): string | undefined {
    return this.searchOf(group)?.chosen;
  }

  /** Whether a merge is reported: a default configuration, a chosen one, or one without a search. */
  isReported({ group, configuration, merge }: MergeModel): boolean {
    // The others are points of its figure.
    if (merge.figure !== undefined) return configuration.isDefault;
    if (!this.searchOf(group)) return true;
    return configuration.isDefault || configuration.label === this.chosenLabel(group);
  }

  /** The tasks by which the merges evaluated on a task were chosen. */
  decidingTasks(task: string): string[] {
    const searches = this.expansion.searches.filter(({ group }) =>
      this.merges.some((model) => model.group === group && this.isEvaluated(model.name, task)),
    );
    return [...new Set(searches.flatMap(({ splits }) => [...splits.keys()]))];
  }

  /** The evaluations of a model on a task, by the key of their steps. */
  stepKeys(model: string, task: string): string[] {
    const parts = this.partsOf(task);
    const tasks = this.#asked.get(model)?.tasks ?? [];
    return tasks
      .filter(({ request }) => parts.includes(request.task))
      .flatMap(({ steps }) => steps.map(({ key }) => key));
  }

  /** Whether a model is evaluated on a task, even if results are still missing. */
  isEvaluated(model: string, task: string): boolean {
    return this.partsOf(task).some((part) => this.answers(model, part) !== undefined);
  }

  /**
   * Mean score of those models that are evaluated on a task, with its interval over items and range over models. Of an
   * average, the mean over its tasks; null if none of the models is asked one of them.
   */
  cell(models: readonly string[], task: string, which: Items = "reported"): NumberCell & { readonly scale: Scale } {
    const parts = this.partsOf(task).map((part) => {
      const asked = models.filter((model) => this.isEvaluated(model, part));
      return { task: part, models: asked, values: asked.map((model) => this.#valueOf(model, part, which)) };
    });
    const scales = parts.flatMap((part) => part.models.map((model) => this.answers(model, part.task)?.facts.scale));
    const scale = scales[0] ?? "share";
    const isOpen = models.includes(UNKNOWN_MODEL);
    if (parts.some((part) => part.models.length === 0)) return { value: isOpen ? undefined : null, scale };
    if (isOpen || parts.some(({ values }) => values.includes(undefined))) return { value: undefined, scale };
    const value = mean(parts.map(({ values }) => mean(values.map(Number))));
    // Of the models that are asked all tasks of an average.
    const whole = models.filter((model) => parts.every((part) => part.models.includes(model)));
    const own = whole.map((model) => mean(parts.map((part) => Number(part.values[part.models.indexOf(model)]))));
    const range = { low: Math.min(...own), high: Math.max(...own), count: own.length };
    const isRange = own.length > 1 && own.length === new Set(parts.flatMap((part) => part.models)).size;
    // Over items, each averaged over models first, because models are not independent samples of the items.
    const means = this.averages.has(task) ? undefined : this.itemMeans(models, task, which);
    const interval = means ? intervalOf(means) : this.#interval(parts, which);
    return { value, scale, ...(isRange ? { range } : {}), ...(interval ? { interval } : {}) };
  }

  /** Interval of the mean over tasks of the mean over models. */
  #interval(
    parts: readonly { readonly task: string; readonly models: readonly string[] }[],
    which: Items,
  ): Span | undefined {
    const scored = parts.flatMap(({ task, models }) =>
      // A task counts as much as another, however many models are asked it.
      models.map((model) => this.#scored(model, task, which, 1 / models.length)),
    );
    const known = scored.filter((one) => one !== undefined);
    if (known.length === 0 || known.length < scored.length) return undefined;
    return spanOf(averageScore(known).interval);
  }

  /** What a model is worth on each item; undefined if the task could not be read, or an item is missing. */
  #scored(model: string, task: string, which: Items, weight: number): ScoredItems | undefined {
    const { metric, groups } = this.answers(model, task)?.facts ?? {};
    const items = this.items(model, task, which);
    if (!metric || !items) return undefined;
    const judged = items.map(({ id, index, value }) => ({
      id,
      group: groups?.[index],
      verdict: value === null ? null : { [metric.of]: value },
    }));
    return { metric, items: judged, weight };
  }

  /**
   * Mean over models of each item, by its id; undefined if the score is not a mean over items. Of an average, the values
   * whose mean it is; an item of several tasks is one.
   */
  itemMeans(
    models: readonly string[],
    name: string,
    which: Items = "reported",
  ): ReadonlyMap<string, number> | undefined {
    const parts = this.partsOf(name).map((task) => {
      const asked = models.filter((model) => this.isEvaluated(model, task));
      const isMean = asked.length > 0 && asked.every((model) => this.answers(model, task)?.facts.isMean);
      return isMean ? this.#itemsOf(asked, task, which) : undefined;
    });
    const known = parts.filter((items) => items !== undefined);
    if (known.length < parts.length) return undefined;
    const ids = new Set(known.flatMap((items) => [...items.keys()]));
    const weights = known.map(({ size }) => ids.size / (known.length * size));
    return new Map(
      [...ids].map((id) => [id, known.reduce((sum, items, i) => sum + (items.get(id) ?? 0) * (weights[i] ?? 0), 0)]),
    );
  }

  #itemsOf(models: readonly string[], task: string, which: Items): ReadonlyMap<string, number> {
    const items = models.flatMap((model) => this.items(model, task, which) ?? []);
    const judged = items.flatMap(({ id, value }) => (typeof value === "number" ? [{ id, value }] : []));
    return new Map([...groupBy(judged, ({ id }) => id)].map(([id, of]) => [id, mean(of.map(({ value }) => value))]));
  }

  #valueOf(model: string, task: string, which: Items): number | undefined {
    const answers = this.answers(model, task);
    if (!answers?.facts.isMean) return answers && scoreOf(answers);
    const items = this.items(model, task, which);
    return items && scoreOf({ ...answers, items });
  }
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

const VALUE = { name: "value", title: "", of: "value", by: "mean", scale: "share" } as const;

const judged = (values: ReadonlyMap<string, number>) => [...values].map(([id, value]) => ({ id, verdict: { value } }));

export const spanOf = (interval: Span | undefined) => interval && { low: interval.low, high: interval.high };

/** Compares values of items by their ids (`compareItems`); undefined if they have no item in common. */
export function compareValues(first: ReadonlyMap<string, number>, second: ReadonlyMap<string, number>) {
  if (![...first.keys()].some((id) => second.has(id))) return undefined;
  const { interval, ...found } = compareItems(VALUE, judged(first), judged(second));
  return { ...found, interval: spanOf(interval), deviation: interval?.deviation };
}

function asidesOf(parts: readonly Aside[]): Aside[] {
  return [...groupBy(parts, ({ metric }) => metric).values()].flatMap((same) => {
    const items = same.reduce((sum, one) => sum + one.items, 0);
    const value = same.reduce((sum, one) => sum + one.value * one.items, 0) / items;
    return same.slice(0, 1).map((first) => ({ ...first, value, items }));
  });
}

/** A known score in a cell; of one model, its range is the score itself. */
export function scoreIn({ value, range, interval }: NumberCell): (Score & { readonly count: number }) | undefined {
  if (typeof value !== "number") return undefined;
  return { mean: value, low: range?.low ?? value, high: range?.high ?? value, interval, count: range?.count ?? 1 };
}

/** Mean of the items; of a task with one score for the corpus, that score if all items were evaluated together. */
export function scoreOf({ facts, items, whole }: Answers): number | undefined {
  if (!facts.isMean) return whole !== undefined && facts.scale === "points" ? 100 * whole : whole;
  const values = items.flatMap(({ value }) => (typeof value === "number" ? [value] : []));
  return values.length === 0 ? undefined : mean(values);
}

/**
 * 95% interval of a mean over items: Wilson's if each is right or wrong, otherwise the bootstrap's. If all items are the
 * same, the bootstrap's has no width; then Wilson's, which is wider for values from 0 to 1.
 */
function intervalOf(means: ReadonlyMap<string, number>): Span | undefined {
  if (means.size === 0) return undefined;
  const values = [...means.values()];
  const whole = mean(values);
  const [score] = scoreItems([VALUE], judged(means));
  const { low, high } = score?.interval ?? { low: whole, high: whole };
  if (low < high) return { low, high };
  return values.every((value) => value >= 0 && value <= 1) ? wilsonInterval(whole, values.length) : undefined;
}
