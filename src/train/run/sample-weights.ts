// Some weights of a base on this machine, by which an outlook estimates what rounding keeps.
import type { CheckpointTensor } from "../../formats/checkpoint/index.js";
import { readRanges } from "../../formats/safetensors/index.js";
import { Converter, type KernelDType } from "../../kernels/index.js";
import { bytesPerElement, elementCount, groupBy } from "../../kit/index.js";

/** Places in all tensors together, and weights that are read at each. */
const [PLACES, RUN] = [128, 8];

/**
 * Weights at even distances over all tensors, in runs of 8; at most 1,024. Tensors of the layers, where there are any: few rows of an
 * embedding are trained by short runs.
 * @returns undefined if no weights are here as floats
 */
export async function sampleWeights(tensors: Iterable<CheckpointTensor>): Promise<Float32Array | undefined> {
  const here = [...tensors].filter((tensor) => ["F32", "F16", "BF16"].includes(tensor.dtype) && isHere(tensor));
  const inLayers = here.filter(({ layer }) => layer !== null);
  const chosen = inLayers.length > 0 ? inLayers : here;
  const total = chosen.reduce((sum, { shape }) => sum + elementCount(shape), 0);
  const ranges: { readonly tensor: CheckpointTensor; readonly range: [number, number] }[] = [];
  let passed = 0;
  for (const tensor of chosen) {
    const { offset, dtype, shape } = tensor;
    const [size, count] = [bytesPerElement(dtype), elementCount(shape)];
    for (let place = placeAt(passed); place < placeAt(passed + count); place++) {
      const from = Math.max(0, Math.min(Math.floor(((place + 0.5) / PLACES) * total) - passed, count - RUN));
      ranges.push({ tensor, range: [offset + size * from, offset + size * Math.min(count, from + RUN)] });
    }
    passed += count;
  }
  if (ranges.length === 0) return undefined;
  const converter = new Converter();
  const values: number[] = [];
  for (const some of groupBy(ranges, ({ tensor }) => tensor.file).values()) {
    const read = await readRanges(
      (some[0] as (typeof some)[number]).tensor.file,
      some.map(({ range }) => range),
    );
    for (const [i, { tensor }] of some.entries())
      values.push(...converter.decode(tensor.dtype as KernelDType, read[i] as Uint8Array));
  }
  return Float32Array.from(values);

  /** The first place at or after an element. */
  function placeAt(element: number): number {
    return Math.ceil((element / total) * PLACES - 0.5);
  }
}

const isHere = ({ file, blocks, coded, gathered, undo }: CheckpointTensor): boolean =>
  file.remote === undefined && !blocks && !coded && !gathered && !undo;
