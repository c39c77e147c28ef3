// MagMax: takes each element's change from the expert that changed it most.
import { defineOperation } from "../../tensor/expressions/index.js";
import { defineMethod, expertFields, weightField } from "./method.js";
import { addedToBase, requireBase } from "./operand.js";
import { resolveParameter } from "./parameter.js";

/** The largest value by magnitude: of equal ones the last, as the authors' code has it. */
export const largest = defineOperation("largest", {
  fields: {},
  apply: (buffers, _, { length }, { kernels, table }) => {
    kernels.counters(table, buffers.length).set(buffers);
    kernels.wasm.largest(table, buffers.length, length);
  },
});

/** Factor of the authors' script that merges eight tasks. */
const FACTOR = 0.5;

export const magmax = defineMethod({
  name: "magmax",
  title: "MagMax",
  summary: "Adds to each element the change of the expert that changed it most.",
  formula: "theta_base + lambda tau_j per element, j = argmax_i |tau_i|, of equal sizes the last",
  reference: "Marczak et al., ECCV 2024, arXiv 2407.06322",
  fields: () => ({
    ...expertFields({}),
    lambda: weightField.default(FACTOR).describe("factor for the merged change; 0.5 in the authors' script"),
  }),
  example: { method: "magmax", models: ["math-expert", "swahili-expert"], base: "base" },
  tensors: (recipe, { models, base }, context) => {
    const lambda = resolveParameter(recipe.lambda, FACTOR, "lambda", requireBase(base, "MagMax needs"));
    return addedToBase(models, base, "MagMax needs", context, (name, _, changes) => [
      { weight: lambda(name), value: largest.of(changes, {}) },
    ]);
  },
});
