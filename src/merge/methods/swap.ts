// Layer swapping: bottom and top layers from the language expert, the middle from the task expert, averages elsewhere.
// Bandarkar et al., ICLR 2025, arXiv 2410.01335, algorithm 1.

import { z } from "zod";
import { RecipeError } from "../../kit/index.js";
import { formatRanges, plural } from "../../kit/printing/index.js";
import { sumOfWeights, type Weight } from "../../tensor/expressions/index.js";
import { type LayerOwner, ownerOfLayer, presetLayers, type SwapLayers } from "../layer-owner.js";
import { inverseMagnitude } from "./inverse-magnitude.js";
import { layersField, parseLayers } from "./layers.js";
import { defineMethod, type Operands, sourceField, type Warning, weightField } from "./method.js";
import { average, copyTensor, layersOf, type OperandTensor, type PlanContext, requireBase } from "./operand.js";
import { isOfPart, requireParts, resolveParameter } from "./parameter.js";

const layerCount = z.int("must be a whole number").min(0, "must not be negative");

const fields = () => ({
  task: sourceField("expert that gives the middle layers"),
  language: sourceField("expert that gives the bottom and top layers"),
  base: sourceField(
    "model that both were fine-tuned from; required for `weights: magnitude` and for `budget`",
  ).optional(),
  bottom: layerCount
    .optional()
    .describe(
      "layers from `language` at the input; default in proportion to 5 of 32, and at least 1 where the model has 2",
    ),
  top: layerCount.optional().describe("layers from `language` at the output; default in proportion to 2 of 32"),
  bottom_transition: layerCount
    .optional()
    .describe("layers averaged above the bottom ones; default 0, or the preset's"),
  top_transition: layerCount.optional().describe("layers averaged below the top ones; default 0, or the preset's"),
  preset: z
    .enum(["paper-smallest", "paper-default", "paper-largest"])
    .optional()
    .describe(
      "configuration of the paper, in proportion to 32 layers: bottom 3, top 0; bottom 5, top 2; or bottom 5, top 2 and transitions of 2; other counts override it",
    ),
  layers: z
    .strictObject(
      {
        language: layersField
          .optional()
          .describe("layers taken from `language`, such as 0-4,30-31, instead of `bottom` and `top`"),
        average: layersField.optional().describe("layers averaged; the task expert gives the others"),
      },
      {
        error: ({ code }) =>
          code === "invalid_type" ? "must be a mapping such as { language: 0-4,30-31 }" : undefined,
      },
    )
    .optional()
    .describe("lists layers one by one, instead of bottom and top; layers not listed come from the task expert"),
  weights: z
    .union([z.enum(["equal", "magnitude"]), z.tuple([weightField, weightField])], {
      error: "must be equal, magnitude, or two weights [task, language]",
    })
    .default("equal")
    .describe("weights of averages: `equal`, `magnitude` (the inverse size of each change), or `[task, language]`"),
  outside: z
    .enum(["average", "task", "language"])
    .default("average")
    .describe(
      "source of tensors outside the layers; blocks that predict further tokens (part `mtp`) come from the owner of the last layer",
    ),
  norms: z
    .literal("outside")
    .optional()
    .describe(
      "`outside`: take the norms of every layer as tensors outside the layers, as algorithm 1 reads literally; default: norms go with their layer",
    ),
  parts: z
    .union([z.string(), z.array(z.string()).min(1, "must name at least one part")])
    .default("all")
    .describe(
      "parts to take from a swapped layer: `all`, `attention`, `mlp`, or a list such as `[q_proj, k_proj]`; norms go with the half they serve, and the task expert gives the rest",
    ),
});

export type SwapRecipe = z.output<z.ZodObject<ReturnType<typeof fields>>>;

