// Parts of layers of unknown families, by common words in the names of their modules.
import type { LayerPart } from "../../families/index.js";

type Guess = readonly [RegExp, LayerPart];

/**
 * The part of a module in a layer: the first stage that knows it decides.
 * @param norms all norms of the family's layers
 */
export function guessPart(module: string, norms: ReadonlySet<string> | undefined): LayerPart {
  const stated = normOf(module, norms);
  if (stated) return stated;
  for (const stage of STAGES) {
    const found = stage.find(([pattern]) => pattern.test(module));
    if (found) return found[1];
  }
  return "other";
}

/**
 * What a norm of an unknown family normalises. `post_attention_layernorm` follows attention where the layer has another norm
 * before its MLP, or none before attention (OLMo 2); elsewhere it comes before the MLP, as in Llama.
 * @param norms all norms of the family's layers
 */
function normOf(module: string, norms: ReadonlySet<string> | undefined): LayerPart | undefined {
  const post = "post_attention_layernorm";
  if (module !== post || !norms) return undefined;
  const has = (pattern: RegExp) => [...norms].some((norm) => pattern.test(norm));
  const isAfter =
    has(/^(pre_(feedforward|mlp|ff)|ffn)_?(layer)?norm$/) || !has(/^(input|pre_attn|pre_attention)_?(layer)?norm$/);
  return isAfter ? "post_attention_norm" : "pre_mlp_norm";
}

/** Modules that are one part, whatever is in them. */
const WHOLE: readonly Guess[] = [
  [/(^|[._])per_layer_input_/, "other"], // Gemma 3n and 4, after both halves
  [/^(mlp|feed_forward|ffn)\.(key|value|receptance)$/, "feed_forward"], // RWKV
  [
    /(^|[._])(linear_attn|mamba|mixer|short_conv|conv|ssm|recurrent|temporal_block|gated_deltanet|linear_attention)\./,
    "mixer",
  ],
];

/** In any order, as a name is of one of them at most. A norm that none of these names is of no part. */
export const NORMS: readonly Guess[] = [
  [/(^|[._])q(uery)?_?(layer)?norm$/, "q_norm"],
  [/(^|[._])k(ey)?_?(layer)?norm$/, "k_norm"],
  [/(^|[._])post_(self_)?(attn|attention|operator)_?(layer)?norm$/, "post_attention_norm"],
  [/(^|[._])post_(feedforward|mlp|ffn?|moe)_?(layer)?norm(_\d)?$/, "post_mlp_norm"],
  [
    /(^|(?<!post)[._])(pre_(feedforward|mlp|ff|moe)|ffn|mlp|feed_forward)_?(layer)?norm(_\d)?$|^(ln_?2|ln_mlp|norm_?2)$/,
    "pre_mlp_norm",
  ],
  [
    /(input|pre_?attn|pre_?attention|(?<!post_(self_)?)(operator|self_attn|attention|attn))_?(layer)?(norm|ln)$|^(ln_?1|ln_attn|norm_?1)$/,
    "input_norm",
  ],
  [/^norm$/, "input_norm"],
];

const ATTENTION: readonly Guess[] = [
  [/(qkv|query_key_value|c_attn|Wqkv|wqkv|qkv_proj)/i, "qkv_proj"],
  [/(^|[._])(q_proj|query|wq|q)$/, "q_proj"],
  [/(^|[._])(k_proj|key|wk|k)$/, "k_proj"],
  [/(^|[._])(v_proj|value|wv|v)$/, "v_proj"],
  [/(attn|attention).*\.(o_proj|out_proj|c_proj|dense|wo|proj)$/i, "o_proj"],
  // What else is in attention.
  [/^(self_attn|self_attention|attention|attn|cross_attn)\./, "mixer"],
];

const FEED_FORWARD: readonly Guess[] = [
  [/(gate_up|gate_and_up|(^|\.)Wi$)/, "gate_up_proj"],
  [/shared_expert_gate$/, "shared_expert_gate"],
  [/(^|[._])(gate_proj|w1|gate_fc)$/, "gate_proj"],
  [/(^|\.)(router|gate|e_score_correction_bias|expert_bias)$/, "router"],
  [/(^|[._])(up_proj|w3|fc1|fc_in|c_fc|dense_h_to_4h|intermediate\.dense)$/, "up_proj"],
  [/(^|[._])(down_proj|w2|fc2|fc_out|c_proj|dense_4h_to_h|output\.dense|mlp\.Wo)$/, "down_proj"],
  // What else is in a feed-forward part.
  [/^(mlp|feed_forward|ffn|block_sparse_moe|moe|experts|shared_mlp|shared_expert)\./, "feed_forward"],
];

/** In this order, as attention has modules by the names of those of a feed-forward part (`attn.c_proj`). */
const STAGES = [WHOLE, NORMS, ATTENTION, FEED_FORWARD];
