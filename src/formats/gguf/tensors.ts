// The tensors of a GGUF file, by the roles of a decoder's weights: files are written and read by this list.

import type { DecoderSpec, ExpertWeights, LayerSpec, LlamaCpp, StoredWeight } from "../../families/index.js";
import { addDelta, addStateSpace, times } from "./recurrence-tensors.js";
import { type LaidOutTensor, rowsOf, TensorList } from "./tensor-list.js";

/** Names in layers by role. */
const NAMES: Readonly<Record<string, string>> = {
  q: "attn_q",
  k: "attn_k",
  v: "attn_v",
  o: "attn_output",
  qNorm: "attn_q_norm",
  kNorm: "attn_k_norm",
  qDown: "attn_q_a",
  qDownNorm: "attn_q_a_norm",
  kvDown: "attn_kv_a_mqa",
  kvDownNorm: "attn_kv_a_norm",
  sinks: "attn_sinks",
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
};

const CONVOLUTION = { mix: "shortconv.in_proj", convolution: "shortconv.conv", mixed: "shortconv.out_proj" };

/** Names of experts' weights by role, but those of their matrices. */
const EXPERTS = {
  router: "ffn_gate_inp.weight",
  correction: "exp_probs_b.bias",
  scale: "ffn_down_exps.scale",
  beforeRouter: "ffn_gate_inp.scale",
  beforeExperts: "pre_ffw_norm_2.weight",
  afterExperts: "post_ffw_norm_2.weight",
  afterShared: "post_ffw_norm_1.weight",
  narrow: "ffn_latent_down.weight",
  widen: "ffn_latent_up.weight",
} as const;

/** Names of what all tokens share beside experts. */
const SHARED = { gate: "ffn_gate_shexp", up: "ffn_up_shexp", down: "ffn_down_shexp" };

/** Names of tensors that hold several projections. */
const FUSED: Readonly<Record<string, string>> = {
  q: "attn_qkv",
  k: "attn_qkv",
  v: "attn_qkv",
  gate: "ffn_up",
  up: "ffn_up",
};

/** Calls `each` for the tensors of a decoder in the order of computation. */
export function layOutTensors(spec: DecoderSpec, architecture: LlamaCpp, each: (tensor: LaidOutTensor) => void): void {
  const list = new TensorList(each);
  const { norm, layers, layerInputs, recurrence } = spec;
  const { names = {}, folds = false } = architecture;

  list.addWeight("token_embd.weight", spec.embedding, -1, folds ? times(spec.embeddingScale) : {});
  if (layerInputs) {
    list.addWeight("per_layer_token_embd.weight", layerInputs.embedding, -1);
    list.addWeight("per_layer_model_proj.weight", layerInputs.projection.weight, -1);
    list.addWeight("per_layer_proj_norm.weight", layerInputs.norm.weight, -1, { plus: norm.offset });
  }
  for (const [index, { weights, experts }] of layers.entries()) {
    addRoles(list, index, spec, architecture);
    if (weights.kv) addLatent(list, index, layers[index] as LayerSpec, spec);
    if (recurrence?.state && weights.mix) {
      const own = { ...recurrence, state: recurrence.state };
      if (recurrence.kind === "delta") addDelta(list, index, own, weights, architecture.tiled ?? false);
      else addStateSpace(list, index, own, weights);
    }
    if (weights.sharedGate) {
      list.addWeight(`blk.${index}.ffn_gate_inp_shexp.weight`, weights.sharedGate.weight, index);
    }
    if (experts) addExperts(list, index, experts, architecture);
  }
  const last = names.finalNorm ?? "output_norm";
  list.addWeight(`${last}.weight`, spec.finalNorm.weight, -1, { plus: norm.offset });
  if (spec.finalNorm.bias) list.addWeight(`${last}.bias`, spec.finalNorm.bias, -1);
  const head = spec.head ?? (architecture.ownHead || folds ? spec.embedding : null);
  if (head) list.addWeight("output.weight", head, -1, folds ? times(spec.logitScale) : {});
}

