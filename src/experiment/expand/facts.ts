// What expanding a plan depends on: identities of models and data, tasks, and results of steps.

import type { ChooseItem, Task } from "../../evaluate/tasks/index.js";
import type { Checkpoint } from "../../formats/checkpoint/index.js";
import { canonicalJson } from "../../kit/files/index.js";
import { isObject, RecipeError } from "../../kit/index.js";
import { checkRecipe } from "../../merge/index.js";
import type { Verb } from "../../verbs/shared/index.js";
import type { Changed, EvaluationResult, Overlap, SuggestedRecipe, TrainedCheckpoint } from "../steps/result.js";
import type { ModelSource, TaskRequest } from "../steps/step.js";

export interface TaskFacts {
  readonly name: string;
  readonly title: string;
  /** `layergraft/mgsm-native-cot@1, 8-shot`. */
  readonly protocol: string;
  readonly items: number;
  /** What the first item asks, without what all begin with. */
  readonly example?: string | undefined;
  /** Digest of prompts, expected answers and how answers are judged. */
  readonly digest: string;
  /** Unit of the first score: a share from 0 to 1, or points such as BLEU. */
  readonly scale: "share" | "points";
  /** Whether the first score is a mean over items. */
  readonly isMean: boolean;
  readonly executes: boolean;
  /** The first score; undefined if the task could not be read. */
  readonly metric?: Task["metrics"][number] | undefined;
  /** Groups of the items in the task's order, where a score is the mean of groups. */
  readonly groups?: readonly (string | undefined)[] | undefined;
  readonly choices?: readonly Pick<ChooseItem, "id" | "choices">[] | undefined;
  /** Notes on prompts of a file, such as problems without one. */
  readonly notes?: readonly string[] | undefined;
}

export interface Facts {
  /** @param source as the plan names it */
  modelIdentity(source: string): {
    readonly identity: string;
    readonly folder: string;
    /** Transformer layers; undefined if the model is not there. */
    readonly layers?: number | undefined;
  };
  /** Of a recipe: the recipe with its defaults filled in. */
  recipeIdentity(source: ModelSource): unknown;
  dataIdentity(run: Readonly<Record<string, unknown>>): string;
  task(request: TaskRequest): TaskFacts;
  /** Verbs that steps of plans carry out, by name. */
  readonly verbs: ReadonlyMap<string, Verb>;
}

export interface ModelFacts {
  readonly identity: string;
  /** Absolute folder, or FOLDER+ADAPTER. */
  readonly folder: string;
  readonly parameters: number;
  readonly bytes: number;
  /** Bytes of its weight files that are on the hub and not on this machine. */
  readonly bytesToFetch: number;
  readonly layers: number;
  readonly checkpoint: Checkpoint;
  /** Path of its name in the plan. */
  readonly path: readonly PropertyKey[];
}

/** Facts that were read. What could not be is assumed, so that the rest of a plan can be checked and its steps counted. */
export class KnownFacts implements Facts {
  readonly recipeIdentity = recipeIdentities();
  readonly verbs = new Map<string, Verb>();
  /** By their names in the plan. */
  readonly models = new Map<string, ModelFacts>();
  /** By what is asked, as canonical JSON. */
  readonly tasks = new Map<string, TaskFacts>();
  /** Identities, by the data and the partition of runs as canonical JSON. */
  protected readonly data = new Map<string, string>();

  modelIdentity(source: string): { identity: string; folder: string; layers: number | undefined } {
    const { identity = `missing:${source}`, folder = source, layers } = this.models.get(source) ?? {};
    return { identity, folder, layers };
  }

  dataIdentity(run: Readonly<Record<string, unknown>>): string {
    return this.data.get(canonicalJson([run.data, run.partition])) ?? "";
  }

  task(request: TaskRequest): TaskFacts {
    const { task, limit = ASSUMED_ITEMS } = request;
    return (
      this.tasks.get(canonicalJson(request)) ?? {
        name: task,
        title: task,
        protocol: "",
        digest: "",
        scale: "share",
        items: limit,
        isMean: true,
        executes: false,
      }
    );
  }
}

/** Items of a task that failed to be read: with few, a search would have none to see, and its configurations no steps. */
const ASSUMED_ITEMS = 1000;

export interface Results {
  trained(key: string): readonly TrainedCheckpoint[] | undefined;
  suggested(key: string): readonly SuggestedRecipe[] | undefined;
  overlap(key: string): Overlap | undefined;
  changed(key: string): Changed | undefined;
  evaluated(key: string): Pick<EvaluationResult, "items" | "score" | "asides"> | undefined;
}

/**
 * A function for the identities of models: of a recipe, the recipe with its defaults filled in. It remembers them, because a
 * plan is expanded many times, and checking recipes would take most of the time.
 */
export function recipeIdentities(): Facts["recipeIdentity"] {
  const known = new Map<string, unknown>();
  return (source) => {
    if (typeof source === "string") return source;
    const json = JSON.stringify(source);
    const identity = known.get(json) ?? checkedRecipe(source);
    known.set(json, identity);
    return identity;
  };
}

/** Swaps without a preset name their transitions, as those of earlier versions do, whose results stay valid. */
function withTransitions(recipe: unknown): unknown {
  if (Array.isArray(recipe)) return recipe.map(withTransitions);
  if (!isObject(recipe)) return recipe;
  const inner = Object.fromEntries(Object.entries(recipe).map(([key, value]) => [key, withTransitions(value)]));
  if (inner.method !== "swap" || inner.preset !== undefined) return inner;
  return { bottom_transition: 0, top_transition: 0, ...inner };
}

function checkedRecipe(source: ModelSource): unknown {
  try {
    return withTransitions(checkRecipe(source));
  } catch (error) {
    // The plan's check reports it.
    if (error instanceof RecipeError) return source;
    throw error;
  }
}
