// TII's Falcon-H1: attention and a state space side by side in every layer, with multipliers of most projections. Falcon 3
// is a Llama.
import type { ConfigFields } from "./page/config-fields.js";
import type { Family } from "./page/family.js";
import { readBiases } from "./page/llama-cpp.js";
import { MAMBA_DEFAULTS, mamba2, mambaSizes, readMamba, readStateSpace, siluOnly } from "./page/mamba.js";
import { readRope } from "./page/rope.js";
import { ATTENTION, mambaParts } from "./page/tensor-names.js";
import { attentionBiases } from "./page/traits.js";

const ONE = {
  lm_head_multiplier: 1,
  embedding_multiplier: 1,
  key_multiplier: 1,
  attention_out_multiplier: 1,
  attention_in_multiplier: 1,
  ssm_in_multiplier: 1,
  ssm_out_multiplier: 1,
};

export const falcon: readonly Family[] = [
  {
    name: "Falcon-H1",
    modelTypes: ["falcon_h1"],
    reference: "Zuo et al. 2025, arXiv 2507.22448; transformers FalconH1ForCausalLM",
    tensors: {
      parts: {
        ...ATTENTION,
        ...mambaParts("mamba"),
        "feed_forward.gate_proj": "gate_proj",
        "feed_forward.up_proj": "up_proj",
        "feed_forward.down_proj": "down_proj",
        input_layernorm: "input_norm",
        pre_ff_layernorm: "pre_mlp_norm",
      },
      outside: { embed_tokens: "embed_tokens", final_layernorm: "final_norm", lm_head: "lm_head" },
    },
    defaults: {
      ...MAMBA_DEFAULTS,
      ...ONE,
      vocab_size: 128_000,
      intermediate_size: 14_336,
      num_key_value_heads: 8,
      max_position_embeddings: 8192,
      rms_norm_eps: 1e-5,
      mamba_d_ssm: 1024,
      mamba_norm_before_gate: true,
      mamba_rms_norm: false,
      projectors_bias: false,
    },
    traits: (fields, sizes) => {
      const { hidden, headDim } = sizes;
      const factor = (field: keyof typeof ONE) => fields.positive(field);
      const [gate = 1, down = 1] = multipliers(fields, "mlp_multipliers", 2);
      const parts = multipliers(fields, "ssm_multipliers", 5);
      const width = fields.countOrNull("mamba_d_ssm") ?? fields.count("mamba_expand") * hidden;
      const bias = { attention: attentionBiases(fields), mlp: fields.flag("mlp_bias") };
      refuseScaledBias(fields, "attention_bias", [factor("attention_out_multiplier")]);
      refuseScaledBias(fields, "mlp_bias", [gate, down]);
      refuseScaledBias(fields, "mamba_proj_bias", parts);
      refuseScaledBias(fields, "projectors_bias", [factor("ssm_out_multiplier")]);
      return {
        activation: siluOnly(fields),
        norms: { beforeAttention: "input_layernorm", beforeFeedForward: "pre_ff_layernorm" },
        names: { finalNorm: "final_layernorm" },
        feedForward: { gate: "feed_forward.gate_proj", up: "feed_forward.up_proj", down: "feed_forward.down_proj" },
        biases: { ...bias.attention, feedForward: bias.mlp },
        factors: { qkv: factor("attention_in_multiplier"), o: factor("attention_out_multiplier"), gate, down },
        embeddingScale: factor("embedding_multiplier"),
        logitScale: factor("lm_head_multiplier"),
        attention: { scale: headDim ** -0.5 * factor("key_multiplier") },
        ropes: [readRope({ fields, ...sizes })],
        recurrence: mamba2({
          module: "mamba",
          hidden,
          ...mambaSizes(fields, width),
          bias: {
            convolution: fields.flag("mamba_conv_bias"),
            in: fields.flag("mamba_proj_bias"),
            out: fields.flag("projectors_bias"),
          },
          ...(fields.flag("mamba_rms_norm") ? { norm: { beforeGate: fields.flag("mamba_norm_before_gate") } } : {}),
          factors: { in: factor("ssm_in_multiplier"), parts, out: factor("ssm_out_multiplier") },
        }),
        layer: () => ({ has: ["attention", "recurrence", "feedForward"] }),
      };
    },
    llamaCpp: {
      name: "falcon-h1",
      recurrence: "mamba2",
      biases: ["q", "k", "v", "o", "gate", "up", "down", "convolution"],
      bare: "beforeFeedForward",
      folds: true,
      read: {
        className: "FalconH1ForCausalLM",
        fields: (read) => ({
          ...readMamba(read),
          mamba_d_ssm: readStateSpace(read).width,
          mamba_rms_norm: read.has("blk.0.ssm_norm.weight"),
          mamba_norm_before_gate: false,
          ...readBiases(read),
        }),
      },
    },
  },
];

/** A list of numbers; ones where it is missing. */
function multipliers(fields: ConfigFields, field: string, length: number): readonly number[] {
  return fields.has(field) ? fields.positives(field, length) : Array<number>(length).fill(1);
}

/** A bias that is multiplied with its product, which the engine does not do. */
function refuseScaledBias(fields: ConfigFields, field: string, factors: readonly number[]): void {
  if (fields.flag(field) && factors.some((factor) => factor !== 1)) {
    fields.refuse(field, "is true, and multipliers of such biases are not supported");
  }
}
