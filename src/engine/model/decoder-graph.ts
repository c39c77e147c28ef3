// Builds the graph of a decoder from its specification, for every family.
// Letters in shapes: B rows of a batch, T new positions, P positions in the cache, N rows whose logits are computed;
// D, H, K, E, F, V as in DecoderSpec.

import type {
  DecoderSpec,
  LayerSpec,
  LayerWeights,
  LinearWeights,
  NormSpec,
  NormWeights,
  RecurrenceSpec,
  StoredWeight,
} from "../../families/index.js";
import type { Dim } from "../graph/dim.js";
import { Graph } from "../graph/graph.js";
import type { Node } from "../graph/node.js";
import { type CachePart, cacheParts, FEEDS, feedShape, pastKey, pastValue, ropeCos, ropeSin } from "./feeds.js";
import { imbalance, type MixedExperts, mixExperts } from "./mix-experts.js";
import { recurrence, softplus } from "./recurrence-graph.js";

/** Changes the result of a projection, such as by adding the product of low-rank factors. */
export type Adapt = (graph: Graph, weight: StoredWeight, x: Node, y: Node) => Node;

export interface DecoderOptions {
  /**
   * Whether keys and values of earlier positions are fed; default false. With "joined", those of the cache and of the new
   * positions are concatenated, and returned so.
   */
  readonly cached?: boolean | "joined";
  /** Number of rows whose logits are computed; default `rows`. */
  readonly rows?: Dim;
  /** Changes the results of projections. */
  readonly adapt?: Adapt;
}

export interface Decoder {
  readonly graph: Graph;
  readonly spec: DecoderSpec;
  /** Stored weights by their input names. */
  readonly weights: ReadonlyMap<string, StoredWeight>;
  /** [B T, D] before each layer, and after the last. */
  readonly streams: readonly Node[];
  /** [N, V] */
  readonly logits: Node;
  /**
   * What a pass adds to each part of the cache, by its feed: rotated keys, and values, of the new positions [B, K, T, E],
   * or of all [B, K, P + T, E] if joined; what a convolution reads of the new positions [B, T, channels].
   */
  readonly fresh: ReadonlyMap<string, Node>;
  /** What training adds to the mean loss of labels, so that experts are chosen evenly; for models that say so. */
  readonly balance: Node | undefined;
}

/** The input name of a stored weight; rows of a tensor have their own. */
export function weightName({ name, rows }: StoredWeight): string {
  return rows ? `${name}[${rows.from}]` : name;
}

export function buildDecoder(spec: DecoderSpec, options: DecoderOptions = {}): Decoder {
  return new Builder(spec, options).build();
}

/** Of latents, whatever the epsilon of other norms is (modeling_deepseek_v3.py of transformers 5.24). */
const LATENT_NORM: NormSpec = { kind: "rms", eps: 1e-6, offset: 0 };

/** Queries [B, H, T, E], keys [B, K, T, E] and values [B, K, T, valueDim]. */
/** What attention computes of x; without keys and values where they are those of another layer. */
interface Projected {
  readonly query: Node;
  readonly gate?: Node | undefined;
  readonly key?: Node | undefined;
  readonly value?: Node | undefined;
}

const PADDING = 0;

// Added to scores of masked keys: far below any score, and far from overflow.
const MASKED = -1e30;

class Builder {
  readonly #graph = new Graph();
  readonly #spec: DecoderSpec;
  readonly #options: DecoderOptions;
  readonly #weights = new Map<string, StoredWeight>();
  readonly #parts: ReadonlyMap<string, CachePart>;
  readonly #fresh = new Map<string, Node>();
  readonly #mixedExperts: MixedExperts[] = [];

  constructor(spec: DecoderSpec, options: DecoderOptions) {
    this.#spec = spec;
    this.#options = options;
    this.#parts = new Map(cacheParts(spec).map((part) => [part.feed, part]));
  }

