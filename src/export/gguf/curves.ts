// The constants of activations, which llama.cpp reads as metadata and not as tensors.
import { computeBlends, type ModelSource } from "../../engine/index.js";
import { type DecoderSpec, locateWeights } from "../../engine/model/index.js";
import type { Step } from "../../merge/index.js";
import { measureAll } from "../../tensor/measurements/index.js";
import type { Metadata } from "./gguf-file.js";

/** Of xielu, by transformers' class: not trained, and the same in all models. */
const [BETA, EPSILON] = [0.5, -1e-6];

/** Keys of xielu, whose curvature a model has in two tensors of one number for each layer; empty for other activations. */
export async function curveMetadata(source: ModelSource, spec: DecoderSpec): Promise<Metadata> {
  if (spec.activation !== "xielu") return new Map();
  const { stored } = locateWeights(spec, source.tensors.keys(), source.name);
  const measured = await measureAll(source.measurements, source.sources, {});
  const read = async (role: "curveAbove" | "curveBelow") => {
    const names = spec.layers.map(({ weights }) => stored.get(weights[role]?.weight.name ?? "") ?? "");
    const steps = names.map((name) => ({ ...(source.tensors.get(name) as Step), dtype: "F32" as const }));
    const blends = await computeBlends(steps, source.sources, measured);
    return names.map((name) => Buffer.from(blends.get(name) ?? []).readFloatLE());
  };
  const all = (value: number) => spec.layers.map(() => value);
  const lists = {
    alpha_n: await read("curveBelow"),
    alpha_p: await read("curveAbove"),
    beta: all(BETA),
    eps: all(EPSILON),
  };
  return new Map(
    Object.entries(lists).map(([key, value]) => [`xielu.${key}`, { type: "array", of: "f32", value }] as const),
  );
}
