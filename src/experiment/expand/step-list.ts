// The steps of a plan as they are found, the models that they evaluate, and about how many depend on results.
import { basename } from "node:path";
import { groupBy } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import { runnerOf, tasksFor } from "../plan/plan-tasks.js";
import type { ItemResult } from "../steps/result.js";
import {
  type EvaluateStep,
  type ModelName,
  type Step,
  type StepKind,
  stepKey,
  type TaskItems,
  type TaskRequest,
} from "../steps/step.js";
import type { Facts, Results } from "./facts.js";
import type { ExpertModel, MergeModel, PlanModel, PlannedTrainStep } from "./plan-models.js";

/** A model, and the steps that evaluate it on each task; several if items were evaluated in parts. */
export interface EvaluatedModel {
  readonly model: PlanModel | ExpertModel | MergeModel;
  readonly tasks: readonly { readonly request: TaskRequest; readonly steps: readonly EvaluateStep[] }[];
}

export interface Waiting {
  readonly what: string;
  /** About how many. */
  readonly steps: number;
  /** Default: evaluate. */
  readonly kind?: StepKind;
  /** Of training runs: what they train. */
  readonly runs?: readonly PlannedTrainStep[];
  /** Of evaluations: how many items of each task, if that is known. */
  readonly items?: readonly TaskItems[];
  /** What they depend on, if that is known: variants with the same have the same steps. */
  readonly of?: string;
}

export class StepList {
  readonly waiting: Waiting[] = [];
  readonly #steps = new Map<string, Step>();
  readonly #evaluated = new Map<PlanModel, EvaluateStep[]>();
  readonly #plan: ExperimentPlan;
  readonly #facts: Facts;
  readonly #results: Results;

  constructor(plan: ExperimentPlan, facts: Facts, results: Results) {
    this.#plan = plan;
    this.#facts = facts;
    this.#results = results;
  }

  /** In the order in which they were added. */
  get steps(): readonly Step[] {
    return [...this.#steps.values()];
  }

  /** The models that are evaluated: the base and experts, then merges in the order of the plan. */
  models(merges: readonly MergeModel["merge"][]): EvaluatedModel[] {
    const positions = new Map(merges.map((merge, i) => [merge, i]));
    const positionOf = (model: PlanModel | MergeModel) => ("merge" in model ? (positions.get(model.merge) ?? 0) : -1);
    const evaluated = [...this.#evaluated].sort(([a], [b]) => positionOf(a) - positionOf(b));
    return evaluated.map(([model, steps]) => ({
      model,
      tasks: [...groupBy(steps, ({ request }) => request.task).values()].map((inTask) => ({
        request: (inTask[0] as EvaluateStep).request,
        steps: [...new Map(inTask.map((step) => [step.key, step])).values()],
      })),
    }));
  }

  add(step: Step): void {
    // One model may have two names; the first one's label stays.
    if (!this.#steps.has(step.key)) this.#steps.set(step.key, step);
  }

  /** Notes about how many steps depend on results. */
  wait(what: string, steps: number, more: Pick<Waiting, "kind" | "runs" | "items" | "of"> = {}): void {
    if (steps > 0) this.waiting.push({ what, steps, ...more });
  }

  countItems(request: TaskRequest): number {
    return this.#facts.task(request).items;
  }

  /** All items of tasks, or a share of them, for so many models. */
  itemsOf(requests: readonly TaskRequest[], models = 1, share = 1): TaskItems[] {
    return requests.map((request) => ({ task: request.task, count: models * share * this.countItems(request) }));
  }

  evaluateAll(model: PlanModel): void {
    for (const request of tasksFor(model, this.#plan)) this.evaluate(model, request);
  }

  /** Requests an evaluation on all items. @returns its score, if it is there */
  score(model: PlanModel, request: TaskRequest): number | undefined {
    return this.#results.evaluated(this.#evaluation(model, request, null).key)?.score;
  }

  /**
   * Requests an evaluation. @returns its results, if they are there
   * @param items indexes in the task's order; null: all
   * @param part name of these items, such as `round 2`
   */
  evaluate(
    model: PlanModel,
    request: TaskRequest,
    items: readonly number[] | null = null,
    part?: string,
  ): readonly ItemResult[] | undefined {
    return this.#results.evaluated(this.#evaluation(model, request, items, part).key)?.items;
  }

  #evaluation(model: PlanModel, request: TaskRequest, items: readonly number[] | null, part?: string): EvaluateStep {
    const runner = runnerOf(this.#plan);
    const { name: task, digest, protocol } = this.#facts.task(request);
    const source = this.#facts.recipeIdentity(model.source);
    const step: EvaluateStep = {
      kind: "evaluate",
      key: stepKey("evaluate", { model: source, task, digest, protocol, items, ...runner }),
      of: modelName(model),
      label: `evaluate ${model.name} on ${basename(request.task)}${items ? partName(items, part) : ""}`,
      needs: model.needs,
      locations: model.locations,
      model: model.source,
      request,
      digest,
      items,
      ...runner,
    };
    this.add(step);
    const steps = this.#evaluated.get(model) ?? [];
    steps.push(step);
    this.#evaluated.set(model, steps);
    return step;
  }
}

/** `, round 2 (50 items)` */
function partName({ length }: readonly number[], part: string | undefined): string {
  return `${part === undefined ? "" : `, ${part}`} (${plural(length, "item")})`;
}

function modelName(model: PlanModel | ExpertModel | MergeModel): ModelName {
  const { name } = model;
  if ("merge" in model) {
    const { label, isDefault } = model.configuration;
    return { name, entry: model.merge.name, configuration: label, ...(isDefault ? { isDefault } : {}) };
  }
  return { name, entry: "expertFamily" in model ? model.expertFamily : name, configuration: "" };
}
