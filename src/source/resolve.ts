// From values to bytes: binds the tensors of an expression to files and offsets of opened checkpoints, as a streaming
// program wants them.
import type { Checkpoint, CheckpointTensor } from "../checkpoint/checkpoint.js";
import { elementCount } from "../core/shape.js";
import type { SafetensorsFile } from "../safetensors/reader.js";
import type { Evaluation, InputFile, LowRankTerm, Stored, Term } from "../streaming/program.js";
import { flatten, type Leaf, type Measured, type Value } from "./expression.js";

/** Opened checkpoints by the ids that leaves name. */
export type Sources = ReadonlyMap<string, Checkpoint>;

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

  /** The files that were named so far, for `Program.inputs`. */
  get inputs(): readonly InputFile[] {
    return this.#inputs;
  }

  /** The tensor that a leaf names. */
  tensor(leaf: Leaf): CheckpointTensor {
    const tensor = this.#sources.get(leaf.source)?.tensors.get(leaf.tensor);
    if (!tensor) throw new Error(`source ${leaf.source} has no tensor ${leaf.tensor}`);
    return tensor;
  }

  /** The one stored tensor that a value is, byte for byte, if it is one. */
  stored(value: Value): CheckpointTensor | undefined {
    const { terms } = flatten(value, this.#measured);
    const [only] = terms;
    if (!only || terms.length > 1) return undefined;
    const tensor = this.tensor(only);
    return tensor.lowRank ? undefined : tensor;
  }

  /** How to compute a value. */
  evaluation(value: Value): Evaluation {
    const { terms, divisor } = flatten(value, this.#measured);
    const [first] = terms;
    const shape = first ? this.tensor(first).shape : [];
    const elements = elementCount(shape);
    return {
      elements,
      columns: shape.length > 1 ? (shape.at(-1) ?? 1) : Math.max(1, elements),
      terms: terms.map((term) => this.#term(this.tensor(term), term.weight)),
      divisor,
    };
  }

  /** Where a stored tensor's bytes lie. */
  place(tensor: { readonly file: SafetensorsFile; readonly offset: number; readonly dtype: Stored["dtype"] }): Stored {
    return { file: this.file(tensor.file), offset: tensor.offset, dtype: tensor.dtype };
  }

  /** Index of an input file. */
  file({ path, bytes }: SafetensorsFile): number {
    let index = this.#indexOf.get(path);
    if (index === undefined) {
      index = this.#inputs.push({ path, bytes }) - 1;
      this.#indexOf.set(path, index);
    }
    return index;
  }

  #term(tensor: CheckpointTensor, weight: number): Term {
    const stored = { ...this.place(tensor), weight };
    return tensor.lowRank ? { ...stored, lowRank: this.#lowRank(tensor.lowRank) } : stored;
  }

  #lowRank(delta: NonNullable<CheckpointTensor["lowRank"]>): LowRankTerm {
    const { a, b, rank, scale, transposed, file } = delta;
    return {
      a: this.place({ ...a, file }),
      b: this.place({ ...b, file }),
      rank,
      input: a.shape[1] ?? 0,
      output: b.shape[0] ?? 0,
      scale,
      transposed,
    };
  }
}
