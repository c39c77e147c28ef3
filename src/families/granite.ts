// IBM's Granite.
import type { ConfigFields } from "./page/config-fields.js";
import { readRouting } from "./page/experts.js";
import type { ExpertTraits, Family, Traits } from "./page/family.js";
import { everyNth, FULL, LINEAR } from "./page/layer-kinds.js";
import { type GgufMetadata, LLAMA_GRAPH, type LlamaCpp, readBiases } from "./page/llama-cpp.js";
import { MAMBA_DEFAULTS, mamba2, mambaSizes, readMamba, readStateSpace, siluOnly } from "./page/mamba.js";
import { readRope } from "./page/rope.js";
import { ATTENTION, LLAMA_PARTS, mambaParts, PRE_NORMS } from "./page/tensor-names.js";
import { attentionBiases } from "./page/traits.js";

const GRAPH: LlamaCpp = { ...LLAMA_GRAPH, name: "granite", scales: ["embedding", "attention", "residual", "logit"] };

/** Of Granite 4, where no layer has a state space. */
const HYBRID: LlamaCpp = {
  ...GRAPH,
  unrotated: (_, __, { ropes }) => ropes.length === 0,
  experts: { shared: "width", optional: true },
};

const SCALES = { embedding_multiplier: 1, attention_multiplier: 1, residual_multiplier: 1, logits_scaling: 1 };

const EXPERT_DEFAULTS = { num_local_experts: 8, num_experts_per_tok: 2, router_aux_loss_coef: 0.001 };

const EXPERT_PARTS: NonNullable<Family["tensors"]>["parts"] = {
  ...ATTENTION,
  ...PRE_NORMS,
  "self_attn.sinks": "mixer",
  "block_sparse_moe.router": "router",
  "block_sparse_moe.router.layer": "router",
  "block_sparse_moe.input_linear": "gate_up_proj",
  "block_sparse_moe.output_linear": "down_proj",
  "block_sparse_moe.experts.gate_up_proj": "gate_up_proj", // as transformers 5 has them in memory
  "block_sparse_moe.experts.down_proj": "down_proj",
  "shared_mlp.input_linear": "gate_up_proj",
  "shared_mlp.output_linear": "down_proj",
};