export const swap = defineMethod({
  name: "swap",
  title: "Layer swap",
  summary:
    "Takes bottom and top layers from the language expert and the middle from the task expert; averages the rest.",
  formula:
    "l < b or l > L - 1 - u: theta_language; b + t_b <= l <= L - 1 - u - t_u: theta_task; else, and outside: (w_task theta_task + w_language theta_language) / (w_task + w_language)",
  reference:
    'Bandarkar et al., ICLR 2025, arXiv 2410.01335, algorithm 1, whose two bounds of the middle are joined by "and", as in the paper\'s text; the algorithm prints "or". Norms inside layers go with their layer; read literally, it averages them, which `norms: outside` does',
  tag: "layer-swap",
  fields,
  example: { method: "swap", task: "math-expert", language: "swahili-expert", bottom: 3, top: 1 },
  complete: (recipe, layers) => {
    if (recipe.layers || layers === 0) return recipe;
    const { preset: _, ...rest } = recipe;
    return { ...rest, ...swapLayers(recipe, layers) };
  },
  warn: warnOfSwapped,
  tensors: swapTensors,
  headline: ({ bottom, top, bottom_transition, top_transition, layers, parts, norms }) =>
    (layers
      ? `Layer swap: layers ${describeLayers(layers)}`
      : `Layer swap: bottom ${bottom}, top ${top}, bottom transition ${bottom_transition}, top transition ${top_transition}`) +
    (parts === "all" ? "" : `, ${[parts].flat().join(", ")} only`) +
    (norms === undefined ? "" : ", norms outside"),
  describe: (recipe, name, layers) =>
    `A layer swap of ${layers} layers: ${swapInWords(recipe, (field) => `the ${field} expert ${name(field)}`, layers)}.`,
  weighting: ({ weights }) => {
    if (typeof weights === "string") return "equally";
    const [task, language] = weights.map((weight) =>
      typeof weight === "number" ? String(weight) : "by layer or part",
    );
    return `task ${task}, language ${language}`;
  },
});

function describeLayers({ language, average: averaged }: NonNullable<SwapRecipe["layers"]>): string {
  const write = (layers: typeof language) => (Array.isArray(layers) ? layers.join(",") : String(layers ?? "none"));
  return write(language) + (averaged === undefined ? "" : ` (averaged: ${write(averaged)})`);
}

/** `layers 0-1 from swahili, layers 2-7 from math, embeddings and output from the average of both` */
export function swapInWords(recipe: SwapRecipe, name: (field: "task" | "language") => string, layers: number): string {
  const owners = [...swapOwners(recipe, layers).entries()];
  const parts = [recipe.parts].flat();
  const of = parts.includes("all") ? "" : `${parts.join(", ")} of `;
  return (["language", "task", "average"] as const)
    .flatMap((owner) => {
      const own = owners.flatMap(([layer, one]) => (one === owner ? [layer] : []));
      const inLayers = `${own.length === 1 ? "layer" : "layers"} ${formatRanges(own)}`;
      const what = [
        ...(own.length === 0 ? [] : [owner === "task" ? inLayers : `${of}${inLayers}`]),
        ...(owner === "task" && of !== "" && own.length < layers ? ["all other parts"] : []),
        ...(owner === recipe.outside ? [recipe.norms ? "norms, embeddings and output" : "embeddings and output"] : []),
      ];
      return what.length === 0
        ? []
        : [`${what.join(" and ")} from ${owner === "average" ? "the average of both" : name(owner)}`];
    })
    .join(", ");
}

/** Fills in the defaults for a depth. @throws RecipeError if the counts exceed the depth */
function swapLayers(recipe: SwapRecipe, layers: number): SwapLayers {
  const defaults = presetLayers(layers, recipe.preset);
  const { bottom = defaults.bottom, top = defaults.top } = recipe;
  const { bottom_transition = defaults.bottom_transition, top_transition = defaults.top_transition } = recipe;
  const sum = bottom + bottom_transition + top_transition + top;
  if (sum > layers) {
    throw RecipeError.at(
      { field: "bottom", expected: `at most ${layers}`, actual: String(sum) },
      `bottom ${bottom} + bottom_transition ${bottom_transition} + top_transition ${top_transition} + top ${top} ` +
        `is ${sum}, more than the ${layers} layers of the model; choose fewer`,
    );
  }
  return { bottom, top, bottom_transition, top_transition };
}

