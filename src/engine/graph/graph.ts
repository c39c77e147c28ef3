// The builder of graphs. Equal nodes are made once, so common subexpressions are shared; trivial ones are simplified.
import { addDims, type Dim, isDim, multiplyDims, sameDims } from "./dim.js";
import { ELEMENTWISE } from "./elementwise.js";
import { EXPERTS } from "./experts.js";
import { INDEXING } from "./indexing.js";
import { LINEAR_ATTENTION, type LinearAttentionAttributes } from "./linear-attention.js";
import { MATRIX } from "./matrix.js";
import { MOVEMENT } from "./movement.js";
import { NETWORK } from "./network.js";
import { type Attribute, type Attributes, type ElementType, GraphError, type Node } from "./node.js";
import type { Operation } from "./operation.js";

/** Sizes in canonical form, so that equal shapes are equal strings. */
function canonical(op: string, shape: readonly Dim[]): Dim[] {
  return shape.map((dim) => {
    if (!isDim(dim))
      throw new GraphError(op, `${dim} is not a size; a size is a whole number or an expression such as 2*batch`);
    return addDims(dim);
  });
}

/** JSON has no infinities, no NaN and no -0. */
function keyOf<T extends Attribute | Attributes>(value: T): T | string {
  if (typeof value !== "number") return value;
  return Object.is(value, -0) ? "-0" : Number.isFinite(value) ? value : `${value}`;
}

export class Graph {
  readonly #nodes: Node[] = [];
  readonly #interned = new Map<string, Node>();
  readonly #inputs = new Map<string, Node>();

  get size(): number {
    return this.#nodes.length;
  }

  /** Feeds and weights, by name. */
  get inputs(): ReadonlyMap<string, Node> {
    return this.#inputs;
  }

  /**
   * A feed or a weight.
   * @throws GraphError if the name is taken by one of another type, or the shape has an invalid size
   */
  input(name: string, dtype: ElementType, sizes: readonly Dim[]): Node {
    const shape = canonical("input", sizes);
    const known = this.#inputs.get(name);
    if (known) {
      if (known.dtype === dtype && sameDims(known.shape, shape)) return known;
      throw new GraphError("input", `${name} is declared twice, with different types`, [known, { dtype, shape }]);
    }
    const node = this.#intern("input", [], { name }, { dtype, shape });
    this.#inputs.set(name, node);
    return node;
  }

  /**
   * A constant: a number, or the elements of a shape; floats by default.
   * @throws GraphError if the number of values does not match the shape, or integers are not whole
   */
  constant(value: number | readonly number[], shape: readonly number[] = [], dtype: ElementType = "f32"): Node {
    const values = typeof value === "number" ? [value] : value;
    if (!shape.every(isDim) || values.length !== shape.reduce((product, extent) => product * extent, 1)) {
      throw new GraphError("constant", `${values.length} values do not fill [${shape.join(", ")}]`);
    }
    if (dtype !== "f32" && !values.every(Number.isSafeInteger)) {
      throw new GraphError("constant", `${dtype} takes whole numbers, not ${values.join(", ")}`);
    }
    const key = values.map(keyOf).join(" ");
    return this.#intern("constant", [], { key, values }, { dtype, shape });
  }

  /**
   * Applies an operation by its name.
   * @throws GraphError if there is no such operation, or the operands do not fit
   */
  apply(name: string, inputs: readonly Node[], given: Attributes = {}): Node {
    const operation = OPERATIONS.get(name);
    if (!operation) throw new GraphError(name, "there is no such operation");
    const attributes: Record<string, Attribute> = { ...given };
    for (const key of ["shape", "range"]) {
      if (attributes[key] !== undefined) attributes[key] = canonical(name, attributes[key] as readonly Dim[]);
    }
    const type = operation.infer(inputs, attributes);
    return operation.simplify?.(this, inputs, attributes) ?? this.#intern(name, inputs, attributes, type);
  }

