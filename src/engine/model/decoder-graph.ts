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
import { type AttentionTools, attend } from "./attention-graph.js";
import { type CachePart, cacheParts, FEEDS, feedShape } from "./feeds.js";
import type { Adapt, LayerTools } from "./layer-tools.js";
import { imbalance, type MixedExperts, mixExperts } from "./mix-experts.js";
import { recurrence, softplus } from "./recurrence-graph.js";

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
  /** Where tokens choose experts, by layer. */
  readonly mixed: ReadonlyMap<number, MixedExperts>;
  /** What the router of a layer reads, or its feed-forward part where it has no experts, [B T, D], by layer. */
  readonly reads: ReadonlyMap<number, Node>;
}

/** The input name of a stored weight; rows of a tensor have their own. */
export function weightName({ name, rows }: StoredWeight): string {
  return rows ? `${name}[${rows.from}]` : name;
}

export function buildDecoder(spec: DecoderSpec, options: DecoderOptions = {}): Decoder {
  return new Builder(spec, options).build();
}

const PADDING = 0;

class Builder {
  readonly #graph = new Graph();
  readonly #spec: DecoderSpec;
  readonly #options: DecoderOptions;
  readonly #weights = new Map<string, StoredWeight>();
  readonly #parts: ReadonlyMap<string, CachePart>;
  readonly #fresh = new Map<string, Node>();
  readonly #mixedExperts = new Map<number, MixedExperts>();
  readonly #reads = new Map<number, Node>();
  readonly #tools: LayerTools;

  constructor(spec: DecoderSpec, options: DecoderOptions) {
    this.#spec = spec;
    this.#options = options;
    this.#parts = new Map(cacheParts(spec).map((part) => [part.feed, part]));
    this.#tools = {
      graph: this.#graph,
      weight: (stored) => this.#weight(stored),
      linear: (x, weights) => this.#linear(x, weights),
      adapt: options.adapt,
      past: (feed) => this.#past(feed),
      fresh: this.#fresh,
    };
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
      mixed: this.#mixedExperts,
      reads: this.#reads,
    };
  }

  #balance(): Node | undefined {
    const graph = this.#graph;
    const { routing } = this.#spec;
    if (!routing || routing.balance === null || this.#mixedExperts.size === 0) return undefined;
    const segments = graph.reshape(graph.input(FEEDS.segments, "i64", ["batch", "time"]), ["batch*time"]);
    const isReal = graph.cast(graph.less(graph.constant(PADDING, [], "i64"), segments), "f32");
    return graph.mul(imbalance(graph, routing, [...this.#mixedExperts.values()], isReal), routing.balance);
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
      const fed = this.#feedForward(x, read, layer, index);
      const halves = [mixed && scaled(mixed, afterAttention), fed && scaled(fed, afterFeedForward)];
      return halves.reduce<Node>((sum, half) => (half ? graph.add(sum, half) : sum), x);
    }
    const between = mixed ? graph.add(x, scaled(mixed, afterAttention)) : x;
    const fed = this.#feedForward(between, this.#norm(between, norm, beforeFeedForward), layer, index);
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

  /**
   * Of all tokens, of the experts that each chooses, or of both in sum; undefined in a layer without this half.
   * @param x the stream after the norm of this half
   */
  #feedForward(stream: Node, x: Node, { weights, experts }: LayerSpec, index: number): Node | undefined {
    const shared = this.#dense(x, weights);
    const { routing, norm } = this.#spec;
    this.#reads.set(index, x);
    if (!experts || !routing) return shared;
    const read = (own: NormWeights | undefined) => (own ? this.#norm(stream, norm, own) : x);
    const parts = { ...this.#tools, routing, activation: (y: Node) => this.#activation(y, weights) };
    const routed = read(experts.beforeRouter);
    const mixed = mixExperts(parts, read(experts.beforeExperts), routed, experts);
    this.#mixedExperts.set(index, mixed);
    this.#reads.set(index, routed);
    const y = this.#norm(mixed.y, norm, experts.afterExperts);
    return shared ? this.#graph.add(y, this.#norm(shared, norm, experts.afterShared)) : y;
  }

  #dense(x: Node, weights: LayerWeights): Node | undefined {
    const graph = this.#graph;
    const { gate, up, down, sharedGate } = weights;
    if (!up || !down) return undefined;
    const raised = this.#linear(x, up);
    const hidden = gate
      ? graph.mul(this.#activation(this.#linear(x, gate), weights), raised)
      : this.#activation(raised, weights);
    const y = this.#linear(hidden, down);
    return sharedGate ? graph.mul(y, graph.sigmoid(this.#linear(x, sharedGate))) : y;
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

  /** a x^2 + s x above 0, and (e^x - 1 - x) (b + s) + s x below (Huang and Schlag 2024, arXiv 2411.13010). */
  #xielu(x: Node, { curveAbove, curveBelow, curveSlope, curveEdge }: LayerWeights): Node {
    const graph = this.#graph;
    const of = (weights?: NormWeights) => this.#weight((weights as NormWeights).weight);
    const [slope, edge] = [of(curveSlope), of(curveEdge)];
    const above = graph.mul(graph.mul(x, x), softplus(graph, of(curveAbove)));
    // The smaller of x and a number just below 0, so that nothing overflows where the other branch counts.
    const negative = graph.where(graph.less(x, edge), x, edge);
    const factor = graph.add(softplus(graph, of(curveBelow)), slope);
    const below = graph.mul(graph.sub(graph.sub(graph.exp(negative), 1), x), factor);
    return graph.add(graph.where(graph.less(graph.constant(0), x), above, below), graph.mul(x, slope));
  }

  /**
   * What a layer's positions x [B T, D] read from one another, by attention, by a recurrence, or the sum of both; undefined
   * in a layer without either.
   */
  #mixed(x: Node, layer: LayerSpec, index: number): Node | undefined {
    const { q, o, mixed } = layer.weights;
    const attended = q && o && attend(x, layer, index, { q, o }, this.#attentionTools());
    if (!mixed) return attended;
    const spec = this.#spec.recurrence as RecurrenceSpec;
    const recurred = recurrence(x, layer.weights, index, { ...this.#tools, spec, epsilon: this.#spec.norm.eps });
    return attended ? this.#graph.add(recurred, attended) : recurred;
  }

  #attentionTools(): AttentionTools {
    return {
      ...this.#tools,
      spec: this.#spec,
      norm: (x, spec, weights) => this.#norm(x, spec, weights),
      cap: (x, cap) => this.#cap(x, cap),
      cached: this.#options.cached ?? false,
    };
  }

  /** A part of the cache, by its feed; undefined without one. */
  #past(feed: string): Node | undefined {
    const part = this.#options.cached ? this.#parts.get(feed) : undefined;
    return part && this.#graph.input(feed, "f32", feedShape(part, "batch", "past"));
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
