// Rows of a mixture's router from prompts: hidden states at the input of each layer, as mergekit-moe takes them.
import { CancelledError, CheckpointError, Random } from "../core/index.js";
import type { GatesMeasurement, MeasureGates } from "../values/index.js";
import type { Checkpoint } from "../weights/index.js";
import { type Node, reachable } from "./graph/index.js";
import { buildDecoder, FEEDS, readSpec } from "./model/index.js";
import { sourceOf } from "./model-source.js";
import { RopeTables } from "./rope-tables.js";
import { lowerGraph, openSession, type TensorValue } from "./runtime/index.js";
import { loadSourceTokenizer } from "./source-text.js";
import { bindWeights } from "./weights.js";

/** Reads a text and returns a state per layer: [layers, width]. */
type ReadText = (text: string) => Promise<Float64Array>;

/**
 * Computes the gates of a mixture of experts, [layers, experts, width]. Random ones need no model.
 * @throws CheckpointError if the model has no tokenizer, or a prompt has no direction
 * @throws RuntimeMissingError if ONNX Runtime is not installed
 */
export const measureGates: MeasureGates = async (gates, sources, options) => {
  const { mode, experts, layers, width, seed, source } = gates;
  if (mode === "random" || mode === "uniform_random") {
    const random = Random.of(seed, "gates");
    const scale = Math.sqrt(1 / width);
    const draw = () => (mode === "random" ? random.normal() : (2 * random.float() - 1) * scale);
    return Float32Array.from({ length: layers * experts.length * width }, draw);
  }
  const rows = new Float32Array(layers * experts.length * width);
  const { read, close } = await openReader(sources.get(source) as Checkpoint, gates, options);
  const total = experts.reduce((sum, { positive, negative }) => sum + positive.length + negative.length, 0);
  let done = 0;
  try {
    const mean = async (texts: readonly string[]) => {
      const sum = new Float64Array(layers * width);
      for (const text of texts) {
        options.onProgress?.({ phase: "reading prompts", done: done++, total, unit: "items" });
        if (options.signal?.aborted) throw new CancelledError("stopped before the end");
        for (const [i, x] of (await read(text)).entries()) sum[i] = (sum[i] as number) + x / texts.length;
      }
      // As mergekit: embeddings of all prompts are added up, and each side of the difference has norm 1.
      return mode === "cheap_embed" ? unitStates(sum, width) : sum;
    };
    for (const [e, { positive, negative }] of experts.entries()) {
      const [towards, away] = [await mean(positive), await mean(negative)];
      const states = unitStates(
        towards.map((x, i) => x - (away[i] as number)),
        width,
      );
      for (let layer = 0; layer < layers; layer++) {
        const state = states.subarray(layer * width, (layer + 1) * width);
        if (!state.some((x) => x !== 0)) {
          throw new CheckpointError(`the prompts of expert ${e + 1} cancel out, or are empty. Give it other prompts.`);
        }
        rows.set(state, (layer * experts.length + e) * width);
      }
    }
  } finally {
    await close();
  }
  return rows;
};

/** Opens the model that reads prompts, with the layers that the mode needs. */
async function openReader(
  checkpoint: Checkpoint,
  { mode, layers, width }: GatesMeasurement,
  { threads, signal }: Parameters<MeasureGates>[2],
): Promise<{ readonly read: ReadText; readonly close: () => Promise<void> }> {
  const source = await sourceOf(checkpoint);
  const tokenizer = await loadSourceTokenizer(source);
  const begin = tokenizer.bos === undefined ? "" : (tokenizer.tokenOf(tokenizer.bos) ?? "");
  const spec = readSpec(source.config);
  const { streams, weights: all } = buildDecoder(spec);
  const inputs = streams.slice(0, mode === "cheap_embed" ? 1 : layers);
  const outputs = Object.fromEntries(inputs.map((node, layer): [string, Node] => [`${layer}`, node]));
  const used = new Set(
    reachable(inputs).flatMap((node) => (node.op === "input" ? [String(node.attributes.name)] : [])),
  );
  const weights = new Map([...all].filter(([name]) => used.has(name)));
  const bound = await bindWeights({ spec, weights }, source, { signal });
  const session = await openSession(lowerGraph(outputs, { weights: bound.weights }), { threads });
  const ropes = new RopeTables(spec.ropes);
  const read: ReadText = async (text) => {
    const ids = tokenizer.encode(begin + text);
    const integers = (from: (i: number) => number): TensorValue => {
      return { dtype: "i64", shape: [1, ids.length], data: BigInt64Array.from(ids, (_, i) => BigInt(from(i))) };
    };
    const feeds: Record<string, TensorValue> = {
      [FEEDS.ids]: integers((i) => ids[i] as number),
      [FEEDS.positions]: integers((i) => i),
      [FEEDS.segments]: integers(() => 1),
      ...ropes.feeds(ids.length),
    };
    const states = new Float64Array(layers * width);
    if (ids.length === 0) return states;
    const needed = Object.fromEntries(Object.entries(feeds).filter(([name]) => used.has(name)));
    const results = await session.run(needed, Object.keys(outputs));
    for (let layer = 0; layer < layers; layer++) {
      const stream = results[mode === "cheap_embed" ? "0" : `${layer}`]?.data as Float32Array;
      for (let at = mode === "hidden" ? ids.length - 1 : 0; at < ids.length; at++) {
        const share = mode === "hidden_avg" ? 1 / ids.length : 1;
        for (let i = 0; i < width; i++) {
          const to = layer * width + i;
          states[to] = (states[to] as number) + share * (stream[at * width + i] as number);
        }
      }
    }
    return states;
  };
  return { read, close: () => session.close() };
}

/** States with norm 1, [layers, width]; those of almost nothing are 0. */
function unitStates(states: Float64Array, width: number): Float64Array {
  for (let at = 0; at < states.length; at += width) {
    const state = states.subarray(at, at + width);
    const norm = Math.sqrt(state.reduce((sum, x) => sum + x * x, 0));
    for (let i = 0; i < width; i++) state[i] = norm < 1e-8 ? 0 : (state[i] as number) / norm;
  }
  return states;
}
