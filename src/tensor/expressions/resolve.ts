// Multiplies an expression out to one weighted sum, and binds its tensors to files and offsets for a streaming program.

import type { Checkpoint, CheckpointTensor } from "../../formats/checkpoint/index.js";
import type { SafetensorsFile } from "../../formats/safetensors/index.js";
import type { KernelDType } from "../../kernels/index.js";
import { elementCount, type Shape } from "../../kit/index.js";
import type {
  BoundTerms,
  CodedTerm,
  Combination,
  Evaluation,
  InputFile,
  LowRankTerm,
  Stored,
  StoredTerm,
  Term,
} from "../streaming/program.js";
import { mapOperation } from "../streaming/value-operation.js";
import {
  isLeaf,
  type Leaf,
  leavesOf,
  type Measured,
  type PlanTerms,
  ROUNDING,
  sumOfWeights,
  type Value,
  type ValueOperation,
  type Weight,
} from "./expression.js";

/** Opened checkpoints by source id. */
export type Sources = ReadonlyMap<string, Checkpoint>;

/** The tensor that a leaf names, where its source has it. */
export function tensorOf({ source, tensor, asStored }: Leaf, sources: Sources): CheckpointTensor | undefined {
  const checkpoint = sources.get(source);
  return (asStored ? checkpoint?.asStored : checkpoint)?.tensors.get(tensor);
}

/** Collects the input files of a program while values are bound to them. */
export class Resolver {
  readonly #sources: Sources;
  readonly #measured: Measured;
  readonly #inputs: InputFile[] = [];
  readonly #indexOf = new Map<string, number>();

  constructor(sources: Sources, measured: Measured = new Map()) {
    this.#sources = sources;
    this.#measured = measured;
  }

  /** Files added so far, for `Program.inputs`. */
  get inputs(): readonly InputFile[] {
    return this.#inputs;
  }

