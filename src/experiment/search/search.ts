// The search among a merge's configurations: requests the evaluations of each round, and chooses by their results.

import { meanWithError } from "../../evaluate/scoring/index.js";
import { groupBy, Random } from "../../kit/index.js";
import { isAdaptive, mostEvaluated, nameConfigurations } from "../plan/configurations.js";
import type { Configuration, ExperimentPlan, PlannedMerge, Search } from "../plan/plan-schema.js";
import { type AskedModel, decidingTasks, tasksFor } from "../plan/plan-tasks.js";
import { cellsOf, type Fields, fieldsAt, pointOf } from "../plan/space.js";
import type { ItemResult } from "../steps/result.js";
import type { TaskItems, TaskRequest } from "../steps/step.js";
import { CmaEs } from "./cma-es.js";

/** A model of a merge in one of its configurations. */
interface SearchedModel extends AskedModel {
  readonly merge: PlannedMerge;
  readonly configuration: Configuration;
  /** Names of the experts in it. */
  readonly members: readonly string[];
  /** Models with the same are averaged, and have one search. */
  readonly group: string;
}

/** Where a search requests evaluations (`StepList`), and how it makes models of configurations that it proposes. */
interface SearchContext<M extends SearchedModel> {
  readonly plan: ExperimentPlan;
  readonly steps: {
    countItems(request: TaskRequest): number;
    evaluateAll(model: M): void;
    evaluate(
      model: M,
      request: TaskRequest,
      items?: readonly number[] | null,
      part?: string,
    ): readonly ItemResult[] | undefined;
    wait(what: string, steps: number, more?: { readonly items?: readonly TaskItems[] }): void;
  };
  /** Whether more pairs will follow, so that nothing can be chosen yet. */
  readonly isIncomplete: boolean;
  readonly make: (configurations: readonly Configuration[]) => readonly M[];
}

export interface SearchRound {
  /** On the items of all rounds so far, the best first. */
  readonly ranked: readonly Ranked[];
  /** Configurations that stay for the next round; after the last round, all. */
  readonly kept: ReadonlySet<string>;
}

/** A configuration that was evaluated in a space. */
export interface Evaluated {
  readonly configuration: string;
  /** From 0 to 1, on the items of the search. */
  readonly mean: number;
  /** cma-es: from 1; 0 for configurations that the plan names. */
  readonly generation: number;
}

export interface SearchOutcome {
  readonly group: string;
  readonly merge: string;
  readonly rounds: readonly SearchRound[];
  readonly plannedRounds: number;
  /** Of a search in a space, in the order of evaluation; so far. */
  readonly evaluated?: readonly Evaluated[];
  readonly splits: ReadonlyMap<string, ItemSplit>;
  readonly chosen?: string;
}

/**
 * Runs the search of a group as far as results allow.
 * @param models all pairs in all configurations
 * @returns `product`: the model that is chosen, or has the default configuration. Without `outcome` there is nothing to
 *   choose, and every model is evaluated on everything
 */
export function searchGroup<M extends SearchedModel>(
  models: readonly M[],
  context: SearchContext<M>,
): { readonly outcome?: SearchOutcome; readonly product?: M | undefined } {
  const { plan, steps } = context;
  const [first] = models as readonly [M];
  const deciding = decidingTasks(first, plan);
  const configurations = new Set(models.map(({ configuration }) => configuration.label));
  const isPlain = first.merge.controlOf !== undefined || first.merge.figure !== undefined;
  const hasChoice = configurations.size > 1 || isAdaptive(first.merge, plan.search);
  if (isPlain || !hasChoice || deciding.length === 0) {
    for (const model of models) steps.evaluateAll(model);
    return { product: models.find(({ configuration }) => configuration.isDefault) };
  }
  return new GroupSearch(models, deciding, context).run();
}

/** CMA-ES starts with this share of each range as the standard deviation, as pycma recommends. */
const START_DEVIATION = 0.3;
/** Generations without a new configuration after which the search has converged. */
const MAX_REPEATED = 10;

interface Progress {
  readonly rounds: readonly SearchRound[];
  readonly evaluated?: readonly Evaluated[];
}

