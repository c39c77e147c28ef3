// Recipes as code writes them. Written by npm run docs from the schemas. Change the schemas, not this file.

import type { RecipeInput } from "../merge/index.js";

/**
 * A model to merge: a folder, `FOLDER+ADAPTER`, the name of a model on the hub such as
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
  /** Dtype of the result; `keep` leaves each tensor as it is in the sources. Default: `"keep"`. */
  readonly dtype?: "keep" | "bfloat16" | "float16" | "float32" | undefined;
  /** Form of the result: a whole `model`, or a PEFT `adapter` of the base that all sources share; default `model`. */
  readonly as?: "model" | "adapter" | undefined;
  /** Size limit of a weight file; default 5GB. */
  readonly shardSize?: string | number | undefined;
  /** If vocabularies differ: the source that gives the tokens and rows, such as `task`, or `union`; default an error. */
  readonly vocabulary?: string | undefined;
  /** Source of the tokenizer, chat template and generation configuration; default the task expert or the first model. */
  readonly tokenizerFrom?: string | undefined;
}

/** Takes bottom and top layers from the language expert and the middle from the task expert; averages the rest. */
export interface SwapRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "swap";
  /** Expert that gives the middle layers. */
  readonly task: Source;
  /** Expert that gives the bottom and top layers. */
  readonly language: Source;
  /** Model that both were fine-tuned from; required for `weights: magnitude`. */
  readonly base?: Source | undefined;
  /** Layers from `language` at the input; default in proportion to 5 of 32, and at least 1 where the model has 2. */
  readonly bottom?: number | undefined;
  /** Layers from `language` at the output; default in proportion to 2 of 32. */
  readonly top?: number | undefined;
  /** Layers averaged above the bottom ones. Default: `0`. */
  readonly bottomTransition?: number | undefined;
  /** Layers averaged below the top ones. Default: `0`. */
  readonly topTransition?: number | undefined;
  /** Lists layers one by one, instead of bottom and top; layers not listed come from the task expert. */
  readonly layers?: {
    /** Layers taken from `language`. */
    readonly language?: LayerSelection | undefined;
    /** Layers averaged. */
    readonly average?: LayerSelection | undefined;
  } | undefined;
  /** Weights of averages: `equal`, `magnitude` (the inverse size of each change), or `[task, language]`. Default: `"equal"`. */
  readonly weights?: "equal" | "magnitude" | readonly [Parameter, Parameter] | undefined;
  /** Where tensors outside the layers come from. Default: `"average"`. */
  readonly outside?: "average" | "task" | "language" | undefined;
  /** Parts to take from a swapped layer: `all`, `attention`, `mlp`, or a list such as `[q_proj, k_proj]`; norms go with the half they serve, and the task expert gives the rest. Default: `"all"`. */
  readonly parts?: string | readonly string[] | undefined;
}

/** Takes each layer or module from the expert that changed it most in proportion, or blends the two. */
export interface ShareSwapRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "share_swap";
  /** The task expert. */
  readonly task: Source;
  /** The language expert. */
  readonly language: Source;
  /** Model that both were fine-tuned from. */
  readonly base: Source;
  /** Unit to decide on: a whole layer, or its attention and its feed-forward separately. Default: `"module"`. */
  readonly by?: "layer" | "module" | undefined;
  /** Difference of shares above which one expert gives the whole unit. Default: `0.001`. */
  readonly tau?: number | undefined;
  /** Weight of the task expert where the two are blended or averaged. Default: `0.5`. */
  readonly alpha?: number | undefined;
  /** Source of tensors outside the layers; `average` weights the experts by `alpha`. Default: `"average"`. */
  readonly outside?: "average" | "task" | "language" | undefined;
}

/** Takes each layer or module from the expert that changed it most in proportion. */
export interface DominantRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "dominant";
  /** The experts. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
  } | Source)[];
  /** Model that all were fine-tuned from. */
  readonly base: Source;
  /** Unit to decide on: a whole layer, or its attention and its feed-forward separately. Default: `"layer"`. */
  readonly by?: "layer" | "module" | undefined;
  /** Tensors outside the layers: averaged, or from the first model. Default: `"average"`. */
  readonly outside?: "average" | "first" | undefined;
}

/** Restores part of an expert from its base: layers, parts, the rows that changed little, or all but a share. */
export interface RevertRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "revert";
  /** Expert to restore a part of. */
  readonly expert: Source;
  /** Model that it was fine-tuned from. */
  readonly base: Source;
  /** Layers to restore; default all layers and the tensors outside. */
  readonly layers?: LayerSelection | undefined;
  /** Parts to restore, such as `attention`, `mlp`, `outside` or `[q_proj, k_proj]`; default all. */
  readonly parts?: string | readonly string[] | undefined;
  /** Restore only rows with a mean absolute change below this; default whole tensors. */
  readonly rowsBelow?: number | undefined;
  /** A row is an input feature or an output feature. Default: `"input"`. */
  readonly rows?: "input" | "output" | undefined;
  /** Share of the chosen parameters, or layers, that stay the expert's; the rest is restored in the order of `from`. */
  readonly keepShare?: number | undefined;
  /** Keep_share: what is restored first, the rows that changed least (smallest, the default) or whole layers from the bottom, middle or top. */
  readonly from?: "smallest" | "bottom" | "middle" | "top" | undefined;
  /** Invert the choice: keep what is chosen and restore everything else. Default: `false`. */
  readonly keep?: boolean | undefined;
}

