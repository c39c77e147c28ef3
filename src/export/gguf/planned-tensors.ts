// The tensors of a GGUF file, each of one or several parts of a model's weights.
import type { ModelSource } from "../../engine/index.js";
import type { ExpertMatrices, StoredWeight } from "../../families/index.js";
import { elementCount, MismatchError } from "../../kit/index.js";
import type { Step } from "../../merge/index.js";
import type { ElementRange, Turn } from "../../tensor/streaming/index.js";

/** A tensor computed from steps of a plan. */
export interface PlannedTensor {
  readonly name: string;
  readonly shape: readonly number[];
  /** -1 outside of layers. */
  readonly layer: number;
  /** One after another. */
  readonly parts: readonly PlannedPart[];
}

/** How values are written: divided, then added to, then as -exp of themselves, then turned. Default: as they are. */
export interface Writing {
  readonly divisor?: number;
  readonly plus?: number;
  readonly negativeExp?: boolean;
  readonly turn?: Turn;
}

/** Values of a step, or some of its rows. */
export interface PlannedPart extends Writing {
  readonly step: Step;
  readonly within?: ElementRange;
}

/** Elements that a part fills. */
export function elementsOfPart({ step, within, turn }: PlannedPart): number {
  const read = within ? within.end - within.begin : elementCount(step.shape);
  return read / (turn?.every ?? 1);
}

/** Collects tensors by their names. */
export class TensorList {
  readonly #tensors = new Map<string, PlannedTensor>();
  readonly #wrong = new Set<string>();
  readonly #source: ModelSource;
  readonly #stored: ReadonlyMap<string, string>;

  /** @param stored names in the source by those in the specification */
  constructor(source: ModelSource, stored: ReadonlyMap<string, string>) {
    this.#source = source;
    this.#stored = stored;
  }

  /** Those that have elements. @throws MismatchError if a weight has another shape than the configuration says */
  finish(): PlannedTensor[] {
    const wrong = [...this.#wrong];
    if (wrong.length > 0) {
      throw new MismatchError(`the weights of ${this.#source.name} do not match its configuration:`, wrong);
    }
    return [...this.#tensors.values()].filter(({ shape }) => elementCount(shape) > 0);
  }

  /** Adds a tensor; of several with one name, the first. */
  add(name: string, layer: number, shape: readonly number[], parts: readonly PlannedPart[]): void {
    if (!this.#tensors.has(name)) this.#tensors.set(name, { name, layer, shape, parts });
  }

  /** Adds a weight. llama.cpp has convolutions [channels, kernel]. */
  addWeight(name: string, weight: StoredWeight, layer: number, writing: Writing = {}): void {
    const { shape } = weight;
    const flat = shape.length === 3 ? shape.filter((extent, axis) => axis !== 1 || extent !== 1) : shape;
    this.add(name, layer, flat, [this.rows(weight, writing)]);
  }

  /** Adds the tensor that a weight is a part of. */
  addWhole(name: string, { rows, ...weight }: StoredWeight, layer: number, writing: Writing = {}): void {
    const [height = 0, ...rest] = weight.shape;
    this.addWeight(name, { ...weight, shape: [rows?.of ?? height, ...rest] }, layer, writing);
  }

  /** Adds the matrices of experts as one tensor, and their biases. */
  addExperts(name: string, layer: number, matrices: ExpertMatrices | undefined): void {
    if (!matrices) return;
    const { weights, bias, transposed } = matrices;
    const [rows = 0, columns = 0] = weights[0]?.shape ?? [];
    const writing = transposed ? { turn: { rows, columns, cell: 1 } } : {};
    const shape = transposed ? [columns, rows] : [rows, columns];
    const parts = weights.map((weight) => this.rows(weight, writing));
    this.add(`${name}.weight`, layer, [weights.length, ...shape], parts);
    if (bias) this.addWeight(`${name}.bias`, bias, layer);
  }

  /** Adds two tensors of transposed matrices whose columns are those of one and the other in turns. */
  addPairs(names: readonly string[], layer: number, { weights, bias }: ExpertMatrices): void {
    const [rows = 0, columns = 0] = weights[0]?.shape ?? [];
    const every = names.length;
    for (const [first, name] of names.entries()) {
      const parts = weights.map((weight) => this.rows(weight, { turn: { rows, columns, cell: 1, every, first } }));
      this.add(`${name}.weight`, layer, [weights.length, columns / every, rows], parts);
      if (!bias) continue;
      const turn = { rows: columns / every, columns: every, cell: 1, every, first };
      this.add(`${name}.bias`, layer, [weights.length, columns / every], [this.rows(bias, { turn })]);
    }
  }

  /** Some rows of a weight. Default: all. */
  rows(weight: StoredWeight, writing: Writing = {}, from = 0, count = weight.shape[0] ?? 0): PlannedPart {
    const step = this.#source.tensors.get(this.#stored.get(weight.name) ?? "") as Step;
    const [height = 0, ...rest] = weight.shape;
    const width = elementCount(rest);
    const all = weight.rows?.of ?? height;
    const wanted = [all, ...rest];
    const isOfExperts = step.shape.length === 3 && step.shape[2] === width && elementCount(step.shape) === all * width;
    if (step.shape.join() !== wanted.join() && !(weight.rows && isOfExperts)) {
      this.#wrong.add(`${step.tensor} is [${step.shape}], not [${wanted}]`);
    }
    const begin = ((weight.rows?.from ?? 0) + from) * width;
    return count === all ? { step, ...writing } : { step, within: { begin, end: begin + count * width }, ...writing };
  }
}
