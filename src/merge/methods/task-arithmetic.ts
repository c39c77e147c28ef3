// Task arithmetic: the experts' changes, added up and added to the base.
import { z } from "zod";
import { plural } from "../../core/format.js";
import { defineMethod } from "../method.js";
import { describeParameters, mergeTaskVectors, taskVectorFields } from "./task-vectors.js";

const schema = z.strictObject({
  method: z.literal("task_arithmetic"),
  ...taskVectorFields({}),
  normalize: z.boolean().default(false).describe("divide the sum of the changes by the sum of the weights"),
});

export const taskArithmetic = defineMethod({
  name: "task_arithmetic",
  title: "Task arithmetic",
  summary: "The experts' changes, added up and added to the base.",
  formula: "theta_base + lambda sum(w_i tau_i), tau_i = theta_i - theta_base",
  reference: "Ilharco et al., ICLR 2023, arXiv 2212.04089",
  tag: "task-arithmetic",
  schema,
  example: { method: "task_arithmetic", models: ["math-expert", "swahili-expert"], base: "base", lambda: 0.5 },
  tensors: (recipe, sources, context) => mergeTaskVectors(recipe, sources, context, recipe),
  headline: (recipe) =>
    `Task arithmetic of ${plural(recipe.models.length, "model")}${describeParameters(recipe, { weight: 1, lambda: 1 })}`,
  describe: ({ models }, name, layers) =>
    `Task arithmetic: the changes of ${models.length} models of ${layers} layers, added to ${name("base")}.`,
});
