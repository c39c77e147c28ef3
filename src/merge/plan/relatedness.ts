// Checks on sampled weights whether models look fine-tuned from one base. Fine-tuning moves weights little, so experts
// of one base point the same way; models trained apart are orthogonal.

import type { Checkpoint, CheckpointTensor } from "../../formats/checkpoint/index.js";
import { readRanges } from "../../formats/safetensors/index.js";
import { BLOCKS, bytesPerValue, Converter, type KernelDType } from "../../kernels/index.js";
import { type DType, elementCount, sameShape } from "../../kit/index.js";
import { formatPercent } from "../../kit/printing/index.js";

/** Maximum sampled matrices, one short range each: at most 1 MB of a model. */
const MATRICES = 256;
/** The same on the hub, where each is a request. */
const REMOTE_MATRICES = 32;
/** Matrices to sample first. If each of them is close and one differs, there is nothing to report, and no more are read. */
const FEW = 16;
const ELEMENTS = 1024;
/** Ranges of a model that are read at once. */
const READS = 8;

/**
 * Mean cosine of weights below which models look unrelated. Models that were initialized or trained apart have 0.00; at
 * 0.2 a fine-tuned model would have changed its weights by five times their size.
 */
const UNRELATED = 0.2;

/**
 * Mean cosine below which models are further apart than fine-tuning usually moves them (three quarters of the weights'
 * size). Published experts change less than a tenth (cosine above 0.99); small models fine-tuned hard stay above 0.9.
 */
const FAR = 0.8;

export interface Relatedness {
  /** One sentence per model that looks unrelated to the others, with figures. */
  readonly unrelated: readonly string[];
  /** Notes on the other models. */
  readonly notes: readonly string[];
  /** Share by which a model without an adapter changed the base in a layer, by what was sampled; undefined if unknown. */
  changeIn(label: string, layer: number): number | undefined;
}

/**
 * Compares sampled weights of each model with those of the base, or of the first where there is no base.
 *
 * Only matrices of the layers count: norms are near 1 in every model, and embeddings may have other rows. The sample is
 * the same each time.
 */
export async function compareWeights(
  sources: ReadonlyMap<string, Checkpoint>,
  isBase: (label: string) => boolean,
): Promise<Relatedness> {
  const labelled = [...sources];
  const reference = labelled.find(([label]) => isBase(label)) ?? labelled[0];
  const unrelated: string[] = [];
  const notes: string[] = [];
  if (!reference) return { unrelated, notes, changeIn: () => undefined };
  const compared = new Map<string, Comparison | undefined>();
  const samples = new Samples();
  for (const other of labelled) {
    const path = pathOf(other[1]);
    if (path === pathOf(reference[1])) continue;
    if (!compared.has(path)) compared.set(path, await compare(reference[1], other[1], samples));
    const found = compared.get(path);
    if (!found) continue;
    const [a, b] = [reference, other].map(([label, { name }]) => `${label} (${name})`);
    const figures = `mean cosine ${found.cosine.toFixed(2)}, difference ${formatPercent(found.difference)} of the weights' size`;
    const expected = "experts of one base have a cosine above 0.9";
    if (found.cosine < UNRELATED) {
      unrelated.push(`the weights of ${b} and ${a} look unrelated: ${figures}; ${expected}`);
    } else if (found.cosine < FAR) {
      notes.push(`${b} and ${a} are further apart than fine-tuning usually moves them: ${figures}; ${expected}`);
    } else if (found.equal && !reference[1].adapter && !other[1].adapter) {
      notes.push(`${b} equals ${a} in every sampled weight; check that they are not the same model`);
    }
  }
  const changeIn = (label: string, layer: number) => {
    const model = sources.get(label);
    if (!model || model.adapter || reference[1].adapter || !isBase(reference[0])) return undefined;
    const parts = compared.get(pathOf(model))?.parts.filter((part) => part.layer === layer) ?? [];
    const sum = (of: "changed" | "size") => parts.reduce((total, part) => total + part[of], 0);
    return sum("size") > 0 ? Math.sqrt(Math.max(0, sum("changed")) / sum("size")) : undefined;
  };
  return { unrelated, notes, changeIn };
}

/** Identifies the model of a source: the same for sources of one model. */
export function pathOf({ folder, adapter }: Checkpoint): string {
  return adapter ? `${folder}+${adapter.path}` : folder;
}

interface Comparison {
  /** Mean over the matrices of the cosine between their samples. */
  readonly cosine: number;
  /** The smallest of these cosines. */
  readonly least: number;
  /** Norm of the difference of all samples over that of the first model's. */
  readonly difference: number;
  readonly equal: boolean;
  /** Squared norms of each sampled matrix: of its difference, and of the first model's. */
  readonly parts: readonly { readonly layer: number | null; readonly changed: number; readonly size: number }[];
}

