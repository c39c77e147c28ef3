// NVIDIA's Nemotron-H: each layer is a state space, attention without rotation, or a feed-forward part.
import type { ConfigFields } from "./page/config-fields.js";
import type { Family, LayerHalf } from "./page/family.js";
import { FULL, LINEAR } from "./page/layer-kinds.js";
import { mamba2, requireGroups, siluOnly } from "./page/mamba.js";
import { readActivation, rmsNorm } from "./page/traits.js";

export const nemotron: readonly Family[] = [
  {
    name: "Nemotron-H",
    modelTypes: ["nemotron_h"],
    reference: "NVIDIA 2025, arXiv 2504.03624; transformers NemotronHForCausalLM",
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
        layer: (index) => ({ rope: null, has: [kinds[index] ?? "feedForward"] }),
      };
    },
  },
];

const KINDS: Readonly<Record<string, LayerHalf>> = {
  [LINEAR]: "recurrence",
  mamba: "recurrence",
  M: "recurrence",
  [FULL]: "attention",
  attention: "attention",
  "*": "attention",
  mlp: "feedForward",
  "-": "feedForward",
};

/** What each layer is: a list, or a letter for each layer. */
function kindsOf(fields: ConfigFields, layers: number): LayerHalf[] {
  const listed = ["layers_block_type", "layer_types", "hybrid_override_pattern"].find((field) => fields.has(field));
  const value = fields.get(listed ?? "");
  const names: unknown[] = typeof value === "string" ? [...value] : Array.isArray(value) ? value : [];
  const field = listed ?? "layers_block_type";
  const isExperts = (name: unknown) => name === "moe" || name === "E";
  const wrong = names.find((name) => typeof name !== "string" || KINDS[name] === undefined);
  if (names.length !== layers) fields.refuse(field, `has ${names.length} entries; the model has ${layers} layers`);
  else if (names.some(isExperts)) fields.refuse(field, "has layers of experts, which are not supported");
  else if (wrong !== undefined) fields.refuse(field, `has ${JSON.stringify(wrong)}, which is not a kind of its layers`);
  return names.map((name) => KINDS[String(name)] ?? "feedForward");
}
