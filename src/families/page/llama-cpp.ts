// What a page says of llama.cpp: its name there, what its graph can and cannot compute, and how its files are read.
// Source: src/models/*.cpp, src/llama-model.cpp and conversion/*.py of ggml-org/llama.cpp, November 2026.
import type { Difference } from "./llama-differences.js";
import type { Activation, DecoderSpec, LayerSpec, RecurrenceSpec, RoutingSpec } from "./spec.js";

export type LinearRole = "q" | "k" | "v" | "o" | "gate" | "up" | "down" | "convolution";

/** A decoder graph of llama.cpp. */
export interface LlamaCpp {
  /** `general.architecture`. */
  readonly name: string;
  /** Whether it rotates neighbouring dimensions, so that rows of queries and keys are interleaved. */
  readonly interleaved?: boolean;
  /** Default silu. */
  readonly activation?: Activation;
  /** Projections that may have a bias; default none. */
  readonly biases?: readonly LinearRole[];
  /** Whether it also asks for the epsilon of the other kind of norms. Default false. */
  readonly bothEpsilons?: boolean;
  /** What it computes otherwise than models of the family may need, besides what follows from the rest. Default: nothing. */
  readonly differs?: readonly Difference[];
  /** Whether layers can have windows. Default false: it attends to all positions. */
  readonly windows?: boolean;
  /** Whether it reads another base of the rotation for layers with windows. Default false. */
  readonly localBase?: boolean;
  /** Whether it reads another width of heads for layers with windows. Default false. */
  readonly localHeads?: boolean;
  /** Whether it caps logits where a file does not say it, which a 0 turns off. Default false. */
  readonly capsLogits?: boolean;
  /** Whether it multiplies queries by a number that grows with their positions. Default false. */
  readonly growth?: boolean;
  /** Layers that it does not rotate. Default: none. */
  readonly unrotated?: (layer: LayerSpec, index: number, spec: DecoderSpec) => boolean;
  /** Whether the head must be a tensor of its own. Default false. */
  readonly ownHead?: boolean;
  /**
   * Whether it reads a divisor of each frequency of the rotation: one, or two for short and long contexts, or one in every
   * model, for layers without windows. Default none.
   */
  readonly ropeDivisors?: readonly ("one" | "two" | "always")[];
  /** Whether it rounds the range of pairs that YaRN blends, whatever the model says. Default false. */
  readonly roundsYarn?: boolean;
  /** Scales of embeddings, attention, residuals and logits that it reads; default none. */
  readonly scales?: readonly ("embedding" | "attention" | "residual" | "logit")[];
  /** Factor of embeddings that it computes itself; default 1. */
  readonly embeddingScale?: (spec: DecoderSpec) => number;
  /** Factor of scores that it computes itself; default headDim^-0.5. */
  readonly attentionScale?: (spec: DecoderSpec) => number;
  /** What replaces attention in some layers; default nothing. */
  readonly recurrence?: RecurrenceSpec["kind"];
  /** Whether it has the first value head of every key head, then the second, and so on. Default: those of a key head together. */
  readonly tiled?: boolean;
  /** Names of tensors by role, where they are not as usual. */
  readonly names?: Readonly<Partial<Record<"finalNorm" | "beforeFeedForward", string>>>;
  /** The role whose tensors' names do not end in `.weight`. Default: none. */
  readonly bare?: "beforeFeedForward";
  /** Whether projections that are stored as one stay one. Default false. */
  readonly fused?: boolean;
  /** Whether scales of embeddings and logits are multiplied into its tensors. Default false. */
  readonly folds?: boolean;
  /** How many pairs follow each axis of an image where the model does not say it. Default: it has no such axes. */
  readonly sections?: readonly number[];
  /** Whether its file says how many layers images are added to, as a vision tower beside it needs. Default false. */
  readonly deepstack?: boolean;
  /** Its mixture of experts. Default: it has none. */
  readonly experts?: LlamaCppExperts;
  /** How it merges characters of SentencePiece: as the tokenizer's merges say. Default: by the scores of tokens. */
  readonly tokenizer?: "gemma4";
  /** Another graph, of models of this family that have no recurrence, or that have experts. */
  readonly other?: { readonly of: "no recurrence" | "experts"; readonly graph: LlamaCpp };
  /** How its files read as the first of the family's `modelTypes`. Default: as another family of the same name in llama.cpp. */
  readonly read?: GgufReading;
}