/** Weights that have a tensor of their own. */
function addRoles(list: TensorList, index: number, spec: DecoderSpec, architecture: LlamaCpp): void {
  const { headDim, norm, attention, recurrence } = spec;
  const { weights, experts } = spec.layers[index] as LayerSpec;
  const named: Readonly<Record<string, string>> = {
    ...NAMES,
    ...(recurrence?.kind === "convolution" ? CONVOLUTION : {}),
    ...(weights.qDown ? { q: "attn_q_b" } : {}),
    ...(experts && architecture.experts?.shared !== "dense" ? SHARED : {}),
    ...architecture.names,
  };
  // Where llama.cpp multiplies scores by a number of its own, queries make up for the difference.
  const ownScale = architecture.attentionScale?.(spec) ?? headDim ** -0.5;
  const excess = architecture.scales?.includes("attention") ? 1 : ownScale / attention.scale;
  const scale = Math.abs(excess - 1) < 1e-6 ? 1 : excess;
  for (const [role, { weight, bias, ...linear }] of Object.entries(weights)) {
    // Constants of activations are metadata; where values are keys, llama.cpp finds no values and takes keys.
    if (!named[role] || (role === "v" && weight.name === weights.k?.weight.name)) continue;
    const fused = weight.rows && architecture.fused ? FUSED[role] : undefined;
    const name = `blk.${index}.${fused ?? named[role]}`;
    const factor = "factor" in linear ? linear.factor : 1;
    // A norm undoes a scale of its input.
    const divisor = (role === (weights.qNorm ? "qNorm" : "q") ? scale : 1) / factor;
    const offset = role === "qNorm" || role === "kNorm" ? (attention.qkNorm?.offset ?? 0) : offsetOf(role, norm.offset);
    const isTurned = architecture.interleaved && (role === "q" || role === "k");
    const turn = (cell: number) => (isTurned ? { turn: { rows: 2, columns: headDim / 2, cell } } : {});
    const add = fused ? list.addWhole.bind(list) : list.addWeight.bind(list);
    const ending = role === architecture.bare ? "" : ".weight";
    add(`${name}${ending}`, weight, index, { divisor, plus: offset / divisor, ...turn(weight.shape.at(-1) ?? 1) });
    if (bias) add(`${name}.bias`, bias, index, { divisor, ...turn(1) });
  }
}

/** What norms of the stream have more in a file than in a folder. */
const offsetOf = (role: string, offset: number) => (/^(before|after)/.test(role) ? offset : 0);

/** Keys and values of latent attention, apart, with queries' half of the product turned. */
function addLatent(list: TensorList, index: number, { weights, valueDim }: LayerSpec, { heads }: DecoderSpec): void {
  const kv = weights.kv?.weight as StoredWeight;
  const [rows = 0, rank = 0] = kv.shape;
  const size = rows / heads;
  const plain = size - valueDim;
  const parts = (from: number, count: number, isTurned: boolean) =>
    Array.from({ length: heads }, (_, head) => {
      const turn = { rows: count, columns: rank, cell: 1 };
      return rowsOf(kv, isTurned ? { turn } : {}, head * size + from, count);
    });
  list.add(`blk.${index}.attn_k_b.weight`, index, [heads, rank, plain], parts(0, plain, true));
  list.add(`blk.${index}.attn_v_b.weight`, index, [heads, valueDim, rank], parts(plain, valueDim, false));
}

function addExperts(list: TensorList, index: number, experts: ExpertWeights, { fused }: LlamaCpp): void {
  const { router, gate, up, gateUp, down } = experts;
  const name = (of: string) => `blk.${index}.ffn_${of}_exps`;
  for (const [role, ending] of Object.entries(EXPERTS) as [keyof typeof EXPERTS, string][]) {
    const { weight } = experts[role] ?? {};
    if (weight) list.addWeight(`blk.${index}.${ending}`, weight, index);
  }
  if (router.bias) list.addWeight(`blk.${index}.ffn_gate_inp.bias`, router.bias, index);
  const [first] = fused && gate ? gate.weights : [];
  if (first?.rows && gate) {
    const shape = [gate.weights.length, gate.parameter.of, first.shape[1] ?? 0];
    list.add(`${name("gate_up")}.weight`, index, shape, [rowsOf(first, {}, 0, first.rows.of)]);
  } else {
    list.addExperts(name("gate"), index, gate);
    list.addExperts(name("up"), index, up);
  }
  if (gateUp) list.addPairs([name("gate"), name("up")], index, gateUp);
  list.addExperts(name("down"), index, down);
}
