// What attention computes in a layer. Letters in shapes: as in decoder-graph.ts.
import type {
  DecoderSpec,
  LayerSpec,
  LayerWeights,
  LinearWeights,
  NormSpec,
  NormWeights,
} from "../../families/index.js";
import type { Node } from "../graph/node.js";
import { FEEDS, pastKey, pastValue, ropeCos, ropeSin } from "./feeds.js";
import type { LayerTools } from "./layer-tools.js";

/** What a decoder's builder does for attention. */
export interface AttentionTools extends LayerTools {
  readonly spec: DecoderSpec;
  readonly norm: (x: Node, spec: NormSpec, weights: NormWeights | undefined) => Node;
  readonly cap: (x: Node, cap: number | null) => Node;
  /** As in DecoderOptions. */
  readonly cached: boolean | "joined";
}

/** Of latents, whatever the epsilon of other norms is (modeling_deepseek_v3.py of transformers 5.24). */
const LATENT_NORM: NormSpec = { kind: "rms", eps: 1e-6, offset: 0 };

/**
 * Queries [B, H, T, E], keys [B, K, T, E] and values [B, K, T, valueDim]; without keys and values where they are those of
 * another layer.
 */
interface Projected {
  readonly query: Node;
  readonly gate?: Node | undefined;
  readonly key?: Node | undefined;
  readonly value?: Node | undefined;
}

// Added to scores of masked keys: far below any score, and far from overflow.
const MASKED = -1e30;

/** Attention of x [B T, D] to itself and to the cache. */
export function attend(
  x: Node,
  layer: LayerSpec,
  index: number,
  { q, o }: Readonly<Record<"q" | "o", LinearWeights>>,
  tools: AttentionTools,
): Node {
  const { graph, spec, past: pastOf, fresh } = tools;
  const { heads, attention } = spec;
  const { kvHeads, headDim, valueDim, keysOf = index } = layer;
  const { kv, sinks } = layer.weights;
  const own = kv ? fromLatent(x, layer, q, tools) : projected(x, layer, q, tools);
  const query = grow(own.query, tools);
  const [pastKeys, pastValues] = [pastOf(pastKey(keysOf)), pastOf(pastValue(keysOf))];
  const past = pastKeys && pastValues ? { key: pastKeys, value: pastValues } : undefined;
  const isJoined = tools.cached === "joined";
  if (own.key && own.value) {
    fresh.set(pastKey(index), past && isJoined ? graph.concat([past.key, own.key], 2) : own.key);
    fresh.set(pastValue(index), past && isJoined ? graph.concat([past.value, own.value], 2) : own.value);
  }
  const [key, value] = [fresh.get(pastKey(keysOf)) as Node, fresh.get(pastValue(keysOf)) as Node];

  // Heads that share keys are neighbours, so they form one longer matrix and no key is repeated.
  const group = heads / kvHeads;
  const grouped = graph.reshape(query, ["batch", kvHeads, group === 1 ? "time" : `${group}*time`, headDim]);
  const mask = maskOf(layer.window, tools);
  const scoresWith = (keys: Node) => {
    const scores = graph.matmul(grouped, keys, { transB: true, alpha: attention.scale });
    const width = keys.shape[2] as string;
    return graph.reshape(tools.cap(scores, attention.softcap), ["batch", heads, "time", width]);
  };
  const mixWith = (shares: Node, values: Node) => {
    const width = values.shape[2] as string;
    return graph.matmul(graph.reshape(shares, ["batch", kvHeads, grouped.shape[2] as string, width]), values);
  };
  let mixed: Node;
  if (past && !isJoined) {
    // Scores of cached and of new keys are computed apart and joined, so the cache is never copied.
    const scores = graph.concat([scoresWith(past.key), scoresWith(key)], -1);
    const shares = sharesOf(graph.add(scores, mask), sinks, tools);
    const before = graph.slice(shares, -1, 0, "past");
    const now = graph.slice(shares, -1, "past", "past+time");
    mixed = graph.add(mixWith(before, past.value), mixWith(now, value));
  } else {
    const shares = sharesOf(graph.add(scoresWith(key), mask), sinks, tools);
    mixed = mixWith(graph.slice(shares, -1, 0, key.shape[2] as string), value);
  }
  const together = graph.transpose(graph.reshape(mixed, ["batch", heads, "time", valueDim]), [0, 2, 1, 3]);
  const flat = graph.reshape(together, ["batch*time", heads * valueDim]);
  return tools.linear(own.gate ? graph.mul(flat, graph.sigmoid(own.gate)) : flat, o);
}

/** Shares of scores [B, H, T, S]; with sinks, theirs at the end. */
function sharesOf(scores: Node, sinks: NormWeights | undefined, tools: AttentionTools): Node {
  const { graph } = tools;
  if (!sinks) return graph.softmax(scores);
  const { heads } = tools.spec;
  const sink = graph.reshape(tools.weight(sinks.weight), [1, heads, 1, 1]);
  return graph.softmax(graph.concat([scores, graph.expand(sink, ["batch", heads, "time", 1])], -1));
}

