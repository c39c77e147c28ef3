// The search among a merge's configurations: requests the evaluations of each round, and chooses by their results.
import { Random } from "../../core/index.js";
import { CmaEs } from "../search/cma-es.js";
import { cellsOf, type Fields, fieldsAt, pointOf } from "../search/space.js";
import type { ItemResult } from "../steps/result.js";
import type { TaskRequest } from "../steps/step.js";
import {
  type Candidate,
  type ItemSplit,
  type Ranked,
  rankConfigurations,
  splitItems,
  survivors,
} from "./compare-configurations.js";
import { type Configuration, isAdaptive, mostEvaluated, nameConfigurations } from "./configurations.js";
import type { PlannedMerge } from "./controls.js";
import { decidingTasks, type MergeModel, type Model, tasksFor } from "./plan-models.js";
import type { ExperimentPlan } from "./plan-schema.js";

export interface Evaluator {
  /**
   * Requests an evaluation. @returns its results, if they are there
   * @param items indexes in the task's order; null: all
   * @param part name of these items, such as `round 2`
   */
  evaluate(
    model: Model,
    request: TaskRequest,
    items: readonly number[] | null,
    part?: string,
  ): readonly ItemResult[] | undefined;
  make(group: string, configurations: readonly Configuration[]): readonly MergeModel[];
  countItems(request: TaskRequest): number;
  /** Notes about how many steps depend on results. */
  wait(what: string, steps: number): void;
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
 * @param isIncomplete whether more pairs will follow, so that nothing can be chosen yet
 * @returns undefined if there is nothing to choose; then every model is evaluated on everything
 */
export function searchGroup(
  plan: ExperimentPlan,
  models: readonly MergeModel[],
  isIncomplete: boolean,
  evaluator: Evaluator,
): SearchOutcome | undefined {
  const [first] = models;
  if (!first) return undefined;
  const deciding = decidingTasks(first, plan);
  const configurations = new Set(models.map(({ configuration }) => configuration.label));
  const isPlain = first.merge.controlOf !== undefined || first.merge.figure !== undefined;
  const hasChoice = configurations.size > 1 || isAdaptive(first.merge, plan.search);
  if (isPlain || !hasChoice || deciding.length === 0) {
    for (const model of models) for (const request of tasksFor(model, plan)) evaluator.evaluate(model, request, null);
    return undefined;
  }
  return new GroupSearch(plan, models, deciding, evaluator).run(first, isIncomplete);
}

/** CMA-ES starts with this share of each range as the standard deviation, as pycma recommends. */
const START_DEVIATION = 0.3;
/** Generations without a new configuration after which the search has converged. */
const MAX_REPEATED = 10;

interface Progress {
  readonly rounds: readonly SearchRound[];
  readonly evaluated?: readonly Evaluated[];
}

function inOrder(
  ranked: readonly Ranked[],
  order: readonly string[],
  generationOf: (label: string) => number,
): Evaluated[] {
  const means = new Map(ranked.map(({ configuration, mean }) => [configuration, mean]));
  return [...new Set(order)].flatMap((configuration) => {
    const mean = means.get(configuration);
    return mean === undefined ? [] : [{ configuration, mean, generation: generationOf(configuration) }];
  });
}

class GroupSearch {
  readonly #plan: ExperimentPlan;
  #models: readonly MergeModel[];
  readonly #deciding: readonly TaskRequest[];
  readonly #splits: ReadonlyMap<string, ItemSplit>;
  readonly #evaluator: Evaluator;

  constructor(
    plan: ExperimentPlan,
    models: readonly MergeModel[],
    deciding: readonly TaskRequest[],
    evaluator: Evaluator,
  ) {
    this.#plan = plan;
    this.#models = models;
    this.#deciding = deciding;
    this.#evaluator = evaluator;
    this.#splits = new Map(
      deciding.map((request) => [request.task, splitItems(evaluator.countItems(request), plan.search)] as const),
    );
  }