export const granite: readonly Family[] = [
  {
    name: "Granite", // 3: Llama with four scales, of embeddings, attention, residuals and logits
    modelTypes: ["granite"],
    reference: "IBM Granite 3.0 language models, 2024; transformers GraniteForCausalLM",
    tensors: { parts: LLAMA_PARTS },
    defaults: SCALES,
    traits: (fields) => ({
      ...scales(fields),
      biases: { ...attentionBiases(fields), feedForward: fields.flag("mlp_bias") },
    }),
    llamaCpp: {
      ...GRAPH,
      read: {
        className: "GraniteForCausalLM",
        fields: (read) => ({ ...readBiases(read), ...readScales(read) }),
      },
    },
  },
  {
    name: "Granite 4", // state spaces in most layers; experts, where there are any, beside a part that all tokens share
    modelTypes: ["granitemoehybrid"],
    reference: "IBM Granite 4.0, 2025; transformers GraniteMoeHybridForCausalLM",
    tensors: { parts: { ...EXPERT_PARTS, ...mambaParts("mamba") } },
    defaults: {
      ...SCALES,
      ...MAMBA_DEFAULTS,
      ...EXPERT_DEFAULTS,
      shared_intermediate_size: 1024,
      position_embedding_type: null,
    },
    traits: (fields, sizes) => {
      const { hidden, layers } = sizes;
      const types = fields.choicesOrNull("layer_types", layers, [FULL, LINEAR, "attention", "mamba"]);
      const rotates = fields.get("position_embedding_type") === "rope";
      const bias = fields.flag("mamba_proj_bias");
      const isMixture = Boolean(fields.get("num_local_experts"));
      const names = { gate: null, up: "shared_mlp.input_linear", down: "shared_mlp.output_linear" };
      const width = fields.count("shared_intermediate_size");
      return {
        ...scales(fields),
        activation: siluOnly(fields),
        ...(isMixture ? {} : { sizes: { feedForward: width } }),
        biases: attentionBiases(fields),
        fused: { gateUp: "shared_mlp.input_linear" },
        feedForward: names,
        ...(isMixture ? { experts: { ...experts(fields), shared: { names, width } } } : {}),
        ropes: rotates ? [readRope({ fields, ...sizes })] : [],
        recurrence: mamba2({
          module: "mamba",
          hidden,
          ...mambaSizes(fields, fields.count("mamba_expand") * hidden),
          bias: { convolution: fields.flag("mamba_conv_bias"), in: bias, out: bias },
          norm: { beforeGate: false },
        }),
        layer: (index) => ({
          rope: rotates ? 0 : null,
          has: [
            types && types[index] !== LINEAR && types[index] !== "mamba" ? "attention" : "recurrence",
            "feedForward",
          ],
        }),
      };
    },
    llamaCpp: {
      ...HYBRID,
      name: "granitehybrid",
      recurrence: "mamba2",
      biases: ["q", "k", "v", "o", "convolution"],
      other: { of: "no recurrence", graph: HYBRID },
      read: {
        className: "GraniteMoeHybridForCausalLM",
        fields: (read) => ({
          ...readScales(read),
          ...readMamba(read),
          mamba_expand: readStateSpace(read).width / (read.number("embedding_length") ?? 0),
          layer_types: read.layersWith("attn_q.weight").map((attends) => (attends ? "attention" : "mamba")),
          attention_bias: read.layersWith("attn_q.bias").includes(true),
          position_embedding_type: read.flag("rope.scaling.finetuned") === false ? null : "rope",
          num_local_experts: read.number("expert_count") ?? 0,
          num_experts_per_tok: read.number("expert_used_count") ?? 0,
          shared_intermediate_size:
            read.number("expert_shared_feed_forward_length") ?? read.number("feed_forward_length"),
        }),
      },
    },
  },
  {
    name: "Granite MoE", // 3.0 and 3.1: shares are the softmax over those chosen
    modelTypes: ["granitemoe"],
    reference: "IBM Granite 3.0 language models, 2024; transformers GraniteMoeForCausalLM",
    tensors: { parts: EXPERT_PARTS },
    defaults: { ...SCALES, ...EXPERT_DEFAULTS },
    traits: (fields) => ({
      ...scales(fields),
      biases: { ...attentionBiases(fields), feedForward: fields.flag("mlp_bias") },
      experts: experts(fields),
    }),
    llamaCpp: {
      ...GRAPH,
      name: "granitemoe",
      experts: {},
      read: {
        className: "GraniteMoeForCausalLM",
        fields: (read) => ({
          ...readScales(read),
          attention_bias: read.has("blk.0.attn_q.bias"),
          num_local_experts: read.number("expert_count"),
          num_experts_per_tok: read.number("expert_used_count"),
        }),
      },
    },
  },
  { name: "Granite MoE with a shared part", modelTypes: ["granitemoeshared"], tensors: { parts: EXPERT_PARTS } },
  {
    name: "Granite SWA",
    modelTypes: ["granite_swa", "granitemoe_swa"],
    tensors: { parts: { ...LLAMA_PARTS, ...EXPERT_PARTS } },
    kinds: [everyNth(4, { first: 0 })],
  },
];

const readScales = ({ number }: GgufMetadata) => ({
  embedding_multiplier: number("embedding_scale"),
  attention_multiplier: number("attention.scale"),
  residual_multiplier: number("residual_scale"),
  logits_scaling: number("logit_scale"),
});

function experts(fields: ConfigFields): ExpertTraits {
  return {
    routing: readRouting(fields, { experts: "num_local_experts", width: "intermediate_size" }),
    router: "block_sparse_moe.router.layer",
    names: {
      layout: "fused",
      gateUp: "block_sparse_moe.input_linear.weight",
      down: "block_sparse_moe.output_linear.weight",
    },
  };
}

function scales(fields: ConfigFields): Traits {
  return {
    embeddingScale: fields.positive("embedding_multiplier"),
    attention: { scale: fields.positive("attention_multiplier") },
    residualScale: fields.positive("residual_multiplier"),
    logitScale: 1 / fields.positive("logits_scaling"), // the one that divides
  };
}
