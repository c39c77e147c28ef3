// HARC: a merged mixture with routers that choose, on each expert's texts, as that expert's own routers do.
import { z } from "zod";
import { elementCount, RecipeError } from "../../kit/index.js";
import { defineMethod, modelsField, sourceField } from "./method.js";
import { copyTensor, type Operand, type OperandTensor } from "./operand.js";

const fields = () => ({
  model: sourceField("the merge whose routers are calibrated, such as a soup of the models"),
  models: modelsField(
    "the models that it was merged from",
    { texts: z.array(z.string().max(20_000)).min(1).max(1000).describe("texts of what the model was trained for") },
    2,
  ),
  scale: z
    .number()
    .min(0)
    .max(1)
    .default(0.9)
    .describe("factor of the Hessian off its diagonal; below 1 it steadies the solution"),
  length: z.int().min(1).max(1_000_000).default(512).describe("tokens to read of a text"),
});

export const harc = defineMethod({
  name: "harc",
  title: "HARC",
  summary: "Calibrates the routers of a merged mixture of experts on texts of each model, without labels or training.",
  formula:
    "W with the least sum_i E[(W x - W_i x)^T H (W x - W_i x)] over the inputs x of the router in the merge, on the texts of model i; " +
    "H = diag(r) - r r^T, r = softmax(W_i x). From the first layer to the last, by conjugate gradients from the merge's own W. All else is the merge's",
  reference: "Huang et al., ICML 2026, arXiv 2606.03391",
  fields,
  example: {
    method: "harc",
    model: { method: "soup", models: ["math-expert", "swahili-expert"] },
    models: [
      {
        model: "math-expert",
        texts: ["Tom had nine apples. Tom sold seven apples. How many apples does Tom have now?"],
      },
      { model: "swahili-expert", texts: ["Asha alikuwa na ndizi tisa. Asha aliuza ndizi saba."] },
    ],
  },
  tensors: (recipe, sources, context) => {
    const model = sources.get("model");
    const isRouter = ({ part, shape }: OperandTensor) => part === "router" && shape.length === 2;
    const routers = [...model.tensors].filter(([, tensor]) => isRouter(tensor));
    if (routers.length === 0) {
      const name = model.lead.checkpoint.name;
      throw RecipeError.at(
        { field: "model" },
        `harc calibrates routers, and ${name} has none: its layers have no experts.`,
      );
    }
    if (model.isPart)
      throw RecipeError.at({ field: "model" }, "harc reads the whole merge. Its models must have the same tensors.");
    const { measured } = context.measure({
      id: `routers of ${model.label}`,
      kind: "routers",
      label: "routers",
      source: model.lead.id,
      mixture: tensorsOf(model, () => true),
      routers: routers.map(([name]) => name),
      experts: recipe.models.map((entry, i) => ({
        texts: textsOf(entry, i),
        routers: tensorsOf(sources.models[i] as Operand, ({ part }) => part === "router"),
      })),
      scale: recipe.scale,
      length: recipe.length,
    });
    const origin = [model, ...sources.models].map(({ label }) => label);
    const tensors = new Map([...model.tensors.keys()].map((name) => [name, copyTensor(name, model)]));
    let at = 0;
    for (const [name, tensor] of routers) {
      const [rows = 0, columns = 0] = tensor.shape;
      tensors.set(name, { ...tensor, origin, value: { op: "given", of: [], values: measured, at, rows, columns } });
      at += elementCount(tensor.shape);
    }
    return tensors;
  },
});

const tensorsOf = ({ tensors }: Operand, wanted: (tensor: OperandTensor) => boolean) =>
  [...tensors].flatMap(([name, one]) => {
    const { dtype, shape, value } = one;
    return wanted(one) ? [{ tensor: name, dtype, shape, value }] : [];
  });

/** @throws RecipeError if a model is named without texts */
function textsOf(entry: string | object, index: number): readonly string[] {
  const { texts } = Object(entry) as { texts?: readonly string[] };
  if (texts) return texts;
  throw RecipeError.at(
    { field: `models[${index}].texts` },
    `harc needs texts for each model: write models[${index}] as { model, texts }.`,
  );
}
