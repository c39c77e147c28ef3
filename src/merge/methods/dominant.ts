// Dominant deltas: takes each layer from the expert that changed it most in proportion, where it leads clearly.

import { z } from "zod";
import { defineCombination, type Totals } from "../../tensor/measurements/index.js";
import { defineMethod, expertFields } from "./method.js";
import { copyTensor, mean, requireBase } from "./operand.js";
import { mergeByOwner, sharesOf, sizesOf, type Units, unitField } from "./weights-by-owner.js";

/**
 * The expert with the largest share owns a unit, the first on a tie, if it leads the next by `margin` of that; otherwise the
 * last one, which is the base, or all do alike.
 */
export const dominantWeights = defineCombination(
  "dominant-weights",
  (totals: Totals, given: Units & { readonly margin: number; readonly otherwise: "base" | "average" }) =>
    sharesOf(sizesOf(totals, given)).flatMap((shares) => {
      const largest = shares.indexOf(Math.max(...shares));
      const next = Math.max(0, ...shares.filter((_, expert) => expert !== largest));
      const isOwned = (shares[largest] ?? 0) >= (1 + given.margin) * next;
      if (!isOwned && given.otherwise === "average") return shares.map(() => 1);
      const owner = isOwned ? largest : shares.length - 1;
      return shares.map((_, expert) => (expert === owner ? 1 : 0));
    }),
);

export const dominant = defineMethod({
  name: "dominant",
  title: "Dominant deltas",
  summary: "Takes each layer or module from the expert that changed it most in proportion, if it leads by a margin.",
  formula:
    "theta_j with j = argmax_i r_i, r_i = s_i(layer) / sum_layers s_i, where r_j >= (1 + margin) r_i of all others, else theta_base; s_i(layer) = sqrt(sum over its tensors of (||theta_i - theta_base|| / ||theta_base||)^2)",
  reference:
    "AraSwap (Kashirskiy et al., 2026) with margin 0.15: 4 of 36 layers, the rest from the base; its card does not define the criterion, so the shares are those of Shin & Hwang, arXiv 2601.22620",
  tag: "layer-swap",
  fields: () => ({
    ...expertFields({}),
    by: unitField("layer"),
    margin: z
      .number()
      .min(0, "must be at least 0")
      .default(0)
      .describe(
        "lead that an expert needs to own a unit, as a share of the next expert's share: 0.15 in AraSwap; 0 gives every unit to one",
      ),
    otherwise: z
      .enum(["base", "average"])
      .default("base")
      .describe("units that no expert owns: from the base, or averaged over the experts"),
    outside: z
      .enum(["average", "first", "base"])
      .default("average")
      .describe("tensors outside the layers: averaged, from the first model, or from the base"),
  }),
  example: { method: "dominant", models: ["math-expert", "swahili-expert", "base+swahili-adapter"], base: "base" },
  tensors: ({ by, margin, otherwise, outside }, { models, base }, context) => {
    const root = requireBase(base, "dominant deltas need");
    const [lead = root] = models;
    // The base has changed nothing, so it owns only what is left to it.
    const owners = margin > 0 && otherwise === "base" ? [...models, root] : models;
    const labels = models.map(({ label }) => label).join(", ");
    const id = `dominant of ${labels} against ${root.label} by ${by} with margin ${margin}, otherwise ${otherwise}`;
    const weigh = (units: Units) => dominantWeights.with({ ...units, margin, otherwise });
    const atAll = (name: string) => {
      if (outside !== "average") return copyTensor(name, outside === "first" ? lead : root);
      return mean(name, models, context);
    };
    return mergeByOwner(owners, root, { id, by, sum: "root", weigh }, atAll, context);
  },
  weighting: () => "by shares of change (measured first)",
});