/** Stacks layers of one or more models in any order; layers may repeat or be left out. */
export interface PassthroughRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "passthrough";
  /** Slices of models in order from the input to the output. */
  readonly slices: readonly ({
    /** Model of the slice. */
    readonly model: Source;
    /** Layers to take, such as `0-15`; default all. */
    readonly layers?: LayerSelection | undefined;
    /** Factor for its tensors; default 1. */
    readonly scale?: Parameter | undefined;
  })[];
}

/** Averages models: uniformly, with weights, or by the inverse magnitude of their change. */
export interface SoupRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "soup";
  /** Models to average. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
    /** Weight in the average; default 1. */
    readonly weight?: Parameter | undefined;
  } | Source)[];
  /** Model that all were fine-tuned from; required for `weights: magnitude`. */
  readonly base?: Source | undefined;
  /** `equal` uses the weight of each model; `magnitude` measures weights from the size of its change. Default: `"equal"`. */
  readonly weights?: "equal" | "magnitude" | undefined;
  /** Divide by the sum of the weights; `false` gives a weighted sum. Default: `true`. */
  readonly normalize?: boolean | undefined;
}

/** Interpolates two models along the arc between their tensors. */
export interface SlerpRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "slerp";
  /** Two models. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
  } | Source)[];
  /** Position between the first model (0) and the second (1). */
  readonly t: Parameter;
}

/** SLERP by weights: of two models or of their changes from a base, by tensor or by row. */
export interface NuslerpRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "nuslerp";
  /** Two models. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
    /** Weight of the model. */
    readonly weight: Parameter;
  } | Source)[];
  /** Base to take changes from; interpolates the changes instead of the models. */
  readonly base?: Source | undefined;
  /** Interpolate each stored row separately instead of the flattened tensor. Default: `false`. */
  readonly rows?: boolean | undefined;
}

/** Moves each element of one model towards another model by at most a step. */
export interface NearswapRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "nearswap";
  /** Model to move. */
  readonly task: Source;
  /** Model to move towards. */
  readonly language: Source;
  /** Largest step of an element. */
  readonly t: Parameter;
}

/** Adds the experts' changes to the base. */
export interface TaskArithmeticRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "task_arithmetic";
  /** The experts. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
    /** Factor for its change; default 1. */
    readonly weight?: Parameter | undefined;
  } | Source)[];
  /** Model that all were fine-tuned from. */
  readonly base: Source;
  /** Factor for the merged change. Default: `1`. */
  readonly lambda?: Parameter | undefined;
  /** Divide the sum of the changes by the sum of the weights. Default: `false`. */
  readonly normalize?: boolean | undefined;
}

