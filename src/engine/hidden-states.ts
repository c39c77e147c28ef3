// What a decoder computes while it reads a text: a hidden state per layer, and which experts tokens choose.

import type { RoutingSpec } from "../families/index.js";
import { beginOf } from "../text/index.js";
import { inputsOf } from "./graph/gradients.js";
import type { Node } from "./graph/node.js";
import { buildDecoder } from "./model/decoder-graph.js";
import { readSpec } from "./model/read-spec.js";
import type { ModelSource } from "./model-source.js";
import { feedsOf, RopeTables } from "./rope-tables.js";
import { lowerGraph } from "./runtime/lower.js";
import { openSession, type SessionOptions } from "./runtime/session.js";
import { loadSourceTokenizer } from "./source-text.js";
import { openBound } from "./weights.js";

export interface StateOptions extends Pick<SessionOptions, "threads"> {
  /** Indices of the residual stream: 0 is the embedding, l the output of the l-th layer. */
  readonly at: readonly number[];
  /** What stands for all tokens of a text. */
  readonly pool: "last" | "mean" | "sum";
  /** Whether routes are read, too. Default: false. */
  readonly routes?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** How the tokens of a text choose experts in one layer. N tokens, E experts, k of them for each token. */
export interface Route {
  readonly layer: number;
  /** The router's outputs, [N, E]. */
  readonly logits: Float32Array;
  /** [N, k] */
  readonly chosen: BigInt64Array;
}

/** What a text gives. */
export interface ReadText {
  /** A state for each index: [indices, width]; zeros for a text without tokens. */
  readonly states: Float64Array;
  /** Empty without `routes`, for a text without tokens, and for a dense model. */
  readonly routes: readonly Route[];
}

export interface StateReader {
  /** How the model routes; null for a dense one. */
  readonly routing: RoutingSpec | null;
  read(text: string): Promise<ReadText>;
  close(): Promise<void>;
}

/**
 * Opens the part of a model that computes the states.
 * @throws CheckpointError if the model has no tokenizer
 * @throws RuntimeMissingError if ONNX Runtime is not installed
 */
export async function openStates(source: ModelSource, options: StateOptions): Promise<StateReader> {
  const { at: indices, pool, routes = false, threads, signal } = options;
  const tokenizer = await loadSourceTokenizer(source);
  const begin = beginOf(tokenizer);
  const spec = readSpec(source.config, source.tensors.keys());
  const width = spec.hidden;
  const { streams, mixed, weights: all } = buildDecoder(spec);
  const outputs = Object.fromEntries(indices.map((index): [string, Node] => [`${index}`, streams[index] as Node]));
  const routers = routes ? [...mixed] : [];
  for (const [layer, { logits, chosen }] of routers) {
    outputs[`logits ${layer}`] = logits;
    outputs[`chosen ${layer}`] = chosen;
  }
  const used = inputsOf(Object.values(outputs));
  const weights = new Map([...all].filter(([name]) => used.has(name)));
  const session = await openBound({ spec, weights }, source, { signal, threads }, (bound) =>
    openSession(lowerGraph(outputs, { weights: bound.weights }), { threads }),
  );
  const ropes = new RopeTables(spec.ropes);
  const read = async (text: string): Promise<ReadText> => {
    const ids = tokenizer.encode(begin + text);
    const states = new Float64Array(indices.length * width);
    if (ids.length === 0) return { states, routes: [] };
    const needed = Object.fromEntries(Object.entries(feedsOf([ids], ropes)).filter(([name]) => used.has(name)));
    const results = await session.run(needed, Object.keys(outputs));
    const share = pool === "mean" ? 1 / ids.length : 1;
    for (const [row, index] of indices.entries()) {
      const stream = results[`${index}`]?.data as Float32Array;
      for (let token = pool === "last" ? ids.length - 1 : 0; token < ids.length; token++) {
        for (let i = 0; i < width; i++) {
          const to = row * width + i;
          states[to] = (states[to] as number) + share * (stream[token * width + i] as number);
        }
      }
    }
    return {
      states,
      routes: routers.map(([layer]) => ({
        layer,
        logits: results[`logits ${layer}`]?.data as Float32Array,
        chosen: results[`chosen ${layer}`]?.data as BigInt64Array,
      })),
    };
  };
  return { routing: spec.routing, read, close: () => session.close() };
}