function projected(x: Node, layer: LayerSpec, q: LinearWeights, tools: AttentionTools): Projected {
  const { graph } = tools;
  const { heads, attention } = tools.spec;
  const { kvHeads, headDim, weights } = layer;
  const { k, v, qNorm, kNorm } = weights;
  const asked = tools.linear(x, q);
  const halves = graph.reshape(asked, ["batch*time", heads, attention.gated ? 2 * headDim : headDim]);
  const half = (i: number) =>
    graph.reshape(graph.slice(halves, 2, i * headDim, (i + 1) * headDim), ["batch*time", heads * headDim]);
  return {
    query: turned(attention.gated ? half(0) : asked, heads, qNorm, layer, tools),
    gate: attention.gated ? half(1) : undefined,
    key: k && turned(tools.linear(x, k), kvHeads, kNorm, layer, tools),
    value: v && valuesByHead(tools.linear(x, v), layer, tools),
  };
}

/** Latent attention (arXiv 2405.04434, section 2.1): keys and values of a latent, and one rotated part for all heads. */
function fromLatent(x: Node, layer: LayerSpec, q: LinearWeights, tools: AttentionTools): Projected {
  const { graph } = tools;
  const { heads } = tools.spec;
  const { headDim, valueDim } = layer;
  const { qDown, qDownNorm, kvDown, kvDownNorm, kv } = layer.weights as LayerWeights &
    Required<Pick<LayerWeights, "kvDown" | "kvDownNorm" | "kv">>;
  const rank = kvDownNorm.weight.shape[0] as number;
  const rotated = (kvDown.weight.shape[0] as number) - rank;
  const plain = headDim - rotated;
  const narrow = qDown ? tools.norm(tools.linear(x, qDown), LATENT_NORM, qDownNorm) : x;
  const queries = byHead(tools.linear(narrow, q), heads, tools);
  const turned = rotate(graph.slice(queries, -1, plain, headDim), layer, tools);
  const down = tools.linear(x, kvDown);
  const shared = rotate(byHead(graph.slice(down, -1, rank, rank + rotated), 1, tools), layer, tools);
  const latent = tools.norm(graph.slice(down, -1, 0, rank), LATENT_NORM, kvDownNorm);
  const both = byHead(tools.linear(latent, kv), heads, tools);
  const spread = graph.expand(shared, ["batch", heads, "time", rotated]);
  return {
    query: graph.concat([graph.slice(queries, -1, 0, plain), turned], -1),
    key: graph.concat([graph.slice(both, -1, 0, plain), spread], -1),
    value: graph.slice(both, -1, plain, plain + valueDim),
  };
}

/** [B T, heads E] as [B, heads, T, E], normalised where the family does. */
function byHead(x: Node, heads: number, tools: AttentionTools, weights?: NormWeights): Node {
  const { graph } = tools;
  const { qkNorm } = tools.spec.attention;
  const wide = weights && qkNorm?.over === "width" ? tools.norm(x, qkNorm, weights) : x;
  const apart = graph.reshape(wide, ["batch", "time", heads, (x.shape[1] as number) / heads]);
  const normal = weights && qkNorm && qkNorm.over !== "width" ? tools.norm(apart, qkNorm, weights) : apart;
  return graph.transpose(normal, [0, 2, 1, 3]);
}

/** Values [B T, K E] as [B, K, T, E], normalised where the family does. */
function valuesByHead(x: Node, layer: LayerSpec, tools: AttentionTools): Node {
  const { valueNorm } = tools.spec.attention;
  const apart = byHead(x, layer.kvHeads, tools);
  return valueNorm ? tools.graph.mul(apart, tools.graph.inverseRms(apart, valueNorm.eps)) : apart;
}

/** Queries or keys [B T, heads E] as [B, heads, T, E], normalised and rotated. */
function turned(
  x: Node,
  heads: number,
  weights: NormWeights | undefined,
  layer: LayerSpec,
  tools: AttentionTools,
): Node {
  const { qkNorm } = tools.spec.attention;
  if (!weights || !qkNorm?.afterRotation) return rotate(byHead(x, heads, tools, weights), layer, tools);
  return tools.norm(rotate(byHead(x, heads, tools), layer, tools), qkNorm, weights);
}

/** Queries [B, H, T, E], larger the later their positions. */
function grow(query: Node, tools: AttentionTools): Node {
  const { growth } = tools.spec.attention;
  if (!growth) return query;
  const { graph } = tools;
  const positions = graph.cast(graph.input(FEEDS.positions, "i64", ["batch", "time"]), "f32");
  const times = graph.cast(graph.cast(graph.div(positions, growth.every), "i64"), "f32");
  const scale = graph.add(graph.mul(graph.log(graph.add(times, 1)), growth.factor), 1);
  return graph.mul(query, graph.reshape(scale, ["batch", 1, "time", 1]));
}

function rotate(x: Node, { rope }: LayerSpec, tools: AttentionTools): Node {
  if (rope === null) return x;
  const { graph } = tools;
  const { dimensions, pairs } = tools.spec.ropes[rope] as DecoderSpec["ropes"][number];
  const table = (name: string) => graph.input(name, "f32", ["table", dimensions / 2]);
  const positions = graph.input(FEEDS.positions, "i64", ["batch", "time"]);
  return graph.rope(x, positions, table(ropeCos(rope)), table(ropeSin(rope)), pairs === "interleaved");
}

/** Added to scores, [B, 1, T, P + T]: 0 where a query sees a key. */
function maskOf(window: number | null, tools: AttentionTools): Node {
  const { graph } = tools;
  const now = { positions: FEEDS.positions, segments: FEEDS.segments, width: "time" };
  const past = { positions: FEEDS.pastPositions, segments: FEEDS.pastSegments, width: "past" };
  const keys = tools.cached ? [past, now] : [now];
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
