// The specification of a decoder, from what its family's page says and its configuration.
import type { ConfigFields } from "./config-fields.js";
import { asStored, expertWeights, prefixed } from "./expert-weights.js";
import type { DescribedFamily, LatentTraits, LayerTraits, Sizes, Traits } from "./family.js";
import { readRope } from "./rope.js";
import type { DecoderSpec, LayerWeights, LinearWeights, NormWeights, RecurrenceSpec } from "./spec.js";
import { readActivation, rmsNorm } from "./traits.js";

/** Norms before both halves, as Llama names them. */
const PRE_NORMS = { beforeAttention: "input_layernorm", beforeFeedForward: "post_attention_layernorm" };

const USUAL = ["attention", "feedForward"] as const;

const GATED = { gate: "mlp.gate_proj", up: "mlp.up_proj", down: "mlp.down_proj" };

/** What a configuration says of every model. */
interface StatedFacts {
  readonly layers: number | undefined;
  readonly layersField: string;
  readonly tied: boolean | undefined;
}

/** The specification of a decoder. Where `fields` has problems afterwards, it must not be used. */
export function specOf(
  family: DescribedFamily,
  fields: ConfigFields,
  config: StatedFacts,
  tensors: Iterable<string>,
): DecoderSpec {
  const usual = readSizes(fields, config.layers ?? fields.count(config.layersField));
  const traits = family.traits(fields, usual);
  const { latent } = traits;
  const ofExperts = traits.experts && asStored(traits.experts, tensors);
  const headSize = latent ? { headDim: latent.plain + latent.rotated } : {};
  const sizes = { ...usual, ...traits.sizes, ...headSize };
  const { vocabularySize, hidden } = sizes;
  const tied = config.tied ?? fields.flag("tie_word_embeddings");
  const { layers, ...shape } = sizes;
  return {
    family: family.name,
    ...shape,
    ...(latent ? { kvHeads: sizes.heads } : {}),
    embeddingScale: traits.embeddingScale ?? 1,
    norm: traits.norm ?? rmsNorm(fields),
    layout: traits.layout ?? "sequential",
    attention: {
      scale: sizes.headDim ** -0.5,
      softcap: null,
      qkNorm: null,
      valueNorm: null,
      growth: null,
      gated: false,
      ...traits.attention,
    },
    activation: traits.activation ?? readActivation(fields),
    residualScale: traits.residualScale ?? 1,
    logitScale: traits.logitScale ?? 1,
    logitSoftcap: traits.logitSoftcap ?? null,
    recurrence: traits.recurrence ? recurrenceOf(traits.recurrence) : null,
    ropes: traits.ropes ?? [readRope({ fields, ...sizes })],
    routing: traits.experts?.routing ?? null,
    layers: Array.from({ length: layers }, (_, index) => {
      const layer = traits.layer?.(index) ?? {};
      const { window = null, rope = 0, kvHeads = sizes.kvHeads, headDim = sizes.headDim, keysOf } = layer;
      const prefix = `layers.${index}.`;
      const experts = ofExperts?.inLayer?.(index) === false ? undefined : ofExperts;
      const feedForward = layer.feedForward ?? (experts ? (experts.shared?.width ?? 0) : sizes.feedForward);
      const own = experts ? { ...traits, feedForward: experts.shared?.names ?? null } : traits;
      const gate = experts?.shared?.gate;
      const weights = layerWeights(prefix, { ...sizes, kvHeads, headDim, feedForward }, own, layer);
      const shared = keysOf === undefined ? {} : { keysOf };
      const mixture = experts ? { experts: expertWeights(prefix, hidden, experts) } : {};
      const valueDim = latent?.values ?? headDim;
      return {
        window,
        rope,
        kvHeads,
        headDim,
        valueDim,
        ...shared,
        weights:
          gate === undefined
            ? weights
            : { ...weights, sharedGate: { weight: { name: `${prefix}${gate}.weight`, shape: [1, hidden] } } },
        ...mixture,
      };
    }),
    embedding: { name: `${traits.names?.embedding ?? "embed_tokens"}.weight`, shape: [vocabularySize, hidden] },
    ...(traits.layerInputs ? { layerInputs: traits.layerInputs } : {}),
    finalNorm: normWeights(traits.names?.finalNorm ?? "norm", [hidden], traits.normBias ?? false),
    head: tied ? null : { name: "lm_head.weight", shape: [vocabularySize, hidden] },
  };
}

function readSizes(fields: ConfigFields, layers: number): Sizes {
  const hidden = fields.count("hidden_size");
  const heads = fields.count("num_attention_heads");
  const kvHeads = fields.countOrNull("num_key_value_heads") ?? heads;
  if (fields.problems.length === 0 && heads % kvHeads !== 0) {
    fields.refuse("num_key_value_heads", `is ${kvHeads}; it must divide num_attention_heads, ${heads}`);
  }
  return {
    layers,
    vocabularySize: fields.count("vocab_size"),
    hidden,
    heads,
    kvHeads,
    headDim: fields.countOrNull("head_dim") ?? Math.floor(hidden / heads),
    feedForward: fields.count("intermediate_size"),
    contextLength: fields.count("max_position_embeddings"),
  };
}

/** A recurrence without its names. */
function recurrenceOf({ weights: _, ...spec }: NonNullable<Traits["recurrence"]>): RecurrenceSpec {
  return spec;
}

