// The parts of a model, and the half of a layer that each belongs to.

/**
 * Parts outside the layers. `mtp` predicts further tokens; `encoder` and `decoder` are stacks of a model that has both; `module` is
 * beside the model, as in sentence-transformers.
 */
export type OutsidePart =
  | "embed_tokens"
  | "position_embeddings"
  | "final_norm"
  | "lm_head"
  | "mtp"
  | "vision"
  | "encoder"
  | "decoder"
  | "module"
  | "other";

export type Part = LayerPart | OutsidePart;

/** The two halves of a transformer layer. A norm goes with the half whose input or output it normalises. */
export type Block = "attention" | "mlp" | "other";

const BLOCKS = {
  q_proj: "attention",
  k_proj: "attention",
  v_proj: "attention",
  qkv_proj: "attention",
  o_proj: "attention",
  q_norm: "attention",
  k_norm: "attention",
  input_norm: "attention", // also the one shared norm of a parallel block (Cohere, Phi-2)
  post_attention_norm: "attention",
  mixer: "attention", // other tensors of attention, or of what replaces it: linear attention, a state space, a convolution
  gate_proj: "mlp",
  up_proj: "mlp",
  gate_up_proj: "mlp",
  down_proj: "mlp",
  pre_mlp_norm: "mlp",
  post_mlp_norm: "mlp",
  router: "mlp",
  shared_expert_gate: "mlp",
  feed_forward: "mlp", // other tensors of the MLP or the experts
  other: "other",
} as const satisfies Readonly<Record<string, Block>>;

/** Parts of a layer. A bias has its weight's part; experts' matrices have the dense layer's. */
export type LayerPart = keyof typeof BLOCKS;

/** The half of a layer that a part belongs to; "other" for tensors outside the layers too. */
export function blockOf(part: Part): Block {
  return Object.hasOwn(BLOCKS, part) ? BLOCKS[part as LayerPart] : "other";
}

/**
 * Whether a tensor is a matrix, or several in one tensor. Biases of all experts and norms of all heads are vectors, though
 * they are stored together; so is whatever has one dimension.
 */
export function isMatrix(name: string, { part, shape }: { readonly part: Part; readonly shape: readonly number[] }) {
  return shape.length > 1 && !isBias(name) && !part.endsWith("_norm");
}

/** As PyTorch names parameters: `q_proj.bias`, and `gate_up_proj_bias` of all experts. */
export const isBias = (name: string): boolean => /[._]bias$/.test(name);

const ORDER: readonly string[] = [
  "embed_tokens",
  "position_embeddings",
  ...Object.keys(BLOCKS).filter((part) => part !== "other"),
  "final_norm",
  "lm_head",
  "mtp",
  "vision",
  "encoder",
  "decoder",
  "module",
  "other",
];

/** Orders parts as in a model: attention before feed-forward, embedding first, head last. */
export function compareParts(a: Part, b: Part): number {
  return ORDER.indexOf(a) - ORDER.indexOf(b);
}
