// What replaces attention in a layer: positions are mixed through a state of fixed size.
// Letters in shapes: as in decoder-graph.ts, and C for the channels of a convolution.

import type { LayerWeights, LinearWeights, NormWeights, RecurrenceSpec, StateSpec } from "../../families/index.js";
import type { Graph } from "../graph/graph.js";
import type { Node } from "../graph/node.js";
import { FEEDS, pastInputs, pastState } from "./feeds.js";
import type { LayerTools } from "./layer-tools.js";

/** What a decoder's builder does for a recurrence. */
export interface RecurrenceTools extends LayerTools {
  readonly spec: RecurrenceSpec;
  /** Of norms. */
  readonly epsilon: number;
}

type Weights = Required<LayerWeights>;

/** x [B T, D] after a recurrence. */
export function recurrence(x: Node, weights: LayerWeights, layer: number, tools: RecurrenceTools): Node {
  const mix = { convolution: gatedConvolution, delta: deltaRule, mamba2: stateSpace }[tools.spec.kind];
  return tools.linear(mix(x, weights as Weights, layer, tools), (weights as Weights).mixed);
}

/** LFM2's: a gate before the convolution and one after it. */
function gatedConvolution(x: Node, { mix, convolution }: Weights, layer: number, tools: RecurrenceTools): Node {
  const { graph, spec } = tools;
  const all = tools.linear(x, mix);
  const part = (i: number) => graph.slice(all, 1, i * spec.channels, (i + 1) * spec.channels);
  return graph.mul(part(1), convolve(graph.mul(part(0), part(2)), convolution, layer, tools));
}

/** Added to the square of a key's length before its root is the divisor, as transformers does. */
const LENGTH_EPSILON = 1e-6;

/** The gated delta rule, with keys and queries of length 1 (Yang et al. 2024, arXiv 2412.06464). */
function deltaRule(x: Node, weights: Weights, layer: number, tools: RecurrenceTools): Node {
  const { graph } = tools;
  const { heads, keyHeads, keyWidth, valueWidth } = tools.spec.state as StateSpec;
  const { mixed, gate, rate, decay } = deltaInputs(x, weights, tools);
  const convolved = graph.silu(convolve(mixed, weights.convolution, layer, tools));
  const [q, k, v] = split(graph, convolved, 1, [keyHeads * keyWidth, keyHeads * keyWidth, heads * valueWidth]);
  const unit = (y: Node) => {
    const rows = graph.reshape(y, ["batch*time", keyHeads, keyWidth]);
    return graph.mul(graph.mul(rows, graph.inverseRms(rows, LENGTH_EPSILON / keyWidth)), keyWidth ** -0.5);
  };
  const read = attend([unit(q), unit(k), v], decayOf(stepOf(decay, weights, tools), weights, tools), layer, tools, {
    scale: keyWidth ** -0.5,
    rate: graph.sigmoid(rate),
  });
  return gated(read, gate, weights, tools);
}

/** Mamba-2 (Dao and Gu 2024, arXiv 2405.21060): linear attention whose values are scaled by the step of the state. */
function stateSpace(x: Node, weights: Weights, layer: number, tools: RecurrenceTools): Node {
  const { graph, linear, weight } = tools;
  const { state, factors } = tools.spec;
  const { heads, keyHeads, keyWidth, valueWidth } = state as StateSpec;
  const sizes = [heads * valueWidth, keyHeads * keyWidth, keyHeads * keyWidth];
  const mixed = linear(x, weights.mix);
  const scale = factors?.flatMap((factor, i) => Array<number>(sizes[i] as number).fill(factor));
  const scaled = scale ? graph.mul(mixed, graph.constant(scale, [scale.length])) : mixed;
  const convolved = graph.silu(convolve(scaled, weights.convolution, layer, tools));
  const [value, key, query] = split(graph, convolved, 1, sizes);
  const step = stepOf(linear(x, weights.decay), weights, tools);
  /** Values [B T, heads valueWidth] times a number for each head. */
  const byHead = (y: Node, shape: (number | string)[]) =>
    graph.reshape(
      graph.mul(graph.reshape(value, ["batch*time", heads, valueWidth]), graph.reshape(y, shape)),
      value.shape,
    );
  const stepped = byHead(step, ["batch*time", heads, 1]);
  const read = attend([query, key, stepped], decayOf(step, weights, tools), layer, tools, { scale: 1 });
  const skipped = byHead(weight(weights.skip.weight), [heads, 1]);
  return gated(graph.add(graph.reshape(read, value.shape), skipped), linear(x, weights.outputGate), weights, tools);
}

