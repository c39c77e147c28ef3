// What a family's page declares, and how it becomes the specification of a decoder.
import type { CheckpointConfig } from "../../../formats/checkpoint/index.js";
import type { ConfigFields, Json } from "./config-fields.js";
import { readRope } from "./rope.js";
import type { AttentionSpec, DecoderSpec, LayerSpec, LayerWeights, LinearWeights, NormWeights } from "./spec.js";
import { activation, rmsNorm } from "./traits.js";

/** A family of decoders, as its page declares it. */
export interface Family {
  /** For people. */
  readonly name: string;
  /** Values of `model_type`. */
  readonly modelTypes: readonly string[];
  /** The paper or report, and the class in transformers that the page follows. */
  readonly reference: string;
  /** Defaults of the family's configuration class in transformers that differ from {@link LLAMA_DEFAULTS}. */
  readonly defaults: Json;
  readonly traits: (fields: ConfigFields, sizes: Sizes) => Traits;
}

type SizeName = "vocabularySize" | "hidden" | "heads" | "kvHeads" | "headDim" | "feedForward" | "contextLength";

/** Sizes that all families have. */
export interface Sizes extends Pick<DecoderSpec, SizeName> {
  /** Number of layers. */
  readonly layers: number;
}

type LayerNorm = "beforeAttention" | "afterAttention" | "beforeFeedForward" | "afterFeedForward";

type Trait = "norm" | "layout" | "activation" | "ropes";
type Factor = "embeddingScale" | "residualScale" | "logitScale" | "logitSoftcap";

