// Dominant deltas: takes each layer from the expert that changed it most in proportion (AraSwap, 2026).

import { z } from "zod";
import { plural } from "../../core/index.js";
import { modelsField, sourceField } from "./fields.js";
import { defineMethod } from "./method.js";
import { average, copyTensor, requireBase } from "./operand.js";
import { measureOwners } from "./weights-by-owner.js";

const schema = () =>
  z.strictObject({
    method: z.literal("dominant"),
    models: modelsField("the experts", {}, 2),
    base: sourceField("model that all were fine-tuned from"),
    by: z
      .enum(["layer", "module"])
      .default("layer")
      .describe("unit to decide on: a whole layer, or its attention and its feed-forward separately"),
    outside: z
      .enum(["average", "first"])
      .default("average")
      .describe("tensors outside the layers: averaged, or from the first model"),
  });

export const dominant = defineMethod({
  name: "dominant",
  title: "Dominant deltas",
  summary: "Takes each layer or module from the expert that changed it most in proportion.",
  formula:
    "theta_j with j = argmax_i s_i(layer) / sum_layers s_i, s_i(layer) = sqrt(sum over its tensors of (||theta_i - theta_base|| / ||theta_base||)^2)",
  reference: "AraSwap, 2026; the shares are those of Shin & Hwang, arXiv 2601.22620",
  tag: "layer-swap",
  schema,
  example: { method: "dominant", models: ["math-expert", "swahili-expert", "base+swahili-adapter"], base: "base" },
  tensors: ({ by, outside }, { models, base }, context) => {
    const root = requireBase(base, "dominant deltas need");
    const [lead = root] = models;
    const id = `dominant of ${models.map(({ label }) => label).join(", ")} against ${root.label} by ${by}`;
    const weightsOf = measureOwners(models, root, { id, by, rule: { kind: "dominant" }, sum: "root" }, context);
    return new Map(
      [...lead.tensors].map(([name, tensor]) => {
        const weights = weightsOf(tensor);
        if (!weights && outside === "first") return [name, copyTensor(name, lead)];
        const terms = models.map((operand, i) => ({ operand, weight: weights?.[i] ?? 1 }));
        return [name, average(name, terms, context)];
      }),
    );
  },
  headline: ({ models, by }) => `Dominant deltas of ${plural(models.length, "model")}, by ${by}`,
  describe: ({ models, by }, name, layers) =>
    `Of ${models.length} models of ${layers} layers, each ${by} from the one that changed it most in proportion, against ${name("base")}.`,
  weighting: () => "by shares of change (measured first)",
});
