// Where the tensors of a model go that are stored anew in files: matrices of products as codes in blocks with
// scales, other weights as numbers.

import type { StoredWeight } from "../families/index.js";
import { BLOCK_COLUMNS, type SplitEncoding, splitBytes } from "../kernels/index.js";
import { elementCount } from "../kit/index.js";
import type { Step } from "../merge/index.js";
import type { Resolver } from "../tensor/expressions/index.js";
import type { FilePosition, Job } from "../tensor/streaming/index.js";
import type { Node } from "./graph/node.js";
import type { QuantizedWeight, Weight } from "./runtime/lower.js";
import type { ExternalData } from "./runtime/onnx.js";

/** How the nodes of a graph read its weights, by input name. */
export interface WeightUses {
  /** Matrices that are the transposed right operand of a product. */
  readonly products: ReadonlySet<string>;
  /** Weights that something else reads: embeddings and vectors. */
  readonly others: ReadonlySet<string>;
}

const DTYPES = { F32: "f32", F16: "f16", BF16: "bf16" } as const;

/** A tensor of the checkpoint and how it is stored. */
export interface PlacedTensor {
  readonly step: Step;
  /** As numbers; undefined where only products read it, from codes. */
  readonly plain?: ExternalData & { readonly dtype: keyof typeof DTYPES };
  /** As codes with scales, for products. */
  readonly quantized?: {
    readonly encoding: SplitEncoding;
    readonly codes: ExternalData;
    readonly scales: ExternalData;
  };
}

/** How these nodes read the weights. @param weights by input name */
export function usesOf(nodes: readonly Node[], weights: ReadonlyMap<string, unknown>): WeightUses {
  const [products, others] = [new Set<string>(), new Set<string>()];
  for (const { op, inputs, attributes } of nodes) {
    for (const [operand, input] of inputs.entries()) {
      const name = input.op === "input" ? (input.attributes.name as string) : "";
      if (!weights.has(name)) continue;
      if (op === "matmul" && operand === 1 && attributes.transB && !attributes.transA) products.add(name);
      else others.add(name);
    }
  }
  return { products, others };
}

/** Whether the rows of a matrix fill blocks. */
export function fillsBlocks({ shape }: Step): boolean {
  return (shape.at(-1) ?? 0) % BLOCK_COLUMNS === 0;
}

export interface PlaceOptions {
  /** Encoding of matrices whose rows fill blocks; none stores all weights as numbers. */
  readonly encoding: SplitEncoding | undefined;
  /** Element type of a tensor that is stored as numbers. @param names its weights */
  readonly dtypeOf: (names: readonly string[]) => keyof typeof DTYPES;
  /** Reserves bytes in a file. */
  readonly take: (bytes: number) => ExternalData;
}

/** Gives the tensors of weights their places. @param steps by the weights' input names */
export function placeTensors(
  steps: ReadonlyMap<string, Step>,
  { products, others }: WeightUses,
  { encoding, dtypeOf, take }: PlaceOptions,
): PlacedTensor[] {
  return [...new Set(steps.values())].map((step) => {
    const names = [...steps].flatMap(([name, other]) => (other === step ? [name] : []));
    const isQuantized = encoding && names.some((name) => products.has(name)) && fillsBlocks(step);
    const isPlain = !isQuantized || names.some((name) => others.has(name));
    const dtype = dtypeOf(names);
    const elements = elementCount(step.shape);
    const bytes = isQuantized && splitBytes(encoding, elements);
    return {
      step,
      ...(isPlain ? { plain: { dtype, ...take(elements * (dtype === "F32" ? 4 : 2)) } } : {}),
      ...(bytes ? { quantized: { encoding, codes: take(bytes.codes), scales: take(bytes.scales) } } : {}),
    };
  });
}

/** Values of weights, as a graph is lowered with them. */
export interface PlacedWeights {
  readonly weights: Map<string, Weight>;
  readonly quantized: Map<string, QuantizedWeight>;
}

/** The weights of placed tensors, by input name. @param stored shapes and rows, by input name */
export function placedWeights(
  tensors: readonly PlacedTensor[],
  steps: ReadonlyMap<string, Step>,
  stored: ReadonlyMap<string, StoredWeight>,
  { products, others }: WeightUses,
): PlacedWeights {
  const byStep = new Map(tensors.map((tensor) => [tensor.step, tensor]));
  const [weights, quantized] = [new Map<string, Weight>(), new Map<string, QuantizedWeight>()];
  for (const [name, step] of steps) {
    const tensor = byStep.get(step) as PlacedTensor;
    const { rows, shape } = stored.get(name) as StoredWeight;
    const part = ({ location, offset, length }: ExternalData) => {
      if (!rows) return { location, offset, length };
      const rowBytes = length / rows.of;
      return { location, offset: offset + rows.from * rowBytes, length: (shape[0] as number) * rowBytes };
    };
    if (tensor.quantized && products.has(name)) {
      const { encoding, codes, scales } = tensor.quantized;
      const bits = encoding === "Q8_0" ? 8 : 4;
      quantized.set(name, { bits, block: BLOCK_COLUMNS, codes: part(codes), scales: part(scales) });
    }
    if (tensor.plain && (!tensor.quantized || others.has(name))) {
      weights.set(name, { dtype: DTYPES[tensor.plain.dtype], values: part(tensor.plain) });
    }
  }
  return { weights, quantized };
}

export type PlacedJob = Extract<Job, { readonly kind: "write" | "encode" }>;

/** The jobs that compute placed tensors. @param place where a location is in the program */
export function jobsOf(
  tensors: readonly PlacedTensor[],
  resolver: Resolver,
  place: (data: ExternalData) => FilePosition,
): PlacedJob[] {
  return tensors.flatMap(({ step, plain, quantized }): PlacedJob[] => {
    const [name, value] = [step.tensor, resolver.evaluation(step.value)];
    const written: PlacedJob[] = [];
    if (plain) written.push({ kind: "write", name, value, to: { ...place(plain), dtype: plain.dtype } });
    if (quantized) {
      const { encoding, codes, scales } = quantized;
      written.push({ kind: "encode", name, value, encoding, to: place(codes), scales: place(scales) });
    }
    return written;
  });
}
