// Opens a plan that was made before: its sources as they were, and what they become before tensors are read.

import {
  type Checkpoint,
  HUB_PREFIX,
  type HubAccess,
  hubPlace,
  openCheckpoint,
  pinKey,
  withCommonNames,
} from "../../formats/checkpoint/index.js";
import { alignVocabularies } from "../../formats/vocabulary/index.js";
import { LayergraftError } from "../../kit/index.js";
import { requireKnown } from "../../tensor/measurements/index.js";
import type { PlanSource } from "../model-plan.js";
import { reloadOwnMethods } from "../recipe/own-methods.js";
import { kindsOf, type Plan, sourcesOf } from "../recipe/recipe.js";
import { withinBudget } from "./budget.js";
import { factorSources, isOnFactors } from "./factor-sources.js";
import { type AnyRecipe, replaceSource } from "./operand-builder.js";
import type { OpenedPlan } from "./planner.js";
import { roundAdapters } from "./rounded-adapters.js";

/**
 * Opens the sources of a plan that was saved or sent, those on the hub at the same commits.
 * @param hub access to the hub for sources that are not on this machine; none by default
 * @param advice for the error of a source that changed
 * @param allowCode whether to run the files that are its methods
 * @returns the opened plan, with notes on branches that have moved
 * @throws LayergraftError if a source's files changed since planning, or another version made it
 */
export async function openPlan(
  plan: Plan,
  hub?: HubAccess,
  advice = "Plan again.",
  allowCode = false,
): Promise<OpenedPlan & { readonly moved: readonly string[] }> {
  requireKnown(plan.measurements);
  await reloadOwnMethods(plan.code ?? [], allowCode);
  const sources = new Map<string, Checkpoint>();
  const moved = new Set<string>();
  const access = hub && { ...hub, pins: pinsOf(plan) };
  for (const source of plan.sources) {
    const { id, folder, digest } = source;
    const checkpoint = await openCheckpoint(sourceText(source, access !== undefined), { hub: access });
    for (const sentence of checkpoint.moved) moved.add(sentence);
    if (checkpoint.digest !== digest) {
      throw new LayergraftError(
        "changed",
        `${folder} changed since the plan was made: its weight files differ in size or header. ${advice}`,
        {
          file: folder,
          expected: digest,
          actual: checkpoint.digest,
        },
      );
    }
    sources.set(id, (source.asStored && checkpoint.asStored) || checkpoint);
  }
  roundAdapters(sources, plan.recipe.lora_merge_dtype);
  await replaceAll(plan.recipe, sources);
  const factors = isOnFactors(plan.recipe) ? factorSources(plan.recipe, sources) : sources;
  const kinds = kindsOf(plan.recipe);
  const named = withCommonNames(new Map([...factors].filter(([label]) => kinds.get(label) !== "tokenizer")));
  const common = new Map([...factors, ...named.checkpoints]);
  const within = (opened: ReadonlyMap<string, Checkpoint>) => withinBudget(opened, plan.blocks ?? {});
  if (plan.recipe.vocabulary === undefined) return { plan, sources: within(common), moved: [...moved] };
  const models = new Map([...common].filter(([label]) => kinds.get(label) !== "statistics"));
  const alignment = await alignVocabularies(models, plan.recipe.vocabulary);
  if (alignment.digest !== plan.vocabulary?.digest) {
    throw new LayergraftError("changed", `the tokenizers of the sources changed since the plan was made. ${advice}`);
  }
  return { plan, sources: within(new Map([...common, ...alignment.checkpoints])), moved: [...moved] };
}

/** Gives sources the form that a recipe, and the recipes within it, take them in. */
async function replaceAll(recipe: AnyRecipe, sources: Map<string, Checkpoint>, prefix = ""): Promise<void> {
  for (const { label, source } of sourcesOf(recipe)) {
    if (typeof source === "object") await replaceAll(source, sources, `${prefix}${label}.`);
  }
  await replaceSource(recipe, sources, prefix);
}

/**
 * A source of a plan as `openCheckpoint` takes it.
 * @param isPinned whether pins say which commits revisions are
 */
function sourceText({ folder, adapter, revision, adapterRevision }: PlanSource, isPinned: boolean): string {
  const text = (path: string, asked: string | undefined) => {
    const onHub = asked === undefined ? undefined : hubPlace(path);
    return onHub ? `${HUB_PREFIX}${onHub.name}@${isPinned ? asked : onHub.commit}` : path;
  };
  return adapter === undefined ? text(folder, revision) : `${text(folder, revision)}+${text(adapter, adapterRevision)}`;
}

/** Commits of the sources on the hub, for `HubAccess.pins`. */
export function pinsOf({ sources }: Pick<Plan, "sources">): Map<string, string> {
  const places = sources.flatMap(({ folder, revision, adapter = "", adapterRevision }) => [
    { onHub: hubPlace(folder), asked: revision },
    { onHub: hubPlace(adapter), asked: adapterRevision },
  ]);
  return new Map(
    places.flatMap(({ onHub, asked }) =>
      onHub && asked !== undefined ? [[pinKey(onHub.name, asked), onHub.commit] as const] : [],
    ),
  );
}
