// Shuffle: takes each layer from a model drawn at random. The control for choices of layers.
import { z } from "zod";
import { Random, RecipeError } from "../../kit/index.js";
import { defineMethod, modelsField, parametersOf, seedField } from "./method.js";
import { copyTensor, layersOf, mean, type Operand } from "./operand.js";

export const shuffle = defineMethod({
  name: "shuffle",
  title: "Layer shuffle",
  summary: "Takes each layer from a model drawn at random: the control for a choice of layers.",
  formula:
    "layer l of theta_j with j drawn by the shares; with `layers`, that many layers at random from the others than the first",
  reference: "mergekit, mergekit-layershuffle; the random control of Bandarkar et al., ICLR 2025, arXiv 2410.01335",
  tag: "layer-swap",
  fields: () => ({
    models: modelsField(
      "the models",
      { share: z.number().min(0).default(1).describe("chance of a layer, beside the others'") },
      2,
    ),
    layers: z
      .int()
      .min(0)
      .optional()
      .describe("take exactly this many layers from the models after the first; default each layer by the shares"),
    outside: z
      .enum(["average", "first"])
      .default("average")
      .describe("tensors outside the layers: averaged, or from the first model"),
    seed: seedField,
  }),
  example: { method: "shuffle", models: ["math-expert", "swahili-expert"], layers: 2, seed: 1 },
  tensors: ({ models: entries, layers, outside, seed }, { models }, context) => {
    const [first] = models as [Operand];
    const depth = layersOf(first);
    if (layers !== undefined && layers > depth) {
      throw RecipeError.at({ field: "layers" }, `layers is ${layers}, but the models have ${depth}. Choose fewer.`);
    }
    const random = Random.of(seed, "shuffle");
    const shares = entries.map((entry) => parametersOf(entry as { model: string; share: number }).share ?? 1);
    const all = Array.from({ length: depth }, (_, layer) => layer);
    const taken = new Set(layers === undefined ? all : random.sample(all, layers));
    const owners = all.map((layer) =>
      taken.has(layer) ? draw(random, layers === undefined ? shares : shares.with(0, 0)) : 0,
    );
    return new Map(
      [...first.tensors].map(([name, { layer }]) => {
        const owner = layer === null ? 0 : (owners[layer] ?? 0);
        const isOwned = layer !== null || outside === "first";
        return [name, isOwned ? copyTensor(name, models[owner] ?? first) : mean(name, models, context)];
      }),
    );
  },
});

/** An index with a probability by its share. */
function draw(random: Random, shares: readonly number[]): number {
  let at = random.float() * shares.reduce((sum, share) => sum + share, 0);
  const found = shares.findIndex((share) => {
    at -= share;
    return at < 0;
  });
  return Math.max(0, found);
}
