// How llama.cpp runs each family: its name there, and what its graph can and cannot compute.
// Source: src/models/*.cpp and conversion/*.py of ggml-org/llama.cpp, November 2026.

import type { Activation, DecoderSpec } from "../../engine/model/index.js";
import { plural } from "../../kit/printing/index.js";

type LinearRole = "q" | "k" | "v" | "o" | "gate" | "up" | "down";

/** A decoder graph of llama.cpp. */
export interface Architecture {
  /** `general.architecture`. */
  readonly name: string;
  /** Whether it rotates neighbouring dimensions, so that rows of queries and keys are interleaved. */
  readonly interleaved?: boolean;
  /** Default silu. */
  readonly activation?: Activation;
  /** Projections that may have a bias; default none. */
  readonly biases?: readonly LinearRole[];
  /** Whether heads times their width must be the hidden width. Default false. */
  readonly square?: boolean;
  /** Whether layers can have windows. Default false: it attends to all positions. */
  readonly windows?: boolean;
  /** Whether the head is optional (the default), must be the embedding, or must be a tensor of its own. */
  readonly head?: "tied" | "own";
  /** Whether it reads a divisor of each frequency of the rotation: one, or two for short and long contexts. Default none. */
  readonly ropeDivisors?: readonly ("one" | "two")[];
  /** Scales of embeddings, attention, residuals and logits that it reads; default none. */
  readonly scales?: readonly ("embedding" | "attention" | "residual" | "logit")[];
  /** Factor of embeddings that it computes itself; default 1. */
  readonly embeddingScale?: (spec: DecoderSpec) => number;
  /** Factor of scores that it computes itself; default headDim^-0.5. */
  readonly attentionScale?: (spec: DecoderSpec) => number;
  /** Fewest layers of a model with norms of queries and keys over each head. */
  readonly headNormLayers?: number;
}

const LLAMA: Architecture = {
  name: "llama",
  interleaved: true,
  biases: ["q", "k", "v", "o", "gate", "up", "down"],
  ropeDivisors: ["one", "two"],
};

const GEMMA: Omit<Architecture, "name"> = {
  activation: "gelu_tanh",
  embeddingScale: ({ hidden }) => Math.sqrt(hidden),
};

/** The models of 27B, which it knows by their number of layers, have a scale of their own. */
function gemmaScale(largest: number): (spec: DecoderSpec) => number {
  return ({ layers, hidden, heads, headDim }) =>
    (layers.length === largest ? Math.trunc(hidden / heads) : headDim) ** -0.5;
}

/** By the names of the engine's families. */
const ARCHITECTURES: Readonly<Record<string, Architecture>> = {
  Llama: LLAMA,
  Mistral: LLAMA,
  "Qwen 2": { name: "qwen2", biases: ["q", "k", "v"], square: true },
  "Qwen 3": { name: "qwen3", biases: ["q", "k", "v"] },
  Gemma: { ...GEMMA, name: "gemma", head: "tied" },
  "Gemma 2": { ...GEMMA, name: "gemma2", head: "tied", windows: true, attentionScale: gemmaScale(46) },
  "Gemma 3": { ...GEMMA, name: "gemma3", windows: true, attentionScale: gemmaScale(62) },
  Cohere: {
    name: "command-r",
    biases: ["q", "k", "v"],
    square: true,
    head: "tied",
    scales: ["logit"],
    headNormLayers: 64,
  },
  "Cohere 2": { name: "cohere2", square: true, windows: true, head: "tied", scales: ["logit"] },
  "Phi-3": { name: "phi3", square: true, ropeDivisors: ["two"] },
  Granite: { ...LLAMA, name: "granite", scales: ["embedding", "attention", "residual", "logit"] },
  "OLMo 2": { name: "olmo2", square: true, head: "own" },
  "StarCoder 2": {
    name: "starcoder2",
    activation: "gelu_tanh",
    biases: ["q", "k", "v", "o", "up", "down"],
    square: true,
  },
};

export function findArchitecture(spec: DecoderSpec): Architecture | undefined {
  return ARCHITECTURES[spec.family];
}

/** Every family that llama.cpp runs. */
export const EXPORTED_FAMILIES = Object.keys(ARCHITECTURES);

/** What a model has that its graph in llama.cpp does not compute, one sentence each; empty if it can be exported. */
export function unsupportedTraits(spec: DecoderSpec, architecture: Architecture): string[] {
  const { activation = "silu", biases = [], square, head, scales = [], embeddingScale, headNormLayers } = architecture;
  const problems: string[] = [];
  if (spec.activation !== activation) problems.push(`its activation is ${spec.activation}, not ${activation}`);
  if (square && spec.heads * spec.headDim !== spec.hidden) {
    problems.push(`its ${spec.heads} heads of width ${spec.headDim} do not have the hidden width, ${spec.hidden}`);
  }
  if (head === "tied" && spec.head) problems.push("its head is not the embedding");
  const [layer] = spec.layers;
  const roles = ["q", "k", "v", "o", "gate", "up", "down"] as const;
  const biased = roles.filter((role) => layer?.weights[role]?.bias && !biases.includes(role));
  if (biased.length > 0) problems.push(`its ${plural(biased.length, "projection")} ${biased.join(", ")} have a bias`);
  const { qkNorm } = spec.attention;
  if (qkNorm?.over === "eachHead" && spec.layers.length < (headNormLayers ?? Number.POSITIVE_INFINITY)) {
    problems.push("it has norms of queries and keys");
  }
  const own = embeddingScale?.(spec) ?? 1;
  // Gemma rounds its scale to bfloat16.
  if (!scales.includes("embedding") && Math.abs(spec.embeddingScale / own - 1) > 0.01) {
    problems.push(`it multiplies embeddings by ${spec.embeddingScale}`);
  }
  if (!scales.includes("residual") && spec.residualScale !== 1) {
    problems.push(`it multiplies residuals by ${spec.residualScale}`);
  }
  if (!scales.includes("logit") && spec.logitScale !== 1) problems.push(`it multiplies logits by ${spec.logitScale}`);
  return [...problems, ...windowProblems(spec, architecture), ...ropeProblems(spec, architecture)];
}

function windowProblems({ layers }: DecoderSpec, { windows }: Architecture): string[] {
  const widths = new Set(layers.flatMap(({ window }) => (window === null ? [] : [window])));
  return windows && widths.size > 1 ? ["its layers have windows of different widths"] : [];
}

function ropeProblems({ ropes }: DecoderSpec, { ropeDivisors = [] }: Architecture): string[] {
  return ropes.flatMap(({ scaling, long }) => {
    if (scaling === null || scaling.type === "linear") return [];
    if (ropeDivisors.includes(long ? "two" : "one")) return [];
    // Without divisors, llama.cpp computes YaRN from two parameters alone.
    const { type } = scaling;
    const isPlain = type === "yarn" && scaling.truncate && scaling.fast === 32 && scaling.slow === 1;
    return isPlain ? [] : [`its rotation is scaled by ${type === "yarn" ? "an unusual YaRN" : type}`];
  });
}