/** A mixture of experts in llama.cpp. */
export interface LlamaCppExperts {
  /** Default: a softmax, whose shares are divided by the sum of those chosen. */
  readonly scores?: "sigmoid";
  /** Whether layers before the first that has experts may be dense. Default false. */
  readonly dense?: boolean;
  /**
   * What says how wide the part is that all tokens share: how many experts, its width, or that of a dense part, by whose names
   * it goes. Default: it has none.
   */
  readonly shared?: "count" | "width" | "dense";
  /** Whether it also runs models without experts. Default false. */
  readonly optional?: boolean;
  /** Limits of experts; default none. */
  readonly clamp?: RoutingSpec["clamp"];
}

/** How metadata of llama.cpp read as a configuration of transformers. */
export interface GgufReading {
  readonly className: string;
  /** The field of the norms' epsilon. Default: `rms_norm_eps`. */
  readonly epsilon?: string;
  /** What names of tensors begin with. Default: `model.` */
  readonly stem?: string;
  /** Tensors of one number, by the list in the metadata that has a number for each layer. */
  readonly lists?: Readonly<Record<string, { readonly module: string; readonly shape: readonly number[] }>>;
  /** The family's own fields; a `rope_scaling` of null says that `rope_parameters` have it. */
  readonly fields?: (metadata: GgufMetadata) => Readonly<Record<string, unknown>>;
}

/** Reads keys of the architecture, and small tensors. */
export interface GgufMetadata {
  readonly number: (key: string) => number | undefined;
  readonly text: (key: string) => string | undefined;
  readonly flag: (key: string) => boolean | undefined;
  readonly list: (key: string) => readonly unknown[] | undefined;
  readonly values: (tensor: string) => readonly number[] | undefined;
  readonly has: (tensor: string) => boolean;
  /** For each layer, whether it has a tensor. */
  readonly layersWith: (tensor: string) => readonly boolean[];
  /** How many tokens there are. */
  readonly vocabulary: number | undefined;
}

export const readBiases = ({ has }: GgufMetadata) => ({
  attention_bias: has("blk.0.attn_q.bias"),
  mlp_bias: has("blk.0.ffn_up.bias"),
});

/** Fields of experts that families share. @param count the field of their number */
export function readExperts({ number }: GgufMetadata, count: string) {
  return {
    [count]: number("expert_count"),
    num_experts_per_tok: number("expert_used_count"),
    moe_intermediate_size: number("expert_feed_forward_length"),
    norm_topk_prob: true,
  };
}

/** The same of experts that are chosen by sigmoids. */
export function readSigmoidExperts(read: GgufMetadata, count: string) {
  return {
    ...readExperts(read, count),
    norm_topk_prob: read.flag("expert_weights_norm") ?? true,
    routed_scaling_factor: read.number("expert_weights_scale") ?? 1,
  };
}

/** Groups that experts are in. */
export function readGroups({ number }: GgufMetadata) {
  const count = number("expert_group_count") ?? 1;
  return { n_group: count, topk_group: number("expert_group_used_count") ?? count };
}

/** The part of a head that turns. */
export function readPart({ number }: GgufMetadata): number {
  const width =
    number("attention.key_length") ?? (number("embedding_length") ?? 0) / (number("attention.head_count") ?? 1);
  return (number("rope.dimension_count") ?? width) / width;
}

/** `sliding_attention` where the pattern says so; every n-th layer is global where it only says how often. */
export function readWindows({ number, list }: GgufMetadata, everyNth: number) {
  const layers = number("block_count") ?? 0;
  const pattern = list("attention.sliding_window_pattern");
  const isLocal = (layer: number) => (pattern ? pattern[layer] === true : (layer + 1) % everyNth !== 0);
  return {
    sliding_window: number("attention.sliding_window") ?? null,
    layer_types: Array.from({ length: layers }, (_, i) => (isLocal(i) ? "sliding_attention" : "full_attention")),
  };
}

/** The graph that llama.cpp runs a model with. */
export function graphOf(page: LlamaCpp, { layers, routing }: DecoderSpec): LlamaCpp {
  const { of, graph } = page.other ?? {};
  const isOther = of === "experts" ? routing !== null : !layers.some(({ weights }) => weights.mix);
  return (isOther && graph) || page;
}

/** Llama's graph, with which llama.cpp runs several families. */
export const LLAMA_GRAPH: LlamaCpp = {
  name: "llama",
  interleaved: true,
  biases: ["q", "k", "v", "o", "gate", "up", "down"],
  ropeDivisors: ["one", "two"],
};
