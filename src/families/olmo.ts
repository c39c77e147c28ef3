// Ai2's OLMo.
import type { ConfigFields } from "./page/config-fields.js";
import type { Family, Traits } from "./page/family.js";
import { everyNth, LINEAR, SLIDING } from "./page/layer-kinds.js";
import { readRopesByLayerType } from "./page/rope.js";
import { ATTENTION, GATED_MLP, POST_NORMS } from "./page/tensor-names.js";
import { attentionBiases, layerKinds, NORMS_AFTER, rmsNorm } from "./page/traits.js";

const TENSORS: Family["tensors"] = { parts: { ...ATTENTION, ...GATED_MLP, ...POST_NORMS } };

const DEFAULTS = { vocab_size: 50_304, rms_norm_eps: 1e-5 };

const KINDS = everyNth(4);

export const olmo: readonly Family[] = [
  {
    name: "OLMo", // its norms have no parameters
    modelTypes: ["olmo"],
    tensors: { parts: { ...ATTENTION, ...GATED_MLP } },
  },
  {
    name: "OLMo 2", // norms of queries and keys over all heads together
    modelTypes: ["olmo2"],
    reference: "OLMo team 2024, arXiv 2501.00656; transformers Olmo2ForCausalLM",
    tensors: TENSORS,
    defaults: DEFAULTS,
    traits,
    llamaCpp: { name: "olmo2", square: true, head: "own", read: { className: "Olmo2ForCausalLM" } },
  },
  {
    name: "OLMo 3", // with windows in three of four layers; scaled rotations in the others alone
    modelTypes: ["olmo3"],
    reference: "OLMo team 2025, arXiv 2512.13961; transformers Olmo3ForCausalLM",
    tensors: TENSORS,
    kinds: [KINDS],
    defaults: { ...DEFAULTS, sliding_window: 4096 },
    traits: (fields, sizes) => {
      const kinds = layerKinds(fields, sizes.layers, KINDS);
      const thetas = { full_attention: 500_000, sliding_attention: 500_000 };
      const ropes = readRopesByLayerType({ fields, ...sizes, thetas });
      return {
        ...traits(fields),
        ropes: [ropes.full_attention, ropes.sliding_attention],
        layer: (index) => ({ window: kinds[index]?.window, rope: kinds[index]?.type === SLIDING ? 1 : 0 }),
      };
    },
  },
  { name: "OLMo Hybrid", modelTypes: ["olmo_hybrid"], kinds: [everyNth(4, { others: LINEAR })] },
];

function traits(fields: ConfigFields): Traits {
  return {
    norms: NORMS_AFTER,
    biases: attentionBiases(fields),
    attention: { qkNorm: { ...rmsNorm(fields), over: "width" } },
  };
}
