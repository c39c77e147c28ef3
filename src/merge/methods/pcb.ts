// PCB: weights each element of the changes by its size within its model and its agreement with the others, and keeps the top.
import { z } from "zod";
import { elementCount } from "../../core/index.js";
import type { Measurement, Value, Weight } from "../../values/index.js";
import { expertFields, lambdaField } from "./fields.js";
import { defineMethod } from "./method.js";
import { deltaOf, isMeasurable, requireBase } from "./operand.js";
import { mergeTaskVectors } from "./task-vectors.js";

/** Share of the smallest, and of the largest changes of a model, whose size is limited. */
const OUTLIERS = 1e-4;

export const pcb = defineMethod({
  name: "pcb",
  title: "PCB",
  summary: "Averages changes by scores for their size and their agreement, and keeps those with the best scores.",
  formula:
    "theta_base + lambda sum(tau_i p_i) / sum(p_i); p_i = minmax over the model of the top ratio of exp(N minmax(|tau_i|)^2) tanh(tau_i sum_j tau_j), |tau_i| limited to its quantiles 1e-4 and 1 - 1e-4. Elements that disagree score 0",
  reference: "Du et al., NeurIPS 2024, arXiv 2410.02396",
  fields: () => ({
    ...expertFields({}),
    lambda: lambdaField,
    ratio: z.number().gt(0).max(1).default(0.1).describe("share of each model's elements to keep, best scores first"),
  }),
  example: { method: "pcb", models: ["math-expert", "swahili-expert"], base: "base", ratio: 0.1 },
  tensors: (recipe, sources, context) => {
    const { models, base } = sources;
    const root = requireBase(base, "PCB needs");
    const [lead = root] = models;
    const names = [...lead.tensors].filter(([, tensor]) => isMeasurable(tensor)).map(([name]) => name);
    const count = names.reduce((sum, name) => sum + elementCount(lead.tensors.get(name)?.shape ?? []), 0);
    const labels = `${models.map(({ label }) => label).join(", ")} from ${root.label}`;
    const bounds = (measurement: Measurement) => {
      const { measured } = context.measure(measurement);
      return [{ measured }, { measured, at: 1 }] as const;
    };
    const sizes = models.map((model) => {
      const label = "the sizes of changes";
      return bounds({
        id: `${label} of ${model.label} among ${labels}`,
        kind: "order",
        label,
        values: names.map((name) => deltaOf(name, model, root)),
        ranks: [Math.floor(count * OUTLIERS), Math.floor(count * (1 - OUTLIERS) - 1)],
      });
    });
    const compete = (of: readonly Value[], only: number, from: readonly Weight[], to: readonly Weight[]): Value => {
      return { op: "compete", of, low: sizes.map(([low]) => low), high: sizes.map(([, high]) => high), from, to, only };
    };
    const none = models.map(() => 0);
    const scores = models.map((model, i) => {
      const label = `the scores, ratio ${recipe.ratio},`;
      const values = names.map((name) =>
        compete(
          models.map((one) => deltaOf(name, one, root)),
          i,
          none,
          none,
        ),
      );
      return bounds({
        id: `${label} of ${model.label} among ${labels}`,
        kind: "cut",
        label,
        values,
        of: [model.label],
        keep: count - Math.floor(count * (1 - recipe.ratio)),
        above: 0,
        isExact: false,
        isOpen: true,
      });
    });
    return mergeTaskVectors(recipe, sources, context, {
      join: (changes) =>
        compete(
          changes.map(({ value }) => value),
          -1,
          scores.map(([from]) => from),
          scores.map(([, to]) => to),
        ),
    });
  },
});
