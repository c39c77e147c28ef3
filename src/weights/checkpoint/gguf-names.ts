// Names of tensors in GGUF files and in folders. Source: gguf-py/gguf/constants.py of ggml-org/llama.cpp.
import type { Architecture, LayerPart, OutsidePart } from "./architectures.js";

/** In layers; a family has the first part that it knows. */
const IN_LAYERS: Readonly<Record<string, readonly LayerPart[]>> = {
  attn_q: ["q_proj"],
  attn_k: ["k_proj"],
  attn_v: ["v_proj"],
  attn_qkv: ["qkv_proj"],
  attn_output: ["o_proj"],
  attn_q_norm: ["q_norm"],
  attn_k_norm: ["k_norm"],
  attn_norm: ["input_norm"],
  post_attention_norm: ["post_attention_norm"],
  ffn_norm: ["pre_mlp_norm"],
  post_ffw_norm: ["post_mlp_norm"],
  ffn_gate: ["gate_proj"],
  ffn_up: ["up_proj", "gate_up_proj"],
  ffn_down: ["down_proj"],
};

const OUTSIDE: Readonly<Record<string, OutsidePart>> = {
  token_embd: "embed_tokens",
  output_norm: "final_norm",
  output: "lm_head",
};

/** The name that a family's folders have for a tensor of a GGUF file; undefined for one they do not have. */
export function nameInFolder(name: string, family: Architecture): string | undefined {
  const [, layer, module = "", ending = ""] = /^(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)$/.exec(name) ?? [];
  const [stem = ""] = family.stems;
  const moduleOf = <P>(modules: Readonly<Record<string, P>>, part: P) =>
    Object.keys(modules).find((key) => modules[key] === part);
  if (layer !== undefined) {
    const parts = Object.hasOwn(IN_LAYERS, module) ? (IN_LAYERS[module] ?? []) : [];
    const [found] = parts.flatMap((part) => moduleOf(family.parts, part) ?? []);
    return found && `${stem}${family.layers}.${layer}.${found}.${ending}`;
  }
  const part = Object.hasOwn(OUTSIDE, module) ? OUTSIDE[module] : undefined;
  const found = part && moduleOf(family.outside, part);
  return found && `${part === "lm_head" ? "" : stem}${found}.${ending}`;
}
