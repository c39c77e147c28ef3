// The search among one merge's configurations, as far as it has come: asks what is to be asked next, and says which
// configurations go on, which is chosen.
import type { ItemResult } from "../steps/facts.js";
import type { TaskRequest } from "../steps/step.js";
import {
  type Candidate,
  type ItemSplit,
  type Ranked,
  rankConfigurations,
  splitItems,
  survivors,
} from "./compare-configurations.js";
import { decidingTasks, type MergeModel, type Model, tasksFor } from "./plan-models.js";
import type { ExperimentPlan } from "./plan-schema.js";

/** Who asks models, and knows their answers as far as they are there. */
export interface Asker {
  /**
   * @param items places in the task's order; null: all
   * @param part which part of them it is, for people
   */
  ask(
    model: Model,
    request: TaskRequest,
    items: readonly number[] | null,
    part?: string,
  ): readonly ItemResult[] | undefined;
  itemsOf(request: TaskRequest): number;
  /** Notes that about so many steps cannot be named yet. */
  wait(what: string, steps: number): void;
}

/** How the configurations of one merge of the same families compare. */
export interface SearchOutcome {
  readonly group: string;
  readonly merge: string;
  /** By the items of the search, all rounds so far; those that go on, the best first. */
  readonly ranked: readonly Ranked[];
  /** How the items of each deciding task are divided. */
  readonly splits: ReadonlyMap<string, ItemSplit>;
  /** The configuration that the search chose; undefined while it goes on. */
  readonly chosen?: string;
  /** The one that is best on all items, where configurations are chosen on those, too. */
  readonly chosenOnTest?: string;
}

/**
 * Takes the search of a group as far as the answers go.
 * @param models all pairs in all configurations
 * @param isIncomplete whether more pairs will come, so that nothing can be chosen yet
 * @returns undefined where there is nothing to choose; then every model is asked everything
 */
export function searchGroup(
  plan: ExperimentPlan,
  models: readonly MergeModel[],
  isIncomplete: boolean,
  asker: Asker,
): SearchOutcome | undefined {
  const [first] = models;
  if (!first) return undefined;
  const deciding = decidingTasks(first, plan);
  const configurations = new Set(models.map(({ configuration }) => configuration.label));
  if (configurations.size === 1 || deciding.length === 0) {
    for (const model of models) for (const request of tasksFor(model, plan)) asker.ask(model, request, null);
    return undefined;
  }
  return new GroupSearch(plan, models, deciding, asker).run(first, isIncomplete);
}

class GroupSearch {
  readonly #plan: ExperimentPlan;
  readonly #models: readonly MergeModel[];
  readonly #deciding: readonly TaskRequest[];
  readonly #splits: ReadonlyMap<string, ItemSplit>;
  readonly #asker: Asker;

  constructor(plan: ExperimentPlan, models: readonly MergeModel[], deciding: readonly TaskRequest[], asker: Asker) {
    this.#plan = plan;
    this.#models = models;
    this.#deciding = deciding;
    this.#asker = asker;
    this.#splits = new Map(
      deciding.map((request) => [request.task, splitItems(asker.itemsOf(request), plan.search)] as const),
    );
  }

  /** What is taken where others are no better. */
  get #default(): string | undefined {
    return this.#models.find(({ configuration }) => configuration.isDefault)?.configuration.label;
  }

  run({ group, merge }: MergeModel, isIncomplete: boolean): SearchOutcome {
    const { ranked, isDone } = this.#rounds(group, isIncomplete);
    const chosen = isDone ? ranked[0]?.configuration : undefined;
    const best = this.#onTest();
    const chosenOnTest = isIncomplete ? undefined : best;
    this.#report(chosen, chosenOnTest);
    return {
      ...{ group, merge: merge.name, ranked, splits: this.#splits },
      ...(chosen === undefined ? {} : { chosen }),
      ...(chosenOnTest === undefined ? {} : { chosenOnTest }),
    };
  }

  /** Asks round after round, until answers are missing. */
  #rounds(group: string, isIncomplete: boolean): { ranked: Ranked[]; isDone: boolean } {
    const count = Math.max(...[...this.#splits.values()].map(({ rounds }) => rounds.length));
    const { keep } = this.#plan.search;
    const candidates: Candidate[] = [];
    let active = new Set(this.#models.map(({ configuration }) => configuration.label));
    let ranked: Ranked[] = [];
    for (let round = 0; round < count; round++) {
      const going = this.#models.filter(({ configuration }) => active.has(configuration.label));
      const found = this.#askAll(going, (split) => split.rounds[round] ?? [], this.#roundName(round));
      if (!found.isComplete || isIncomplete) {
        const later = Array.from({ length: count - 1 - round }, (_, i) => Math.ceil(going.length * keep ** (i + 1)));
        this.#asker.wait(`later rounds of ${group}`, this.#deciding.length * later.reduce((sum, one) => sum + one, 0));
        return { ranked, isDone: false };
      }
      candidates.push(...found.candidates);
      ranked = rankConfigurations(
        candidates.filter(({ configuration }) => active.has(configuration)),
        this.#default,
      );
      if (round < count - 1) active = new Set(survivors(ranked, keep));
    }
    return { ranked, isDone: true };
  }

  #roundName(round: number): string {
    return this.#plan.search.how === "grid" ? "search" : `round ${round + 1}`;
  }

  #askAll(models: readonly MergeModel[], itemsOf: (split: ItemSplit) => readonly number[], part: string) {
    const candidates: Candidate[] = [];
    let isComplete = true;
    for (const model of models) {
      for (const request of this.#deciding) {
        const places = itemsOf(this.#splits.get(request.task) as ItemSplit);
        if (places.length === 0) continue;
        const items = this.#asker.ask(model, request, places, part);
        if (items) candidates.push({ configuration: model.configuration.label, of: request.task, items });
        else isComplete = false;
      }
    }
    return { candidates, isComplete };
  }

  /** The best on all items, where the plan wants what the paper did. */
  #onTest(): string | undefined {
    if (this.#plan.search.choose_on === "held-out") return undefined;
    const parts = [
      this.#askAll(this.#models, ({ rounds }) => rounds[0] ?? [], this.#roundName(0)),
      this.#askAll(this.#models, ({ held }) => held, "held out"),
    ];
    if (parts.some(({ isComplete }) => !isComplete)) return undefined;
    return rankConfigurations(
      parts.flatMap(({ candidates }) => candidates),
      this.#default,
    )[0]?.configuration;
  }

  /** Asks the default configuration and the chosen ones what is reported: the items held out, and the other tasks. */
  #report(chosen: string | undefined, chosenOnTest: string | undefined): void {
    const reported = this.#models.filter(
      ({ configuration: { label, isDefault } }) => isDefault || label === chosen || label === chosenOnTest,
    );
    this.#askAll(reported, ({ held }) => held, "held out");
    // A default that halving let go is reported on all items like the others.
    const { length: rounds } = [...this.#splits.values()][0]?.rounds ?? [];
    for (let round = 0; round < rounds && chosen !== undefined; round++) {
      this.#askAll(reported, (split) => split.rounds[round] ?? [], this.#roundName(round));
    }
    let others = 0;
    for (const model of reported) {
      for (const request of tasksFor(model, this.#plan)) {
        if (this.#splits.has(request.task)) continue;
        this.#asker.ask(model, request, null);
        others++;
      }
    }
    if (chosen === undefined) {
      this.#asker.wait("final scores of the chosen configurations", others + reported.length * this.#deciding.length);
    }
  }
}
