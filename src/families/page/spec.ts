// The specification of a decoder as plain data: sizes, norms, rotations, windows, scales, and the name of every weight.

/**
 * Everything about a decoder but its weights. Letters in shapes: V vocabulary, D hidden
 * width, H query heads, K key and value heads, E width of a head, F width of the feed-forward part.
 */
export interface DecoderSpec {
  /** Display name of the family, such as "Gemma 2". */
  readonly family: string;
  /** V. */
  readonly vocabularySize: number;
  /** D. */
  readonly hidden: number;
  /** H. */
  readonly heads: number;
  /** K, a divisor of H: query head h reads key and value head floor(h / (H / K)). */
  readonly kvHeads: number;
  /** E; H E need not be D. */
  readonly headDim: number;
  /** F. */
  readonly feedForward: number;
  /** Positions that the model supports (`max_position_embeddings`). */
  readonly contextLength: number;
  /** Multiplies the embedded tokens; 1 where there is none. */
  readonly embeddingScale: number;
  /** Kind, eps and offset of all norms over D. */
  readonly norm: NormSpec;
  /**
   * sequential: x += attention(x), then x += feedForward(x). parallel (Cohere): both read the same
   * beforeAttention norm of x, and both are added to x.
   */
  readonly layout: "sequential" | "parallel";
  readonly attention: AttentionSpec;
  readonly activation: Activation;
  /** Multiplies the outputs of attention and feed-forward before they are added; 1 where there is none. */
  readonly residualScale: number;
  /** Multiplies the logits, before the softcap; 1 where there is none. */
  readonly logitScale: number;
  /** c: logits become c tanh(logits / c); null where there is none. */
  readonly logitSoftcap: number | null;
  /** What replaces attention in the layers that have its weights; null where no layer has. */
  readonly recurrence: RecurrenceSpec | null;
  /** The rotations that layers refer to by index; more than one where layers differ (Gemma 3). */
  readonly ropes: readonly RopeSpec[];
  /** How tokens choose experts, in the layers that have them; null where none have. */
  readonly routing: RoutingSpec | null;
  /** From the input to the output. */
  readonly layers: readonly LayerSpec[];
  /** [V, D] */
  readonly embedding: StoredWeight;
  /** What each layer gets of the tokens besides the stream (Gemma 4). */
  readonly layerInputs?: LayerInputsSpec;
  readonly finalNorm: NormWeights;
  /** [V, D]; null where the head is tied to the embedding. */
  readonly head: StoredWeight | null;
}

/**
 * A vector of P for each token and layer: (norm(projection(x) projectionScale) + embedding[token] embeddingScale) scale,
 * where x is the scaled embedding.
 */
export interface LayerInputsSpec {
  /** P. */
  readonly width: number;
  /** [V, L P], for L layers. */
  readonly embedding: StoredWeight;
  readonly embeddingScale: number;
  /** [L P, D] */
  readonly projection: LinearWeights;
  readonly projectionScale: number;
  /** Over P. */
  readonly norm: NormWeights;
  readonly scale: number;
}

/**
 * rms: x / sqrt(mean(x^2) + eps). layer: the same of x - mean(x). Then times (offset + weight), plus the bias if there
 * is one. Norms are computed in float32 whatever the weights are.
 */
export interface NormSpec {
  readonly kind: "rms" | "layer";
  readonly eps: number;
  /** 1 in Gemma, whose stored weights are centred at 0; else 0. */
  readonly offset: 0 | 1;
}

export interface AttentionSpec {
  /** Multiplies q . k, before the softcap and before masking. */
  readonly scale: number;
  /** c: scores become c tanh(scores / c), before masking; null where there is none. */
  readonly softcap: number | null;
  /** Norms of queries and keys, after the projection; null where there are none. */
  readonly qkNorm: QkNormSpec | null;
  /** Norm of values over each head, without a weight; null where there is none (Gemma 4). */
  readonly valueNorm: Pick<NormSpec, "eps"> | null;
  /** Queries at position p are multiplied by 1 + factor log(1 + floor(p / every)); null where they are not (Ministral 3). */
  readonly growth: { readonly factor: number; readonly every: number } | null;
  /** Whether each head's rows of `q` are those of its query, then those of a gate of its output (Qwen3-Next). */
  readonly gated: boolean;
}