function layerWeights(prefix: string, sizes: Sizes, traits: Traits, layer: LayerTraits): LayerWeights {
  const has = layer.has ?? USUAL;
  const { hidden, heads, kvHeads, headDim, feedForward } = sizes;
  const {
    latent,
    sinks,
    fused,
    biases = {},
    factors = {},
    normBias = false,
    norms = PRE_NORMS,
    feedForward: names = GATED,
  } = traits;
  const [width, kv] = [heads * headDim, kvHeads * headDim];
  const q = traits.attention?.gated ? 2 * width : width;
  const self = traits.names?.attention ?? "self_attn";
  const linear = (name: string, rows: number, columns: number, bias = false, factor = 1): LinearWeights => ({
    ...(factor === 1 ? {} : { factor }),
    weight: { name: `${prefix}${name}.weight`, shape: [rows, columns] },
    ...(bias ? { bias: { name: `${prefix}${name}.bias`, shape: [rows] } } : {}),
  });
  /** Consecutive rows of one stored projection. */
  const slices = (name: string, sizesOfParts: readonly number[]): LinearWeights[] => {
    const of = sizesOfParts.reduce((sum, rows) => sum + rows, 0);
    let end = 0;
    return sizesOfParts.map((rows) => {
      end += rows;
      return { weight: { name: `${prefix}${name}.weight`, shape: [rows, hidden], rows: { from: end - rows, of } } };
    });
  };
  const [query, key, value] = fused?.qkv
    ? slices(fused.qkv, [q, kv, kv])
    : [["q", q] as const, ["k", kv] as const, [layer.valuesAreKeys ? "k" : "v", kv] as const].map(([letter, rows]) =>
        linear(`${self}.${letter}_proj`, rows, hidden, biases.qkv, factors.qkv),
      );
  const { qNorm, kNorm } = qkNormWeights(prefix, sizes, traits);
  const feedForwardParts = (): (LinearWeights | undefined)[] => {
    if (!names) return [];
    if (fused?.gateUp) return slices(fused.gateUp, [feedForward, feedForward]);
    return [names.gate, names.up].map((name) =>
      name === null
        ? undefined
        : linear(name, feedForward, hidden, biases.feedForward, name === names.gate ? factors.gate : 1),
    );
  };
  const [gate, up] = feedForwardParts();
  const parts = has.map((half) => (half === "feedForward" ? "FeedForward" : "Attention"));
  const layerNorms = Object.entries(norms).flatMap(([role, name]) =>
    parts.some((part) => role.endsWith(part)) ? [[role, normWeights(`${prefix}${name}`, [hidden], normBias)]] : [],
  );
  const projected = () => ({
    q: query as LinearWeights,
    ...(layer.keysOf === undefined && key && value ? { k: key, v: value, ...(kNorm ? { kNorm } : {}) } : {}),
  });
  const attention = () => ({
    ...(latent ? latentWeights(prefix, sizes, latent, linear, biases.qkv) : projected()),
    o: linear(
      `${self}.${traits.names?.o ?? "o_proj"}`,
      hidden,
      latent ? heads * latent.values : width,
      biases.o,
      factors.o,
    ),
    ...(sinks ? { sinks: { weight: { name: `${prefix}${sinks}`, shape: [heads] } } } : {}),
    ...(qNorm ? { qNorm } : {}),
  });
  const mlp = () => ({
    ...(gate ? { gate } : {}),
    ...(up && names ? { up, down: linear(names.down, hidden, feedForward, biases.feedForward, factors.down) } : {}),
  });
  return {
    ...(has.includes("attention") ? attention() : {}),
    ...(has.includes("recurrence") ? prefixed(traits.recurrence?.weights ?? {}, prefix) : {}),
    ...(has.includes("feedForward") ? mlp() : {}),
    ...Object.fromEntries(layerNorms),
    ...traits.layerWeights?.(prefix),
  };
}

/** By DeepSeek's names. */
function latentWeights(
  prefix: string,
  { heads, hidden }: Sizes,
  { queries, keys, plain, rotated, values }: LatentTraits,
  linear: (name: string, rows: number, columns: number, bias?: boolean) => LinearWeights,
  bias = false,
) {
  const rows = heads * (plain + rotated);
  const narrow = (rank: number) => ({
    q: linear("self_attn.q_b_proj", rows, rank),
    qDown: linear("self_attn.q_a_proj", rank, hidden, bias),
    qDownNorm: normWeights(`${prefix}self_attn.q_a_layernorm`, [rank], false),
  });
  return {
    ...(queries === null ? { q: linear("self_attn.q_proj", rows, hidden) } : narrow(queries)),
    kvDown: linear("self_attn.kv_a_proj_with_mqa", keys + rotated, hidden, bias),
    kvDownNorm: normWeights(`${prefix}self_attn.kv_a_layernorm`, [keys], false),
    kv: linear("self_attn.kv_b_proj", heads * (plain + values), keys),
  };
}

const QK_NORMS = { q: "q_norm", k: "k_norm" };

function qkNormWeights(
  prefix: string,
  sizes: Sizes,
  { attention, qkNorms = QK_NORMS }: Traits,
): Pick<LayerWeights, "qNorm" | "kNorm"> {
  if (!attention?.qkNorm) return {};
  const { headDim } = sizes;
  const shapes = {
    head: () => [headDim],
    eachHead: (heads: number) => [heads, headDim],
    width: (heads: number) => [heads * headDim],
  };
  const shapeOf = shapes[attention.qkNorm.over];
  return {
    qNorm: normWeights(`${prefix}self_attn.${qkNorms.q}`, shapeOf(sizes.heads), false),
    kNorm: normWeights(`${prefix}self_attn.${qkNorms.k}`, shapeOf(sizes.kvHeads), false),
  };
}

function normWeights(name: string, shape: readonly number[], bias: boolean): NormWeights {
  return { weight: { name: `${name}.weight`, shape }, ...(bias ? { bias: { name: `${name}.bias`, shape } } : {}) };
}