  #intern(
    op: string,
    inputs: readonly Node[],
    attributes: Attributes,
    { dtype, shape }: Pick<Node, "dtype" | "shape">,
  ) {
    const { values: _, ...distinguishing } = attributes;
    const json = JSON.stringify(distinguishing, (_, value) => keyOf(value));
    const key = `${op} ${inputs.map(({ id }) => id).join(" ")} ${json} ${dtype} ${shape.join()}`;
    const known = this.#interned.get(key);
    if (known) return known;
    const node: Node = { id: this.#nodes.length, op, inputs, attributes, dtype, shape };
    this.#nodes.push(node);
    this.#interned.set(key, node);
    return node;
  }

  // ---- elementwise, with broadcasting as NumPy does it ----

  readonly add = this.#binary("add");
  readonly sub = this.#binary("sub");
  readonly mul = this.#binary("mul");
  readonly div = this.#binary("div");
  readonly less = this.#binary("less");
  readonly lessOrEqual = this.#binary("lessOrEqual");
  readonly equal = this.#binary("equal");
  readonly and = this.#binary("and");
  readonly neg = this.#unary("neg");
  readonly exp = this.#unary("exp");
  readonly log = this.#unary("log");
  readonly sqrt = this.#unary("sqrt");
  readonly reciprocal = this.#unary("reciprocal");
  readonly tanh = this.#unary("tanh");
  readonly sigmoid = this.#unary("sigmoid");
  readonly erf = this.#unary("erf");
  readonly relu = this.#unary("relu");
  /** x sigmoid(x) */
  readonly silu = this.#unary("silu");
  /** x Phi(x), or its approximation by tanh */
  gelu(x: Node, approximate: "none" | "tanh" = "none"): Node {
    return this.apply("gelu", [x], { approximate });
  }
  /** a where the condition is true, b elsewhere */
  where(condition: Node, a: Node | number, b: Node | number): Node {
    return this.apply("where", [condition, this.#operand(a), this.#operand(b)]);
  }
  cast(x: Node, to: ElementType): Node {
    return this.apply("cast", [x], { to });
  }

  // ---- matrices and sums ----

  /** alpha op(a) op(b) over the last two axes, where op may transpose. Leading axes are broadcast. */
  matmul(a: Node, b: Node, options: { transA?: boolean; transB?: boolean; alpha?: number } = {}): Node {
    const { transA = false, transB = false, alpha = 1 } = options;
    return this.apply("matmul", [a, b], { transA, transB, alpha });
  }
  /** Sum over axes, which stay as axes of size 1 where `keep`. */
  sum(x: Node, axes: readonly number[], keep = false): Node {
    return this.apply("sum", [x], { axes: axes.map((axis) => (axis < 0 ? axis + x.shape.length : axis)), keep });
  }
  /** Mean over the last axis, kept, whose size must be a number. */
  meanLast(x: Node): Node {
    const extent = x.shape.at(-1);
    if (typeof extent !== "number") throw new GraphError("meanLast", "the last axis has no fixed size", [x]);
    return this.mul(this.sum(x, [-1], true), 1 / extent);
  }
  readonly softmax = this.#unary("softmax");
  readonly logSoftmax = this.#unary("logSoftmax");

  // ---- movement ----

  reshape(x: Node, shape: readonly Dim[]): Node {
    return this.apply("reshape", [x], { shape });
  }
  transpose(x: Node, axes: readonly number[]): Node {
    return this.apply("transpose", [x], { axes });
  }
  slice(x: Node, axis: number, start: Dim, end: Dim): Node {
    return this.apply("slice", [x], { axis: axis < 0 ? axis + x.shape.length : axis, range: [start, end] });
  }
  concat(parts: readonly Node[], axis: number): Node {
    const [first] = parts;
    return this.apply("concat", parts, { axis: axis < 0 ? axis + (first?.shape.length ?? 0) : axis });
  }
  expand(x: Node, shape: readonly Dim[]): Node {
    return this.apply("expand", [x], { shape });
  }
  /** Zeros before and after x along an axis, so that x begins at `start` of `extent`. */
  pad(x: Node, axis: number, start: Dim, extent: Dim): Node {
    return this.apply("pad", [x], { axis: axis < 0 ? axis + x.shape.length : axis, range: [start, extent] });
  }
  /** Rows of x as one axis: [..., D] to [N, D]. */
  flatten(x: Node): Node {
    const width = x.shape.at(-1) ?? 1;
    return this.reshape(x, [multiplyDims(...x.shape.slice(0, -1)), width]);
  }

  // ---- indices: from 0. Others are an error of the reference; ONNX Runtime counts negative ones from the end ----

  /** Rows of a table [V, D] by ids [...], as [..., D]. */
  readonly gather = this.#binary("gather");
  /** A table [rows, D] of zeros to which rows [N, D] are added at ids [N]. */
  scatterRows(ids: Node, values: Node, rows: Dim): Node {
    return this.apply("scatterRows", [ids, values], { shape: [rows] });
  }
  /** One element of each row of x [N, V], by ids [N]; several by ids [N, k]. */
  readonly pick = this.#binary("pick");
  /** Index of the largest element of the last axis, the first where several are equal. */
  readonly argMax = this.#unary("argMax");
  oneHot(ids: Node, depth: Dim): Node {
    return this.apply("oneHot", [ids], { shape: [depth] });
  }

  // ---- mixtures of experts. Ids of rows ascend, so that rows of one expert are neighbours ----

  /** Indices of the largest elements of the last axis, the first of them the largest; the lower one where two are equal. */
  largest(x: Node, count: number): Node {
    return this.apply("largest", [x], { count });
  }
  /** The order that sorts ids [N], in which equal ones keep theirs. */
  readonly sortOrder = this.#unary("sortOrder");
  /** Tensors of one shape, one after another along a new first axis. */
  stack(parts: readonly Node[]): Node {
    return this.apply("stack", parts);
  }
  /** Rows x [N, D], each times the matrix of matrices [E, D, F] that its id [N] names; [E, F, D] with `transB`. */
  expertMatmul(x: Node, ids: Node, matrices: Node, transB: boolean): Node {
    return this.apply("expertMatmul", [x, ids, matrices], { transB });
  }
  /** For each expert, a^T b over the rows a [N, D] and b [N, F] of its id, as [E, D, F]. */
  expertOuter(a: Node, b: Node, ids: Node, experts: Dim): Node {
    return this.apply("expertOuter", [a, b, ids], { shape: [experts] });
  }

  // ---- parts of a decoder ----

  /** x / rms(x) * weight over the last axis (arXiv 1910.07467). */
  rmsNorm(x: Node, weight: Node, epsilon: number): Node {
    return this.apply("rmsNorm", [x, weight], { epsilon });
  }
  /** 1 / sqrt(mean(x^2) + epsilon) over the last axis, kept. */
  inverseRms(x: Node, epsilon: number): Node {
    return this.apply("inverseRms", [x], { epsilon });
  }
  /**
   * Rotates pairs of the last axis of x [B, H, T, D] (arXiv 2104.09864).
   * @param positions rows [B, T] of the tables cos and sin [P, R/2]; only the first R of D are rotated
   * @param interleaved whether neighbours are a pair, and not element i and i + R/2
   */
  rope(x: Node, positions: Node, cos: Node, sin: Node, interleaved: boolean): Node {
    return this.apply("rope", [x, positions, cos, sin], { interleaved });
  }
  /** Minus the log-probability of labels [N] under logits [N, V]. */
  readonly crossEntropy = this.#binary("crossEntropy");

  /** See `linear-attention.ts`. The derivative computes chunks of 64 positions by default. */
  linearAttention(
    operands: readonly Node[],
    { chunk = 64, ...rest }: Omit<LinearAttentionAttributes, "chunk"> & { readonly chunk?: number },
  ): Node {
    return this.apply("linearAttention", operands, { ...rest, chunk });
  }
  /** States before each step of S = M S + B along the first axis, from zero; of the last step first where `reverse`. */
  recurrence(m: Node, b: Node, reverse = false): Node {
    return this.apply("recurrence", [m, b], { reverse });
  }

  // ---- for derivatives ----

  /** Sums over the axes that broadcasting added, so that x has this shape. */
  sumTo(x: Node, shape: readonly Dim[]): Node {
    if (sameDims(x.shape, shape)) return x;
    const lead = x.shape.length - shape.length;
    const axes = x.shape.flatMap((dim, axis) => (axis < lead || (shape[axis - lead] === 1 && dim !== 1) ? [axis] : []));
    return this.reshape(axes.length > 0 ? this.sum(x, axes, true) : x, shape);
  }

  #unary(name: string) {
    return (x: Node): Node => this.apply(name, [x]);
  }

  #binary(name: string) {
    return (a: Node | number, b: Node | number): Node => this.apply(name, [this.#operand(a), this.#operand(b)]);
  }

  #operand(x: Node | number): Node {
    return typeof x === "number" ? this.constant(x) : x;
  }
}

export const OPERATIONS: ReadonlyMap<string, Operation> = new Map(
  [...ELEMENTWISE, ...MATRIX, ...MOVEMENT, ...INDEXING, ...EXPERTS, ...NETWORK, ...LINEAR_ATTENTION].map(
    (operation) => [operation.name, operation],
  ),
);
