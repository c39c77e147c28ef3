// The tensors of a GGUF file, by the roles of a decoder's weights.

import type { ModelSource } from "../../engine/index.js";
import { type DecoderSpec, locateWeights } from "../../engine/model/index.js";
import type { ExpertMatrices, LlamaCpp } from "../../families/index.js";
import { elementCount, MismatchError } from "../../kit/index.js";
import type { Step } from "../../merge/index.js";

/** A tensor computed from steps of a plan. */
export interface PlannedTensor {
  readonly name: string;
  readonly shape: readonly number[];
  /** -1 outside of layers. */
  readonly layer: number;
  /** One, or that of each expert. */
  readonly steps: readonly Step[];
  /** Values are divided by this, then `plus` is added. */
  readonly divisor: number;
  readonly plus: number;
  /** Rows of a group whose halves alternate; undefined where rows keep their order. */
  readonly interleave: number | undefined;
}

/** Names in layers by role; the second is that of a fused tensor's parts. */
const NAMES: Readonly<Record<string, string>> = {
  q: "attn_q",
  k: "attn_k",
  v: "attn_v",
  o: "attn_output",
  qNorm: "attn_q_norm",
  kNorm: "attn_k_norm",
  gate: "ffn_gate",
  up: "ffn_up",
  down: "ffn_down",
  beforeAttention: "attn_norm",
  afterAttention: "post_attention_norm",
  beforeFeedForward: "ffn_norm",
  afterFeedForward: "post_ffw_norm",
  inputGate: "inp_gate",
  inputUp: "proj",
  afterInput: "post_norm",
  scale: "layer_output_scale",
  mix: "shortconv.in_proj",
  convolution: "shortconv.conv",
  mixed: "shortconv.out_proj",
};

/** Names of tensors that hold several projections. */
const FUSED: Readonly<Record<string, string>> = { q: "attn_qkv", k: "attn_qkv", v: "attn_qkv", gate: "ffn_up" };

/**
 * The tensors of a decoder in the order of computation.
 * @throws CheckpointError if weights are missing
 * @throws MismatchError if one has another shape than the configuration
 */
export function planTensors(
  source: ModelSource,
  spec: DecoderSpec,
  architecture: LlamaCpp,
): { tensors: PlannedTensor[]; unused: readonly string[] } {
  const { stored, unused } = locateWeights(spec, source.tensors.keys(), source.name);
  const tensors = new Map<string, PlannedTensor>();
  const wrong: string[] = [];
  const add = (
    name: string,
    weight: { readonly name: string; readonly shape: readonly number[]; readonly rows?: { readonly of: number } },
    layer: number,
    traits: Partial<Pick<PlannedTensor, "divisor" | "plus" | "interleave">> = {},
  ) => {
    if (tensors.has(name)) return;
    const step = source.tensors.get(stored.get(weight.name) ?? "") as Step;
    const shape = weight.rows ? [weight.rows.of, ...weight.shape.slice(1)] : weight.shape;
    if (step.shape.join() !== shape.join()) wrong.push(`${step.tensor} is [${step.shape}], not [${shape}]`);
    // llama.cpp has convolutions [channels, kernel].
    const flat = shape.length === 3 ? shape.filter((extent, axis) => axis !== 1 || extent !== 1) : shape;
    const own = { divisor: 1, plus: 0, interleave: undefined, ...traits };
    tensors.set(name, { name, shape: flat, layer, steps: [step], ...own });
  };
  /** The matrices of experts as one tensor. */
  const addExperts = (name: string, matrices: ExpertMatrices | undefined, layer: number) => {
    if (!matrices) return;
    const parts = matrices.weights.map(({ name: weight, shape }) => {
      const step = source.tensors.get(stored.get(weight) ?? "") as Step;
      if (step.shape.join() !== shape.join()) wrong.push(`${step.tensor} is [${step.shape}], not [${shape}]`);
      return step;
    });
    const shape = [parts.length, ...(matrices.weights[0]?.shape ?? [])];
    tensors.set(name, { name, shape, layer, steps: parts, divisor: 1, plus: 0, interleave: undefined });
  };

  const { headDim, norm, attention, layers, layerInputs } = spec;
  // Where llama.cpp multiplies scores by a number of its own, queries make up for the difference.
  const ownScale = architecture.attentionScale?.(spec) ?? headDim ** -0.5;
  const excess = architecture.scales?.includes("attention") ? 1 : ownScale / attention.scale;
  const divisor = Math.abs(excess - 1) < 1e-6 ? 1 : excess;
  const groups = architecture.interleaved ? headDim : undefined;

  add("token_embd.weight", spec.embedding, -1);
  if (layerInputs) {
    add("per_layer_token_embd.weight", layerInputs.embedding, -1);
    add("per_layer_model_proj.weight", layerInputs.projection.weight, -1);
    add("per_layer_proj_norm.weight", layerInputs.norm.weight, -1, { plus: norm.offset });
  }
  for (const [index, { weights, experts }] of layers.entries()) {
    for (const [role, { weight, bias }] of Object.entries(weights)) {
      // Constants of activations are metadata; where values are keys, llama.cpp finds no values and takes keys.
      if (!weight.rows && (!NAMES[role] || (role === "v" && weight.name === weights.k?.weight.name))) continue;
      const isNorm = weight.shape.length === 1 || role === "qNorm" || role === "kNorm";
      const name = `blk.${index}.${(weight.rows && FUSED[role]) ?? NAMES[role]}`;
      // A norm undoes a scale of its input.
      const scaled = role === (weights.qNorm ? "qNorm" : "q") ? divisor : 1;
      const plus = isNorm ? (role === "qNorm" || role === "kNorm" ? (attention.qkNorm?.offset ?? 0) : norm.offset) : 0;
      const interleave = role === "q" || role === "k" ? groups : undefined;
      add(`${name}.weight`, weight, index, { divisor: scaled, plus: plus / scaled, interleave });
      if (bias) add(`${name}.bias`, bias, index, { divisor: scaled, interleave });
    }
    if (!experts) continue;
    add(`blk.${index}.ffn_gate_inp.weight`, experts.router.weight, index);
    addExperts(`blk.${index}.ffn_gate_exps.weight`, experts.gate, index);
    addExperts(`blk.${index}.ffn_up_exps.weight`, experts.up, index);
    addExperts(`blk.${index}.ffn_down_exps.weight`, experts.down, index);
  }
  const last = architecture.outputNorm ?? "output_norm";
  add(`${last}.weight`, spec.finalNorm.weight, -1, { plus: norm.offset });
  if (spec.finalNorm.bias) add(`${last}.bias`, spec.finalNorm.bias, -1);
  const head = spec.head ?? (architecture.head === "own" ? spec.embedding : null);
  if (head) add("output.weight", head, -1);
  if (wrong.length > 0) throw new MismatchError(`the weights of ${source.name} do not match its configuration:`, wrong);
  const planned = [...tensors.values()].filter(({ shape }) => elementCount(shape) > 0);
  return { tensors: planned, unused };
}