export interface QkNormSpec extends NormSpec {
  /**
   * head: over each head's E, one weight [E] for all heads (Qwen 3, Gemma 3). eachHead: over each head's E, a weight
   * [H, E] or [K, E] (Cohere). width: over all heads together, a weight [H E] or [K E] (OLMo 2).
   */
  readonly over: "head" | "eachHead" | "width";
  /** Whether they follow the rotation (Hunyuan). Default: they precede it. */
  readonly afterRotation?: boolean;
}

/**
 * Mixes positions through a state whose size does not grow with the text. convolution (LFM2): a short causal convolution
 * of each channel by itself, between two gates. delta (Qwen3-Next): the gated delta rule after such a convolution. mamba2
 * (Granite 4): a state space after it.
 */
export interface RecurrenceSpec {
  readonly kind: "convolution" | "delta" | "mamba2";
  /** Positions that the convolution reads, the present one among them. */
  readonly kernel: number;
  /** Width of what is convolved: of the delta rule, queries and keys of each key head, and values. */
  readonly channels: number;
  /** The state of linear attention; null for a convolution alone. */
  readonly state: StateSpec | null;
  /** The norm of what is read from the state, over each of so many groups; default none. */
  readonly innerNorm?: { readonly groups: number; readonly beforeGate: boolean };
  /** Of Mamba-2: the least step; default 0. */
  readonly leastStep?: number;
  /** Of Mamba-2: multiply values, keys and queries before the convolution (Falcon-H1); default none. */
  readonly factors?: readonly [number, number, number];
}

/** One matrix [keyWidth, valueWidth] for each head. */
export interface StateSpec {
  readonly heads: number;
  /** A divisor of heads: head h reads the key head floor(h / (heads / keyHeads)). */
  readonly keyHeads: number;
  readonly keyWidth: number;
  readonly valueWidth: number;
}

/** gelu is exact (erf), gelu_tanh its usual approximation. xielu has two weights and two constants in each layer (Apertus). relu2 squares. */
export type Activation = "silu" | "gelu" | "gelu_tanh" | "relu" | "relu2" | "xielu";

/** A token's output is the sum of its experts' outputs, each times its share. */
export interface RoutingSpec {
  readonly experts: number;
  /** Experts of a token: those of the largest scores, with the lower number where two are equal. */
  readonly chosen: number;
  /** Width of an expert. */
  readonly width: number;
  /**
   * Scores from the router's outputs. softmax, sigmoid: shares are the scores. chosen: scores are the outputs, and shares
   * their softmax over the chosen experts.
   */
  readonly scores: "softmax" | "sigmoid" | "chosen";
  /** Added to the sum that shares are divided by; null where they are not. */
  readonly normaliser: number | null;
  /** Multiplies shares. */
  readonly scale: number;
  /** Experts are neighbours in groups, and chosen from those groups alone whose best two have the largest sums. */
  readonly groups: { readonly count: number; readonly chosen: number } | null;
  /** Limits gate and up to +-limit (gate only above), then (up + 1) gate sigmoid(alpha gate); null for the activation. */
  readonly clamp: { readonly limit: number; readonly alpha: number } | null;
  /** Factor of the loss by which training balances experts; null for none. */
  readonly balance: number | null;
}

/** Rotary position embedding. Position p rotates pair i by p frequencies[i] radians. */
export interface RopeSpec {
  /** half: pair i is dimensions (i, i + dimensions / 2). interleaved (Cohere): (2 i, 2 i + 1). */
  readonly pairs: "half" | "interleaved";
  /** How many of a head's first dimensions are rotated; even (Phi-4-mini rotates a part of them). */
  readonly dimensions: number;
  /** Inverse frequencies, dimensions / 2 of them. */
  readonly frequencies: Float64Array;
  /** Other frequencies for every position of a sequence longer than `above` positions (LongRoPE of Phi-3). */
  readonly long?: { readonly above: number; readonly frequencies: Float64Array };
  /**
   * Another base for new positions of a sequence of n positions, n larger than `above`: theta (factor n / above - factor +
   * 1)^(dimensions / (dimensions - 2)). Keys in a cache keep theirs (dynamic).
   */
  readonly dynamic?: { readonly above: number; readonly factor: number };
  /** Multiplies cosine and sine, so scores grow by its square; 1 but for YaRN and LongRoPE. */
  readonly attentionFactor: number;
  /** Base of the frequencies before they were scaled. */
  readonly theta: number;
  /** How many pairs follow each axis of an image; in text, all axes are the same. */
  readonly sections?: readonly number[];
  /** How the frequencies were scaled; null where they were not. They follow from it: for programs that compute their own. */
  readonly scaling: RopeScaling | null;
}

