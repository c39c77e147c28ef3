// NVIDIA's Nemotron-H: each layer is a state space, attention without rotation, a feed-forward part, or experts.
import type { ConfigFields } from "./page/config-fields.js";
import { groupedRouting } from "./page/experts.js";
import type { ExpertTraits, Family, LayerHalf } from "./page/family.js";
import { FULL, LINEAR } from "./page/layer-kinds.js";
import { type GgufMetadata, type LlamaCpp, readGroups, readSigmoidExperts } from "./page/llama-cpp.js";
import { mamba2, readStateSpace, requireGroups, siluOnly } from "./page/mamba.js";
import { DECODER_STEMS, inModule, mambaParts } from "./page/tensor-names.js";
import { readActivation, rmsNorm } from "./page/traits.js";

const GRAPH: LlamaCpp = {
  name: "nemotron_h",
  recurrence: "mamba2",
  activation: "relu2",
  bothEpsilons: true,
  biases: ["q", "k", "v", "o", "up", "down", "convolution"],
  // Nothing turns, but the converter reorders queries and keys as of Llama.
  interleaved: true,
  unrotated: () => true,
  names: { beforeFeedForward: "attn_norm" },
};

/** Of models with experts: none of its feed-forward parts has a bias. */
const MIXTURE: LlamaCpp = {
  ...GRAPH,
  name: "nemotron_h_moe",
  biases: ["q", "k", "v", "o", "convolution"],
  experts: { scores: "sigmoid", shared: "width" },
};

export const nemotron: readonly Family[] = [
  {
    name: "Nemotron-H",
    modelTypes: ["nemotron_h"],
    reference: "NVIDIA 2025, arXiv 2504.03624; transformers NemotronHForCausalLM",
    tensors: {
      stems: ["backbone.", ...DECODER_STEMS],
      parts: {
        norm: "input_norm",
        "mixer.q_proj": "q_proj",
        "mixer.k_proj": "k_proj",
        "mixer.v_proj": "v_proj",
        "mixer.o_proj": "o_proj",
        "mixer.up_proj": "up_proj",
        "mixer.down_proj": "down_proj",
        ...mambaParts("mixer"),
        "mixer.gate": "router",
        "mixer.gate.e_score_correction_bias": "router",
        "mixer.experts.*.up_proj": "up_proj",
        "mixer.experts.*.down_proj": "down_proj",
        "mixer.experts.up_proj": "up_proj", // as transformers 5 has them in memory
        "mixer.experts.down_proj": "down_proj",
        "mixer.shared_experts.up_proj": "up_proj",
        "mixer.shared_experts.down_proj": "down_proj",
        ...inModule("mixer", "feed_forward", ["fc1_latent_proj", "fc2_latent_proj"]),
      },
      outside: { embeddings: "embed_tokens", norm_f: "final_norm", lm_head: "lm_head" },
    },
    defaults: {
      vocab_size: 131_072,
      intermediate_size: 21_504,
      num_key_value_heads: 8,
      head_dim: 128,
      max_position_embeddings: 4096,
      layer_norm_epsilon: 1e-5,
      mlp_hidden_act: "relu2",
      mamba_hidden_act: "silu",
      ssm_state_size: 128,
      mamba_num_heads: 128,
      mamba_head_dim: 64,
      n_groups: 8,
      conv_kernel: 4,
      time_step_min: 0.001,
      use_conv_bias: true,
      use_bias: false,
      n_routed_experts: 8,
      num_experts_per_tok: 2,
      moe_intermediate_size: 7688,
      n_group: 1,
      topk_group: 1,
      moe_shared_expert_intermediate_size: 7688,
      norm_topk_prob: true,
      routed_scaling_factor: 1,
    },
    unread: ["n_routed_experts"], // its layers are listed by their kinds
    traits: (fields, { hidden, layers }) => {
      siluOnly(fields, "mamba_hidden_act");
      const [heads, groups] = [fields.count("mamba_num_heads"), fields.count("n_groups")];
      requireGroups(fields, "n_groups", groups, heads);
      const kinds = kindsOf(fields, layers);
      const bias = fields.flag("use_bias");
      return {
        norm: rmsNorm(fields, "layer_norm_epsilon"),
        activation: readActivation(fields, "mlp_hidden_act"),
        norms: { beforeAttention: "norm", beforeFeedForward: "norm" },
        names: { attention: "mixer", embedding: "embeddings", finalNorm: "norm_f" },
        feedForward: { gate: null, up: "mixer.up_proj", down: "mixer.down_proj" },
        biases: { feedForward: fields.flag("mlp_bias") },
        ropes: [],
        recurrence: mamba2({
          module: "mixer",
          hidden,
          heads,
          groups,
          headWidth: fields.count("mamba_head_dim"),
          stateWidth: fields.count("ssm_state_size"),
          kernel: fields.count("conv_kernel", 2),
          bias: { convolution: fields.flag("use_conv_bias"), in: bias, out: bias },
          norm: { beforeGate: false },
          leastStep: fields.get("time_step_min") === 0 ? 0 : fields.positive("time_step_min"),
        }),
        ...(kinds.includes("experts")
          ? { experts: { ...experts(fields, hidden), inLayer: (index) => kinds[index] === "experts" } }
          : {}),
        layer: (index) => {
          const kind = kinds[index] ?? "experts";
          return { rope: null, has: [kind === "experts" ? "feedForward" : kind] };
        },
      };
    },
    llamaCpp: {
      ...GRAPH,
      other: { of: "experts", graph: MIXTURE },
      read: { className: "NemotronHForCausalLM", epsilon: "layer_norm_epsilon", stem: "backbone.", fields: readFields },
    },
  },
];

