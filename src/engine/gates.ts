// Rows of a mixture's router from prompts: hidden states at the input of each layer, as mergekit-moe takes them.

import type { Checkpoint } from "../formats/checkpoint/index.js";
import { CancelledError, CheckpointError, Random } from "../kit/index.js";
import type { GatesMeasurement, MeasureGates } from "../tensor/measurements/index.js";
import { calibrateRouters } from "./calibrate-routers.js";
import { openStates } from "./hidden-states.js";
import { visitLayers } from "./layer-inputs.js";
import { type ModelSource, sourceOf } from "./model-source.js";
import { RouterRegression } from "./router-regression.js";

/**
 * Computes the gates of a mixture of experts, [layers, experts, width]; random ones need no model. Or calibrates routers of
 * a merge, as `calibrateRouters`.
 * @throws CheckpointError if the model has no tokenizer, or a prompt has no direction
 * @throws RuntimeMissingError if ONNX Runtime is not installed
 */
export const measureGates: MeasureGates = async (gates, sources, options) => {
  if (gates.kind === "routers") return calibrateRouters(gates, sources, options);
  const { mode, experts, layers, width, seed, source } = gates;
  if (mode === "random" || mode === "uniform_random") {
    const random = Random.of(seed, "gates");
    const scale = Math.sqrt(1 / width);
    const draw = () => (mode === "random" ? random.normal() : (2 * random.float() - 1) * scale);
    return Float32Array.from({ length: layers * experts.length * width }, draw);
  }
  if (mode === "calibrated") return calibratedGates(gates, await sourceOf(sources.get(source) as Checkpoint), options);
  const rows = new Float32Array(layers * experts.length * width);
  const isEmbedding = mode === "cheap_embed";
  const { read, close } = await openStates(await sourceOf(sources.get(source) as Checkpoint), {
    ...options,
    // States at the input of each layer; the embedding's row stands for all.
    at: Array.from({ length: layers }, (_, layer) => (isEmbedding ? 0 : layer)),
    pool: mode === "hidden" ? "last" : mode === "hidden_avg" ? "mean" : "sum",
  });
  const total = experts.reduce((sum, { positive, negative }) => sum + positive.length + negative.length, 0);
  let done = 0;
  try {
    const mean = async (texts: readonly string[]) => {
      const sum = new Float64Array(layers * width);
      for (const text of texts) {
        options.onProgress?.({ phase: "reading prompts", done: done++, total, unit: "items" });
        if (options.signal?.aborted) throw new CancelledError("stopped before the end");
        for (const [i, x] of (await read(text)).states.entries()) sum[i] = (sum[i] as number) + x / texts.length;
      }
      // As mergekit: embeddings of all prompts are added up, and each side of the difference has norm 1.
      return isEmbedding ? unitStates(sum, width) : sum;
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

/** Of the Hessian off its diagonal, as the default of harc. */
const SCALE = 0.9;

/** Share of a token that its own expert shall get of all experts. */
const OWN_SHARE = 0.9;

/**
 * Rows that HARC's regression finds where each expert's own router would give 90% of every token of its positive prompts to it,
 * and as much less to it for negative prompts. The backbone reads the prompts.
 */
async function calibratedGates(
  { experts: prompts, layers, width }: GatesMeasurement,
  source: ModelSource,
  options: Parameters<MeasureGates>[2],
): Promise<Float32Array> {
  const experts = prompts.length;
  const target = Math.log((OWN_SHARE / (1 - OWN_SHARE)) * (experts - 1));
  const routerOf = (expert: number, logit: number) => ({
    weight: new Float32Array(experts * width),
    bias: Float32Array.from({ length: experts }, (_, i) => (i === expert ? logit : 0)),
  });
  const rows = new Float32Array(layers * experts * width);
  const solver = await RouterRegression.open({ experts, width }, options);
  try {
    await visitLayers(source, {
      ...options,
      texts: prompts.flatMap(({ positive, negative }) => [positive, negative]),
      layers: new Set(Array(layers).keys()),
      phase: "reading prompts",
      visit: async (layer, inputs) => {
        const without = prompts.findIndex((_, expert) => !inputs.some(({ group }) => group === 2 * expert));
        if (without >= 0)
          throw new CheckpointError(`the prompts of expert ${without + 1} are empty. Give it other prompts.`);
        const all = prompts.flatMap((_, expert) => [routerOf(expert, target), routerOf(expert, -target)]);
        const found = await solver.solve({ start: routerOf(0, 0), experts: all, inputs, scale: SCALE });
        rows.set(found, layer * experts * width);
        return {};
      },
    });
  } finally {
    await solver.close();
  }
  return rows;
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
