// What expanding a plan depends on: identities of models and data, tasks, and results of steps.

import type { ChooseItem, Task } from "../../evaluate/tasks/index.js";
import { isObject, RecipeError } from "../../kit/index.js";
import { checkRecipe } from "../../merge/index.js";
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
}

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
