// Recipes as code writes them. Written by npm run docs from the schemas. Change the schemas, not this file.

import type { RecipeInput } from "../merge/index.js";

/**
 * A model to merge: a folder, `FOLDER+ADAPTER`, the name of a model in the hub's local cache such as
 * `meta-llama/Llama-3.1-8B`, or a recipe, whose result is computed on the fly.
 */
export type Source = string | MergeRecipe | RecipeInput;

/** Layers: a number, text such as `0-4, 30-31` or `all`, or a list of both. The input is layer 0. */
export type LayerSelection = number | string | readonly (number | string)[];

/** Values at evenly spaced layers, interpolated linearly in between; `outside` is the value outside the layers. */
export interface Gradient {
  /** Values from the input to the output, at least one. */
  readonly gradient: readonly number[];
  /** Value outside the layers. Default: the value of the field where it is not given. */
  readonly outside?: number | undefined;
}

/** A value for some tensors. Tensors must match all of `layers`, `parts` and `tensors` that are given. */
export interface ParameterRule {
  /** Layers it holds for. Default: all. */
  readonly layers?: LayerSelection | undefined;
  /** Parts it holds for, such as `attention`, `mlp` or `q_proj`. Default: all. */
  readonly parts?: string | readonly string[] | undefined;
  /** Pattern of tensor names it holds for, with `*` for any text. Default: all. */
  readonly tensors?: string | undefined;
  /** The value. */
  readonly value: number | readonly number[] | Gradient;
}

/** A number, one number per layer, a gradient over the layers, or rules, of which the first that matches holds. */
export type Parameter = number | readonly number[] | Gradient | ParameterRule | readonly ParameterRule[];

/** Fields of every recipe, which say how the result is written. A recipe within a recipe has none of them. */
export interface OutputFields {
  /** Element type of the result; `keep`: every tensor keeps the dtype it has in the sources. Default: `"keep"`. */
  readonly dtype?: "keep" | "bfloat16" | "float16" | "float32" | undefined;
  /** Largest weight file; default 5GB. */
  readonly shardSize?: string | number | undefined;
  /** Where vocabularies differ: the source (such as `task` or `language`) whose tokens and rows the result has, or `union`; default: they must agree. */
  readonly vocabulary?: string | undefined;
  /** Source whose tokenizer, chat template and generation configuration are copied; default the task expert, or the first model. */
  readonly tokenizerFrom?: string | undefined;
}

/** Bottom and top layers from the language expert, the middle from the task expert, averages between and outside. */
export interface SwapRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "swap";
  /** The expert whose middle layers are kept. */
  readonly task: Source;
  /** The expert whose bottom and top layers are taken. */
  readonly language: Source;
  /** The model both were fine-tuned from; needed for `weights: magnitude`. */
  readonly base?: Source | undefined;
  /** Layers taken from `language` at the input; default 5 of 32, in proportion, at least one if there are two layers or more. */
  readonly bottom?: number | undefined;
  /** Layers taken from `language` at the output; default 2 of 32, in proportion. */
  readonly top?: number | undefined;
  /** Layers averaged above the bottom ones. Default: `0`. */
  readonly bottomTransition?: number | undefined;
  /** Layers averaged below the top ones. Default: `0`. */
  readonly topTransition?: number | undefined;
  /** Layers named one by one, in place of bottom and top; those not named are the task expert's. */
  readonly layers?: {
    /** Layers taken from `language`. */
    readonly language?: LayerSelection | undefined;
    /** Layers averaged. */
    readonly average?: LayerSelection | undefined;
  } | undefined;
  /** Of averages: `equal`, `magnitude` (by the inverse size of the change), or `[task, language]`. Default: `"equal"`. */
  readonly weights?: "equal" | "magnitude" | readonly [Parameter, Parameter] | undefined;
  /** Where tensors in no layer come from. Default: `"average"`. */
  readonly outside?: "average" | "task" | "language" | undefined;
  /** What is taken of a swapped layer: `all`, `attention`, `mlp`, or parts such as `[q_proj, k_proj]`; norms go with the half they serve, the rest stays the task expert's. Default: `"all"`. */
  readonly parts?: string | readonly string[] | undefined;
}