/** A scaling of frequencies by its name in transformers, with the parameters of those that other programs compute. */
export type RopeScaling =
  | { readonly type: "linear"; readonly factor: number }
  | {
      readonly type: "yarn";
      readonly factor: number;
      /** Positions of the original training. */
      readonly original: number;
      readonly fast: number;
      readonly slow: number;
      /** Whether the range of the blended pairs is rounded to whole pairs. */
      readonly truncate: boolean;
    }
  | { readonly type: "llama3" | "longrope" | "proportional" };

export interface LayerSpec {
  /** W: position q sees keys q - W + 1 to q. null: all keys up to q. */
  readonly window: number | null;
  /** Index into `ropes`; null for layers without positions (global layers of Cohere 2). */
  readonly rope: number | null;
  /** K and E of this layer, which may differ from those of others (Gemma 4). */
  readonly kvHeads: number;
  readonly headDim: number;
  /** Width of a head's values; E in most families. */
  readonly valueDim: number;
  /** The earlier layer whose keys and values it attends to. Default: its own. */
  readonly keysOf?: number;
  readonly weights: LayerWeights;
  /** Experts, in place of the feed-forward part of `weights`, or beside it where all tokens share one. */
  readonly experts?: ExpertWeights;
}

export interface ExpertWeights {
  /** [experts, D] */
  readonly router: LinearWeights;
  /** [experts]: added to the scores that experts are chosen by, but not to shares. */
  readonly correction?: NormWeights;
  /** [experts]: multiplies shares (Gemma 4). */
  readonly scale?: NormWeights;
  /** Norms of the stream for router and experts. Default: they read what all tokens' part reads. */
  readonly beforeRouter?: NormWeights;
  readonly beforeExperts?: NormWeights;
  /** Norms of what experts give, and of what all tokens' part gives, before they are added up. */
  readonly afterExperts?: NormWeights;
  readonly afterShared?: NormWeights;
  /** [P, D] and [D, P]: experts work between them, in width P, and the router does not (Nemotron 3 Super). */
  readonly narrow?: LinearWeights;
  readonly widen?: LinearWeights;
  /** [F, D]; the gate may be missing, as in a feed-forward part. */
  readonly gate?: ExpertMatrices;
  readonly up?: ExpertMatrices;
  /** [D, 2 F], columns of gate and up in turns: in place of the two. */
  readonly gateUp?: ExpertMatrices;
  readonly down: ExpertMatrices;
}

export interface ExpertMatrices {
  /** By expert. */
  readonly weights: readonly StoredWeight[];
  /** The tensor with those of all experts in transformers, and which of a matrix's outputs there these are. */
  readonly parameter: { readonly name: string; readonly from: number; readonly of: number };
  /** Whether they are stored [in, out]. */
  readonly transposed?: boolean;
  /** [experts, out] */
  readonly bias?: StoredWeight;
}