/** What a family has that Llama does not. */
export interface Traits extends Partial<Pick<DecoderSpec, Trait | Factor>> {
  /** Whether norms have a bias. */
  readonly normBias?: boolean;
  /** Names of the norms that a layer has. */
  readonly norms?: Readonly<Partial<Record<LayerNorm, string>>>;
  readonly attention?: Partial<AttentionSpec>;
  /** Names of a layer's feed-forward projections; the gate is null where there is none. */
  readonly feedForward?: { readonly gate: string | null; readonly up: string; readonly down: string };
  /** Which projections have a bias. */
  readonly biases?: { readonly qkv?: boolean; readonly o?: boolean; readonly feedForward?: boolean };
  /** Names of projections that are stored as one: q above k above v, gate above up. */
  readonly fused?: { readonly qkv: string; readonly gateUp: string };
  /** Window and rotation of each layer; default no window and the first rotation. */
  readonly layer?: (index: number) => { readonly [K in "window" | "rope"]?: LayerSpec[K] | undefined };
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

/** Norms before both halves, as Llama names them. */
const PRE_NORMS = { beforeAttention: "input_layernorm", beforeFeedForward: "post_attention_layernorm" };

const GATED = { gate: "mlp.gate_proj", up: "mlp.up_proj", down: "mlp.down_proj" };

/** The specification of a decoder. Where `fields` has problems afterwards, it must not be used. */
export function specOf(family: Family, fields: ConfigFields, config: CheckpointConfig): DecoderSpec {
  const sizes = readSizes(fields, config.layers ?? fields.count(config.layersField));
  const { vocabularySize, hidden } = sizes;
  const traits = family.traits(fields, sizes);
  const tied = config.tied ?? fields.flag("tie_word_embeddings");
  const { layers, ...shape } = sizes;
  return {
    family: family.name,
    ...shape,
    embeddingScale: traits.embeddingScale ?? 1,
    norm: traits.norm ?? rmsNorm(fields),
    layout: traits.layout ?? "sequential",
    attention: { scale: sizes.headDim ** -0.5, softcap: null, qkNorm: null, ...traits.attention },
    activation: traits.activation ?? activation(fields),
    residualScale: traits.residualScale ?? 1,
    logitScale: traits.logitScale ?? 1,
    logitSoftcap: traits.logitSoftcap ?? null,
    ropes: traits.ropes ?? [readRope({ fields, ...sizes })],
    layers: Array.from({ length: layers }, (_, index) => {
      const { window = null, rope = 0 } = traits.layer?.(index) ?? {};
      return { window, rope, weights: layerWeights(`layers.${index}.`, sizes, traits) };
    }),
    embedding: { name: "embed_tokens.weight", shape: [vocabularySize, hidden] },
    finalNorm: normWeights("norm", [hidden], traits.normBias ?? false),
    head: tied ? null : { name: "lm_head.weight", shape: [vocabularySize, hidden] },
  };
}

function readSizes(fields: ConfigFields, layers: number): Sizes {
  const hidden = fields.count("hidden_size");
  const heads = fields.count("num_attention_heads");
  const kvHeads = fields.countOrNull("num_key_value_heads") ?? heads;
  if (fields.problems.length === 0 && heads % kvHeads !== 0) {
    fields.refuse("num_key_value_heads", `is ${kvHeads}; it must divide num_attention_heads, ${heads}`);
  }
  return {
    layers,
    vocabularySize: fields.count("vocab_size"),
    hidden,
    heads,
    kvHeads,
    headDim: fields.countOrNull("head_dim") ?? Math.floor(hidden / heads),
    feedForward: fields.count("intermediate_size"),
    contextLength: fields.count("max_position_embeddings"),
  };
}

function layerWeights(prefix: string, sizes: Sizes, traits: Traits): LayerWeights {
  const { hidden, heads, kvHeads, headDim, feedForward } = sizes;
  const { fused, biases = {}, normBias = false, norms = PRE_NORMS, feedForward: names = GATED } = traits;
  const [q, kv] = [heads * headDim, kvHeads * headDim];
  const linear = (name: string, rows: number, columns: number, bias = false): LinearWeights => ({
    weight: { name: `${prefix}${name}.weight`, shape: [rows, columns] },
    ...(bias ? { bias: { name: `${prefix}${name}.bias`, shape: [rows] } } : {}),
  });
  /** Consecutive rows of one stored projection. */
  const slices = (name: string, sizesOfParts: readonly number[]): LinearWeights[] => {
    const of = sizesOfParts.reduce((sum, rows) => sum + rows, 0);
    let end = 0;
    return sizesOfParts.map((rows) => {
      end += rows;
      return { weight: { name: `${prefix}${name}.weight`, shape: [rows, hidden], rows: { from: end - rows, of } } };
    });
  };
  const attentionParts = fused
    ? slices(fused.qkv, [q, kv, kv])
    : [["q", q] as const, ["k", kv] as const, ["v", kv] as const].map(([letter, rows]) =>
        linear(`self_attn.${letter}_proj`, rows, hidden, biases.qkv),
      );
  const [gate, up] = fused
    ? slices(fused.gateUp, [feedForward, feedForward])
    : [names.gate, names.up].map((name) =>
        name === null ? undefined : linear(name, feedForward, hidden, biases.feedForward),
      );
  const layerNorms = Object.entries(norms).map(([role, name]) => [
    role,
    normWeights(`${prefix}${name}`, [hidden], normBias),
  ]);
  return {
    q: attentionParts[0] as LinearWeights,
    k: attentionParts[1] as LinearWeights,
    v: attentionParts[2] as LinearWeights,
    o: linear("self_attn.o_proj", hidden, q, biases.o),
    ...qkNormWeights(prefix, sizes, traits),
    ...(gate ? { gate } : {}),
    up: up as LinearWeights,
    down: linear(names.down, hidden, feedForward, biases.feedForward),
    ...Object.fromEntries(layerNorms),
  };
}

function qkNormWeights(prefix: string, sizes: Sizes, { attention }: Traits): Pick<LayerWeights, "qNorm" | "kNorm"> {
  if (!attention?.qkNorm) return {};
  const { headDim } = sizes;
  const shapes = {
    head: () => [headDim],
    eachHead: (heads: number) => [heads, headDim],
    width: (heads: number) => [heads * headDim],
  };
  const shapeOf = shapes[attention.qkNorm.over];
  return {
    qNorm: normWeights(`${prefix}self_attn.q_norm`, shapeOf(sizes.heads), false),
    kNorm: normWeights(`${prefix}self_attn.k_norm`, shapeOf(sizes.kvHeads), false),
  };
}

function normWeights(name: string, shape: readonly number[], bias: boolean): NormWeights {
  return { weight: { name: `${name}.weight`, shape }, ...(bias ? { bias: { name: `${name}.bias`, shape } } : {}) };
}