  tensor(leaf: Leaf): CheckpointTensor {
    const tensor = tensorOf(leaf, this.#sources);
    if (!tensor) throw new Error(`source ${leaf.source} has no tensor ${leaf.tensor}`);
    return tensor;
  }

  /** The stored tensor that a value copies byte for byte; undefined if the value is computed. */
  stored(value: Value): CheckpointTensor | undefined {
    const { terms } = flatten(value, this.#measured);
    const [only] = terms;
    if (!only || terms.length > 1 || only.weight !== 1 || !isLeaf(only)) return undefined;
    const tensor = this.tensor(only);
    return tensor.lowRank || tensor.gathered || tensor.blocks || tensor.coded || tensor.undo ? undefined : tensor;
  }

  shape(value: Value): Shape {
    if ("op" in value && value.op === "given") return [value.rows, value.columns];
    const [first] = leavesOf(value);
    return first ? this.tensor(first).shape : [];
  }

  evaluation(value: Value): Evaluation {
    const shape = this.shape(value);
    const elements = elementCount(shape);
    const combination = this.#combination(value);
    // The factors of a convolution are of matrices with a row for each kernel.
    const ofConvolution = leavesOf(value)
      .map((leaf) => this.tensor(leaf).lowRank)
      .find((one) => one && !one.experts && !one.rows);
    const width = shape.length > 2 && ofConvolution ? ofConvolution.a.shape[1] : shape.at(-1);
    return { ...combination, elements, columns: shape.length > 1 ? (width ?? 1) : Math.max(1, elements) };
  }

  #combination(value: Value): Combination {
    const { terms, divisor } = flatten(value, this.#measured);
    return {
      divisor,
      terms: terms.map((term): Term => {
        if (isLeaf(term)) return this.#term(this.tensor(term), term.weight);
        const operation = mapOperation<PlanTerms, BoundTerms>(term.operation, {
          value: (inner) => this.#combination(inner),
          number: (number) => numberOf(number, this.#measured),
          mask: (id) => maskOf(id, this.#measured),
          factors: (id) => factorsOf(id, this.#measured),
        });
        return { operation, weight: term.weight };
      }),
    };
  }

  /** Where a stored tensor's bytes are. */
  place(tensor: Pick<CheckpointTensor, "file" | "offset" | "dtype" | "blocks" | "coded">): Stored {
    return {
      file: this.file(tensor.file),
      offset: tensor.offset,
      dtype: tensor.coded?.code ?? tensor.blocks ?? tensor.dtype,
    };
  }

  file({ path, bytes, remote }: SafetensorsFile): number {
    let index = this.#indexOf.get(path);
    if (index === undefined) {
      index = this.#inputs.push({ path, bytes, ...(remote ? { remote } : {}) }) - 1;
      this.#indexOf.set(path, index);
    }
    return index;
  }

  #term(tensor: CheckpointTensor, weight: number): StoredTerm {
    const { gathered } = tensor;
    const parts = gathered?.parts.map(({ file, offset, type }) => ({
      ...{ file: this.file(file), offset },
      ...(type ? { type } : {}),
    }));
    const stored = {
      ...this.place(tensor),
      weight,
      ...(tensor.undo ? { undo: tensor.undo } : {}),
      ...(tensor.coded ? { coded: this.#coded(tensor.coded) } : {}),
      ...(gathered && parts ? { gathered: { ...gathered, parts, ...this.#pursuit(gathered) } } : {}),
    };
    return tensor.lowRank ? { ...stored, lowRank: this.#lowRank(tensor.lowRank) } : stored;
  }

  #coded({ code, scales, second, zeros, groups, ...form }: NonNullable<CheckpointTensor["coded"]>): CodedTerm {
    const others = Object.entries({ second, zeros, groups }).flatMap(([name, one]) =>
      one ? [[name, this.place(one)]] : [],
    );
    return { ...form, scales: this.place(scales), ...Object.fromEntries(others) };
  }

  #pursuit({ pursuit }: NonNullable<CheckpointTensor["gathered"]>) {
    if (!pursuit) return { pursuit: undefined };
    const { file, offset, dtype, shape } = pursuit.donor;
    return {
      pursuit: {
        ...pursuit,
        donor: { file: this.file(file), offset, dtype: dtype as KernelDType, columns: shape[1] as number },
      },
    };
  }

  #lowRank(delta: NonNullable<CheckpointTensor["lowRank"]>): LowRankTerm {
    const { a, b, lengths, file, others, ...form } = delta;
    return {
      ...form,
      ...(others ? { others: others.map((one) => this.#lowRank({ ...one, file })) } : {}),
      a: this.place({ ...a, file }),
      b: this.place({ ...b, file }),
      ...(lengths ? { lengths: this.place({ ...lengths, file }) } : {}),
      input: a.shape[1] ?? 0,
      output: b.shape[0] ?? 0,
    };
  }
}

export type FlatTerm = (Leaf & { readonly weight: number }) | (AtomicOperation & { readonly weight: number });

interface AtomicOperation {
  readonly operation: ValueOperation;
}

/** A value without nested averages and sums: sum(weight * term) / divisor. */
export interface WeightedSum {
  readonly terms: readonly FlatTerm[];
  readonly divisor: number;
}

/**
 * Flattens nested averages and sums into one weighted sum over distinct tensors and operations.
 *
 * Inner weights are normalised and multiplied by outer ones, so nesting adds no rounding. Terms of weight 0 are dropped
 * and never read. A plain average keeps its weights; equal weights become 1, which makes a uniform average a sum
 * divided by its count at any nesting.
 * @throws RangeError if the weights of an average sum to zero
 */
export function flatten(value: Value, measured: Measured = new Map()): WeightedSum {
  const expanded = expand(value, measured);
  const merged = new Map<string, FlatTerm>();
  // The text of an operation is long, and there are plans with half a million; a single one needs none.
  const isAlone = expanded.terms.filter((term) => !isLeaf(term)).length === 1;
  for (const term of expanded.terms) {
    const named = isLeaf(term) ? [term.source, term.tensor, term.asStored] : isAlone ? null : term.operation;
    const key = JSON.stringify(named);
    const known = merged.get(key);
    merged.set(key, { ...term, weight: term.weight + (known?.weight ?? 0) });
  }
  let terms = [...merged.values()].filter((term) => term.weight !== 0);
  if (!expanded.isAverage) {
    // If all terms cancel, one tensor with weight 0 keeps the shape.
    return { terms: terms.length > 0 ? terms : [...merged.values()].slice(0, 1), divisor: 1 };
  }
  const [first] = terms;
  if (first && terms.every((term) => Math.abs(term.weight - first.weight) <= ROUNDING * Math.abs(first.weight))) {
    terms = terms.map((term) => ({ ...term, weight: 1 }));
  }
  const divisor = requireSum(terms);
  // An average of one term is that tensor.
  return terms.length === 1 && first ? { terms: [{ ...first, weight: 1 }], divisor: 1 } : { terms, divisor };
}

/** Terms of a sum; an average divides it by the sum of the weights. */
interface Expansion {
  readonly terms: readonly FlatTerm[];
  readonly isAverage: boolean;
}

function expand(value: Value, measured: Measured): Expansion {
  if (isLeaf(value)) return { terms: [{ ...value, weight: 1 }], isAverage: true };
  if ("op" in value) return { terms: [{ operation: value, weight: 1 }], isAverage: true };
  const isAverage = "blend" in value;
  const weighted = isAverage ? value.blend : value.sum;
  let ofAverages = true;
  const terms = weighted.flatMap(({ weight, value: inner }) => {
    const expanded = expand(inner, measured);
    ofAverages &&= expanded.isAverage;
    const divisor = expanded.isAverage ? requireSum(expanded.terms) : 1;
    const factor = numberOf(weight, measured);
    return expanded.terms.map((term) => ({ ...term, weight: factor * (term.weight / divisor) }));
  });
  if (!isAverage || ofAverages) return { terms, isAverage };
  // Sums inside an average change the total weight of its terms.
  const divisor = requireSum(weighted.map(({ weight }) => ({ weight: numberOf(weight, measured) })));
  return { terms: terms.map((term) => ({ ...term, weight: term.weight / divisor })), isAverage: false };
}

function requireSum(terms: readonly { weight: number }[]): number {
  const sum = sumOfWeights(terms.map((term) => term.weight));
  if (sum === 0) throw new RangeError("the weights of an average sum to zero");
  return sum;
}

function numberOf(weight: Weight, measured: Measured): number {
  if (typeof weight === "number") return weight;
  const result = measured.get(weight.measured);
  const value = result?.[weight.at ?? 0];
  if (value === undefined) throw new Error(`measurement ${weight.measured} has not been made`);
  return weight.inverse ? 1 / value : value;
}

function maskOf(id: string, measured: Measured): Uint8Array {
  const mask = measured.get(id);
  if (!(mask instanceof Uint8Array)) throw new Error(`measurement ${id} has not been made`);
  return mask;
}

function factorsOf(id: string, measured: Measured): Float32Array {
  const factors = measured.get(id);
  if (!(factors instanceof Float32Array)) throw new Error(`measurement ${id} has not been made`);
  return factors;
}