/** A layer's weights by role. What is missing is not computed: a norm, attention, a recurrence, the feed-forward part. */
export interface LayerWeights extends RecurrenceWeights {
  /** [H E, D]; [2 H E, D] with gates. */
  readonly q?: LinearWeights;
  /** [K E, D]; missing where keys are those of another layer, or `kv` has both. */
  readonly k?: LinearWeights;
  /** [K E, D]; that of keys where values are keys before their norm. */
  readonly v?: LinearWeights;
  /** [D, H valueDim] */
  readonly o?: LinearWeights;
  /** Latent attention (DeepSeek V2, arXiv 2405.04434): x before q, narrower and normalised, where it is. */
  readonly qDown?: LinearWeights;
  readonly qDownNorm?: NormWeights;
  /** x before kv: a latent, and the part of all heads' keys that is rotated. */
  readonly kvDown?: LinearWeights;
  readonly kvDownNorm?: NormWeights;
  /** Of each head, what is not rotated of its keys, above its values. */
  readonly kv?: LinearWeights;
  /** [H]: a score of each head beside those of keys, whose share is dropped (gpt-oss). */
  readonly sinks?: NormWeights;
  readonly qNorm?: NormWeights;
  readonly kNorm?: NormWeights;
  /** [F, D]. down(activation(gate(x)) * up(x)) with a gate; down(activation(up(x))) without. */
  readonly gate?: LinearWeights;
  /** [F, D]; missing, as `down`, in layers that have experts alone. */
  readonly up?: LinearWeights;
  /** [D, F] */
  readonly down?: LinearWeights;
  /** [1, D]: times its sigmoid goes what all tokens share beside experts (Qwen3-Next). */
  readonly sharedGate?: LinearWeights;
  /** [1]: the curvature of xielu above and below 0, as softplus^-1. */
  readonly curveAbove?: NormWeights;
  readonly curveBelow?: NormWeights;
  /** []: constants of xielu. Its slope at 0, and the number just below 0 up to which it takes powers. */
  readonly curveSlope?: NormWeights;
  readonly curveEdge?: NormWeights;
  /** Of the input of attention; in the parallel layout, of the input of both halves. */
  readonly beforeAttention?: NormWeights;
  /** Of the output of attention, before it is added to the residual stream (Gemma 2 and 3, OLMo 2). */
  readonly afterAttention?: NormWeights;
  readonly beforeFeedForward?: NormWeights;
  readonly afterFeedForward?: NormWeights;
  /** [P, D] and [D, P]: x += afterInput(inputUp(activation(inputGate(x)) * input)), at the end of a layer (Gemma 4). */
  readonly inputGate?: LinearWeights;
  readonly inputUp?: LinearWeights;
  readonly afterInput?: NormWeights;
  /** [1]: multiplies the stream at the end of a layer. */
  readonly scale?: NormWeights;
}

export interface RecurrenceWeights {
  /**
   * [rows, D]: all that the recurrence reads. Of a convolution, both gates around the input, [3 D, D]. Of the delta rule,
   * queries, keys and values; with the gate of the output, head by head, where that has no weight of its own. Of Mamba-2,
   * values, keys and queries (x, B and C).
   */
  readonly mix?: LinearWeights;
  /** [channels, 1, kernel] */
  readonly convolution?: NormWeights;
  /** [heads valueWidth, D]: gate of the output. */
  readonly outputGate?: LinearWeights;
  /** [heads, D]: rate of the delta rule; above it, key head by key head, the decay where that has no weight of its own. */
  readonly rate?: LinearWeights;
  /** [heads, D]: the step of a state. */
  readonly decay?: LinearWeights;
  /** [heads]: the decay is exp(-exp(decayScale) softplus(decay + decayBias)). */
  readonly decayScale?: NormWeights;
  readonly decayBias?: NormWeights;
  /** [heads]: how much of a value is added to what is read. */
  readonly skip?: NormWeights;
  /** [heads valueWidth], or [heads valueWidth / groups], the same for each group. */
  readonly innerNorm?: NormWeights;
  /** [D, width] */
  readonly mixed?: LinearWeights;
}

/** y = factor x weight^T + bias. */
export interface LinearWeights {
  /** Default 1. */
  readonly factor?: number;
  readonly weight: StoredWeight;
  readonly bias?: StoredWeight;
}

export interface NormWeights {
  readonly weight: StoredWeight;
  readonly bias?: StoredWeight;
}

/** A stored tensor, or some of its rows. */
export interface StoredWeight {
  /**
   * Name in the checkpoint without its prefix, such as "model." or "model.language_model.":
   * "layers.0.self_attn.q_proj.weight".
   */
  readonly name: string;
  /** Shape of the tensor, or of the rows of it that are used. */
  readonly shape: readonly number[];
  /**
   * Rows of the first axis, for projections that are stored fused (Phi-3): from `from`, of `of` in the tensor. Of a tensor
   * with the `matrices` of all experts, rows of the first two axes together.
   */
  readonly rows?: { readonly from: number; readonly of: number; readonly matrices?: number };
  /** Whether transformers has it as a constant, which training leaves as it is. */
  readonly isConstant?: true;
}
