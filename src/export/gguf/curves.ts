// The numbers of activations, which llama.cpp reads as metadata and not as tensors.
import { computeBlends, type ModelSource } from "../../engine/index.js";
import { type DecoderSpec, locateWeights } from "../../engine/model/index.js";
import type { Step } from "../../merge/index.js";
import { measureAll } from "../../tensor/measurements/index.js";
import type { Metadata, MetadataValue } from "./gguf-file.js";

/** Roles of xielu's numbers, by their keys. */
const XIELU = { alpha_n: "curveBelow", alpha_p: "curveAbove", beta: "curveSlope", eps: "curveEdge" } as const;

/** Keys of xielu, which has four tensors of one number in each layer; empty for other activations. */
export async function curveMetadata(source: ModelSource, spec: DecoderSpec): Promise<Metadata> {
  const metadata = new Map<string, MetadataValue>();
  if (spec.activation !== "xielu") return metadata;
  const { stored } = locateWeights(spec, source.tensors.keys(), source.name);
  const measured = await measureAll(source.measurements, source.sources, {});
  for (const [key, role] of Object.entries(XIELU)) {
    const names = spec.layers.map(({ weights }) => stored.get(weights[role]?.weight.name ?? "") ?? "");
    const steps = names.map((name) => ({ ...(source.tensors.get(name) as Step), dtype: "F32" as const }));
    const blends = await computeBlends(steps, source.sources, measured);
    const value = names.map((name) => new Float32Array(blends.get(name) as SharedArrayBuffer)[0] as number);
    metadata.set(`xielu.${key}`, { type: "array", of: "f32", value });
  }
  return metadata;
}