/** Each layer or module from the expert for which it holds the larger share of the change, else a blend. */
export interface ShareSwapRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "share_swap";
  /** The task expert. */
  readonly task: Source;
  /** The language expert. */
  readonly language: Source;
  /** The model both were fine-tuned from. */
  readonly base: Source;
  /** What is decided as one: a layer, or the attention and the feed-forward of each layer by themselves. Default: `"module"`. */
  readonly by?: "layer" | "module" | undefined;
  /** Difference of shares from which one expert owns the whole. Default: `0.001`. */
  readonly tau?: number | undefined;
  /** The task expert's weight in a blend. Default: `0.5`. */
  readonly alpha?: number | undefined;
  /** Where tensors in no layer come from. Default: `"average"`. */
  readonly outside?: "average" | "task" | "language" | undefined;
}

/** Each layer or module from the expert for which it holds the largest share of the change. */
export interface DominantRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "dominant";
  /** The experts. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
  } | Source)[];
  /** The model all were fine-tuned from. */
  readonly base: Source;
  /** What has one owner: a layer, or the attention and the feed-forward of each layer by themselves. Default: `"layer"`. */
  readonly by?: "layer" | "module" | undefined;
  /** Tensors in no layer: averaged, or those of the first model. Default: `"average"`. */
  readonly outside?: "average" | "first" | undefined;
}

/** Part of an expert goes back to the base: layers, parts, or the rows that changed little. */
export interface RevertRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "revert";
  /** The expert of which a part goes back. */
  readonly expert: Source;
  /** The model that it was fine-tuned from. */
  readonly base: Source;
  /** Layers that go back; default all, and the tensors outside. */
  readonly layers?: LayerSelection | undefined;
  /** Parts that go back, such as `attention`, `mlp`, `outside` or `[q_proj, k_proj]`; default all. */
  readonly parts?: string | readonly string[] | undefined;
  /** Of those, only rows whose mean absolute change is below this; default whole tensors. */
  readonly rowsBelow?: number | undefined;
  /** What a row is: an input feature, or an output feature. Default: `"input"`. */
  readonly rows?: "input" | "output" | undefined;
  /** The complement: what is chosen stays the expert's, all else goes back. Default: `false`. */
  readonly keep?: boolean | undefined;
}

/** Layers of one or several models put one after the other, repeated or left out. */
export interface PassthroughRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "passthrough";
  /** Layers of models, one slice after the other, from the input to the output. */
  readonly slices: readonly ({
    /** The model of the slice. */
    readonly model: Source;
    /** Its layers, such as `0-15`; default all. */
    readonly layers?: LayerSelection | undefined;
    /** What its tensors are multiplied by; default 1. */
    readonly scale?: Parameter | undefined;
  })[];
}

/** The average of several models: uniform, weighted, or by the inverse magnitude of their change. */
export interface SoupRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "soup";
  /** The models to average. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
    /** Its share in the average; default 1. */
    readonly weight?: Parameter | undefined;
  } | Source)[];
  /** The model all were fine-tuned from; needed for `weights: magnitude`. */
  readonly base?: Source | undefined;
  /** `equal` leaves the weights to the models; `magnitude` finds them from the size of each model's change. Default: `"equal"`. */
  readonly weights?: "equal" | "magnitude" | undefined;
  /** Divide by the sum of the weights; false: a weighted sum. Default: `true`. */
  readonly normalize?: boolean | undefined;
}

/** Two models, each tensor turned from the first towards the second along the arc between them. */
export interface SlerpRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "slerp";
  /** Two models. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
  } | Source)[];
  /** How far to go from the first model (0) to the second (1). */
  readonly t: Parameter;
}

/** SLERP of two models by weights, or of their changes from a base; of whole tensors or row by row. */
export interface NuslerpRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "nuslerp";
  /** Two models. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
    /** Its share of the way. */
    readonly weight: Parameter;
  } | Source)[];
  /** A model from which changes are taken; the changes are then interpolated, not the models. */
  readonly base?: Source | undefined;
  /** Interpolate each stored row by itself, not the flattened tensor. Default: `false`. */
  readonly rows?: boolean | undefined;
}

/** Each element of one model moved towards another's by at most a step; where they are near, it becomes it. */
export interface NearswapRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "nearswap";
  /** The model that is moved. */
  readonly task: Source;
  /** The model that it is moved towards. */
  readonly language: Source;
  /** The step: an element goes this far at most. */
  readonly t: Parameter;
}

/** The experts' changes, added up and added to the base. */
export interface TaskArithmeticRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "task_arithmetic";
  /** The experts. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
    /** What its change is multiplied by; default 1. */
    readonly weight?: Parameter | undefined;
  } | Source)[];
  /** The model all were fine-tuned from. */
  readonly base: Source;
  /** What the merged change is multiplied by. Default: `1`. */
  readonly lambda?: Parameter | undefined;
  /** Divide the sum of the changes by the sum of the weights. Default: `false`. */
  readonly normalize?: boolean | undefined;
}

