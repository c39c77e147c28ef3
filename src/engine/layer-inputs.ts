// What the router of each layer reads on texts, or its feed-forward part where it has none, layer by layer: the states of one layer
// are in memory at a time. Letters in shapes: N tokens, D width.

import { CancelledError } from "../kit/index.js";
import type { MeasureGates } from "../tensor/measurements/index.js";
import { beginOf } from "../text/index.js";
import { inputsOf } from "./graph/gradients.js";
import type { Node } from "./graph/node.js";
import { programBytes, requireMemory, summed } from "./memory/estimate.js";
import { buildDecoder } from "./model/decoder-graph.js";
import { readSpec } from "./model/read-spec.js";
import { FLOAT32 } from "./model/sizes.js";
import type { ModelSource } from "./model-source.js";
import { packed } from "./packs.js";
import { feedsOf, RopeTables } from "./rope-tables.js";
import { lowerGraph } from "./runtime/lower.js";
import { openSession, type TensorValue } from "./runtime/session.js";
import { loadSourceTokenizer } from "./source-text.js";
import { bindWeights } from "./weights.js";

const [STREAM, STATE] = ["stream", "state"] as const;

/** What tokens of texts of one group give a layer, [N, D]. */
export interface LayerInputs {
  readonly group: number;
  readonly x: Float32Array;
}

export type LayerInputOptions = Parameters<MeasureGates>[2] & {
  /** Groups of texts. */
  readonly texts: readonly (readonly string[])[];
  /** Tokens that are read of a text; default all. */
  readonly length?: number | undefined;
  /** Layers that are visited. */
  readonly layers: ReadonlySet<number>;
  /** Displayed while it runs. */
  readonly phase: string;
  /** Gets the inputs of a layer. Weights of the layer that it returns, by input name, take the place of the stored ones. */
  readonly visit: (layer: number, inputs: readonly LayerInputs[]) => Promise<Readonly<Record<string, TensorValue>>>;
};

/**
 * Visits layers from the input to the output. The tokens of all texts pass a layer before the next.
 * @throws CheckpointError if the model has no tokenizer
 * @throws LayergraftError code `memory`; RuntimeMissingError if ONNX Runtime is not installed; CancelledError if the signal fires
 */
export async function visitLayers(source: ModelSource, options: LayerInputOptions): Promise<void> {
  const { layers, visit, threads, signal, phase } = options;
  const spec = readSpec(source.config, source.tensors.keys());
  const { weights, streams, reads } = buildDecoder(spec);
  const ropes = new RopeTables(spec.ropes);
  const packs = await packsOf(source, ropes, options);
  const tokens = packs.flatMap(({ texts }) => texts).reduce((sum, text) => sum + text.length, 0);
  const width = spec.hidden;
  requireMemory({
    what: `Reading ${tokens} tokens with ${source.name}, one layer at a time,`,
    // The stream, what takes its place, what is read of it, and shares of the experts.
    estimate: summed({
      activations: FLOAT32 * tokens * (3 * width + (spec.routing?.experts ?? 0)),
      program: programBytes(spec),
    }),
    advice: () => ({ text: "Give fewer or shorter texts." }),
  });
  const bound = await bindWeights({ spec, weights }, source, { signal, threads });
  let states: Float32Array[] = [];
  let done = 0;
  const total = packs.length * (spec.layers.length + layers.size);
  /** The values of a node for all packs, from the stream before it. */
  const run = async (node: Node, from: Node | undefined, fed: Readonly<Record<string, TensorValue>> = {}) => {
    const given = new Map(from ? [[from, STREAM]] : []);
    const used = inputsOf([node], given);
    const stored = new Map([...bound.weights].filter(([name]) => !(name in fed)));
    const session = await openSession(lowerGraph({ [STATE]: node }, { weights: stored, given }), { threads });
    const found: Float32Array[] = [];
    try {
      for (const [i, { texts }] of packs.entries()) {
        if (signal?.aborted) throw new CancelledError("stopped before the end");
        const all = { ...feedsOf(texts, ropes), ...fed };
        const feeds = Object.fromEntries(Object.entries(all).filter(([name]) => used.has(name)));
        if (from) feeds[STREAM] = matrix(states[i] as Float32Array, width);
        found.push((await session.run(feeds, [STATE]))[STATE]?.data as Float32Array);
        options.onProgress?.({ phase, done: ++done, total, unit: "items" });
      }
    } finally {
      await session.close();
    }
    return found;
  };
  states = await run(streams[0] as Node, undefined);
  for (const layer of spec.layers.keys()) {
    const read = layers.has(layer) ? reads.get(layer) : undefined;
    let fed: Readonly<Record<string, TensorValue>> = {};
    if (read) {
      const inputs = await run(read, streams[layer]);
      fed = await visit(
        layer,
        inputs.map((x, i) => ({ x, group: packs[i]?.group as number })),
      );
    }
    if (layer < Math.max(...layers)) states = await run(streams[layer + 1] as Node, streams[layer], fed);
  }
}

/** A matrix of so many columns. */
export const matrix = (data: Float32Array, columns: number): TensorValue => ({
  dtype: "f32",
  data,
  shape: [data.length / columns, columns],
});

/** Texts of one group that are read together. */
interface Pack {
  readonly group: number;
  readonly texts: readonly (readonly number[])[];
}

async function packsOf(source: ModelSource, ropes: RopeTables, { texts, length }: LayerInputOptions): Promise<Pack[]> {
  const tokenizer = await loadSourceTokenizer(source);
  const begin = beginOf(tokenizer);
  return texts.flatMap((own, group) => {
    const ids = own.map((text) => tokenizer.encode(begin + text).slice(0, length)).filter((one) => one.length > 0);
    return packed(ids, ropes).map((texts): Pack => ({ group, texts }));
  });
}