/** Keeps the largest changes of each expert, elects a sign per element and averages the changes that agree. */
export interface TiesRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "ties";
  /** The experts. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
    /** Factor for its change; default 1. */
    readonly weight?: Parameter | undefined;
    /** Share of the changes to keep, largest first. */
    readonly density?: Parameter | undefined;
  } | Source)[];
  /** Model that all were fine-tuned from. */
  readonly base: Source;
  /** Factor for the merged change. Default: `1`. */
  readonly lambda?: Parameter | undefined;
  /** Share of the changes to keep, largest first. Default: `0.2`. */
  readonly density?: Parameter | undefined;
  /** Rank changes over the whole model, as in the paper, or within each tensor. Default: `"model"`. */
  readonly trim?: "model" | "tensor" | undefined;
  /** Average the changes that agree, by weight; `false` adds them up. Default: `true`. */
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
    /** Factor for its change; default 1. */
    readonly weight?: Parameter | undefined;
    /** Probability of keeping a change. */
    readonly density?: Parameter | undefined;
  } | Source)[];
  /** Model that all were fine-tuned from. */
  readonly base: Source;
  /** Factor for the merged change. Default: `1`. */
  readonly lambda?: Parameter | undefined;
  /** Probability of keeping a change. Default: `0.5`. */
  readonly density?: Parameter | undefined;
  /** Rescale what is kept: divide by the density (the paper), match the L1 norm of the whole change, or leave it. Default: `"density"`. */
  readonly rescale?: "density" | "norm" | "none" | undefined;
  /** Random seed; the same seed gives the same bytes. Default: `0`. */
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
    /** Factor for its change; default 1. */
    readonly weight?: Parameter | undefined;
    /** Probability of keeping a change. */
    readonly density?: Parameter | undefined;
  } | Source)[];
  /** Model that all were fine-tuned from. */
  readonly base: Source;
  /** Factor for the merged change. Default: `1`. */
  readonly lambda?: Parameter | undefined;
  /** Probability of keeping a change. Default: `0.5`. */
  readonly density?: Parameter | undefined;
  /** Rescale what is kept: divide by the density (the paper), match the L1 norm of the whole change, or leave it. Default: `"density"`. */
  readonly rescale?: "density" | "norm" | "none" | undefined;
  /** Random seed; the same seed gives the same bytes. Default: `0`. */
  readonly seed?: number | undefined;
  /** Average the changes that agree, by weight; `false` adds them up. Default: `true`. */
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
    /** Factor for its change; default 1. */
    readonly weight?: Parameter | undefined;
    /** Share of the changes to keep. */
    readonly density?: Parameter | undefined;
    /** Share of the largest changes to drop; at most 1 - density. */
    readonly gamma?: Parameter | undefined;
  } | Source)[];
  /** Model that all were fine-tuned from. */
  readonly base: Source;
  /** Factor for the merged change. Default: `1`. */
  readonly lambda?: Parameter | undefined;
  /** Share of the changes to keep. Default: `1`. */
  readonly density?: Parameter | undefined;
  /** Share of the largest changes to drop; at most 1 - density. Default: `0.01`. */
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
    /** Factor for its change; default 1. */
    readonly weight?: Parameter | undefined;
    /** Share of the changes to keep. */
    readonly density?: Parameter | undefined;
    /** Share of the largest changes to drop; at most 1 - density. */
    readonly gamma?: Parameter | undefined;
  } | Source)[];
  /** Model that all were fine-tuned from. */
  readonly base: Source;
  /** Factor for the merged change. Default: `1`. */
  readonly lambda?: Parameter | undefined;
  /** Share of the changes to keep. Default: `1`. */
  readonly density?: Parameter | undefined;
  /** Share of the largest changes to drop; at most 1 - density. Default: `0.01`. */
  readonly gamma?: Parameter | undefined;
  /** Average the changes that agree, by weight; `false` adds them up. Default: `true`. */
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
    /** Factor for its change; default 1. */
    readonly weight?: Parameter | undefined;
    /** Mean probability of keeping a change. */
    readonly density?: Parameter | undefined;
    /** Difference from the mean probability of the largest and the smallest change of a row. */
    readonly epsilon?: Parameter | undefined;
  } | Source)[];
  /** Model that all were fine-tuned from. */
  readonly base: Source;
  /** Factor for the merged change. Default: `1`. */
  readonly lambda?: Parameter | undefined;
  /** Mean probability of keeping a change. Default: `0.5`. */
  readonly density?: Parameter | undefined;
  /** Difference from the mean probability of the largest and the smallest change of a row. Default: `0.15`. */
  readonly epsilon?: Parameter | undefined;
  /** Random seed; the same seed gives the same bytes. Default: `0`. */
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
    /** Factor for its change; default 1. */
    readonly weight?: Parameter | undefined;
    /** Mean probability of keeping a change. */
    readonly density?: Parameter | undefined;
    /** Difference from the mean probability of the largest and the smallest change of a row. */
    readonly epsilon?: Parameter | undefined;
  } | Source)[];
  /** Model that all were fine-tuned from. */
  readonly base: Source;
  /** Factor for the merged change. Default: `1`. */
  readonly lambda?: Parameter | undefined;
  /** Mean probability of keeping a change. Default: `0.5`. */
  readonly density?: Parameter | undefined;
  /** Difference from the mean probability of the largest and the smallest change of a row. Default: `0.15`. */
  readonly epsilon?: Parameter | undefined;
  /** Random seed; the same seed gives the same bytes. Default: `0`. */
  readonly seed?: number | undefined;
  /** Average the changes that agree, by weight; `false` adds them up. Default: `true`. */
  readonly normalize?: boolean | undefined;
}

/** Averages the experts and moves the average towards the base: further, the wider the angles between changes. */
export interface ModelStockRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "model_stock";
  /** The experts. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
  } | Source)[];
  /** Model that all were fine-tuned from. */
  readonly base: Source;
}

/** Keeps elements where experts differ most, weights experts by the size of their changes and drops minority signs. */
export interface SceRecipe extends OutputFields {
  /** Name of the method. */
  readonly method: "sce";
  /** The experts. */
  readonly models: readonly ({
    /** The model. */
    readonly model: Source;
  } | Source)[];
  /** Model that all were fine-tuned from. */
  readonly base: Source;
  /** Share of the elements to keep, of those where experts differ. Default: `1`. */
  readonly select?: Parameter | undefined;
  /** Factor for the merged change. Default: `1`. */
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