/** The largest changes of each expert; per element a sign is elected, and the changes that have it averaged. */
export interface TiesRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "ties";
  /** The experts. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
    /** What its change is multiplied by; default 1. */
    readonly weight?: Parameter | undefined;
    /** Share of the changes that is kept, the largest ones. */
    readonly density?: Parameter | undefined;
  } | Source)[];
  /** The model all were fine-tuned from. */
  readonly base: Source;
  /** What the merged change is multiplied by. Default: `1`. */
  readonly lambda?: Parameter | undefined;
  /** Share of the changes that is kept, the largest ones. Default: `0.2`. */
  readonly density?: Parameter | undefined;
  /** What the share is of: all changes of a model together, as in the paper, or those of each tensor. Default: `"model"`. */
  readonly trim?: "model" | "tensor" | undefined;
  /** Average the changes that agree, by weight; false: add them up. Default: `true`. */
  readonly normalize?: boolean | undefined;
}

/** Drops changes at random, rescales the rest and adds them up. */
export interface DareLinearRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "dare_linear";
  /** The experts. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
    /** What its change is multiplied by; default 1. */
    readonly weight?: Parameter | undefined;
    /** Probability with which a change is kept. */
    readonly density?: Parameter | undefined;
  } | Source)[];
  /** The model all were fine-tuned from. */
  readonly base: Source;
  /** What the merged change is multiplied by. Default: `1`. */
  readonly lambda?: Parameter | undefined;
  /** Probability with which a change is kept. Default: `0.5`. */
  readonly density?: Parameter | undefined;
  /** Of what is kept: divided by the density (the paper), scaled to the L1 norm of the whole change, or left as it is. Default: `"density"`. */
  readonly rescale?: "density" | "norm" | "none" | undefined;
  /** Of the random choice; the same seed gives the same bytes. Default: `0`. */
  readonly seed?: number | undefined;
  /** Divide the sum of the changes by the sum of the weights. Default: `false`. */
  readonly normalize?: boolean | undefined;
}

/** Drops changes at random, rescales the rest and elects signs as TIES does. */
export interface DareTiesRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "dare_ties";
  /** The experts. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
    /** What its change is multiplied by; default 1. */
    readonly weight?: Parameter | undefined;
    /** Probability with which a change is kept. */
    readonly density?: Parameter | undefined;
  } | Source)[];
  /** The model all were fine-tuned from. */
  readonly base: Source;
  /** What the merged change is multiplied by. Default: `1`. */
  readonly lambda?: Parameter | undefined;
  /** Probability with which a change is kept. Default: `0.5`. */
  readonly density?: Parameter | undefined;
  /** Of what is kept: divided by the density (the paper), scaled to the L1 norm of the whole change, or left as it is. Default: `"density"`. */
  readonly rescale?: "density" | "norm" | "none" | undefined;
  /** Of the random choice; the same seed gives the same bytes. Default: `0`. */
  readonly seed?: number | undefined;
  /** Average the changes that agree, by weight; false: add them up. Default: `true`. */
  readonly normalize?: boolean | undefined;
}

/** Drops the largest and the small changes of each tensor and adds the rest up. */
export interface BreadcrumbsRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "breadcrumbs";
  /** The experts. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
    /** What its change is multiplied by; default 1. */
    readonly weight?: Parameter | undefined;
    /** Share of the changes that is kept, where gamma leaves so many. */
    readonly density?: Parameter | undefined;
    /** Share of the changes that is dropped from the top, the largest ones. */
    readonly gamma?: Parameter | undefined;
  } | Source)[];
  /** The model all were fine-tuned from. */
  readonly base: Source;
  /** What the merged change is multiplied by. Default: `1`. */
  readonly lambda?: Parameter | undefined;
  /** Share of the changes that is kept, where gamma leaves so many. Default: `1`. */
  readonly density?: Parameter | undefined;
  /** Share of the changes that is dropped from the top, the largest ones. Default: `0.01`. */
  readonly gamma?: Parameter | undefined;
  /** Divide the sum of the changes by the sum of the weights. Default: `false`. */
  readonly normalize?: boolean | undefined;
}

