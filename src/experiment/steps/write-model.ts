import { rm } from "node:fs/promises";
import { DiskFullError, OutputError } from "../../core/index.js";
import { type ExecuteOptions, executePlan, planRecipe, type RecipeInput } from "../../merge/index.js";
import type { ModelSource } from "./step.js";

export interface WriteModelOptions extends Pick<ExecuteOptions, "threads" | "signal" | "onProgress"> {
  readonly out: string;
  /** Whether to resume an interrupted attempt with the same inputs. Default: start over. */
  readonly resume?: boolean;
}

/**
 * Writes a merge, or a model with its adapter, as a whole model. It appears when it is complete.
 * @param source a folder, FOLDER+ADAPTER, or a recipe of such
 * @returns its folder
 */
export async function writeModel(source: ModelSource, { out, resume = false, ...how }: WriteModelOptions) {
  const recipe = typeof source === "string" ? { method: "soup", models: [source] } : source;
  // Whatever form the recipe would write, servers and training open whole models.
  const plan = await planRecipe({ ...recipe, as: "model" } as RecipeInput);
  // The check of the experiment's plan has asked whether its models are related.
  const write = () => executePlan(plan, { ...how, out, resume, force: true, allowUnrelated: true });
  try {
    await write();
  } catch (error) {
    if (!resume || !(error instanceof OutputError) || error instanceof DiskFullError) throw error;
    // The interrupted attempt was another version's, or models have moved.
    await rm(`${out}.partial`, { recursive: true, force: true });
    await write();
  }
  return out;
}