  get #default(): string | undefined {
    return this.#models.find(({ configuration }) => configuration.isDefault)?.configuration.label;
  }

  run({ group, merge }: MergeModel, isIncomplete: boolean): SearchOutcome {
    const plannedRounds = Math.max(...[...this.#splits.values()].map(({ rounds }) => rounds.length));
    const { rounds, evaluated } = isAdaptive(merge, this.#plan.search)
      ? this.#generations(group, merge, isIncomplete)
      : this.#drawn(merge, this.#rounds(group, plannedRounds, isIncomplete));
    const chosen = rounds.length === plannedRounds ? rounds.at(-1)?.ranked[0]?.configuration : undefined;
    this.#report(chosen);
    return {
      group,
      merge: merge.name,
      rounds,
      plannedRounds,
      splits: this.#splits,
      ...(evaluated === undefined ? {} : { evaluated }),
      ...(chosen === undefined ? {} : { chosen }),
    };
  }

  /** Rounds, and for a space what was evaluated in the first. */
  #drawn({ space }: PlannedMerge, rounds: readonly SearchRound[]): Progress {
    const [first] = rounds;
    if (!space || !first) return { rounds };
    const order = this.#models.map(({ configuration }) => configuration.label);
    return { rounds, evaluated: inOrder(first.ranked, order, () => 0) };
  }

  /**
   * Requests generation after generation of CMA-ES, until results are missing. What it proposes follows from the seed and the
   * results, so nothing else is kept between runs.
   */
  #generations(group: string, merge: PlannedMerge, isIncomplete: boolean): Progress {
    const { budget, seed } = this.#plan.search;
    const { space = {} } = merge;
    const random = Random.of(seed, "proposals of the search");
    const cells = cellsOf(space);
    const search = new CmaEs({ mean: pointOf(space, merge.default ?? {}), sigma: START_DEVIATION, cells });
    const generations = new Map(this.#models.map(({ configuration }) => [configuration.label, 0]));
    const candidates: Candidate[] = [];
    let asked = this.#models;
    let evaluated: Evaluated[] = [];
    let ranked: readonly Ranked[] = [];
    for (let [generation, repeated] = [1, 0]; repeated < MAX_REPEATED; generation++) {
      const samples = search.ask(random).map(({ raw, point }) => ({ raw, fields: fieldsAt(space, point) }));
      const labels = this.#add(group, samples, budget, generations, generation);
      const added = this.#models.filter((model) => generations.get(model.configuration.label) === generation);
      const found = this.#evaluateAll(
        [...asked, ...added],
        ({ rounds }) => rounds[0] ?? [],
        `generation ${generation}`,
      );
      asked = [];
      candidates.push(...found.candidates);
      if (!found.isComplete || isIncomplete) {
        const pairs = new Set(this.#models.map(({ members }) => members.join(" "))).size;
        const left = mostEvaluated(merge, { budget }) - generations.size;
        this.#evaluator.wait(`later generations of ${group}`, this.#deciding.length * pairs * left);
        return { rounds: [], evaluated };
      }
      ranked = rankConfigurations(candidates, this.#default);
      evaluated = inOrder(ranked, [...generations.keys()], (label) => generations.get(label) ?? 0);
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
    group: string,
    samples: readonly { readonly fields: Fields }[],
    budget: number,
    generations: Map<string, number>,
    generation: number,
  ): (string | undefined)[] {
    const chosen = this.#models.find(({ configuration }) => configuration.isDefault)?.configuration.fields ?? {};
    const added: Configuration[] = [];
    const labels = samples.map(({ fields }) => {
      const [configuration] = nameConfigurations([fields], chosen) as [Configuration];
      const { label } = configuration;
      if (!generations.has(label)) {
        if (generations.size >= budget) return undefined;
        generations.set(label, generation);
        added.push(configuration);
      }
      return label;
    });
    this.#models = [...this.#models, ...this.#evaluator.make(group, added)];
    return labels;
  }

  /** Requests round after round, until results are missing. */
  #rounds(group: string, count: number, isIncomplete: boolean): SearchRound[] {
    const { keep } = this.#plan.search;
    const candidates: Candidate[] = [];
    let active: ReadonlySet<string> = new Set(this.#models.map(({ configuration }) => configuration.label));
    const rounds: SearchRound[] = [];
    for (let round = 0; round < count; round++) {
      const models = this.#models.filter(({ configuration }) => active.has(configuration.label));
      const found = this.#evaluateAll(models, (split) => split.rounds[round] ?? [], this.#roundName(round));
      if (!found.isComplete || isIncomplete) {
        const later = Array.from({ length: count - 1 - round }, (_, i) => Math.ceil(models.length * keep ** (i + 1)));
        const steps = this.#deciding.length * later.reduce((sum, one) => sum + one, 0);
        this.#evaluator.wait(`later rounds of ${group}`, steps);
        break;
      }
      candidates.push(...found.candidates);
      const left = candidates.filter(({ configuration }) => active.has(configuration));
      const ranked = rankConfigurations(left, this.#default);
      if (round < count - 1) active = new Set(survivors(ranked, keep));
      rounds.push({ ranked, kept: active });
    }
    return rounds;
  }

  #roundName(round: number): string {
    return this.#plan.search.how !== "halving" ? "search" : `round ${round + 1}`;
  }

  #evaluateAll(models: readonly MergeModel[], itemsOf: (split: ItemSplit) => readonly number[], part: string) {
    const candidates: Candidate[] = [];
    let isComplete = true;
    for (const model of models) {
      for (const request of this.#deciding) {
        const indexes = itemsOf(this.#splits.get(request.task) as ItemSplit);
        if (indexes.length === 0) continue;
        const items = this.#evaluator.evaluate(model, request, indexes, part);
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
    for (const model of reported) {
      for (const request of tasksFor(model, this.#plan)) {
        if (this.#splits.has(request.task)) continue;
        this.#evaluator.evaluate(model, request, null);
        others++;
      }
    }
    if (chosen === undefined) {
      this.#evaluator.wait(
        `final scores of ${this.#models[0]?.group ?? ""}`,
        others + reported.length * this.#deciding.length,
      );
    }
  }
}