/** Undefined if the models have nothing to compare. */
async function compare(a: Checkpoint, b: Checkpoint, samples: Samples): Promise<Comparison | undefined> {
  const pairs = [...a.tensors.values()].flatMap((tensor) => {
    const twin = b.tensors.get(tensor.name);
    return twin && isMatrix(tensor) && isMatrix(twin) && sameShape(tensor.shape, twin.shape) ? [[tensor, twin]] : [];
  }) as Pair[];
  const isRemote = [...a.files, ...b.files].some(({ remote }) => remote !== undefined);
  const chosen = spread(pairs, isRemote ? REMOTE_MATRICES : MATRICES);
  const few = await summaryOf(spread(chosen, FEW), samples);
  const isClose = few && few.least >= FAR && !few.equal;
  return isClose ? few : summaryOf(chosen, samples);
}

type Pair = readonly [CheckpointTensor, CheckpointTensor];

/** Values in the middle of tensors. Each is read once, however many models are compared with it. */
class Samples {
  readonly #converter = new Converter();
  readonly #known = new Map<CheckpointTensor, Float32Array>();

  async of(tensors: readonly CheckpointTensor[]): Promise<Float32Array[]> {
    const missing = tensors.filter((tensor) => !this.#known.has(tensor));
    for (let at = 0; at < missing.length; at += READS) {
      const group = missing.slice(at, at + READS);
      const files = [...new Set(group.map(({ file }) => file))];
      await Promise.all(files.map((file) => this.#read(group.filter((tensor) => tensor.file === file))));
    }
    return tensors.map((tensor) => this.#known.get(tensor) as Float32Array);
  }

  /** Reads the samples of tensors of one file. */
  async #read(tensors: readonly CheckpointTensor[]): Promise<void> {
    const { file } = tensors[0] as CheckpointTensor;
    const found = await readRanges(file, tensors.map(middleOf));
    for (const [i, tensor] of tensors.entries()) {
      const { blocks, dtype } = tensor;
      const bytes = found[i] as Uint8Array;
      const values = blocks
        ? this.#converter.dequantize(blocks, bytes)
        : this.#converter.decode(dtype as KernelDType, bytes);
      this.#known.set(tensor, values);
    }
  }
}

/** The range of bytes that is sampled. */
function middleOf({ offset, shape, dtype, blocks }: CheckpointTensor): [number, number] {
  const elements = elementCount(shape);
  const unit = blocks ? BLOCKS[blocks].elements : 1;
  const count = Math.min(elements, ELEMENTS);
  const width = bytesPerValue(blocks ?? dtype);
  const from = offset + Math.floor((elements - count) / 2 / unit) * unit * width;
  return [from, from + count * width];
}

/** Undefined if there is nothing to compare. */
async function summaryOf(pairs: readonly Pair[], samples: Samples): Promise<Comparison | undefined> {
  const cosines: number[] = [];
  const parts: { layer: number | null; changed: number; size: number }[] = [];
  let equal = true;
  const [left, right] = await Promise.all([samples.of(pairs.map(([a]) => a)), samples.of(pairs.map(([, b]) => b))]);
  for (const [i, pair] of pairs.entries()) {
    const [x, y] = [left[i], right[i]] as [Float32Array, Float32Array];
    const [xx, yy, xy] = [product(x, x), product(y, y), product(x, y)];
    equal &&= x.every((value, at) => value === y[at]);
    const cosine = xy / Math.sqrt(xx * yy);
    // Zeros and non-finite values have no angle.
    if (!Number.isFinite(cosine)) continue;
    cosines.push(cosine);
    parts.push({ layer: pair[0].layer, changed: xx + yy - 2 * xy, size: xx });
  }
  if (cosines.length === 0) return undefined;
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  const size = sum(parts.map((part) => part.size));
  const changed = Math.max(0, sum(parts.map((part) => part.changed)));
  const cosine = sum(cosines) / cosines.length;
  return { cosine, least: Math.min(...cosines), difference: Math.sqrt(changed / size), equal, parts };
}

/** As many of a list, at even distances. */
function spread<T>(all: readonly T[], most: number): T[] {
  const step = Math.max(1, all.length / most);
  return Array.from({ length: Math.ceil(all.length / step) }, (_, i) => all[Math.floor(i * step)] as T);
}

function product(x: Float32Array, y: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += (x[i] as number) * (y[i] as number);
  return sum;
}

const SAMPLED: readonly DType[] = ["F32", "F16", "BF16"];

function isMatrix({ layer, shape, dtype, gathered, coded }: CheckpointTensor): boolean {
  // Rows that a GGUF file has in another order do not lie where those of a folder do.
  return layer !== null && shape.length >= 2 && SAMPLED.includes(dtype) && !gathered && !coded;
}
