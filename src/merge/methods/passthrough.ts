// Passthrough: layers of one or several models put one after the other, repeated or left out; nothing is averaged.
import { z } from "zod";
import { RecipeError } from "../../core/errors.js";
import { plural } from "../../core/format.js";
import type { Value } from "../../source/expression.js";
import { sourceField, weightField } from "../fields.js";
import { layersField, parseLayers } from "../layers.js";
import { defineMethod } from "../method.js";
import type { Operand, OperandTensor } from "../operand.js";
import { type Parameter, resolveParameter } from "../parameter.js";

const slice = z.strictObject({
  model: sourceField("the model of the slice"),
  layers: layersField.optional().describe("its layers, such as `0-15`; default all"),
  scale: weightField.optional().describe("what its tensors are multiplied by; default 1"),
});

const schema = z.strictObject({
  method: z.literal("passthrough"),
  slices: z
    .array(slice)
    .min(1, "must name at least one slice")
    .describe("layers of models, one slice after the other, from the input to the output"),
});

export const passthrough = defineMethod({
  name: "passthrough",
  title: "Passthrough",
  summary: "Layers of one or several models put one after the other, repeated or left out.",
  formula:
    "layer l of the result = layer of the l-th place in the slices; embedding of the first slice's model, final norm and head of the last's",
  reference: "Kim et al., 2023, arXiv 2312.15166 (depth up-scaling); mergekit, method passthrough",
  tag: "passthrough",
  schema,
  example: {
    method: "passthrough",
    slices: [
      { model: "math-expert", layers: "0-11" },
      { model: "math-expert", layers: "4-15" },
    ],
  },
  tensors: ({ slices }, { models }) => {
    const tensors = new Map<string, OperandTensor>();
    const first = models[0] as Operand;
    const last = models.at(-1) as Operand;
    for (const [name, tensor] of first.tensors) {
      if (tensor.layer !== null) continue;
      const owner = tensor.part === "final_norm" || tensor.part === "lm_head" ? last : first;
      const found = owner.tensors.get(name);
      if (found)
        tensors.set(name, {
          ...scaled(found, name, slices, owner === first ? 0 : slices.length - 1, owner),
          origin: [owner.label],
        });
    }
    const layerOrder: number[] = [];
    slices.forEach(({ layers: written = "all" }, i) => {
      const model = models[i] as Operand;
      const chosen = inWrittenOrder(written, model.layers, `slices[${i}].layers`);
      for (const layer of chosen) {
        for (const [name, tensor] of model.tensors) {
          if (tensor.layer !== layer) continue;
          const place = layerOrder.length;
          const moved = { ...scaled(tensor, name, slices, i, model), layer: place, origin: [model.label] };
          tensors.set(renumber(name, layer, place, model), moved);
        }
        layerOrder.push(model.layerOrder?.[layer] ?? layer);
      }
    });
    return { tensors, layerOrder };
  },
  headline: ({ slices }) => `Passthrough of ${plural(slices.length, "slice")}`,
  describe: ({ slices }, name, layers) =>
    `${layers} layers in ${plural(slices.length, "slice")}: ${slices
      .map(({ layers: written = "all" }, i) => `${name(`slices[${i}]`)} ${[written].flat().join(",")}`)
      .join("; ")}.`,
});

function inWrittenOrder(written: z.output<typeof layersField>, layers: number, field: string): number[] {
  return [written].flat().flatMap((entry) => [...parseLayers(entry, layers, field)]);
}

function scaled(
  tensor: OperandTensor,
  name: string,
  slices: readonly { readonly scale?: Parameter | undefined }[],
  slice: number,
  model: Operand,
): OperandTensor {
  const scale = resolveParameter(slices[slice]?.scale, 1, `slices[${slice}].scale`, model)(name);
  const value: Value = scale === 1 ? tensor.value : { sum: [{ weight: scale, value: tensor.value }] };
  return { ...tensor, value };
}

/** A tensor's name with the number of another layer. */
function renumber(name: string, from: number, to: number, { lead, label }: Operand): string {
  const prefix = lead.checkpoint.layerPrefix;
  const start = `${prefix}${from}.`;
  if (name.startsWith(start)) return `${prefix}${to}.${name.slice(start.length)}`;
  throw new RecipeError(`${name} of ${label} does not carry its layer's number after ${prefix}, so it cannot be moved`);
}