/** Owner of each layer. @throws RecipeError if the model has fewer layers than the recipe names */
export function swapOwners(recipe: SwapRecipe, layers: number): LayerOwner[] {
  const { layers: named } = recipe;
  const all = Array.from({ length: layers }, (_, layer) => layer);
  if (!named) {
    const counts = swapLayers(recipe, layers);
    return all.map((layer) => ownerOfLayer(layer, layers, counts));
  }
  const { bottom, top, preset, bottom_transition = 0, top_transition = 0 } = recipe;
  if ([bottom, top, preset].some((count) => count !== undefined) || bottom_transition + top_transition > 0) {
    throw RecipeError.at(
      { field: "layers" },
      "layers cannot be combined with bottom, top, transitions or a preset. Remove one of them.",
    );
  }
  const set = (field: "language" | "average") =>
    named[field] === undefined ? new Set<number>() : parseLayers(named[field], layers, `layers.${field}`);
  const [language, averaged] = [set("language"), set("average")];
  const both = [...language].filter((layer) => averaged.has(layer));
  if (both.length > 0) {
    throw RecipeError.at(
      { field: "layers.average" },
      `layers: ${formatRanges(both)} is listed as both language and average. Choose one.`,
    );
  }
  return all.map((layer) => (language.has(layer) ? "language" : averaged.has(layer) ? "average" : "task"));
}

/** Beyond the error of a sample. */
const SURELY_MORE = 1.1;

/** Notes experts that look swapped: the language expert changed most of the task expert's layers more. */
function warnOfSwapped(
  recipe: SwapRecipe,
  layers: number,
  changeIn: (field: "task" | "language", layer: number) => number | undefined,
): Warning | undefined {
  const owners = layers > 0 ? swapOwners(recipe, layers) : [];
  const middle = owners.flatMap((owner, layer) => (owner === "task" ? [layer] : []));
  const changes = middle.map((layer) => [changeIn("task", layer), changeIn("language", layer)] as const);
  const known = changes.filter((pair): pair is [number, number] => !pair.includes(undefined));
  if (known.length === 0) return undefined;
  const byLanguage = known.filter(([task, language]) => language > SURELY_MORE * task).length;
  if (byLanguage <= middle.length / 2) return { notes: [] };
  const note = `of ${plural(middle.length, "layer")} from task, language changed ${byLanguage} more than task did; check that the experts are not swapped`;
  return { notes: [note], suspicion: { byLanguage, layers: middle.length } };
}

function swapTensors(recipe: SwapRecipe, sources: Operands, context: PlanContext): Map<string, OperandTensor> {
  const operands = { task: sources.get("task"), language: sources.get("language") };
  const { task, language } = operands;
  const ownerOf = swapOwners(recipe, layersOf(task));
  const parts = [recipe.parts].flat();
  if (!parts.includes("all")) requireParts(parts, "parts", task);
  const isSwapped = (tensor: OperandTensor) => parts.some((part) => part === "all" || isOfPart(tensor, part));

  let weights: ((name: string) => readonly [Weight, Weight]) | undefined;
  const averaged = (name: string) => {
    // Requested only if something is averaged: a magnitude needs a pass over both experts.
    weights ??= swapWeights(recipe, sources, context);
    const [taskWeight, languageWeight] = weights(name);
    const terms = [
      { operand: task, weight: taskWeight },
      { operand: language, weight: languageWeight },
    ];
    return average(name, terms, context);
  };
  const tensors = new Map<string, OperandTensor>();
  for (const [name, tensor] of task.tensors) {
    const { layer, part } = tensor;
    let owner: "task" | "language" | "average" = "task";
    if (part === "mtp") owner = ownerOf.at(-1) ?? "task";
    else if (layer === null || (recipe.norms && part.endsWith("_norm"))) owner = recipe.outside;
    else if (isSwapped(tensor)) owner = ownerOf[layer] ?? "task";
    tensors.set(name, owner === "average" ? averaged(name) : copyTensor(name, operands[owner]));
  }
  return tensors;
}

function swapWeights(
  recipe: SwapRecipe,
  sources: Operands,
  context: PlanContext,
): (name: string) => readonly [Weight, Weight] {
  const [task, language] = [sources.get("task"), sources.get("language")];
  if (recipe.weights === "equal") return () => [1, 1];
  if (recipe.weights === "magnitude") {
    const base = requireBase(sources.base, "weights by magnitude need");
    const found: [Weight, Weight] = [inverseMagnitude(task, base, context), inverseMagnitude(language, base, context)];
    return () => found;
  }
  const [ofTask, ofLanguage] = recipe.weights.map((weight, i) => resolveParameter(weight, 1, `weights[${i}]`, task));
  return (name) => {
    const pair = [ofTask?.(name) ?? 0, ofLanguage?.(name) ?? 0] as const;
    if (sumOfWeights(pair) === 0) {
      throw RecipeError.at(
        { field: "weights", tensor: name },
        "weights sum to zero, so the average is undefined. Choose weights with a nonzero sum.",
      );
    }
    return pair;
  };
}