  build(): Decoder {
    const graph = this.#graph;
    const spec = this.#spec;
    const embedding = this.#weight(spec.embedding);
    const ids = graph.reshape(graph.input(FEEDS.ids, "i64", ["batch", "time"]), ["batch*time"]);
    let x = graph.mul(graph.gather(embedding, ids), spec.embeddingScale);
    const streams = [x];
    const inputs = this.#layerInputs(ids, x);
    for (const [index, layer] of spec.layers.entries()) {
      x = this.#ended(this.#layer(x, layer, index), layer, inputs[index]);
      streams.push(x);
    }
    const rows = graph.input(FEEDS.rows, "i64", [this.#options.rows ?? "rows"]);
    const last = this.#norm(graph.gather(x, rows), spec.norm, spec.finalNorm);
    const head = spec.head ? this.#weight(spec.head) : embedding;
    const scaled = graph.mul(graph.matmul(last, head, { transB: true }), spec.logitScale);
    return {
      graph,
      spec,
      weights: this.#weights,
      streams,
      logits: this.#cap(scaled, spec.logitSoftcap),
      fresh: this.#fresh,
      balance: this.#balance(),
    };
  }

  #balance(): Node | undefined {
    const graph = this.#graph;
    const { routing } = this.#spec;
    if (!routing || routing.balance === null || this.#mixedExperts.length === 0) return undefined;
    const segments = graph.reshape(graph.input(FEEDS.segments, "i64", ["batch", "time"]), ["batch*time"]);
    const isReal = graph.cast(graph.less(graph.constant(PADDING, [], "i64"), segments), "f32");
    return graph.mul(imbalance(graph, routing, this.#mixedExperts, isReal), routing.balance);
  }

  /** x [B T, D] after a layer. */
  #layer(x: Node, layer: LayerSpec, index: number): Node {
    const graph = this.#graph;
    const { norm, layout, residualScale } = this.#spec;
    const { beforeAttention, afterAttention, beforeFeedForward, afterFeedForward } = layer.weights;
    const scaled = (y: Node, after: NormWeights | undefined) => graph.mul(this.#norm(y, norm, after), residualScale);
    const read = this.#norm(x, norm, beforeAttention);
    const mixed = this.#mixed(read, layer, index);
    if (layout === "parallel") {
      const fed = this.#feedForward(read, layer);
      const halves = [mixed && scaled(mixed, afterAttention), fed && scaled(fed, afterFeedForward)];
      return halves.reduce<Node>((sum, half) => (half ? graph.add(sum, half) : sum), x);
    }
    const between = mixed ? graph.add(x, scaled(mixed, afterAttention)) : x;
    const fed = this.#feedForward(this.#norm(between, norm, beforeFeedForward), layer);
    return fed ? graph.add(between, scaled(fed, afterFeedForward)) : between;
  }

  /** What each layer gets of the tokens besides the stream, [B T, P]. @param x the embedded tokens */
  #layerInputs(ids: Node, x: Node): Node[] {
    const { layerInputs, layers, norm } = this.#spec;
    if (!layerInputs) return [];
    const graph = this.#graph;
    const { width, embedding, embeddingScale, projection, projectionScale, scale } = layerInputs;
    const byLayer = (y: Node) => graph.reshape(y, ["batch*time", layers.length, width]);
    const projected = byLayer(graph.mul(this.#linear(x, projection), projectionScale));
    const looked = byLayer(graph.mul(graph.gather(this.#weight(embedding), ids), embeddingScale));
    const all = graph.mul(graph.add(this.#norm(projected, norm, layerInputs.norm), looked), scale);
    return layers.map((_, index) => graph.reshape(graph.slice(all, 1, index, index + 1), ["batch*time", width]));
  }

  /** x [B T, D] after what the layer does with its own input. */
  #ended(x: Node, { weights }: LayerSpec, input: Node | undefined): Node {
    const graph = this.#graph;
    const { inputGate, inputUp, afterInput, scale } = weights;
    let y = x;
    if (inputGate && inputUp && input) {
      const gated = graph.mul(this.#activation(this.#linear(x, inputGate), weights), input);
      y = graph.add(x, this.#norm(this.#linear(gated, inputUp), this.#spec.norm, afterInput));
    }
    return scale ? graph.mul(y, this.#weight(scale.weight)) : y;
  }

  /** Of all tokens, of the experts that each chooses, or of both in sum; undefined in a layer without this half. */
  #feedForward(x: Node, { weights, experts }: LayerSpec): Node | undefined {
    const shared = this.#dense(x, weights);
    const { routing } = this.#spec;
    if (!experts || !routing) return shared;
    const mixed = mixExperts(
      {
        ...{ graph: this.#graph, routing },
        weight: (stored) => this.#weight(stored),
        linear: (y, linear) => this.#linear(y, linear),
        activation: (y) => this.#activation(y, weights),
      },
      x,
      experts,
    );
    this.#mixedExperts.push(mixed);
    return shared ? this.#graph.add(mixed.y, shared) : mixed.y;
  }

  #dense(x: Node, weights: LayerWeights): Node | undefined {
    const graph = this.#graph;
    const { gate, up, down } = weights;
    if (!up || !down) return undefined;
    const raised = this.#linear(x, up);
    const hidden = gate
      ? graph.mul(this.#activation(this.#linear(x, gate), weights), raised)
      : this.#activation(raised, weights);
    return this.#linear(hidden, down);
  }

  #activation(x: Node, weights: LayerWeights): Node {
    switch (this.#spec.activation) {
      case "silu":
        return this.#graph.silu(x);
      case "relu":
        return this.#graph.relu(x);
      case "relu2":
        return this.#graph.mul(this.#graph.relu(x), this.#graph.relu(x));
      case "gelu":
        return this.#graph.gelu(x);
      case "gelu_tanh":
        return this.#graph.gelu(x, "tanh");
      case "xielu":
        return this.#xielu(x, weights);
    }
  }

  /** a x^2 + x / 2 above 0, and (e^x - 1 - x) b + x / 2 below (Huang and Schlag 2024, arXiv 2411.13010). */
  #xielu(x: Node, { curveAbove, curveBelow }: LayerWeights): Node {
    const graph = this.#graph;
    const curve = (weights?: NormWeights) => softplus(graph, this.#weight((weights as NormWeights).weight));
    const above = graph.mul(graph.mul(x, x), curve(curveAbove));
    // The smaller of x and a number just below 0, so that nothing overflows where the other branch counts.
    const negative = graph.where(graph.less(x, graph.constant(-1e-6)), x, -1e-6);
    const factor = graph.add(curve(curveBelow), 0.5);
    const below = graph.mul(graph.sub(graph.sub(graph.exp(negative), 1), x), factor);
    return graph.add(graph.where(graph.less(graph.constant(0), x), above, below), graph.mul(x, 0.5));
  }

  /**
   * What a layer's positions x [B T, D] read from one another, by attention, by a recurrence, or the sum of both; undefined
   * in a layer without either.
   */
  #mixed(x: Node, layer: LayerSpec, index: number): Node | undefined {
    const { q, o, mixed } = layer.weights;
    const attended = q && o && this.#attention(x, layer, index, { q, o });
    if (!mixed) return attended;
    const recurred = recurrence(x, layer.weights, index, {
      graph: this.#graph,
      spec: this.#spec.recurrence as RecurrenceSpec,
      weight: (stored) => this.#weight(stored),
      linear: (y, weights) => this.#linear(y, weights),
      epsilon: this.#spec.norm.eps,
      past: (feed) => this.#past(feed),
      keep: (feed, node) => this.#fresh.set(feed, node),
    });
    return attended ? this.#graph.add(recurred, attended) : recurred;
  }

  /** Attention of x [B T, D] to itself and to the cache. */
  #attention(x: Node, layer: LayerSpec, index: number, { q, o }: Readonly<Record<"q" | "o", LinearWeights>>): Node {
    const graph = this.#graph;
    const { heads, attention } = this.#spec;
    const { kvHeads, headDim, valueDim, keysOf = index } = layer;
    const { kv, sinks } = layer.weights;
    const own = kv ? this.#latent(x, layer, q) : this.#projected(x, layer, q);
    const query = this.#grow(own.query);
    const [pastKeys, pastValues] = [this.#past(pastKey(keysOf)), this.#past(pastValue(keysOf))];
    const past = pastKeys && pastValues ? { key: pastKeys, value: pastValues } : undefined;
    const isJoined = this.#options.cached === "joined";
    if (own.key && own.value) {
      this.#fresh.set(pastKey(index), past && isJoined ? graph.concat([past.key, own.key], 2) : own.key);
      this.#fresh.set(pastValue(index), past && isJoined ? graph.concat([past.value, own.value], 2) : own.value);
    }
    const [key, value] = [this.#fresh.get(pastKey(keysOf)) as Node, this.#fresh.get(pastValue(keysOf)) as Node];

    // Heads that share keys are neighbours, so they form one longer matrix and no key is repeated.
    const group = heads / kvHeads;
    const grouped = graph.reshape(query, ["batch", kvHeads, group === 1 ? "time" : `${group}*time`, headDim]);
    const mask = this.#mask(layer.window);
    const scoresWith = (keys: Node) => {
      const scores = graph.matmul(grouped, keys, { transB: true, alpha: attention.scale });
      const width = keys.shape[2] as string;
      return graph.reshape(this.#cap(scores, attention.softcap), ["batch", heads, "time", width]);
    };
    const mixWith = (shares: Node, values: Node) => {
      const width = values.shape[2] as string;
      return graph.matmul(graph.reshape(shares, ["batch", kvHeads, grouped.shape[2] as string, width]), values);
    };
    let mixed: Node;
    if (past && !isJoined) {
      // Scores of cached and of new keys are computed apart and joined, so the cache is never copied.
      const scores = graph.concat([scoresWith(past.key), scoresWith(key)], -1);
      const shares = this.#shares(graph.add(scores, mask), sinks);
      const before = graph.slice(shares, -1, 0, "past");
      const now = graph.slice(shares, -1, "past", "past+time");
      mixed = graph.add(mixWith(before, past.value), mixWith(now, value));
    } else {
      const shares = this.#shares(graph.add(scoresWith(key), mask), sinks);
      mixed = mixWith(graph.slice(shares, -1, 0, key.shape[2] as string), value);
    }
    const together = graph.transpose(graph.reshape(mixed, ["batch", heads, "time", valueDim]), [0, 2, 1, 3]);
    const flat = graph.reshape(together, ["batch*time", heads * valueDim]);
    return this.#linear(own.gate ? graph.mul(flat, graph.sigmoid(own.gate)) : flat, o);
  }

  /** Shares of scores [B, H, T, S]; with sinks, theirs at the end. */
  #shares(scores: Node, sinks: NormWeights | undefined): Node {
    const graph = this.#graph;
    if (!sinks) return graph.softmax(scores);
    const { heads } = this.#spec;
    const sink = graph.reshape(this.#weight(sinks.weight), [1, heads, 1, 1]);
    return graph.softmax(graph.concat([scores, graph.expand(sink, ["batch", heads, "time", 1])], -1));
  }

  #projected(x: Node, layer: LayerSpec, q: LinearWeights): Projected {
    const graph = this.#graph;
    const { heads, attention } = this.#spec;
    const { kvHeads, headDim, weights } = layer;
    const { k, v, qNorm, kNorm } = weights;
    const asked = this.#linear(x, q);
    const halves = graph.reshape(asked, ["batch*time", heads, attention.gated ? 2 * headDim : headDim]);
    const half = (i: number) =>
      graph.reshape(graph.slice(halves, 2, i * headDim, (i + 1) * headDim), ["batch*time", heads * headDim]);
    return {
      query: this.#turned(attention.gated ? half(0) : asked, heads, qNorm, layer),
      gate: attention.gated ? half(1) : undefined,
      key: k && this.#turned(this.#linear(x, k), kvHeads, kNorm, layer),
      value: v && this.#valueHeads(this.#linear(x, v), layer),
    };
  }

  /** Latent attention (arXiv 2405.04434, section 2.1): keys and values of a latent, and one rotated part for all heads. */
  #latent(x: Node, layer: LayerSpec, q: LinearWeights): Projected {
    const graph = this.#graph;
    const { heads } = this.#spec;
    const { headDim, valueDim } = layer;
    const { qDown, qDownNorm, kvDown, kvDownNorm, kv } = layer.weights as LayerWeights &
      Required<Pick<LayerWeights, "kvDown" | "kvDownNorm" | "kv">>;
    const rank = kvDownNorm.weight.shape[0] as number;
    const rotated = (kvDown.weight.shape[0] as number) - rank;
    const plain = headDim - rotated;
    const narrow = qDown ? this.#norm(this.#linear(x, qDown), LATENT_NORM, qDownNorm) : x;
    const queries = this.#heads(this.#linear(narrow, q), heads);
    const turned = this.#rotate(graph.slice(queries, -1, plain, headDim), layer);
    const down = this.#linear(x, kvDown);
    const shared = this.#rotate(this.#heads(graph.slice(down, -1, rank, rank + rotated), 1), layer);
    const latent = this.#norm(graph.slice(down, -1, 0, rank), LATENT_NORM, kvDownNorm);
    const both = this.#heads(this.#linear(latent, kv), heads);
    const spread = graph.expand(shared, ["batch", heads, "time", rotated]);
    return {
      query: graph.concat([graph.slice(queries, -1, 0, plain), turned], -1),
      key: graph.concat([graph.slice(both, -1, 0, plain), spread], -1),
      value: graph.slice(both, -1, plain, plain + valueDim),
    };
  }

  /** A part of the cache, by its feed; undefined without one. */
  #past(feed: string): Node | undefined {
    const part = this.#options.cached ? this.#parts.get(feed) : undefined;
    return part && this.#graph.input(feed, "f32", feedShape(part, "batch", "past"));
  }

  /** [B T, heads E] as [B, heads, T, E], normalised where the family does. */
  #heads(x: Node, heads: number, weights?: NormWeights): Node {
    const graph = this.#graph;
    const { qkNorm } = this.#spec.attention;
    const wide = weights && qkNorm?.over === "width" ? this.#norm(x, qkNorm, weights) : x;
    const apart = graph.reshape(wide, ["batch", "time", heads, (x.shape[1] as number) / heads]);
    const normal = weights && qkNorm && qkNorm.over !== "width" ? this.#norm(apart, qkNorm, weights) : apart;
    return graph.transpose(normal, [0, 2, 1, 3]);
  }

  /** Values [B T, K E] as [B, K, T, E], normalised where the family does. */
  #valueHeads(x: Node, layer: LayerSpec): Node {
    const { valueNorm } = this.#spec.attention;
    const apart = this.#heads(x, layer.kvHeads);
    return valueNorm ? this.#graph.mul(apart, this.#graph.inverseRms(apart, valueNorm.eps)) : apart;
  }

  /** Queries or keys [B T, heads E] as [B, heads, T, E], normalised and rotated. */
  #turned(x: Node, heads: number, weights: NormWeights | undefined, layer: LayerSpec): Node {
    const { qkNorm } = this.#spec.attention;
    if (!weights || !qkNorm?.afterRotation) return this.#rotate(this.#heads(x, heads, weights), layer);
    return this.#norm(this.#rotate(this.#heads(x, heads), layer), qkNorm, weights);
  }

  /** Queries [B, H, T, E], larger the later their positions. */
  #grow(query: Node): Node {
    const { growth } = this.#spec.attention;
    if (!growth) return query;
    const graph = this.#graph;
    const positions = graph.cast(graph.input(FEEDS.positions, "i64", ["batch", "time"]), "f32");
    const times = graph.cast(graph.cast(graph.div(positions, growth.every), "i64"), "f32");
    const scale = graph.add(graph.mul(graph.log(graph.add(times, 1)), growth.factor), 1);
    return graph.mul(query, graph.reshape(scale, ["batch", 1, "time", 1]));
  }

  #rotate(x: Node, { rope }: LayerSpec): Node {
    if (rope === null) return x;
    const graph = this.#graph;
    const { dimensions, pairs } = this.#spec.ropes[rope] as DecoderSpec["ropes"][number];
    const table = (name: string) => graph.input(name, "f32", ["table", dimensions / 2]);
    const positions = graph.input(FEEDS.positions, "i64", ["batch", "time"]);
    return graph.rope(x, positions, table(ropeCos(rope)), table(ropeSin(rope)), pairs === "interleaved");
  }

  /** Added to scores, [B, 1, T, P + T]: 0 where a query sees a key. */
  #mask(window: number | null): Node {
    const graph = this.#graph;
    const now = { positions: FEEDS.positions, segments: FEEDS.segments, width: "time" };
    const past = { positions: FEEDS.pastPositions, segments: FEEDS.pastSegments, width: "past" };
    const keys = this.#options.cached ? [past, now] : [now];
    const joined = (field: "positions" | "segments") => {
      const parts = keys.map((part) => graph.input(part[field], "i64", ["batch", part.width]));
      const all = graph.concat(parts, 1);
      return graph.reshape(all, ["batch", 1, 1, all.shape[1] as string]);
    };
    const ofQueries = (name: string) =>
      graph.reshape(graph.input(name, "i64", ["batch", "time"]), ["batch", 1, "time", 1]);
    const [query, key] = [ofQueries(FEEDS.positions), joined("positions")];
    let seen = graph.and(graph.equal(ofQueries(FEEDS.segments), joined("segments")), graph.lessOrEqual(key, query));
    if (window !== null) {
      // Positions are exact as float32 up to 16 million.
      const distance = graph.sub(graph.cast(query, "f32"), graph.cast(key, "f32"));
      seen = graph.and(seen, graph.less(distance, graph.constant(window)));
    }
    return graph.where(seen, 0, MASKED);
  }

  /** A norm over the last axis; x itself without weights. */
  #norm(x: Node, { kind, eps, offset }: NormSpec, weights: NormWeights | undefined): Node {
    if (!weights) return x;
    const graph = this.#graph;
    const stored = this.#weight(weights.weight);
    const weight = offset === 0 ? stored : graph.add(stored, offset);
    const centred = kind === "rms" ? x : graph.sub(x, graph.meanLast(x));
    const normal =
      weight.shape.length === 1
        ? graph.rmsNorm(centred, weight, eps)
        : graph.mul(graph.mul(centred, graph.inverseRms(centred, eps)), weight);
    return weights.bias ? graph.add(normal, this.#weight(weights.bias)) : normal;
  }

  /** x [N, in] times a stored matrix [out, in]. */
  #linear(x: Node, { weight, bias, factor = 1 }: LinearWeights): Node {
    const graph = this.#graph;
    const product = graph.matmul(x, this.#weight(weight), { transB: true });
    const y = graph.mul(this.#options.adapt?.(graph, weight, x, product) ?? product, factor);
    return bias ? graph.add(y, this.#weight(bias)) : y;
  }

  /** c tanh(x / c) */
  #cap(x: Node, cap: number | null): Node {
    if (cap === null) return x;
    const graph = this.#graph;
    return graph.mul(graph.tanh(graph.mul(x, 1 / cap)), cap);
  }

  #weight(stored: StoredWeight): Node {
    const name = weightName(stored);
    this.#weights.set(name, stored);
    return this.#graph.input(name, "f32", stored.shape);
  }
}