/** Drops the largest and the small changes of each tensor, then elects signs as TIES does. */
export interface BreadcrumbsTiesRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "breadcrumbs_ties";
  /** The experts. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
    /** What its change is multiplied by; default 1. */
    readonly weight?: Parameter | undefined;
    /** Share of the changes that is kept, where gamma leaves so many. */
    readonly density?: Parameter | undefined;
    /** Share of the changes that is dropped from the top, the largest ones. */
    readonly gamma?: Parameter | undefined;
  } | Source)[];
  /** The model all were fine-tuned from. */
  readonly base: Source;
  /** What the merged change is multiplied by. Default: `1`. */
  readonly lambda?: Parameter | undefined;
  /** Share of the changes that is kept, where gamma leaves so many. Default: `1`. */
  readonly density?: Parameter | undefined;
  /** Share of the changes that is dropped from the top, the largest ones. Default: `0.01`. */
  readonly gamma?: Parameter | undefined;
  /** Average the changes that agree, by weight; false: add them up. Default: `true`. */
  readonly normalize?: boolean | undefined;
}

/** Drops changes at random, larger ones less often, rescales the rest and adds them up. */
export interface DellaLinearRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "della_linear";
  /** The experts. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
    /** What its change is multiplied by; default 1. */
    readonly weight?: Parameter | undefined;
    /** Mean probability with which a change is kept. */
    readonly density?: Parameter | undefined;
    /** By how much that of a row's largest change is above the mean, and of its smallest below. */
    readonly epsilon?: Parameter | undefined;
  } | Source)[];
  /** The model all were fine-tuned from. */
  readonly base: Source;
  /** What the merged change is multiplied by. Default: `1`. */
  readonly lambda?: Parameter | undefined;
  /** Mean probability with which a change is kept. Default: `0.5`. */
  readonly density?: Parameter | undefined;
  /** By how much that of a row's largest change is above the mean, and of its smallest below. Default: `0.15`. */
  readonly epsilon?: Parameter | undefined;
  /** Of the random choice; the same seed gives the same bytes. Default: `0`. */
  readonly seed?: number | undefined;
  /** Divide the sum of the changes by the sum of the weights. Default: `false`. */
  readonly normalize?: boolean | undefined;
}

/** Drops changes at random, larger ones less often, rescales the rest and elects signs as TIES does. */
export interface DellaRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "della";
  /** The experts. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
    /** What its change is multiplied by; default 1. */
    readonly weight?: Parameter | undefined;
    /** Mean probability with which a change is kept. */
    readonly density?: Parameter | undefined;
    /** By how much that of a row's largest change is above the mean, and of its smallest below. */
    readonly epsilon?: Parameter | undefined;
  } | Source)[];
  /** The model all were fine-tuned from. */
  readonly base: Source;
  /** What the merged change is multiplied by. Default: `1`. */
  readonly lambda?: Parameter | undefined;
  /** Mean probability with which a change is kept. Default: `0.5`. */
  readonly density?: Parameter | undefined;
  /** By how much that of a row's largest change is above the mean, and of its smallest below. Default: `0.15`. */
  readonly epsilon?: Parameter | undefined;
  /** Of the random choice; the same seed gives the same bytes. Default: `0`. */
  readonly seed?: number | undefined;
  /** Average the changes that agree, by weight; false: add them up. Default: `true`. */
  readonly normalize?: boolean | undefined;
}

/** The average of the experts, drawn back to the base the more, the wider the angles between their changes. */
export interface ModelStockRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "model_stock";
  /** The experts. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
  } | Source)[];
  /** The model all were fine-tuned from. */
  readonly base: Source;
}

/** Elements on which the experts differ most, weighted by the size of the changes, minority signs left out. */
export interface SceRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "sce";
  /** The experts. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
  } | Source)[];
  /** The model all were fine-tuned from. */
  readonly base: Source;
  /** Share of the elements of a tensor, of those on which the experts differ at all, that is kept. Default: `1`. */
  readonly select?: Parameter | undefined;
  /** What the merged change is multiplied by. Default: `1`. */
  readonly lambda?: Parameter | undefined;
}

/** A merge of any method. `method` says which, and with it which fields there are. */
export type MergeRecipe =
  | SwapRecipe
  | ShareSwapRecipe
  | DominantRecipe
  | RevertRecipe
  | PassthroughRecipe
  | SoupRecipe
  | SlerpRecipe
  | NuslerpRecipe
  | NearswapRecipe
  | TaskArithmeticRecipe
  | TiesRecipe
  | DareLinearRecipe
  | DareTiesRecipe
  | BreadcrumbsRecipe
  | BreadcrumbsTiesRecipe
  | DellaLinearRecipe
  | DellaRecipe
  | ModelStockRecipe
  | SceRecipe;

/** The recipe of one method, such as `RecipeOf<"ties">`. */
export type RecipeOf<Method extends MergeRecipe["method"]> = Extract<MergeRecipe, { readonly method: Method }>;
