// Ai2's OLMo.
import type { ConfigFields } from "./page/config-fields.js";
import type { Family, Traits } from "./page/family.js";
import { everyNth, LINEAR, SLIDING } from "./page/layer-kinds.js";
import { type GgufMetadata, type LlamaCpp, readWindows } from "./page/llama-cpp.js";
import { otherHeads, otherWindows } from "./page/llama-differences.js";
import { readRopesByLayerType } from "./page/rope.js";
import { ATTENTION, GATED_MLP, POST_NORMS } from "./page/tensor-names.js";
import { attentionBiases, layerKinds, NORMS_AFTER, rmsNorm } from "./page/traits.js";

const TENSORS: Family["tensors"] = { parts: { ...ATTENTION, ...GATED_MLP, ...POST_NORMS } };

const DEFAULTS = { vocab_size: 50_304, rms_norm_eps: 1e-5 };

const KINDS = everyNth(4);

const GRAPH: LlamaCpp = { name: "olmo2", differs: [otherHeads], ownHead: true };

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
    llamaCpp: { ...GRAPH, read: { className: "Olmo2ForCausalLM", fields: asOlmo3 } },
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
    llamaCpp: {
      ...GRAPH,
      differs: [otherHeads, otherWindows(4)],
      windows: true,
      read: { className: "Olmo3ForCausalLM", fields: asOlmo3 },
    },
  },
  { name: "OLMo Hybrid", modelTypes: ["olmo_hybrid"], kinds: [everyNth(4, { others: LINEAR })] },
];

/** Windows are what tells OLMo 3 from OLMo 2 in llama.cpp. */
function asOlmo3(read: GgufMetadata) {
  if (read.number("attention.sliding_window") === undefined) return {};
  const rope = { rope_type: "default", rope_theta: read.number("rope.freq_base") ?? 10_000 };
  return {
    model_type: "olmo3",
    architectures: ["Olmo3ForCausalLM"],
    rope_parameters: { full_attention: rope, sliding_attention: rope },
    ...readWindows(read, 4),
  };
}

function traits(fields: ConfigFields): Traits {
  return {
    norms: NORMS_AFTER,
    biases: attentionBiases(fields),
    attention: { qkNorm: { ...rmsNorm(fields), over: "width" } },
  };
}
