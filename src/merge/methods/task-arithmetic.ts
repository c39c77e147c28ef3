// Task arithmetic: adds the experts' changes to the base.

import { taskVectors } from "./mergekit.js";
import { EXAMPLE, sparsifyingMethod } from "./task-vectors.js";

export const taskArithmetic = sparsifyingMethod("added", {
  name: "task_arithmetic",
  title: "Task arithmetic",
  summary: "Adds the experts' changes to the base.",
  symbol: "tau",
  definition: "tau_i = theta_i - theta_base",
  reference: "Ilharco et al., ICLR 2023, arXiv 2212.04089",
  tag: "task-arithmetic",
  mergekit: taskVectors("task_arithmetic", {}),
  shares: {},
  fields: () => ({}),
  example: { method: "task_arithmetic", ...EXAMPLE, lambda: 0.5 },
});
