// LiNeS: scales the change of a model or of a merge by depth, small at the input and whole at the output.
import { z } from "zod";
import type { Value } from "../../tensor/expressions/index.js";
import { defineMethod, sourceField } from "./method.js";
import { addedToBase, layersOf } from "./operand.js";

export const lines = defineMethod({
  name: "lines",
  title: "LiNeS",
  summary: "Scales the change of a model or of a merge linearly by layer.",
  formula: "theta_base + (alpha + beta l / (L - 1)) tau in layer l of L, alpha tau outside the layers",
  reference: "Wang et al., ICLR 2025, arXiv 2410.17146",
  fields: () => ({
    expert: sourceField("the model, or the recipe of a merge, whose change is scaled"),
    base: sourceField("model that the change is from"),
    alpha: z.number().min(-1e3).max(1e3).default(0.5).describe("factor of the first layer, and outside the layers"),
    beta: z.number().min(-1e3).max(1e3).optional().describe("what the last layer has more; default 1 - alpha"),
  }),
  example: { method: "lines", expert: "math-expert", base: "base", alpha: 0.3 },
  tensors: ({ alpha, beta = 1 - alpha }, sources, context) => {
    const expert = sources.get("expert");
    const layers = layersOf(expert);
    return addedToBase([expert], sources.base, "LiNeS needs", context, (_, { layer }, [change]) => {
      const depth = layer === null || layers < 2 ? 0 : layer / (layers - 1);
      return [{ weight: alpha + beta * depth, value: change as Value }];
    });
  },
});
