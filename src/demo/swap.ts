// The layer swap that the demo reports: the configuration chosen on the development problems, otherwise the default.
import type { ExperimentStatus, MergeModel } from "../experiment/index.js";
import { recipeIn } from "../experiment/report/index.js";
import { planRecipe, type RecipeInput } from "../merge/index.js";
import { type PlanSummary, summarizePlan } from "../merge/output/index.js";
import { NAMES } from "./results.js";

/** The swap of every pair; empty if the plan no longer has it. */
export function reportedSwaps({ expansion }: Pick<ExperimentStatus, "expansion">): MergeModel[] {
  const models = expansion.models
    .map(({ model }) => model)
    .filter((model): model is MergeModel => "merge" in model && model.merge.name === NAMES.swap);
  return models.filter(({ group, configuration }) => {
    const search = expansion.searches.find((one) => one.group === group);
    const chosen = search?.chosen;
    return chosen === undefined ? configuration.isDefault : configuration.label === chosen;
  });
}

/** The swap of the first pair as a recipe, with folders relative to `out`; undefined if the plan no longer has it. */
export function swapRecipe({ expansion, store }: ExperimentStatus, out: string): RecipeInput | undefined {
  const [swap] = reportedSwaps({ expansion });
  return swap && recipeIn(swap, store, out);
}

/** Where each layer of the reported swap comes from; undefined if the plan no longer has it. */
export async function swapLayersOf(
  status: ExperimentStatus,
  out: string,
): Promise<PlanSummary["ownership"] | undefined> {
  const recipe = swapRecipe(status, out);
  return recipe && summarizePlan(await planRecipe(recipe, { folder: out })).ownership;
}
