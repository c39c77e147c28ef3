// Task arithmetic: the experts' changes, added up and added to the base.
import { z } from "zod";
import { defineMethod } from "./method.js";
import { headlineOf, mergeTaskVectors, normalizeSum, taskVectorFields } from "./task-vectors.js";

const schema = z.strictObject({
  method: z.literal("task_arithmetic"),
  ...taskVectorFields({}),
  normalize: normalizeSum,
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
  headline: (recipe) => headlineOf("Task arithmetic", recipe, {}),
  describe: ({ models }, name, layers) =>
    `Task arithmetic: the changes of ${models.length} models of ${layers} layers, added to ${name("base")}.`,
});
