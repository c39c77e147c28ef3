// Calibrates the routers of a merged mixture, layer by layer (HARC, arXiv 2606.03391): states of one layer are in memory at a time.
// Letters in shapes: N tokens, E experts, D width.

import type { Checkpoint } from "../formats/checkpoint/index.js";
import { textFoldersOf } from "../formats/vocabulary/index.js";
import { CancelledError, CheckpointError, groupBy, RecipeError } from "../kit/index.js";
import type { Step } from "../merge/index.js";
import type { Sources } from "../tensor/expressions/index.js";
import type { MeasuredTensor, MeasureGates, RoutersMeasurement } from "../tensor/measurements/index.js";
import { beginOf } from "../text/index.js";
import { computeBlends } from "./blends.js";
import { inputsOf } from "./graph/gradients.js";
import type { Node } from "./graph/node.js";
import { programBytes, requireMemory, summed } from "./memory/estimate.js";
import { buildDecoder, weightName } from "./model/decoder-graph.js";
import { readSpec } from "./model/read-spec.js";
import { FLOAT32 } from "./model/sizes.js";
import { locateWeights } from "./model/weight-names.js";
import type { ModelSource } from "./model-source.js";
import { feedsOf, RopeTables } from "./rope-tables.js";
import { type Router, RouterRegression } from "./router-regression.js";
import { lowerGraph } from "./runtime/lower.js";
import { openSession, type TensorValue } from "./runtime/session.js";
import { loadSourceTokenizer } from "./source-text.js";
import { bindWeights } from "./weights.js";

/** Tokens that are read together. */
const PACK_TOKENS = 1024;
const [STREAM, NEXT, READ] = ["stream", "next", "read"] as const;

/** Texts of one expert that are read together. */
interface Pack {
  readonly expert: number;
  readonly texts: readonly (readonly number[])[];
}

type Options = Parameters<MeasureGates>[2];

/**
 * Calibrates the routers of a mixture: for each layer, from the first, W with the least sum over experts i and tokens x of
 * their texts of (W x - W_i x)^T H (W x - W_i x), where H is the Hessian of softmax at W_i x. x is what the layer's router
 * reads in the mixture, whose routers below are calibrated already.
 * @returns the routers, [E, D] each, in the order of the measurement
 * @throws RecipeError if the mixture does not route by softmax; CheckpointError if an expert's texts have no token
 * @throws LayergraftError code `memory`; RuntimeMissingError if ONNX Runtime is not installed; CancelledError if the signal fires
 */
export async function calibrateRouters(
  measurement: RoutersMeasurement,
  sources: Sources,
  options: Options,
): Promise<Float32Array> {
  const source = mixtureOf(measurement, sources, options);
  const spec = readSpec(source.config, source.tensors.keys());
  if (!spec.routing || spec.routing.scores === "sigmoid") {
    const kind = spec.routing ? "routes by sigmoids" : "has no experts";
    throw RecipeError.at({ field: "model" }, `harc calibrates routers with softmax, and ${source.name} ${kind}.`);
  }
  const packs = await packsOf(measurement, source);
  const { weights, streams, mixed } = buildDecoder(spec);
  const ropes = new RopeTables(spec.ropes);
  const { stored: names } = locateWeights(spec, source.tensors.keys(), source.name);
  const tokens = packs.map(({ texts }) => texts.reduce((sum, text) => sum + text.length, 0));
  const { experts, width } = { experts: spec.routing.experts, width: spec.hidden };
  const total = tokens.reduce((sum, one) => sum + one, 0);
  requireMemory({
    what: `Calibrating the routers of ${source.name}`,
    // The stream, what it is replaced by, and what routers read of it.
    estimate: summed({
      activations: FLOAT32 * total * (3 * width + experts),
      program: programBytes(spec),
    }),
    advice: () => ({ text: "Give fewer or shorter texts." }),
  });
  const { threads, signal } = options;
  const bound = await bindWeights({ spec, weights }, source, { signal, threads });
  const own = await routersOf(measurement, sources, options);
  const solver = await RouterRegression.open({ experts, width }, options);
  const found = new Map<string, Float32Array>();
  const states: Float32Array[] = [];
  let done = 0;
  const steps = packs.length * (spec.layers.length + mixed.size);
  /** Runs a part of the graph over all packs. */
  const run = async (
    output: string,
    node: Node,
    from: Node | undefined,
    fed: Record<string, TensorValue>,
    each: (result: Float32Array, pack: number) => void,
  ) => {
    const given = new Map(from ? [[from, STREAM]] : []);
    const used = inputsOf([node], given);
    const fixed = new Map([...bound.weights].filter(([name]) => !(name in fed)));
    const session = await openSession(lowerGraph({ [output]: node }, { weights: fixed, given }), { threads });
    try {
      for (const [i, { texts }] of packs.entries()) {
        if (signal?.aborted) throw new CancelledError("stopped before the end");
        const all = { ...feedsOf(texts, ropes), ...fed };
        const feeds = Object.fromEntries(Object.entries(all).filter(([name]) => used.has(name)));
        if (from) feeds[STREAM] = matrix(states[i] as Float32Array, width);
        const results = await session.run(feeds, [output]);
        each(results[output]?.data as Float32Array, i);
        options.onProgress?.({ phase: "calibrating routers", done: done++, total: steps, unit: "items" });
      }
    } finally {
      await session.close();
    }
  };
  const keep = (result: Float32Array, pack: number) => {
    states[pack] = result;
  };
  try {
    await run(NEXT, streams[0] as Node, undefined, {}, keep);
    for (const [index, { experts: mix }] of spec.layers.entries()) {
      const fed: Record<string, TensorValue> = {};
      const parts = mixed.get(index);
      if (mix && parts) {
        const read: Float32Array[] = [];
        await run(READ, parts.read, streams[index], {}, (result, pack) => {
          read[pack] = result;
        });
        const { weight, bias, factor = 1 } = mix.router;
        const stored = [weight, bias].map((one) => one && (names.get(one.name) as string));
        const routerIn = (values: Values) => routerOf(values, stored, factor, experts);
        const steps = stored.flatMap((name) => source.tensors.get(name ?? "") ?? []);
        const solved = await solver.solve({
          start: routerIn(await valuesOf(source, steps, options)),
          experts: own.map(routerIn),
          packs: read.map((x, i) => ({ x, expert: (packs[i] as Pack).expert })),
          scale: measurement.scale,
        });
        const calibrated = solved.map((value) => value / factor);
        found.set(stored[0] as string, calibrated);
        fed[weightName(weight)] = matrix(calibrated, width);
      }
      if (index < spec.layers.length - 1) await run(NEXT, streams[index + 1] as Node, streams[index], fed, keep);
    }
  } finally {
    await solver.close();
  }
  const missing = measurement.routers.filter((name) => !found.has(name));
  if (missing.length > 0) {
    const list = missing.slice(0, 3).join(", ");
    throw new CheckpointError(`${source.name} has routers that its configuration does not describe: ${list}`);
  }
  const all = measurement.routers.map((name) => found.get(name) as Float32Array);
  const joined = new Float32Array(all.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const one of all) {
    joined.set(one, at);
    at += one.length;
  }
  return joined;
}

