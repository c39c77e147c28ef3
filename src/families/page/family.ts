// What a family's page says.
import type { JsonObject } from "../../kit/index.js";
import type { ConfigFields } from "./config-fields.js";
import type { KindRule } from "./layer-kinds.js";
import type { LlamaCpp } from "./llama-cpp.js";
import type {
  AttentionSpec,
  DecoderSpec,
  ExpertWeights,
  LayerSpec,
  LayerWeights,
  RecurrenceSpec,
  RecurrenceWeights,
  RoutingSpec,
} from "./spec.js";
import type { TensorNames } from "./tensor-names.js";

/** A family of models. All but its name is optional: what is missing is not known, or as in most families. */
export interface Family {
  /** For people. */
  readonly name: string;
  /** Values of `model_type` in config.json. */
  readonly modelTypes: readonly string[];
  /** The paper or report, and the class in transformers that the page follows. */
  readonly reference?: string;
  /** Where its tensors are. Default: found by the words in their names. */
  readonly tensors?: Partial<TensorNames> & Pick<TensorNames, "parts">;
  /** How config.json says the kinds of its layers, besides the rules of all families. */
  readonly kinds?: readonly KindRule[];
  /** Kind that transformers gives the last layer, whatever `layer_types` says. */
  readonly lastKind?: string;
  /** Defaults of the family's configuration class in transformers that differ from {@link LLAMA_DEFAULTS}. */
  readonly defaults?: JsonObject;
  /** Fields of experts that do not say whether a model has any. */
  readonly unread?: readonly string[];
  /** How its decoder computes, from its configuration. Without it, the family is merged but not run or exported. */
  readonly traits?: (fields: ConfigFields, sizes: Sizes) => Traits;
  /** Whether the engine runs it. Default true: false where the engine was not compared with transformers, but exports were. */
  readonly runs?: false;
  /** How llama.cpp runs it. Without it, it is not exported as GGUF. */
  readonly llamaCpp?: LlamaCpp;
}

/** A family whose decoder is described. */
export type DescribedFamily = Family & Required<Pick<Family, "traits">>;

type SizeName = "vocabularySize" | "hidden" | "heads" | "kvHeads" | "headDim" | "feedForward" | "contextLength";

/** Sizes that all families have. */
export interface Sizes extends Pick<DecoderSpec, SizeName> {
  /** Number of layers. */
  readonly layers: number;
}

type LayerNorm = "beforeAttention" | "afterAttention" | "beforeFeedForward" | "afterFeedForward";

/** What a layer can consist of; attention and recurrence in one layer are added up. */
export type LayerHalf = "attention" | "recurrence" | "feedForward";

type Trait = "norm" | "layout" | "activation" | "ropes" | "layerInputs";
type Factor = "embeddingScale" | "residualScale" | "logitScale" | "logitSoftcap";

type LayerTrait = "window" | "rope" | "kvHeads" | "headDim" | "keysOf";

export type LayerTraits = { readonly [K in LayerTrait]?: LayerSpec[K] | undefined } & {
  /** F of this layer. */
  readonly feedForward?: number | undefined;
  /** Whether its values are its keys, before norm and rotation. */
  readonly valuesAreKeys?: boolean | undefined;
  /** Its parts; default attention and feed-forward. */
  readonly has?: readonly LayerHalf[] | undefined;
};

export interface FeedForwardNames {
  readonly gate: string | null;
  readonly up: string;
  readonly down: string;
}

/** What a family has that Llama does not. */
export interface Traits extends Partial<Pick<DecoderSpec, Trait | Factor>> {
  /** Sizes that follow from other fields than usual. */
  readonly sizes?: Partial<Sizes>;
  /** Whether norms have a bias. */
  readonly normBias?: boolean;
  /** Names of the norms that a layer has. */
  readonly norms?: Readonly<Partial<Record<LayerNorm, string>>>;
  readonly attention?: Partial<AttentionSpec>;
  /** Names of a layer's feed-forward projections; the gate is null where there is none, all are where there are experts alone. */
  readonly feedForward?: FeedForwardNames | null;
  /** Which projections have a bias. */
  readonly biases?: { readonly qkv?: boolean; readonly o?: boolean; readonly feedForward?: boolean };
  /** Names of projections that are stored as one: q above k above v, gate above up. */
  readonly fused?: { readonly qkv?: string; readonly gateUp?: string };
  /** Names of the norms of queries and keys. Default: q_norm and k_norm. */
  readonly qkNorms?: { readonly q: string; readonly k: string };
  /** Each layer's window (default none), rotation (default the first), and what {@link LayerTraits} has besides. */
  readonly layer?: (index: number) => LayerTraits;
  /** Further weights of a layer. @param prefix of their names */
  readonly layerWeights?: (prefix: string) => Partial<LayerWeights>;
  /** Names outside the pattern of Llama. Default: self_attn, o_proj in it, embed_tokens, norm. */
  readonly names?: {
    readonly attention?: string;
    readonly o?: string;
    readonly embedding?: string;
    readonly finalNorm?: string;
  };
  /** What projections are multiplied by; default 1. */
  readonly factors?: Readonly<Partial<Record<"qkv" | "o" | "gate" | "down", number>>>;
  /** What replaces attention in some layers, and its weights by their names in a layer. */
  readonly recurrence?: RecurrenceSpec & { readonly weights: RecurrenceWeights };
  readonly experts?: ExpertTraits;
  /** Widths of latent attention; the rotated part of a head follows the plain one. */
  readonly latent?: LatentTraits;
  /** Name of the sinks of heads. */
  readonly sinks?: string;
}

export interface LatentTraits {
  /** Of the narrower x before queries; null where queries are made of x. */
  readonly queries: number | null;
  /** Of the latent that keys and values are made of. */
  readonly keys: number;
  readonly plain: number;
  readonly rotated: number;
  readonly values: number;
}

/** A mixture of experts. */
export interface ExpertTraits {
  readonly routing: RoutingSpec;
  /** Layers that have it. Default: all. */
  readonly inLayer?: (index: number) => boolean;
  /** Module of the router. */
  readonly router: string;
  readonly routerBias?: boolean;
  /** What the router's outputs are multiplied by; default 1. */
  readonly routerFactor?: number;
  readonly correction?: string;
  /** Further weights, by their names in a layer. */
  readonly weights?: Partial<Omit<ExpertWeights, "router" | "correction" | "gate" | "up" | "gateUp" | "down">>;
  /**
   * Modules of the experts. each: `*` is for an expert's number, and `fused` what replaces them in some checkpoints. fused: tensors of all experts, gate above up. pairs: the
   * same stored [in, out], with columns of gate and up in turns, and biases.
   */
  readonly names:
    | {
        readonly layout: "each";
        readonly gate: string | null;
        readonly up: string;
        readonly down: string;
        readonly fused?: { readonly gateUp: string; readonly down: string };
      }
    | { readonly layout: "fused" | "pairs"; readonly gateUp: string; readonly down: string };
  /** A feed-forward part that all tokens share: its modules, its width, and the module of the gate of its output. */
  readonly shared?: { readonly names: FeedForwardNames; readonly width: number; readonly gate?: string };
}

/** Defaults of LlamaConfig in transformers. */
export const LLAMA_DEFAULTS = {
  vocab_size: 32_000,
  hidden_size: 4096,
  intermediate_size: 11_008,
  num_attention_heads: 32,
  num_key_value_heads: null,
  head_dim: null,
  hidden_act: "silu",
  max_position_embeddings: 2048,
  rms_norm_eps: 1e-6,
  tie_word_embeddings: false,
  attention_bias: false,
  mlp_bias: false,
};
