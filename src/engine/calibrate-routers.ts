// Calibrates the routers of a merged mixture (HARC, arXiv 2606.03391). Letters in shapes: E experts, D width.

import type { ExpertWeights, LayerSpec } from "../families/index.js";
import type { Checkpoint } from "../formats/checkpoint/index.js";
import { textFoldersOf } from "../formats/vocabulary/index.js";
import { CheckpointError, RecipeError } from "../kit/index.js";
import type { Step } from "../merge/index.js";
import type { Sources } from "../tensor/expressions/index.js";
import type { MeasuredTensor, MeasureGates, RoutersMeasurement } from "../tensor/measurements/index.js";
import { concatenate } from "../tensor/streaming/index.js";
import { computeBlends } from "./blends.js";
import { matrix, visitLayers } from "./layer-inputs.js";
import { weightName } from "./model/decoder-graph.js";
import { readSpec } from "./model/read-spec.js";
import { locateWeights } from "./model/weight-names.js";
import type { ModelSource } from "./model-source.js";
import { type Router, RouterRegression } from "./router-regression.js";

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
  const { stored: names } = locateWeights(spec, source.tensors.keys(), source.name);
  const { experts } = spec.routing;
  const own = await routersOf(measurement, sources, options);
  const found = new Map<string, Float32Array>();
  const solver = await RouterRegression.open({ experts, width: spec.hidden }, options);
  try {
    await visitLayers(source, {
      ...options,
      texts: measurement.experts.map(({ texts }) => texts),
      length: measurement.length,
      layers: new Set([...spec.layers.keys()].filter((layer) => spec.layers[layer]?.experts)),
      phase: "calibrating routers",
      visit: async (layer, inputs) => {
        const empty = measurement.experts.findIndex((_, i) => !inputs.some(({ group }) => group === i));
        if (empty >= 0) throw new CheckpointError(`the texts of expert ${empty + 1} have no token. Give it others.`);
        const { experts: mixture } = spec.layers[layer] as LayerSpec;
        const { weight, bias, factor = 1 } = (mixture as ExpertWeights).router;
        const stored = [weight, bias].map((one) => one && (names.get(one.name) as string));
        const routerIn = (values: Values) => routerOf(values, stored, factor, experts);
        const steps = stored.flatMap((name) => source.tensors.get(name ?? "") ?? []);
        const start = routerIn(await valuesOf(source, steps, options));
        const { scale } = measurement;
        const solved = await solver.solve({ start, experts: own.map(routerIn), inputs, scale });
        const calibrated = solved.map((value) => value / factor);
        found.set(stored[0] as string, calibrated);
        return { [weightName(weight)]: matrix(calibrated, spec.hidden) };
      },
    });
  } finally {
    await solver.close();
  }
  const missing = measurement.routers.filter((name) => !found.has(name));
  if (missing.length > 0) {
    const list = missing.slice(0, 3).join(", ");
    throw new CheckpointError(`${source.name} has routers that its configuration does not describe: ${list}`);
  }
  return concatenate(
    measurement.routers.map((name) => found.get(name) as Float32Array),
    Float32Array,
  );
}

/** A merge that is not written, as what the engine runs. */
function mixtureOf({ source, mixture }: RoutersMeasurement, sources: Sources, { measured }: Options): ModelSource {
  const lead = sources.get(source) as Checkpoint;
  return {
    name: `the merge like ${lead.name}`,
    digest: "",
    config: lead.config,
    sources,
    measurements: [],
    measured,
    tensors: new Map(mixture.map((one) => [one.tensor, stepOf(one)])),
    textFolders: textFoldersOf(lead),
    addedTokens: [],
    notes: [],
  };
}

const stepOf = (one: MeasuredTensor): Step => ({ ...one, layer: null, part: "other", origin: [] });

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