function readFields(read: GgufMetadata) {
  const { heads, headWidth, groups, state, kernel, hasBias } = readStateSpace(read);
  const [mamba, full, moe] = ["ssm_in.weight", "attn_q.weight", "ffn_up_exps.weight"].map(read.layersWith);
  return {
    mamba_num_heads: heads,
    mamba_head_dim: headWidth,
    n_groups: groups,
    ssm_state_size: state,
    conv_kernel: kernel,
    use_conv_bias: hasBias,
    mlp_hidden_act: "relu2",
    layers_block_type: mamba?.map((isMamba, i) =>
      isMamba ? "mamba" : full?.[i] ? "attention" : moe?.[i] ? "moe" : "mlp",
    ),
    mlp_bias: read.layersWith("ffn_up.bias").includes(true),
    ...(moe?.includes(true)
      ? {
          ...readSigmoidExperts(read, "n_routed_experts"),
          ...readGroups(read),
          moe_shared_expert_intermediate_size: read.number("expert_shared_feed_forward_length"),
          moe_latent_size: read.number("moe_latent_size") ?? null,
        }
      : {}),
  };
}

/** Sigmoids with a correction, without gates, beside a part that all tokens share; in Super through a narrower stream. */
function experts(fields: ConfigFields, hidden: number): ExpertTraits {
  const bias = fields.flag("mlp_bias");
  const linear = (name: string, ...shape: number[]) => ({
    weight: { name: `mixer.${name}.weight`, shape },
    ...(bias ? { bias: { name: `mixer.${name}.bias`, shape: shape.slice(0, 1) } } : {}),
  });
  const narrow = fields.countOrNull("moe_latent_size");
  return {
    routing: groupedRouting(fields),
    router: "mixer.gate",
    correction: "mixer.gate.e_score_correction_bias",
    ...(narrow === null
      ? {}
      : {
          weights: {
            narrow: linear("fc1_latent_proj", narrow, hidden),
            widen: linear("fc2_latent_proj", hidden, narrow),
          },
        }),
    names: { layout: "each", gate: null, up: "mixer.experts.*.up_proj", down: "mixer.experts.*.down_proj" },
    shared: {
      names: { gate: null, up: "mixer.shared_experts.up_proj", down: "mixer.shared_experts.down_proj" },
      width: fields.count("moe_shared_expert_intermediate_size"),
    },
  };
}

const KINDS: Readonly<Record<string, LayerHalf | "experts">> = {
  [LINEAR]: "recurrence",
  mamba: "recurrence",
  M: "recurrence",
  [FULL]: "attention",
  attention: "attention",
  "*": "attention",
  mlp: "feedForward",
  "-": "feedForward",
  moe: "experts",
  E: "experts",
};

/** What each layer is: a list, or a letter for each layer. */
function kindsOf(fields: ConfigFields, layers: number): (LayerHalf | "experts")[] {
  const listed = ["layers_block_type", "layer_types", "hybrid_override_pattern"].find((field) => fields.has(field));
  const value = fields.get(listed ?? "");
  const names: unknown[] = typeof value === "string" ? [...value] : Array.isArray(value) ? value : [];
  const field = listed ?? "layers_block_type";
  const wrong = names.find((name) => typeof name !== "string" || KINDS[name] === undefined);
  if (names.length !== layers) fields.refuse(field, `has ${names.length} entries; the model has ${layers} layers`);
  else if (wrong !== undefined) fields.refuse(field, `has ${JSON.stringify(wrong)}, which is not a kind of its layers`);
  return names.map((name) => KINDS[String(name)] ?? "feedForward");
}
