// Passthrough: stacks layers of one or more models in any order; averages nothing.

import { z } from "zod";
import { groupBy, RecipeError } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import { layersField, listLayers } from "./layers.js";
import { SIZE, type SliceMerge } from "./mergekit.js";
import { defineMethod, MAX_SOURCES, type SourceRecipe, sourceField, weightField } from "./method.js";
import { layersOf, type Operand, type OperandTensor } from "./operand.js";
import { resolveParameter } from "./parameter.js";

const slice = () =>
  z.strictObject({
    model: sourceField("model of the slice"),
    layers: layersField.optional().describe("layers to take, such as `0-15`; default all"),
    scale: weightField.optional().describe("factor for its tensors; default 1"),
  });

export const passthrough = defineMethod({
  name: "passthrough",
  title: "Passthrough",
  summary: "Stacks layers of one or more models in any order; layers may repeat or be left out.",
  formula:
    "layer l of the result = layer of the l-th place in the slices; embedding of the first slice's model; final norm, head and blocks that predict further tokens of the last's, numbered after the layers",
  reference: "Kim et al., 2023, arXiv 2312.15166 (depth up-scaling); mergekit, method passthrough",
  mergekit: { own: ["scale"], common: [], isRounded: false, make: fromMergekit },
  fields: () => ({
    slices: z
      .array(slice())
      .min(1, "must name at least one slice")
      .max(MAX_SOURCES, `must name at most ${MAX_SOURCES} slices`)
      .describe(
        "slices of models in order from the input to the output; config.json says the kind of each layer (attention, window, experts), and a stack that its family cannot describe is refused",
      ),
  }),
  stacks: true,
  example: {
    method: "passthrough",
    slices: [
      { model: "math-expert", layers: "0-5" },
      { model: "math-expert", layers: "2-7" },
    ],
  },
  tensors: ({ slices }, { models }) => {
    const tensors = new Map<string, OperandTensor>();
    const scaled = models.map((model, i) => {
      const scale = resolveParameter(slices[i]?.scale, 1, `slices[${i}].scale`, model);
      return (name: string, tensor: OperandTensor): OperandTensor => {
        const value = scale(name) === 1 ? tensor.value : { sum: [{ weight: scale(name), value: tensor.value }] };
        return { ...tensor, value, origin: [model.label] };
      };
    });
    const depth = slices.reduce((sum, { layers: written = "all" }, i) => {
      const model = models[i] as Operand;
      return sum + listLayers(written, layersOf(model), `slices[${i}].layers`).length;
    }, 0);
    for (const [i, model] of models.entries()) {
      for (const [name, tensor] of model.tensors) {
        if (tensor.layer !== null) continue;
        // The embedding is the first model's, what follows the layers the last one's; each may have what others lack.
        const isAtEnd = ["final_norm", "lm_head", "mtp", "module"].includes(tensor.part);
        const output = tensor.part === "mtp" ? renumberBlock(name, depth, model) : name;
        const scale = scaled[i];
        if (scale && (isAtEnd || !tensors.has(output))) tensors.set(output, scale(name, tensor));
      }
    }
    const layerOrder: number[] = [];
    slices.forEach(({ layers: written = "all" }, i) => {
      const model = models[i] as Operand;
      const byLayer = groupBy([...model.tensors], ([, tensor]) => tensor.layer);
      for (const layer of listLayers(written, layersOf(model), `slices[${i}].layers`)) {
        const place = layerOrder.length;
        for (const [name, tensor] of byLayer.get(layer) ?? []) {
          const moved = scaled[i]?.(name, tensor) ?? tensor;
          tensors.set(renumber(name, layer, place, model), { ...moved, layer: place });
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

/** Moves a block that predicts further tokens behind the last of `depth` layers, where it is stored as one of them. */
function renumberBlock(name: string, depth: number, model: Operand): string {
  const prefix = model.lead.checkpoint.layerPrefix;
  const number = name.startsWith(prefix) ? /^\d+/.exec(name.slice(prefix.length))?.[0] : undefined;
  return number === undefined ? name : renumber(name, Number(number), depth + Number(number) - model.layers, model);
}

/** Replaces the layer number in a tensor's name. */
function renumber(name: string, from: number, to: number, { lead, label }: Operand): string {
  const prefix = lead.checkpoint.layerPrefix;
  const start = `${prefix}${from}.`;
  if (name.startsWith(start)) return `${prefix}${to}.${name.slice(start.length)}`;
  throw new RecipeError(`${name} of ${label} has no layer number after ${prefix}, so it cannot be moved`);
}

/** One slice of a configuration of mergekit. */
function fromMergekit(slice: SliceMerge): SourceRecipe | undefined {
  const { models, own } = slice;
  const [only] = models;
  const scales = models.map((model) => own(model, { name: "scale", fallback: 1, range: SIZE }));
  if (!only || models.length > 1) return slice.problem("passthrough takes one model per slice");
  const [scale = 1] = scales;
  return scale === 1 ? only.recipe : { method: "passthrough", slices: [{ model: only.recipe, scale }] };
}
