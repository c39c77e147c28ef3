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

/** Fields of the number of experts, of those that a token chooses, and of their width. */
export interface RoutingFields {
  readonly experts: string;
  readonly chosen?: string;
  readonly width?: string;
}

/** How tokens choose experts: by the outputs of the router alone, unless said otherwise. */
export function readRouting(
  fields: ConfigFields,
  { experts, chosen = "num_experts_per_tok", width = "moe_intermediate_size" }: RoutingFields,
  traits: Partial<RoutingSpec> = {},
): RoutingSpec {
  const [count, few] = [fields.count(experts), fields.count(chosen)];
  if (few > count) fields.refuse(chosen, `is ${few}, of ${count} experts`);
  const isBalanced = traits.balance !== null && fields.flag("output_router_logits");
  return {
    experts: count,
    chosen: few,
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

/** By sigmoids. @param least added to their sum, as they may all be 0; as transformers has it */
export function sigmoidRouting(fields: ConfigFields, experts: string, least: number): RoutingSpec {
  return readRouting(
    fields,
    { experts },
    {
      scores: "sigmoid",
      normaliser: fields.flag("norm_topk_prob") ? least : null,
      scale: fields.positive("routed_scaling_factor"),
      balance: null,
    },
  );
}

/** By sigmoids, within groups. */
export function groupedRouting(fields: ConfigFields): RoutingSpec {
  const routing = sigmoidRouting(fields, "n_routed_experts", 1e-20);
  const { experts, chosen } = routing;
  const groups = { count: fields.count("n_group"), chosen: fields.count("topk_group") };
  const size = experts / groups.count;
  const fits = Number.isInteger(size) && size >= 2 && groups.chosen <= groups.count && chosen <= size * groups.chosen;
  if (fields.problems.length === 0 && !fits) {
    const wanted = `must divide the ${experts} experts into groups of at least 2, whose topk_group have ${chosen} experts`;
    fields.refuse("n_group", `is ${groups.count}, topk_group ${groups.chosen}; it ${wanted}`);
  }
  // With all groups chosen, their scores do not matter.
  return { ...routing, groups: groups.chosen === groups.count ? null : groups };
}

/** Sigmoids with a correction, by groups, after some dense layers (DeepSeek V3, GLM-4.5). */
export function sigmoidExperts(fields: ConfigFields): ExpertTraits {
  const routing = groupedRouting(fields);
  const dense = fields.count("first_k_dense_replace", 0);
  return {
    routing,
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