/** What is read from a state, [.., heads valueWidth], with its norm, times its gate [B T, heads valueWidth]. */
function gated(read: Node, gate: Node, { innerNorm }: LayerWeights, tools: RecurrenceTools): Node {
  const { graph, spec, weight, epsilon } = tools;
  const open = graph.silu(gate);
  const flat = graph.reshape(read, gate.shape);
  if (!spec.innerNorm || !innerNorm) return graph.mul(flat, open);
  const { groups, beforeGate } = spec.innerNorm;
  const width = gate.shape[1] as number;
  const shape = ["batch*time", groups, width / groups];
  const rows = graph.reshape(beforeGate ? flat : graph.mul(flat, open), shape);
  const scale = weight(innerNorm.weight);
  const isShared = scale.shape[0] === width / groups;
  const normal = isShared
    ? graph.rmsNorm(rows, scale, epsilon)
    : graph.mul(graph.mul(rows, graph.inverseRms(rows, epsilon)), graph.reshape(scale, [groups, width / groups]));
  const wide = graph.reshape(normal, gate.shape);
  return beforeGate ? graph.mul(wide, open) : wide;
}

/** Queries, keys and values before the convolution [B T, channels], the gate of the output, and what rates are made of. */
function deltaInputs(x: Node, { mix, outputGate, rate, decay }: LayerWeights, tools: RecurrenceTools) {
  const { graph, linear } = tools;
  const { heads, keyHeads, keyWidth, valueWidth } = tools.spec.state as StateSpec;
  const [mixed, rates] = [linear(x, mix as LinearWeights), linear(x, rate as LinearWeights)];
  if (outputGate && decay) return { mixed, gate: linear(x, outputGate), rate: rates, decay: linear(x, decay) };
  // For each key head: its query and key, values and gates of the heads that share it; their rates and decays.
  const group = heads / keyHeads;
  const apart = (y: Node, sizes: readonly number[]) => {
    const width = sizes.reduce((sum, size) => sum + size, 0);
    const parts = split(graph, graph.reshape(y, ["batch*time", keyHeads, width]), 2, sizes);
    return parts.map((part, i) => graph.reshape(part, ["batch*time", keyHeads * (sizes[i] as number)]));
  };
  const [q, k, v, gate] = apart(mixed, [keyWidth, keyWidth, group * valueWidth, group * valueWidth]) as Four;
  const [own, fading] = apart(rates, [group, group]) as Four;
  return { mixed: graph.concat([q, k, v], 1), gate, rate: own, decay: fading };
}

type Four = [Node, Node, Node, Node];

/** Parts of an axis, of these sizes. */
function split(graph: Graph, x: Node, axis: number, sizes: readonly number[]): Four {
  let end = 0;
  return sizes.map((size) => {
    end += size;
    return graph.slice(x, axis, end - size, end);
  }) as Four;
}

/** log(1 + e^x), without overflow. */
export function softplus(graph: Graph, x: Node): Node {
  const size = graph.add(graph.relu(x), graph.relu(graph.neg(x)));
  return graph.add(graph.relu(x), graph.log(graph.add(graph.exp(graph.neg(size)), 1)));
}

/** The step of each head's state, from its projection [B T, heads]. */
function stepOf(x: Node, { decayBias }: Weights, { graph, spec, weight }: RecurrenceTools): Node {
  const step = softplus(graph, graph.add(x, weight(decayBias.weight)));
  const { leastStep = 0 } = spec;
  return leastStep > 0 ? graph.where(graph.less(step, graph.constant(leastStep)), leastStep, step) : step;
}

