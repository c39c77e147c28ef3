// Tensor name patterns of each family of decoders and encoders, as transformers 4 and 5 and Meta's own files have them.

/** Parts outside the layers. `mtp` predicts further tokens; `encoder` and `decoder` are stacks of a model that has both. */
export type OutsidePart =
  | "embed_tokens"
  | "position_embeddings"
  | "final_norm"
  | "lm_head"
  | "mtp"
  | "vision"
  | "encoder"
  | "decoder"
  | "other";

export type Part = LayerPart | OutsidePart;

/** The two halves of a transformer layer. A norm goes with the half whose input or output it normalises. */
export type Block = "attention" | "mlp" | "other";

const BLOCKS = {
  q_proj: "attention",
  k_proj: "attention",
  v_proj: "attention",
  qkv_proj: "attention",
  o_proj: "attention",
  q_norm: "attention",
  k_norm: "attention",
  input_norm: "attention", // also the one shared norm of a parallel block (Cohere, Phi-2)
  post_attention_norm: "attention",
  mixer: "attention", // other tensors of attention, or of what replaces it: linear attention, a state space, a convolution
  gate_proj: "mlp",
  up_proj: "mlp",
  gate_up_proj: "mlp",
  down_proj: "mlp",
  pre_mlp_norm: "mlp",
  post_mlp_norm: "mlp",
  router: "mlp",
  shared_expert_gate: "mlp",
  feed_forward: "mlp", // other tensors of the MLP or the experts
  other: "other",
} as const satisfies Readonly<Record<string, Block>>;

/** Parts of a layer. A bias has its weight's part; experts' matrices have the dense layer's. */
export type LayerPart = keyof typeof BLOCKS;

/** The half of a layer that a part belongs to; "other" for tensors outside the layers too. */
export function blockOf(part: Part): Block {
  return Object.hasOwn(BLOCKS, part) ? BLOCKS[part as LayerPart] : "other";
}

const ORDER: readonly string[] = [
  "embed_tokens",
  "position_embeddings",
  ...Object.keys(BLOCKS).filter((part) => part !== "other"),
  "final_norm",
  "lm_head",
  "mtp",
  "vision",
  "encoder",
  "decoder",
  "other",
];

/** Orders parts as in a model: attention before feed-forward, embedding first, head last. */
export function compareParts(a: Part, b: Part): number {
  return ORDER.indexOf(a) - ORDER.indexOf(b);
}

