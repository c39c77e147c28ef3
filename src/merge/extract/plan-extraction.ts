// Opens a base and a model to extract, pairs their tensors, and says what an extraction would do, from headers alone.

import type { SourceOptions } from "../../formats/checkpoint/index.js";
import { elementCount, isFloatDType, MismatchError, RecipeError, type Shape } from "../../kit/index.js";
import type { Value } from "../../tensor/expressions/index.js";
import type { StreamOptions } from "../../tensor/streaming/index.js";
import type { SourceRecipe } from "../methods/method.js";
import type { Operand, OperandTensor } from "../methods/operand.js";
import { matcher, matchesPattern } from "../methods/parameter.js";
import { OperandBuilder } from "../plan/operand-builder.js";
import { compareWeights } from "../plan/relatedness.js";
import { resolveSource } from "../recipe/inner-recipes.js";

export interface ExtractOptions extends StreamOptions, SourceOptions {
  /** The model that the adapter will be added to. */
  readonly base: string;
  /** The fine-tune or merge: a folder, `FOLDER+ADAPTER`, or a recipe, which is computed on the fly. */
  readonly model: SourceRecipe;
  /** Largest rank of a weight. Default: 64, or no limit if `energy` is given. */
  readonly rank?: number | undefined;
  /** Share of each weight's squared change to keep with the smallest rank, above 0 and at most 1. Default: none. */
  readonly energy?: number | undefined;
  /** Leave changed norms, biases and embeddings at the base's. Default: false, they are saved whole. */
  readonly linearOnly?: boolean | undefined;
  /** Names of tensors to extract, with `*` for any text. Default: all. */
  readonly include?: readonly string[] | undefined;
  /** Names of tensors to leave at the base's, with `*` for any text. Default: none. */
  readonly exclude?: readonly string[] | undefined;
  /** Modules to save whole in place of factors: names such as `lm_head`, or of tensors, with `*` for any text. Default: none. */
  readonly saveModules?: readonly string[] | undefined;
  /** Give the embedding factors, too, unless the head is tied to it. Default: false, it is saved whole. */
  readonly embedLora?: boolean | undefined;
  /** Seed of the decomposition. Default: 0. */
  readonly seed?: number | undefined;
  /** Maximum bytes of all buffers together. Default: 1 GB, or what the largest decomposition needs. */
  readonly memory?: number | undefined;
}

/** A tensor of the base, and the model's value of it. */
export interface Pair extends OperandTensor {
  readonly tensor: string;
  readonly model: OperandTensor;
}

export interface OpenedModels {
  readonly builder: OperandBuilder;
  readonly base: Operand;
  /** Name of the model. */
  readonly model: string;
  readonly linear: readonly Pair[];
  readonly others: readonly Pair[];
  readonly warnings: readonly string[];
}

/**
 * @throws RecipeError if a pattern matches no tensor, or the base has an adapter
 * @throws MismatchError if the models do not fit together
 */