/** @param generations of the configurations, in the order in which they were evaluated */
function inOrder(ranked: readonly Ranked[], generations: ReadonlyMap<string, number>): Evaluated[] {
  const means = new Map(ranked.map(({ configuration, mean }) => [configuration, mean]));
  return [...generations].flatMap(([configuration, generation]) => {
    const mean = means.get(configuration);
    return mean === undefined ? [] : [{ configuration, mean, generation }];
  });
}

class GroupSearch<M extends SearchedModel> {
  /** Grows as the search proposes configurations. */
  #models: readonly M[];
  readonly #first: M;
  readonly #deciding: readonly TaskRequest[];
  readonly #splits: ReadonlyMap<string, ItemSplit>;
  readonly #context: SearchContext<M>;

  constructor(models: readonly M[], deciding: readonly TaskRequest[], context: SearchContext<M>) {
    const { plan, steps } = context;
    this.#models = models;
    this.#first = models[0] as M;
    this.#deciding = deciding;
    this.#context = context;
    this.#splits = new Map(
      deciding.map((request) => [request.task, splitItems(steps.countItems(request), plan.search)] as const),
    );
  }

  get #default(): Configuration | undefined {
    return this.#models.find(({ configuration }) => configuration.isDefault)?.configuration;
  }

  run(): { readonly outcome: SearchOutcome; readonly product: M | undefined } {
    const { group, merge } = this.#first;
    const plannedRounds = Math.max(...[...this.#splits.values()].map(({ rounds }) => rounds.length));
    const { rounds, evaluated } = isAdaptive(merge, this.#context.plan.search)
      ? this.#generations()
      : this.#drawn(this.#rounds(plannedRounds));
    const chosen = rounds.length === plannedRounds ? rounds.at(-1)?.ranked[0]?.configuration : undefined;
    this.#report(chosen);
    const outcome = {
      group,
      merge: merge.name,
      rounds,
      plannedRounds,
      splits: this.#splits,
      ...(evaluated === undefined ? {} : { evaluated }),
      ...(chosen === undefined ? {} : { chosen }),
    };
    return { outcome, product: this.#models.find(({ configuration }) => configuration.label === chosen) };
  }

  /** The configurations that are known before any result: generation 0. */
  #planned(): Map<string, number> {
    return new Map(this.#models.map(({ configuration }) => [configuration.label, 0]));
  }

  /** Rounds, and for a space what was evaluated in the first. */
  #drawn(rounds: readonly SearchRound[]): Progress {
    const [first] = rounds;
    if (!this.#first.merge.space || !first) return { rounds };
    return { rounds, evaluated: inOrder(first.ranked, this.#planned()) };
  }

  /**
   * Requests generation after generation of CMA-ES, until results are missing. What it proposes follows from the seed and the
   * results, so nothing else is kept between runs.
   */
  #generations(): Progress {
    const { group, merge } = this.#first;
    const { budget, seed } = this.#context.plan.search;
    const { space = {} } = merge;
    const random = Random.of(seed, "proposals of the search");
    const cells = cellsOf(space);
    const search = new CmaEs({ mean: pointOf(space, merge.default ?? {}), sigma: START_DEVIATION, cells });
    const generations = this.#planned();
    const candidates: Candidate[] = [];
    let asked = this.#models;
    let evaluated: Evaluated[] = [];
    let ranked: readonly Ranked[] = [];
    for (let [generation, repeated] = [1, 0]; repeated < MAX_REPEATED; generation++) {
      const samples = search.ask(random).map(({ raw, point }) => ({ raw, fields: fieldsAt(space, point) }));
      const labels = this.#add(samples, generations, generation);
      const added = this.#models.filter((model) => generations.get(model.configuration.label) === generation);
      const found = this.#evaluateAll(
        [...asked, ...added],
        ({ rounds }) => rounds[0] ?? [],
        `generation ${generation}`,
      );
      asked = [];
      candidates.push(...found.candidates);
      if (!found.isComplete) {
        const pairs = new Set(this.#models.map(({ members }) => members.join(" "))).size;
        const left = mostEvaluated(merge, { budget }) - generations.size;
        this.#context.steps.wait(`later generations of ${group}`, this.#deciding.length * pairs * left);
        return { rounds: [], evaluated };
      }
      ranked = rankConfigurations(candidates, this.#default?.label);
      evaluated = inOrder(ranked, generations);
      if (labels.includes(undefined) || generations.size >= budget) break;
      repeated = added.length > 0 ? 0 : repeated + 1;
      const means = new Map(
        ranked.map(({ configuration, mean }) => [configuration, Number.isFinite(mean) ? mean : -1]),
      );
      const order = samples.map(({ raw }, i) => ({ raw, mean: means.get(labels[i] ?? "") ?? -1 }));
      search.tell(order.sort((a, b) => b.mean - a.mean).map(({ raw }) => raw));
    }
    return { rounds: [{ ranked, kept: new Set(generations.keys()) }], evaluated };
  }

  /** Adds the models of samples that are new. @returns labels of the samples; undefined beyond the budget */
  #add(
    samples: readonly { readonly fields: Fields }[],
    generations: Map<string, number>,
    generation: number,
  ): (string | undefined)[] {
    const { budget } = this.#context.plan.search;
    const standard = this.#default?.fields ?? {};
    const added: Configuration[] = [];
    const labels = samples.map(({ fields }) => {
      const [configuration] = nameConfigurations([fields], standard) as [Configuration];
      const { label } = configuration;
      if (!generations.has(label)) {
        if (generations.size >= budget) return undefined;
        generations.set(label, generation);
        added.push(configuration);
      }
      return label;
    });
    this.#models = [...this.#models, ...this.#context.make(added)];
    return labels;
  }

  /** Requests round after round, until results are missing. */
  #rounds(count: number): SearchRound[] {
    const { keep } = this.#context.plan.search;
    const candidates: Candidate[] = [];
    let active: ReadonlySet<string> = new Set(this.#models.map(({ configuration }) => configuration.label));
    const rounds: SearchRound[] = [];
    for (let round = 0; round < count; round++) {
      const models = this.#models.filter(({ configuration }) => active.has(configuration.label));
      const found = this.#evaluateAll(models, (split) => split.rounds[round] ?? [], this.#roundName(round));
      if (!found.isComplete) {
        const later = Array.from({ length: count - 1 - round }, (_, i) => Math.ceil(models.length * keep ** (i + 1)));
        const steps = this.#deciding.length * later.reduce((sum, one) => sum + one, 0);
        this.#context.steps.wait(`later rounds of ${this.#first.group}`, steps);
        break;
      }
      candidates.push(...found.candidates);
      const left = candidates.filter(({ configuration }) => active.has(configuration));
      const ranked = rankConfigurations(left, this.#default?.label);
      if (round < count - 1) active = new Set(survivors(ranked, keep));
      rounds.push({ ranked, kept: active });
    }
    return rounds;
  }

  #roundName(round: number): string {
    return this.#context.plan.search.how !== "halving" ? "search" : `round ${round + 1}`;
  }

  /** @returns `isComplete`: whether all results are there, of all pairs */
  #evaluateAll(models: readonly M[], itemsOf: (split: ItemSplit) => readonly number[], part: string) {
    const candidates: Candidate[] = [];
    let isComplete = !this.#context.isIncomplete;
    for (const model of models) {
      for (const request of this.#deciding) {
        const indexes = itemsOf(this.#splits.get(request.task) as ItemSplit);
        if (indexes.length === 0) continue;
        const items = this.#context.steps.evaluate(model, request, indexes, part);
        if (items) candidates.push({ configuration: model.configuration.label, task: request.task, items });
        else isComplete = false;
      }
    }
    return { candidates, isComplete };
  }

  /** Requests what is reported of the default and chosen configurations: held-out items and all other tasks. */
  #report(chosen: string | undefined): void {
    const reported = this.#models.filter(({ configuration: { label, isDefault } }) => isDefault || label === chosen);
    this.#evaluateAll(reported, ({ held }) => held, "held out");
    // Halving may have dropped the default, which is reported on all items too.
    const { length: rounds } = [...this.#splits.values()][0]?.rounds ?? [];
    for (let round = 0; round < rounds && chosen !== undefined; round++) {
      this.#evaluateAll(reported, (split) => split.rounds[round] ?? [], this.#roundName(round));
    }
    let others = 0;
    /** What the configuration that is not chosen yet will be asked, if it is not the default. */
    const items: TaskItems[] = [];
    for (const model of reported) {
      for (const request of tasksFor(model, this.#context.plan)) {
        const { task } = request;
        const held = this.#splits.get(task)?.held;
        items.push({ task, count: held?.length ?? this.#context.steps.countItems(request) });
        if (held) continue;
        this.#context.steps.evaluate(model, request);
        others++;
      }
    }
    if (chosen === undefined) {
      this.#context.steps.wait(
        `final scores of ${this.#first.group}`,
        others + reported.length * this.#deciding.length,
        { items },
      );
    }
  }
}

/** How a task's items are divided between search and final comparison. Items are indexes in the task's order. */
export interface ItemSplit {
  /** New items of each round of the search. */
  readonly rounds: readonly (readonly number[])[];
  /** Items that the search does not see. Empty if configurations are chosen on the reported items. */
  readonly held: readonly number[];
}

/** Divides items at random; depends on the search's seed alone. */
export function splitItems(items: number, search: Search): ItemSplit {
  const order = Random.of(search.seed, "items of the search").shuffle(Array.from({ length: items }, (_, i) => i));
  const seen = search.choose_on === "test" ? items : Math.min(items - 1, Math.max(1, Math.round(search.share * items)));
  const inOrder = (places: number[]) => places.sort((a, b) => a - b);
  const held = inOrder(order.slice(seen));
  if (search.how !== "halving") return { rounds: [inOrder(order.slice(0, seen))], held };
  // Each round doubles the items of those before it: 1/4, 1/2, 1 of the search's for three rounds.
  const ends = Array.from({ length: search.rounds }, (_, i) => Math.ceil(seen / 2 ** (search.rounds - 1 - i)));
  const rounds = ends.map((end, i) => inOrder(order.slice(ends[i - 1] ?? 0, end)));
  return { rounds: rounds.filter((round) => round.length > 0), held };
}

interface Candidate {
  readonly configuration: string;
  readonly task: string;
  readonly items: readonly ItemResult[];
}

export interface Ranked {
  readonly configuration: string;
  /** Mean over items of the means over pairs, from 0 to 1. */
  readonly mean: number;
  /** Mean difference from the best on the same items, and the half-width of its 95% interval. */
  readonly behind: number;
  readonly margin: number;
  readonly items: number;
}

const NORMAL_95 = 1.959964;
/** Means of the same answers differ in their last bits, as they are summed in another order. */
const TIE = 1e-12;

/**
 * Ranks configurations by their mean, each compared with the best on the same items.
 *
 * An item's results are averaged over pairs first: pairs are not independent samples of the items.
 * @param preferred the configuration that wins ties
 */
export function rankConfigurations(candidates: readonly Candidate[], preferred?: string): Ranked[] {
  const byConfiguration = groupBy(candidates, ({ configuration }) => configuration);
  const means = [...byConfiguration].map(([configuration, own]) => {
    const results = own.flatMap(({ task, items }) =>
      items.flatMap(({ id, value }) => (typeof value === "number" ? [{ key: `${task} ${id}`, value }] : [])),
    );
    const byItem = groupBy(results, ({ key }) => key);
    const values = new Map([...byItem].map(([key, of]) => [key, meanWithError(of.map(({ value }) => value)).mean]));
    return { configuration, values, mean: meanWithError([...values.values()]).mean };
  });
  const isPreferred = ({ configuration }: { configuration: string }) => Number(configuration === preferred);
  const ranked = means.sort((a, b) => {
    const difference = (b.mean || 0) - (a.mean || 0);
    return Math.abs(difference) > TIE ? difference : isPreferred(b) - isPreferred(a);
  });
  const best = ranked[0];
  return ranked.map(({ configuration, values, mean }) => {
    const differences = [...values].flatMap(([key, value]) => {
      const other = best?.values.get(key);
      return other === undefined ? [] : [value - other];
    });
    const { mean: behind, standardError } = meanWithError(differences);
    const margin = NORMAL_95 * (differences.length < 2 ? Number.POSITIVE_INFINITY : standardError);
    return { configuration, mean, behind, margin, items: values.size };
  });
}

/**
 * The configurations that stay for the next round of successive halving (Jamieson and Talwalkar, arXiv 1502.07943): the
 * best share, without those significantly worse than the best.
 */
export function survivors(ranked: readonly Ranked[], keep: number): string[] {
  const most = Math.max(1, Math.ceil(keep * ranked.length));
  return ranked
    .slice(0, most)
    .filter(({ behind, margin }) => behind + margin >= 0)
    .map(({ configuration }) => configuration);
}
