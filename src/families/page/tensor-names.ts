// Patterns of tensor names, and those that many families share: as transformers 4 and 5 write them.
import type { LayerPart, OutsidePart } from "./parts.js";

/** Where a family's tensors are. What a page leaves out is as in most decoders. */
export interface TensorNames {
  /** Possible prefixes of the decoder's names; the first that matches the tensors is used. */
  readonly stems: readonly string[];
  /** The text between the stem and a layer's number. */
  readonly layers: string;
  /** Module within a layer, without `.weight` or `.bias`, `*` for an expert's number, to its part. */
  readonly parts: Readonly<Record<string, LayerPart>>;
  /** Module outside the layers, under the stem or without it, to its part. */
  readonly outside: Readonly<Record<string, OutsidePart>>;
  /** Matrices of its layers that are stored [in, out]: all, or these modules. Default: none. */
  readonly transposed?: "all" | readonly string[];
}

/** Stems of a plain decoder and of the text tower of a multimodal model, as versions of transformers write them. */
export const DECODER_STEMS = [
  "model.",
  "model.language_model.",
  "language_model.model.",
  "language_model.",
  "model.text_model.",
  "",
];

export const OUTSIDE: Readonly<Record<string, OutsidePart>> = {
  embed_tokens: "embed_tokens",
  norm: "final_norm",
  lm_head: "lm_head",
};

export const ATTENTION: Readonly<Record<string, LayerPart>> = {
  "self_attn.q_proj": "q_proj",
  "self_attn.k_proj": "k_proj",
  "self_attn.v_proj": "v_proj",
  "self_attn.o_proj": "o_proj",
  "self_attn.q_norm": "q_norm",
  "self_attn.k_norm": "k_norm",
};

export const GATED_MLP: Readonly<Record<string, LayerPart>> = {
  "mlp.gate_proj": "gate_proj",
  "mlp.up_proj": "up_proj",
  "mlp.down_proj": "down_proj",
};

/** Norms before both halves of a layer, named as Llama names them. */
export const PRE_NORMS: Readonly<Record<string, LayerPart>> = {
  input_layernorm: "input_norm",
  post_attention_layernorm: "pre_mlp_norm",
};

/** Norms only after each half, as in OLMo 2. */
export const POST_NORMS: Readonly<Record<string, LayerPart>> = {
  post_attention_layernorm: "post_attention_norm",
  post_feedforward_layernorm: "post_mlp_norm",
};

/** Norms before and after both halves, as in Gemma 2: here post_attention_layernorm is after attention, as its name says. */
export const SANDWICH_NORMS: Readonly<Record<string, LayerPart>> = {
  input_layernorm: "input_norm",
  post_attention_layernorm: "post_attention_norm",
  pre_feedforward_layernorm: "pre_mlp_norm",
  post_feedforward_layernorm: "post_mlp_norm",
};

export const LLAMA_PARTS = { ...ATTENTION, ...GATED_MLP, ...PRE_NORMS };

export const EXPERTS: Readonly<Record<string, LayerPart>> = {
  "mlp.gate": "router",
  "mlp.gate.e_score_correction_bias": "router",
  "mlp.experts.*.gate_proj": "gate_proj",
  "mlp.experts.*.up_proj": "up_proj",
  "mlp.experts.*.down_proj": "down_proj",
  "mlp.experts.gate_up_proj": "gate_up_proj", // all experts in one tensor, as transformers 5 can write
  "mlp.experts.down_proj": "down_proj",
  "mlp.shared_expert.gate_proj": "gate_proj",
  "mlp.shared_expert.up_proj": "up_proj",
  "mlp.shared_expert.down_proj": "down_proj",
  "mlp.shared_expert_gate": "shared_expert_gate",
};

/** Experts that all tokens pass (DeepSeek, GLM). */
export const SHARED_EXPERTS: Readonly<Record<string, LayerPart>> = {
  "mlp.shared_experts.gate_proj": "gate_proj",
  "mlp.shared_experts.up_proj": "up_proj",
  "mlp.shared_experts.down_proj": "down_proj",
};

/** Narrower streams that queries, keys and values are made of (DeepSeek V3). */
export const LATENT: Readonly<Record<string, LayerPart>> = inModule("self_attn", "mixer", [
  ...["q_a_proj", "q_a_layernorm", "q_b_proj"],
  ...["kv_a_proj_with_mqa", "kv_a_layernorm", "kv_b_proj"],
]);

/** A state space of Mamba 2. */
export const mambaParts = (module: string): Readonly<Record<string, LayerPart>> =>
  inModule(module, "mixer", ["in_proj", "conv1d", "out_proj", "norm", "A_log", "D", "dt_bias"]);

/** What is in a module of a layer, all of one part. */
export function inModule(module: string, part: LayerPart, names: readonly string[]) {
  return Object.fromEntries(names.map((name) => [`${module}.${name}`, part]));
}

/** What pages leave out. */
export const DECODER = { stems: DECODER_STEMS, layers: "layers", outside: OUTSIDE };
