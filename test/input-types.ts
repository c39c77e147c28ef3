// Checked by npm run typecheck: the types of recipes, runs and plans that a build writes (types.js) are those of the schemas.
import type * as writtenPlan from "../dist/experiment/inputs.js";
import type * as written from "../dist/verbs/inputs.js";
import type * as inferredPlan from "../src/experiment/inputs.js";
import type * as inferred from "../src/verbs/inputs.js";

type Keys<T> = T extends unknown ? keyof T : never;
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : never) : never;

export const sameFields: [
  Same<Keys<written.RecipeInput>, Keys<inferred.RecipeInput>>,
  Same<keyof written.RunInput, keyof inferred.RunInput>,
  Same<keyof written.ExtractInput, keyof inferred.ExtractInput>,
  Same<keyof written.AnalyzeInput, keyof inferred.AnalyzeInput>,
  Same<keyof written.SuggestInput, keyof inferred.SuggestInput>,
  Same<keyof written.MeasureInput, keyof inferred.MeasureInput>,
  Same<keyof written.NeuronsInput, keyof inferred.NeuronsInput>,
  Same<keyof written.VerifyInput, keyof inferred.VerifyInput>,
  Same<keyof written.EvalInput, keyof inferred.EvalInput>,
  Same<keyof written.MergeInput, keyof inferred.MergeInput>,
  Same<keyof written.SwapInput, keyof inferred.SwapInput>,
  Same<keyof written.SoupInput, keyof inferred.SoupInput>,
  Same<keyof written.RevertInput, keyof inferred.RevertInput>,
  Same<keyof written.TransplantInput, keyof inferred.TransplantInput>,
  Same<keyof written.CompareInput, keyof inferred.CompareInput>,
  Same<keyof writtenPlan.PlanInput, keyof inferredPlan.PlanInput>,
  Same<keyof writtenPlan.TuneInput, keyof inferredPlan.TuneInput>,
] = [true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true];

export const taken = (recipe: written.RecipeInput, run: written.RunInput, plan: writtenPlan.PlanInput) =>
  [recipe, run, plan] satisfies [inferred.RecipeInput, inferred.RunInput, inferredPlan.PlanInput];

export const given = (recipe: inferred.RecipeInput, plan: inferredPlan.PlanInput, extract: inferred.ExtractInput) =>
  [recipe, plan, extract] satisfies [written.RecipeInput, writtenPlan.PlanInput, written.ExtractInput];
