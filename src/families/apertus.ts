// Swiss AI's Apertus: xIELU in place of a gate, norms of queries and keys.
import type { Family } from "./page/family.js";
import { readRope } from "./page/rope.js";
import { ATTENTION } from "./page/tensor-names.js";
import { attentionBiases, readActivation, rmsNorm } from "./page/traits.js";

const TENSORS: Family["tensors"] = {
  parts: {
    ...ATTENTION,
    "mlp.up_proj": "up_proj",
    "mlp.down_proj": "down_proj",
    attention_layernorm: "input_norm",
    feedforward_layernorm: "pre_mlp_norm",
  },
};

export const apertus: readonly Family[] = [
  {
    name: "Apertus",
    modelTypes: ["apertus"],
    reference: "Apertus project 2025, arXiv 2509.14233; transformers ApertusForCausalLM",
    tensors: TENSORS,
    defaults: {
      vocab_size: 131_072,
      intermediate_size: 14_336,
      hidden_act: "xielu",
      max_position_embeddings: 65_536,
      rms_norm_eps: 1e-5,
      rope_parameters: {
        rope_type: "llama3",
        rope_theta: 12_000_000,
        factor: 8,
        original_max_position_embeddings: 8192,
        low_freq_factor: 1,
        high_freq_factor: 4,
      },
    },
    traits: (fields, sizes) => {
      const isCurved = fields.get("hidden_act") === "xielu";
      return {
        norms: { beforeAttention: "attention_layernorm", beforeFeedForward: "feedforward_layernorm" },
        biases: attentionBiases(fields),
        attention: { qkNorm: { ...rmsNorm(fields), over: "head" } },
        feedForward: { gate: null, up: "mlp.up_proj", down: "mlp.down_proj" },
        activation: isCurved ? "xielu" : readActivation(fields),
        layerWeights: (prefix) => {
          const curve = (name: string) => ({ weight: { name: `${prefix}mlp.act_fn.${name}`, shape: [1] } });
          const constant = (name: string) => ({ weight: { ...curve(name).weight, shape: [], isConstant: true } });
          if (!isCurved) return {};
          return {
            ...{ curveAbove: curve("alpha_p"), curveBelow: curve("alpha_n") },
            ...{ curveSlope: constant("beta"), curveEdge: constant("eps") },
          };
        },
        ropes: [readRope({ fields, ...sizes, theta: 12_000_000 })],
      };
    },
    llamaCpp: {
      name: "apertus",
      activation: "xielu",
      ropeDivisors: ["one"],
      read: {
        className: "ApertusForCausalLM",
        lists: {
          "xielu.alpha_p": { module: "mlp.act_fn.alpha_p", shape: [1] },
          "xielu.alpha_n": { module: "mlp.act_fn.alpha_n", shape: [1] },
          "xielu.beta": { module: "mlp.act_fn.beta", shape: [] },
          "xielu.eps": { module: "mlp.act_fn.eps", shape: [] },
        },
        fields: () => ({ hidden_act: "xielu" }),
      },
    },
  },
  { name: "Apertus 1.5", modelTypes: ["apertus1p5_text"], tensors: TENSORS },
];