export interface Architecture {
  /** Displayed name. */
  readonly name: string;
  /** Values of `model_type` in config.json. */
  readonly modelTypes: readonly string[];
  /** Possible prefixes of the decoder's names; the first that matches the tensors is used. */
  readonly stems: readonly string[];
  /** The text between the stem and a layer's number. */
  readonly layers: string;
  /** Module within a layer, without `.weight` or `.bias`, `*` for an expert's number, to its part. */
  readonly parts: Readonly<Record<string, LayerPart>>;
  /** Module outside the layers, under the stem or without it, to its part. */
  readonly outside: Readonly<Record<string, OutsidePart>>;
  /** Whether the family ties the output head to the embedding if config.json does not say. */
  readonly tiedByDefault?: boolean;
  /** Whether the matrices of its layers are stored [in, out]. */
  readonly transposed?: true;
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

const OUTSIDE: Readonly<Record<string, OutsidePart>> = {
  embed_tokens: "embed_tokens",
  norm: "final_norm",
  lm_head: "lm_head",
};

const ATTENTION: Readonly<Record<string, LayerPart>> = {
  "self_attn.q_proj": "q_proj",
  "self_attn.k_proj": "k_proj",
  "self_attn.v_proj": "v_proj",
  "self_attn.o_proj": "o_proj",
  "self_attn.q_norm": "q_norm",
  "self_attn.k_norm": "k_norm",
};

const GATED_MLP: Readonly<Record<string, LayerPart>> = {
  "mlp.gate_proj": "gate_proj",
  "mlp.up_proj": "up_proj",
  "mlp.down_proj": "down_proj",
};

/** Norms before both halves of a layer, named as Llama names them. */
const PRE_NORMS: Readonly<Record<string, LayerPart>> = {
  input_layernorm: "input_norm",
  post_attention_layernorm: "pre_mlp_norm",
};

/** Norms before and after both halves, as in Gemma 2: here post_attention_layernorm is after attention, as its name says. */
const SANDWICH_NORMS: Readonly<Record<string, LayerPart>> = {
  input_layernorm: "input_norm",
  post_attention_layernorm: "post_attention_norm",
  pre_feedforward_layernorm: "pre_mlp_norm",
  post_feedforward_layernorm: "post_mlp_norm",
};

const LLAMA_PARTS = { ...ATTENTION, ...GATED_MLP, ...PRE_NORMS };

const EXPERTS: Readonly<Record<string, LayerPart>> = {
  "mlp.gate": "router",
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

/** Traits of most families, which the others override. */
const DECODER = { stems: DECODER_STEMS, layers: "layers", outside: OUTSIDE };

type Family = Omit<Architecture, keyof typeof DECODER> & Partial<Architecture>;

/** Families that name their tensors as Llama does. */
const LIKE_LLAMA: Readonly<Record<string, readonly string[]>> = {
  Llama: ["llama"], // Llama 1 to 3, Falcon 3, Yi, SmolLM, TinyLlama and others with its layout
  Mistral: ["mistral", "ministral"],
  "Qwen 2": ["qwen2", "qwen2_5_vl_text", "qwen2_vl_text"],
  "Qwen 3": ["qwen3", "qwen3_vl_text"],
  Granite: ["granite"],
};

const ARCHITECTURES: readonly Family[] = [
  ...Object.entries(LIKE_LLAMA).map(([name, modelTypes]) => ({ name, modelTypes, parts: LLAMA_PARTS })),
  {
    name: "StarCoder 2",
    modelTypes: ["starcoder2"],
    parts: { ...ATTENTION, "mlp.c_fc": "up_proj", "mlp.c_proj": "down_proj", ...PRE_NORMS },
    tiedByDefault: true,
  },
  {
    name: "Cohere", // Command R, Aya Expanse: one norm before a parallel block
    modelTypes: ["cohere", "cohere2"],
    parts: { ...ATTENTION, ...GATED_MLP, input_layernorm: "input_norm" },
    tiedByDefault: true,
  },
  {
    name: "Gemma",
    modelTypes: ["gemma"],
    parts: LLAMA_PARTS,
    tiedByDefault: true,
  },
  {
    name: "Gemma 2",
    modelTypes: ["gemma2", "gemma3_text"],
    parts: { ...ATTENTION, ...GATED_MLP, ...SANDWICH_NORMS },
    tiedByDefault: true,
  },
  {
    name: "Phi-3", // queries, keys and values in one matrix; gate and up in another
    modelTypes: ["phi3"],
    parts: {
      "self_attn.qkv_proj": "qkv_proj",
      "self_attn.o_proj": "o_proj",
      "mlp.gate_up_proj": "gate_up_proj",
      "mlp.down_proj": "down_proj",
      ...PRE_NORMS,
    },
  },
  {
    name: "Phi",
    modelTypes: ["phi"],
    parts: {
      "self_attn.q_proj": "q_proj",
      "self_attn.k_proj": "k_proj",
      "self_attn.v_proj": "v_proj",
      "self_attn.dense": "o_proj",
      "mlp.fc1": "up_proj",
      "mlp.fc2": "down_proj",
      input_layernorm: "input_norm",
    },
    outside: { ...OUTSIDE, final_layernorm: "final_norm" },
  },
  {
    name: "OLMo", // its norms have no parameters
    modelTypes: ["olmo"],
    parts: { ...ATTENTION, ...GATED_MLP },
  },
  {
    name: "OLMo 2", // norms only after each half
    modelTypes: ["olmo2", "olmo3"],
    parts: {
      ...ATTENTION,
      ...GATED_MLP,
      post_attention_layernorm: "post_attention_norm",
      post_feedforward_layernorm: "post_mlp_norm",
    },
  },
  {
    name: "GPT-NeoX", // Pythia
    modelTypes: ["gpt_neox"],
    stems: ["gpt_neox.", ""],
    parts: {
      "attention.query_key_value": "qkv_proj",
      "attention.dense": "o_proj",
      "mlp.dense_h_to_4h": "up_proj",
      "mlp.dense_4h_to_h": "down_proj",
      ...PRE_NORMS,
    },
    outside: { embed_in: "embed_tokens", embed_out: "lm_head", lm_head: "lm_head", final_layer_norm: "final_norm" },
  },
  {
    name: "GPT-2",
    modelTypes: ["gpt2"],
    stems: ["transformer.", ""],
    layers: "h",
    parts: {
      "attn.c_attn": "qkv_proj",
      "attn.c_proj": "o_proj",
      "mlp.c_fc": "up_proj",
      "mlp.c_proj": "down_proj",
      ln_1: "input_norm",
      ln_2: "pre_mlp_norm",
    },
    outside: { wte: "embed_tokens", wpe: "position_embeddings", ln_f: "final_norm", lm_head: "lm_head" },
    tiedByDefault: true,
    transposed: true,
  },
  {
    name: "Mixtral",
    modelTypes: ["mixtral"],
    parts: {
      ...ATTENTION,
      ...PRE_NORMS,
      ...EXPERTS,
      "block_sparse_moe.gate": "router",
      "block_sparse_moe.experts.*.w1": "gate_proj",
      "block_sparse_moe.experts.*.w2": "down_proj",
      "block_sparse_moe.experts.*.w3": "up_proj",
    },
  },
  {
    name: "Qwen MoE", // dense layers may be between the sparse ones
    modelTypes: ["qwen2_moe", "qwen3_moe", "qwen3_vl_moe_text"],
    parts: { ...LLAMA_PARTS, ...EXPERTS },
  },
  {
    name: "DeepSeek MoE",
    modelTypes: ["deepseek"],
    parts: {
      ...LLAMA_PARTS,
      ...EXPERTS,
      "mlp.shared_experts.gate_proj": "gate_proj",
      "mlp.shared_experts.up_proj": "up_proj",
      "mlp.shared_experts.down_proj": "down_proj",
    },
  },
  {
    name: "Llama 3.2 Vision", // cross-attention to the image takes whole layers of its own among the others
    modelTypes: ["mllama_text_model"],
    parts: {
      ...LLAMA_PARTS,
      "cross_attn.q_proj": "q_proj",
      "cross_attn.k_proj": "k_proj",
      "cross_attn.v_proj": "v_proj",
      "cross_attn.o_proj": "o_proj",
      "cross_attn.q_norm": "q_norm",
      "cross_attn.k_norm": "k_norm",
    },
  },
  {
    name: "BERT", // with RoBERTa, XLM-R and embedding models of their layout: norms after each half
    modelTypes: ["bert", "roberta", "xlm-roberta", "camembert"],
    stems: ["bert.", "roberta.", ""],
    layers: "encoder.layer",
    parts: {
      "attention.self.query": "q_proj",
      "attention.self.key": "k_proj",
      "attention.self.value": "v_proj",
      "attention.output.dense": "o_proj",
      "attention.output.LayerNorm": "post_attention_norm",
      "intermediate.dense": "up_proj",
      "output.dense": "down_proj",
      "output.LayerNorm": "post_mlp_norm",
    },
    outside: {
      "embeddings.word_embeddings": "embed_tokens",
      "embeddings.position_embeddings": "position_embeddings",
      decoder: "lm_head",
      lm_head: "lm_head", // the bias of the head is beside it
    },
    tiedByDefault: true,
  },
  {
    name: "ModernBERT",
    modelTypes: ["modernbert"],
    parts: {
      attn_norm: "input_norm", // not in layer 0
      "attn.Wqkv": "qkv_proj",
      "attn.Wo": "o_proj",
      mlp_norm: "pre_mlp_norm",
      "mlp.Wi": "gate_up_proj",
      "mlp.Wo": "down_proj",
    },
    outside: { "embeddings.tok_embeddings": "embed_tokens", final_norm: "final_norm", decoder: "lm_head" },
    tiedByDefault: true,
  },
  {
    name: "Llama (Meta's names)", // params.json, and the consolidated files of Mistral
    modelTypes: ["meta"],
    stems: ["", "model."],
    parts: {
      "attention.wq": "q_proj",
      "attention.wk": "k_proj",
      "attention.wv": "v_proj",
      "attention.wo": "o_proj",
      "feed_forward.w1": "gate_proj",
      "feed_forward.w2": "down_proj",
      "feed_forward.w3": "up_proj",
      attention_norm: "input_norm",
      ffn_norm: "pre_mlp_norm",
    },
    outside: { tok_embeddings: "embed_tokens", norm: "final_norm", output: "lm_head" },
  },
];

/** What families write before the list of their layers. */
export const STEMS: readonly string[] = [
  ...new Set([...DECODER_STEMS, ...ARCHITECTURES.flatMap(({ stems = [] }) => stems)]),
];

export function findArchitecture(modelType: string): Architecture | undefined {
  const family = ARCHITECTURES.find(({ modelTypes }) => modelTypes.includes(modelType));
  return family && { ...DECODER, ...family };
}