const matrix = (data: Float32Array, columns: number): TensorValue => ({
  ...{ dtype: "f32", data },
  shape: [data.length / columns, columns],
});

/** A merge that is not written, as what the engine runs. */
function mixtureOf({ source, mixture }: RoutersMeasurement, sources: Sources, { measured }: Options): ModelSource {
  const lead = sources.get(source) as Checkpoint;
  return {
    ...{ name: `the merge like ${lead.name}`, digest: "", config: lead.config, sources, measurements: [], measured },
    tensors: new Map(mixture.map((one) => [one.tensor, stepOf(one)])),
    ...{ textFolders: textFoldersOf(lead), addedTokens: [], notes: [] },
  };
}

const stepOf = (one: MeasuredTensor): Step => ({ ...one, layer: null, part: "other", origin: [] });

async function packsOf({ experts, length }: RoutersMeasurement, source: ModelSource): Promise<Pack[]> {
  const tokenizer = await loadSourceTokenizer(source);
  const begin = beginOf(tokenizer);
  const spec = readSpec(source.config, source.tensors.keys());
  const ropes = new RopeTables(spec.ropes);
  return experts.flatMap(({ texts }, expert) => {
    const ids = texts.map((text) => tokenizer.encode(begin + text).slice(0, length)).filter((one) => one.length > 0);
    if (ids.length === 0) throw new CheckpointError(`the texts of expert ${expert + 1} have no token. Give it others.`);
    // Texts of one pack have the same frequencies, which may depend on the length of each.
    const alike = [...groupBy(ids, (one) => ropes.keyOf(one.length)).values()];
    return alike.flatMap((some) => packed(some).map((texts): Pack => ({ expert, texts })));
  });
}

/** Neighbours together, up to so many tokens. */
function packed(texts: readonly (readonly number[])[]): (readonly number[])[][] {
  const packs: (readonly number[])[][] = [];
  let size = Number.POSITIVE_INFINITY;
  for (const text of texts) {
    size += text.length;
    if (size > PACK_TOKENS) {
      packs.push([]);
      size = text.length;
    }
    packs.at(-1)?.push(text);
  }
  return packs;
}

/** Values of each expert's routers and their biases, by tensor. */
function routersOf({ experts }: RoutersMeasurement, sources: Sources, options: Options) {
  const of = { name: "the experts", sources, measured: options.measured };
  return Promise.all(experts.map(({ routers }) => valuesOf(of, routers.map(stepOf), options)));
}

/** A router with its factor, from stored tensors: its matrix, and its bias if it has one. */
function routerOf(
  values: Values,
  [weight, bias]: readonly (string | undefined)[],
  factor: number,
  experts: number,
): Router {
  const own = values.get(weight ?? "") as Float32Array;
  return {
    weight: factor === 1 ? own : own.map((value) => value * factor),
    bias: (bias && values.get(bias)) || new Float32Array(experts),
  };
}

type Values = ReadonlyMap<string, Float32Array>;

async function valuesOf(
  { sources, measured = new Map() }: Pick<ModelSource, "sources" | "measured">,
  steps: readonly Step[],
  { signal }: Options,
): Promise<Values> {
  const found = await computeBlends(steps, sources, measured, { shared: true, signal });
  // ONNX Runtime does not take shared memory.
  return new Map([...found].map(([name, bytes]) => [name, new Float32Array(bytes).slice()]));
}
