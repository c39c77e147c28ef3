// The tensors of a GGUF file as rows of those of a folder.
import type { ExpertMatrices, StoredWeight } from "../../families/index.js";
import type { Turn } from "../../kernels/index.js";
import { elementCount } from "../../kit/index.js";

/** How a file has a folder's values: divided, then added to, then as -exp of themselves, then turned. Default: as they are. */
export interface Writing {
  readonly divisor?: number;
  readonly plus?: number;
  readonly negativeExp?: boolean;
  readonly turn?: Turn;
}

/** Some rows of a folder's tensor, or all. */
export interface FolderRows extends Writing {
  /** The tensor's name in the specification, and its shape. */
  readonly name: string;
  readonly shape: readonly number[];
  /** Rows of the axes before the last one, or of an axis with others of one. */
  readonly from: number;
  readonly count: number;
  /** Elements of a row. */
  readonly width: number;
}

export interface LaidOutTensor {
  readonly name: string;
  readonly shape: readonly number[];
  /** -1 outside of layers. */
  readonly layer: number;
  /** One after another. */
  readonly parts: readonly FolderRows[];
}

/** Some rows of a weight. Default: all. */
export function rowsOf(
  { name, shape, rows }: StoredWeight,
  writing: Writing = {},
  from = 0,
  count = shape[0] ?? 0,
): FolderRows {
  const [height = 0, ...rest] = shape;
  const { of, matrices } = rows ?? { of: height };
  return {
    name,
    shape: matrices ? [matrices, of / matrices, ...rest] : [of, ...rest],
    from: (rows?.from ?? 0) + from,
    count,
    width: elementCount(rest),
    ...writing,
  };
}

/** Lists tensors, each name once. */
export class TensorList {
  readonly #names = new Set<string>();
  readonly #each: (tensor: LaidOutTensor) => void;

  constructor(each: (tensor: LaidOutTensor) => void) {
    this.#each = each;
  }

  /** Adds a tensor; of several with one name, the first; none without elements. */
  add(name: string, layer: number, shape: readonly number[], parts: readonly FolderRows[]): void {
    if (this.#names.has(name) || elementCount(shape) === 0) return;
    this.#names.add(name);
    this.#each({ name, layer, shape, parts });
  }

  /** Adds a weight. llama.cpp has convolutions [channels, kernel]. */
  addWeight(name: string, weight: StoredWeight, layer: number, writing: Writing = {}): void {
    const { shape } = weight;
    const flat = shape.length === 3 ? shape.filter((extent, axis) => axis !== 1 || extent !== 1) : shape;
    this.add(name, layer, flat, [rowsOf(weight, writing)]);
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
    const parts = weights.map((weight) => rowsOf(weight, writing));
    this.add(`${name}.weight`, layer, [weights.length, ...shape], parts);
    if (bias) this.addWeight(`${name}.bias`, bias, layer);
  }

  /** Adds two tensors of transposed matrices whose columns are those of one and the other in turns. */
  addPairs(names: readonly string[], layer: number, { weights, bias }: ExpertMatrices): void {
    const [rows = 0, columns = 0] = weights[0]?.shape ?? [];
    const every = names.length;
    for (const [first, name] of names.entries()) {
      const parts = weights.map((weight) => rowsOf(weight, { turn: { rows, columns, cell: 1, every, first } }));
      this.add(`${name}.weight`, layer, [weights.length, columns / every, rows], parts);
      if (!bias) continue;
      const turn = { rows: columns / every, columns: every, cell: 1, every, first };
      this.add(`${name}.bias`, layer, [weights.length, columns / every], [rowsOf(bias, { turn })]);
    }
  }
}
