// Families that are merged by the words in their tensors' names, and whose kinds of layers follow from fields of their own.
import type { Family } from "./page/family.js";
import { denseBefore, everyNth, inPeriods, LINEAR } from "./page/layer-kinds.js";
import { DECODER_STEMS, LLAMA_PARTS, PRE_NORMS, SHARED_EXPERTS } from "./page/tensor-names.js";

export const others: readonly Family[] = [
  {
    name: "AFMoE",
    modelTypes: ["afmoe"],
    kinds: [everyNth(4, { field: "global_attn_every_n_layers" }), denseBefore("num_dense_layers", 1)],
  },
  {
    name: "Aria", // experts are stored [experts, in, out]
    modelTypes: ["aria_text"],
    tensors: {
      parts: {
        ...LLAMA_PARTS,
        ...SHARED_EXPERTS,
        "mlp.router": "router",
        "mlp.experts.fc1": "gate_up_proj",
        "mlp.experts.fc2": "down_proj",
      },
      transposed: ["mlp.experts.fc1", "mlp.experts.fc2"],
    },
  },
  {
    name: "Inkling", // what relative positions are multiplied by is stored [in, out]
    modelTypes: [
      "inkling_text",
      "inkling_mm_model",
      "inkling2_text",
      "inkling2",
      "inkling2_loop_text",
      "inkling2_loop",
    ],
    tensors: {
      stems: [...DECODER_STEMS, "model.llm."],
      parts: { ...PRE_NORMS, "self_attn.rel_logits_proj.proj": "mixer", "attn.rel_logits_proj.proj": "mixer" },
      transposed: ["self_attn.rel_logits_proj.proj", "attn.rel_logits_proj.proj"],
    },
  },
  { name: "CWM", modelTypes: ["cwm"], kinds: [everyNth(4, { first: 0 })] },
  { name: "MiniMax", modelTypes: ["minimax"], kinds: [everyNth(2, { others: LINEAR, first: 0 })] },
  {
    name: "EXAONE MoE",
    modelTypes: ["exaone_moe"],
    kinds: [
      everyNth(4, { field: "sliding_window_pattern" }),
      denseBefore("first_k_dense_replace", 1, "mlp_layer_types"),
    ],
  },
  {
    name: "Mixtures of experts that list their dense layers",
    modelTypes: ["axk1", "axk2", "bailing_hybrid", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa", "kimi_linear"],
    kinds: [denseBefore("first_k_dense_replace", 1, "mlp_layer_types")],
  },
  {
    name: "Jamba",
    modelTypes: ["jamba"],
    kinds: [
      inPeriods("attn_layer", 8, 4, ["attention", "mamba"]),
      inPeriods("expert_layer", 2, 1, ["sparse", "dense"]),
    ],
  },
  {
    name: "Dory",
    modelTypes: ["dory"],
    kinds: [
      {
        numbers: Object.fromEntries(
          ["n_input_layers", "n_recurrent_layers", "n_output_layers"].map((field) => [field, { missing: 0, least: 0 }]),
        ),
        kind: (layer, [first = 0, repeated = 0, last = 0], layers) => {
          if (first + repeated + last !== layers) return "none";
          if (layer < first) return "input";
          return layer < first + repeated ? "recurrent" : "output";
        },
      },
    ],
  },
];
