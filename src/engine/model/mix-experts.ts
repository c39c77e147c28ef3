// The part of a decoder's graph in which tokens choose experts. Letters in shapes: N tokens, k experts of each, M = N k;
// D, E and F as widths of tokens, experts and of an expert.
import type { ExpertMatrices, ExpertWeights, RoutingSpec } from "../../families/index.js";
import { multiplyDims } from "../graph/dim.js";
import type { Graph } from "../graph/graph.js";
import type { Node } from "../graph/node.js";
import type { LayerTools } from "./layer-tools.js";

/** What the builder of a decoder gives. */
export interface ExpertParts extends LayerTools {
  readonly routing: RoutingSpec;
  readonly activation: (x: Node) => Node;
}

export interface MixedExperts {
  /** [N, D] */
  readonly y: Node;
  /** The router's outputs, [N, E]. */
  readonly logits: Node;
  /** The chosen experts, [N, k]. */
  readonly chosen: Node;
}

/** The outputs of the experts of each row of x [N, D], in sum. @param read what the router reads, [N, D] */
export function mixExperts(parts: ExpertParts, x: Node, read: Node, experts: ExpertWeights): MixedExperts {
  const { graph, routing, linear } = parts;
  const { narrow, widen } = experts;
  const { logits, chosen, shares } = route(parts, read, experts);
  const seen = narrow ? linear(x, narrow) : x;
  const [tokens, width] = seen.shape as [string, number];
  const all = multiplyDims(tokens, routing.chosen);
  // Rows of one expert become neighbours.
  const ids = graph.reshape(chosen, [all]);
  const order = graph.sortOrder(ids);
  const sorted = graph.reshape(graph.gather(graph.reshape(ids, [all, 1]), order), [all]);
  // Exact as float32 up to 16 million.
  const rows = graph.cast(graph.div(graph.cast(order, "f32"), routing.chosen), "i64");
  const made = compute(parts, graph.gather(seen, rows), sorted, experts);
  const back = graph.reshape(graph.gather(made, graph.sortOrder(order)), [tokens, routing.chosen, width]);
  const weighed = graph.mul(back, graph.reshape(shares, [tokens, routing.chosen, 1]));
  const y = graph.sum(weighed, [1]);
  return { y: widen ? linear(y, widen) : y, logits, chosen };
}

/**
 * How unevenly experts are chosen, over all layers together (Fedus et al., arXiv 2101.03961, equations 4 to 6, as
 * transformers adds them): 1 times k where all are chosen alike.
 * @param isReal [N]: 1 for tokens, 0 for padding
 */
export function imbalance(graph: Graph, { experts }: RoutingSpec, mixed: readonly MixedExperts[], isReal: Node): Node {
  const column = graph.reshape(isReal, [isReal.shape[0] as string, 1]);
  const total = (of: (one: MixedExperts) => Node) =>
    mixed.map((one) => graph.sum(graph.mul(of(one), column), [0])).reduce((a, b) => graph.add(a, b));
  const times = total(({ chosen }) => graph.sum(graph.oneHot(chosen, experts), [1]));
  const shares = total(({ logits }) => graph.softmax(logits));
  const rows = graph.mul(graph.sum(isReal, [0]), mixed.length);
  const product = graph.mul(graph.div(times, rows), graph.div(shares, rows));
  return graph.mul(graph.sum(product, [0]), experts);
}

/** The experts of each token, and their shares, [N, k]. */
function route({ graph, routing, linear, weight }: ExpertParts, x: Node, { router, correction, scale }: ExpertWeights) {
  const logits = linear(x, router);
  const { scores: kind, groups } = routing;
  const scores = kind === "softmax" ? graph.softmax(logits) : kind === "sigmoid" ? graph.sigmoid(logits) : logits;
  const corrected = correction ? graph.add(scores, weight(correction.weight)) : scores;
  const chosen = graph.largest(groups ? withinGroups(graph, corrected, groups) : corrected, routing.chosen);
  const picked = graph.pick(scores, chosen);
  if (kind === "chosen") return { logits, chosen, shares: graph.softmax(picked) };
  const sum = graph.sum(picked, [1], true);
  const scaled = scale ? graph.pick(graph.mul(scores, weight(scale.weight)), chosen) : picked;
  const shares = routing.normaliser === null ? scaled : graph.div(scaled, graph.add(sum, routing.normaliser));
  return { logits, chosen, shares: graph.mul(shares, routing.scale) };
}

/** Scores [N, E] with those at minus infinity that are outside of the chosen groups. */
function withinGroups(graph: Graph, scores: Node, { count, chosen }: NonNullable<RoutingSpec["groups"]>): Node {
  const [tokens, experts] = scores.shape as [string, number];
  const apart = graph.reshape(scores, [multiplyDims(tokens, count), experts / count]);
  const best = graph.sum(graph.pick(apart, graph.largest(apart, 2)), [1]);
  const groups = graph.largest(graph.reshape(best, [tokens, count]), chosen);
  const isChosen = graph.reshape(graph.sum(graph.oneHot(groups, count), [1]), [tokens, count, 1]);
  const grouped = graph.reshape(scores, [tokens, count, experts / count]);
  const left = graph.where(graph.less(graph.constant(0), isChosen), grouped, Number.NEGATIVE_INFINITY);
  return graph.reshape(left, [tokens, experts]);
}

/** Each row x [M, D] after its expert, by ids [M] that ascend. */
function compute(
  { graph, routing, weight, activation, adapt }: ExpertParts,
  x: Node,
  ids: Node,
  experts: ExpertWeights,
) {
  const { gate, up, gateUp, down } = experts;
  const product = (rows: Node, { weights, parameter, transposed = false, bias }: ExpertMatrices) => {
    const product = graph.expertMatmul(rows, ids, graph.stack(weights.map(weight)), !transposed);
    const [first] = weights;
    const y = (first && adapt?.(graph, first, rows, product, { ids, from: parameter.from })) ?? product;
    return bias ? graph.add(y, graph.gather(weight(bias), ids)) : y;
  };
  const gated = (a: Node, b: Node) =>
    routing.clamp ? clamped(graph, a, b, routing.clamp) : graph.mul(activation(a), b);
  if (up) {
    const raised = product(x, up);
    return product(gate ? gated(product(x, gate), raised) : activation(raised), down);
  }
  const both = product(x, gateUp as ExpertMatrices);
  const pairs = graph.reshape(both, [both.shape[0] as string, routing.width, 2]);
  const half = (at: number) =>
    graph.reshape(graph.slice(pairs, 2, at, at + 1), [both.shape[0] as string, routing.width]);
  return product(gated(half(0), half(1)), down);
}

/** (up + 1) gate sigmoid(alpha gate), of limited gate and up (gpt-oss). */
function clamped(graph: Graph, a: Node, b: Node, { limit, alpha }: NonNullable<RoutingSpec["clamp"]>): Node {
  const below = (x: Node) => graph.where(graph.lessOrEqual(x, graph.constant(limit)), x, limit);
  const gate = below(a);
  const high = below(b);
  const up = graph.where(graph.lessOrEqual(graph.constant(-limit), high), high, -limit);
  return graph.mul(graph.add(up, 1), graph.mul(gate, graph.sigmoid(graph.mul(gate, alpha))));
}
