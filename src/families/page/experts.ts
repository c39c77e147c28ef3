// Readings of a configuration that mixtures of experts share.
import type { ConfigFields } from "./config-fields.js";
import type { ExpertTraits } from "./family.js";
import type { RoutingSpec } from "./spec.js";

/** Modules of Qwen, DeepSeek and GLM: a matrix for each expert, or one tensor of all (Qwen 3.5 as published). */
export const EXPERT_MODULES: ExpertTraits["names"] = {
  layout: "each",
  gate: "mlp.experts.*.gate_proj",
  up: "mlp.experts.*.up_proj",
  down: "mlp.experts.*.down_proj",
  fused: { gateUp: "mlp.experts.gate_up_proj", down: "mlp.experts.down_proj" },
};

/**
 * How tokens choose experts: by the outputs of the router alone, unless said otherwise.
 * @param experts field of their number
 * @param width field of their width
 */
export function readRouting(
  fields: ConfigFields,
  experts: string,
  width: string,
  traits: Partial<RoutingSpec> = {},
): RoutingSpec {
  const [count, chosen] = [fields.count(experts), fields.count("num_experts_per_tok")];
  if (chosen > count) fields.refuse("num_experts_per_tok", `is ${chosen}, of ${count} experts`);
  const isBalanced = fields.flag("output_router_logits");
  return {
    experts: count,
    chosen,
    width: fields.count(width),
    scores: "chosen",
    normaliser: null,
    scale: 1,
    groups: null,
    clamp: null,
    balance: isBalanced ? fields.positive("router_aux_loss_coef") : null,
    ...traits,
  };
}

/** Sigmoids with a correction, by groups, after some dense layers (DeepSeek V3, GLM-4.5). */
export function sigmoidExperts(fields: ConfigFields): ExpertTraits {
  const routing = readRouting(fields, "n_routed_experts", "moe_intermediate_size", {
    scores: "sigmoid",
    // As transformers has it: sigmoids may all be 0.
    normaliser: fields.flag("norm_topk_prob") ? 1e-20 : null,
    scale: fields.positive("routed_scaling_factor"),
    balance: null,
  });
  const { experts, chosen } = routing;
  const groups = { count: fields.count("n_group"), chosen: fields.count("topk_group") };
  const size = experts / groups.count;
  const fits = Number.isInteger(size) && size >= 2 && groups.chosen <= groups.count && chosen <= size * groups.chosen;
  if (fields.problems.length === 0 && !fits) {
    const wanted = `must divide the ${experts} experts into groups of at least 2, whose topk_group have ${chosen} experts`;
    fields.refuse("n_group", `is ${groups.count}, topk_group ${groups.chosen}; it ${wanted}`);
  }
  const dense = fields.count("first_k_dense_replace", 0);
  return {
    // With all groups chosen, their scores do not matter.
    routing: { ...routing, groups: groups.chosen === groups.count ? null : groups },
    inLayer: (layer) => layer >= dense,
    router: "mlp.gate",
    correction: "mlp.gate.e_score_correction_bias",
    names: EXPERT_MODULES,
    shared: {
      names: {
        gate: "mlp.shared_experts.gate_proj",
        up: "mlp.shared_experts.up_proj",
        down: "mlp.shared_experts.down_proj",
      },
      width: routing.width * fields.count("n_shared_experts"),
    },
  };
}