export async function openModels(options: ExtractOptions): Promise<OpenedModels> {
  const { base, model, folder = ".", include = ["*"], exclude = [] } = options;
  const builder = new OperandBuilder(folder, options.hub);
  await builder.open(base, "base", { isBase: true });
  const { source, notes } = await resolveSource(model, folder);
  for (const note of notes) builder.note(note);
  await builder.open(source, "model");
  const root = builder.operand(base, "base");
  if (root.lead.checkpoint.adapter) {
    throw RecipeError.at(
      { field: "base" },
      `${base} is a base with an adapter, which no other adapter can be added to. Pass ${root.lead.checkpoint.folder} as the base, or write the sum to a folder first.`,
    );
  }
  await builder.requireCompatible(undefined, "extracted");
  const { unrelated } = await compareWeights(builder.sources, (label) => builder.isBase(label));
  const operand = builder.operand(source, "model");
  if (operand.layerOrder?.some((from, to) => from !== to)) {
    throw new MismatchError("an adapter cannot reorder layers:", [
      "the recipe stacks or reorders layers of its sources",
    ]);
  }
  for (const pattern of [...include, ...exclude]) matcher({ tensors: pattern }, "", root);
  const isAmong = (tensor: string, patterns: readonly string[]) => patterns.some((one) => matchesPattern(tensor, one));
  const { saveModules = [] } = options;
  const isOf = (name: string, tensor: string) =>
    matchesPattern(tensor, name) || `.${tensor}`.endsWith(`.${name}.weight`);
  for (const name of saveModules) {
    if ([...root.tensors.keys()].some((tensor) => isOf(name, tensor))) continue;
    throw RecipeError.at({ field: "saveModules" }, `${name} is not a module of the model. Name one such as lm_head.`);
  }
  const isWhole = ({ tensor }: Pair) => saveModules.some((name) => isOf(name, tensor));
  const isLookedUp = (pair: Pair) => options.embedLora === true && !root.lead.checkpoint.tied && isEmbedding(pair);
  const hasFactors = (pair: Pair) => (isLinear(pair) || isLookedUp(pair)) && !isWhole(pair);
  const pairs = [...root.tensors].flatMap(([tensor, own]): Pair[] => {
    if (!isAmong(tensor, include) || isAmong(tensor, exclude)) return [];
    const other = operand.tensors.get(tensor);
    const isNumber = other && isFloatDType(own.dtype) && isFloatDType(other.dtype) && elementCount(own.shape) > 0;
    return isNumber ? [{ ...own, tensor, model: other }] : [];
  });
  return {
    builder,
    base: root,
    warnings: unrelated,
    model: typeof source === "string" ? operand.lead.checkpoint.name : `a recipe (${source.method})`,
    linear: pairs.filter(hasFactors),
    others: pairs.filter((pair) => !hasFactors(pair)),
  };
}

// PEFT's linear modules: a router is a parameter in transformers 5, and an embedding is looked up.
function isLinear({ tensor, shape, layer, part }: Pair): boolean {
  const isRouter = part === "router" || part === "shared_expert_gate";
  return tensor.endsWith(".weight") && shape.length === 2 && (layer !== null || part === "lm_head") && !isRouter;
}

/** Whether a matrix has a row by token, whose factors PEFT names and turns otherwise. */
export const isEmbedding = ({ part }: Pick<Pair, "part">): boolean => part === "embed_tokens";

/** The model's value less the base's. */
export function changeOf({ value, model }: Pair): Value {
  return {
    sum: [
      { weight: 1, value: model.value },
      { weight: -1, value },
    ],
  };
}

/** The module of a linear weight. */
export function moduleOf(tensor: string): string {
  return tensor.replace(/\.weight$/, "");
}

/** Rank of the adapter if neither rank nor energy is given. */
export const DEFAULT_RANK = 64;

export interface ExtractionPlan {
  readonly base: string;
  readonly model: string;
  /** Linear weights that can get factors; the rank is null if it follows from `energy`. */
  readonly linear: readonly { readonly module: string; readonly shape: Shape; readonly rank: number | null }[];
  /** Tensors that factors cannot hold. */
  readonly others: readonly string[];
  /** Bytes of the factors if all linear weights changed; null if the ranks follow from `energy`. */
  readonly bytes: number | null;
}

/** The largest rank of a weight of this shape. */
export function mostRank({ rank, energy }: ExtractOptions, shape: Shape): number {
  return Math.min(rank ?? (energy === undefined ? DEFAULT_RANK : Number.POSITIVE_INFINITY), ...shape);
}

/**
 * Plans an extraction from headers.
 * @throws RecipeError if rank or energy is out of range, or the base has an adapter
 * @throws MismatchError if the models do not fit together
 */
export async function planExtraction(options: ExtractOptions): Promise<ExtractionPlan> {
  const { base, model, linear, others } = await openModels(options);
  const planned = linear.map(({ tensor, shape }) => ({
    module: moduleOf(tensor),
    shape,
    rank: options.energy === undefined ? mostRank(options, shape) : null,
  }));
  const bytes = planned.map(({ shape: [out = 0, input = 0], rank }) =>
    rank === null ? null : 4 * rank * (out + input),
  );
  return {
    base: base.lead.checkpoint.name,
    model,
    linear: planned,
    others: others.map(({ tensor }) => tensor),
    bytes: bytes.reduce((sum, one) => (sum === null || one === null ? null : sum + one), 0),
  };
}