/** The logarithm of each head's decay in a step. */
function decayOf(step: Node, { decayScale }: Weights, { graph, weight }: RecurrenceTools): Node {
  return graph.neg(graph.mul(step, graph.exp(weight(decayScale.weight))));
}

/** A decay to nothing, as a logarithm that sums of many do not overflow. */
const NOTHING = -1e30;

/**
 * Linear attention of queries, keys and values, each [B T, ...], as [B, T, heads valueWidth]. A state ends where another
 * text begins, and padding leaves it as it is.
 */
function attend(
  [query, key, value]: readonly [Node, Node, Node],
  decay: Node,
  layer: number,
  tools: RecurrenceTools,
  { scale, rate }: { readonly scale: number; readonly rate?: Node },
): Node {
  const { graph } = tools;
  const { heads, keyHeads, keyWidth, valueWidth } = tools.spec.state as StateSpec;
  const rows = (x: Node, width: number) => graph.reshape(x, ["batch", "time", width]);
  const past = tools.past(pastState(layer));
  // Padding has the segment 0 in a cache, where rows are one text each.
  const segments = graph.reshape(graph.input(FEEDS.segments, "i64", ["batch", "time"]), ["batch", "time", 1]);
  const isText = graph.less(graph.constant(0, [], "i64"), segments);
  const unlessPadding = (x: Node) => (past ? graph.where(isText, x, 0) : x);
  const fading = rows(decay, heads);
  const added = rate ? [unlessPadding(rows(rate, heads))] : [];
  const values = rows(value, heads * valueWidth);
  const operands = [
    rows(query, keyHeads * keyWidth),
    rows(key, keyHeads * keyWidth),
    rate ? values : unlessPadding(values),
    past ? unlessPadding(fading) : graph.where(isSameText(graph, 1), fading, NOTHING),
    ...added,
    ...(past ? [past] : []),
  ];
  const traits = { heads, keyHeads, scale, delta: rate !== undefined };
  if (past) tools.fresh.set(pastState(layer), graph.linearAttention(operands, { ...traits, part: "state" }));
  return graph.linearAttention(operands, { ...traits, part: "values" });
}

/** A causal convolution of each channel of x [B T, C] by itself. Positions of other texts count as zeros. */
function convolve(x: Node, { weight, bias }: NormWeights, layer: number, tools: RecurrenceTools): Node {
  const { graph, spec } = tools;
  const { kernel, channels } = spec;
  const before = kernel - 1;
  const fresh = graph.reshape(x, ["batch", "time", channels]);
  const past = tools.past(pastInputs(layer));
  tools.fresh.set(pastInputs(layer), fresh);
  const all = past ? graph.concat([past, fresh], 1) : graph.pad(fresh, 1, before, `time+${before}`);
  const taps = graph.transpose(graph.reshape(tools.weight(weight), [channels, kernel]), [1, 0]);
  const terms = Array.from({ length: kernel }, (_, at) => {
    const shifted = graph.slice(all, 1, at, `time+${at}`);
    // In a cache each row is one text, and its padding comes last.
    const read = past || at === before ? shifted : graph.where(isSameText(graph, before - at), shifted, 0);
    return graph.mul(read, graph.slice(taps, 0, at, at + 1));
  });
  const sum = terms.reduce((a, b) => graph.add(a, b));
  return graph.reshape(bias ? graph.add(sum, tools.weight(bias)) : sum, ["batch*time", channels]);
}

/** Whether the position `back` before each belongs to the same text, [B, T, 1]. */
function isSameText(graph: Graph, back: number): Node {
  const segments = graph.cast(graph.input(FEEDS.segments, "i64", ["batch", "time"]), "f32");
  const earlier = graph.slice(graph.pad(segments, 1, back, `time+${back}`), 1, 0, "time");
  return graph.reshape(graph.equal(segments, earlier), ["batch", "time", 1]);
}
