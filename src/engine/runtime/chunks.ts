// The nodes of a graph that work row by row, as a loop over chunks of rows: logits of all rows and what derivatives make of
// them are many times the size of everything else. Each row has the bits that it has without chunks.
import type { Dim } from "../graph/dim.js";
import { scalarOf } from "../graph/elementwise.js";
import type { Node } from "../graph/node.js";
import type { Emitter } from "./lower.js";
import type { BodyValue } from "./onnx.js";

export interface Chunks {
  /** The size of the first axis of all that is chunked, such as "rows". */
  readonly axis: string;
  /**
   * Rows of a chunk; the last one may have one more, as runtimes multiply a single row in another way. A multiple of 128 keeps the
   * bits of sums over all rows, too: ONNX Runtime's products on x64 add them in blocks of as many.
   */
  readonly rows: number;
}

export interface ChunkPlan extends Chunks {
  /** Nodes by when they are computed, each in the order of computation. */
  readonly before: readonly Node[];
  readonly inside: readonly Node[];
  readonly after: readonly Node[];
  /** Nodes whose rows are read inside, or summed. */
  readonly sliced: readonly Node[];
  /** Nodes inside whose rows are read after the loop. */
  readonly joined: readonly Node[];
  /** Products that sum over all rows. */
  readonly sums: readonly Node[];
}

/** Elements of a chunk of logits: 256 MiB as float32. */
const CHUNK_ELEMENTS = 2 ** 26;
const BLOCK = 128;

/** Chunks of the rows of logits [N, V], whose size depends on V alone. */
export function chunksOfLogits({ shape: [axis, vocabulary] }: Pick<Node, "shape">): Chunks {
  const rows = BLOCK * Math.max(1, Math.floor(CHUNK_ELEMENTS / (vocabulary as number) / BLOCK));
  return { axis: axis as string, rows };
}

const ELEMENTWISE = ["add", "sub", "mul", "div", "neg", "exp", "log", "sqrt", "reciprocal", "tanh", "where", "cast"];
/** Operations whose row depends on the same row of those operands that have rows. */
const ROWWISE: ReadonlySet<string> = new Set([
  ...ELEMENTWISE,
  ...["softmax", "logSoftmax", "rmsNorm", "inverseRms", "crossEntropy", "pick", "gather", "reshape", "matmul", "sum"],
]);

function isRowwise({ op, dtype, shape, inputs, attributes }: Node, axis: Dim): boolean {
  const [first, second] = inputs;
  if (!ROWWISE.has(op) || dtype !== "f32" || shape[0] !== axis) return false;
  switch (op) {
    case "matmul":
      return !attributes.transA && first?.shape[0] === axis && shape.length === 2 && second?.shape[0] !== axis;
    case "gather":
      return first?.shape[0] !== axis;
    case "sum":
      return first?.shape[0] === axis && !(attributes.axes as readonly number[]).includes(0);
    case "reshape":
      return first?.shape[0] === axis && [...first.shape.slice(1), ...shape.slice(1)].every(Number.isInteger);
    default:
      // An operand with fewer axes would have its rows along another one.
      return inputs.every(
        (x) => x.shape[0] !== axis || ["crossEntropy", "pick"].includes(op) || x.shape.length === shape.length,
      );
  }
}

/**
 * Divides nodes into those inside of the loop and others.
 * @param outputs nodes that are read after all of them
 * @returns undefined if nothing is inside
 */
export function planChunks(nodes: readonly Node[], chunks: Chunks, outputs: readonly Node[]): ChunkPlan | undefined {
  const { axis } = chunks;
  const inside = new Set<Node>();
  const after = new Set<Node>();
  const sums = new Set<Node>();
  for (const node of nodes) {
    const { op, inputs, attributes, shape } = node;
    const starts = op === "matmul" && isRowwise(node, axis);
    const isLater = inputs.some((input) => after.has(input) || sums.has(input));
    const reads = inputs.some((input) => inside.has(input));
    if (!isLater && (starts || reads) && isRowwise(node, axis)) inside.add(node);
    else if (isLater || reads) {
      const [a, b] = inputs;
      const isSum = op === "matmul" && attributes.transA && !attributes.transB && attributes.alpha === 1;
      const fits = shape.length === 2 && a?.shape[0] === axis && b?.shape[0] === axis;
      if (!isLater && isSum && fits) sums.add(node);
      else after.add(node);
    }
  }
  if (inside.size === 0) return undefined;
  const readers = [...inside, ...sums];
  const hasRows = (node: Node) => node.shape[0] === axis && !inside.has(node);
  const operands = readers.flatMap(({ inputs }) => inputs.flatMap((x) => (x.op === "oneHot" ? x.inputs : [x])));
  const readLater = new Set([...outputs, ...[...after].flatMap(({ inputs }) => inputs)]);
  return {
    ...chunks,
    before: nodes.filter((node) => !inside.has(node) && !after.has(node) && !sums.has(node)),
    inside: [...inside],
    after: [...after],
    sliced: [...new Set(operands.filter(hasRows))],
    joined: [...inside].filter((node) => readLater.has(node)),
    sums: [...sums],
  };
}

/** Writes the loop, and names what it computes. */
export function lowerInChunks(emitter: Emitter, { axis, rows, inside, sliced, joined, sums }: ChunkPlan): void {
  const count = emitter.size(axis);
  // Of n rows, (n + rows - 2) / rows chunks, at least one.
  const above = emitter.node("Add", [count, emitter.integers([rows - 2])]);
  const whole = emitter.node("Div", [above, emitter.integers([rows])]);
  const trips = emitter.node("Max", [whole, emitter.integers([1])]);
  const values = sliced.map((node) => emitter.value(node));
  // Named before the loop, so that they are converted once.
  for (const node of [...inside, ...sums])
    for (const input of node.inputs) if (emitter.stored(input)) emitter.value(input);
  const [index, condition] = [emitter.fresh(), emitter.fresh()];
  const carried = [...joined.map(() => "list" as const), ...sums.map(() => "floats" as const)].map((type) => {
    return { name: emitter.fresh(), type } satisfies BodyValue;
  });
  const body = emitter.bodyOfPart(
    [{ name: index, type: "i64" }, { name: condition, type: "bool" }, ...carried],
    axis,
    () => {
      const own = emitter.node("Unsqueeze", [index, emitter.integers([0])]);
      const next = emitter.node("Add", [own, emitter.integers([1])]);
      const from = emitter.node("Mul", [own, emitter.integers([rows])]);
      const isLast = emitter.node("Equal", [next, trips]);
      const to = emitter.node("Where", [isLast, count, emitter.node("Mul", [next, emitter.integers([rows])])]);
      for (const [i, node] of sliced.entries()) {
        emitter.define(node, emitter.node("Slice", [values[i] as string, from, to, emitter.integers([0])]));
      }
      emitter.defineSize(axis, emitter.node("Sub", [to, from]));
      for (const node of inside) emitter.compute(node);
      const done = [
        ...joined.map((node, i) => emitter.node("SequenceInsert", [carried[i]?.name ?? "", emitter.value(node)])),
        ...sums.map((node, i) => addProduct(emitter, node, carried[joined.length + i]?.name ?? "")),
      ];
      return [
        { name: emitter.node("Identity", [condition]), type: "bool" },
        ...done.map((name, i) => ({ name, type: (carried[i] as BodyValue).type })),
      ];
    },
  );
  const starts = [
    ...joined.map(() => emitter.node("SequenceEmpty", [], { dtype: 1 })),
    // A number: Gemm broadcasts it. ONNX Runtime would keep zeros of the sum's shape as a constant.
    ...sums.map(() => emitter.floats([0], [])),
  ];
  const results = emitter.nodeOf(carried.length, "Loop", [trips, "", ...starts], { body });
  for (const [i, node] of joined.entries()) {
    emitter.define(node, emitter.node("ConcatFromSequence", [results[i] as string], { axis: 0 }));
  }
  for (const [i, node] of sums.entries()) emitter.define(node, results[joined.length + i] as string);
}

/** Adds a product to a copy of a sum, where a product and an addition would make two. */
function addProduct(emitter: Emitter, { inputs: [a, b] }: Node, sum: string): string {
  // ONNX Runtime makes a factor part of a product.
  const factor = a?.op === "mul" ? scalarOf(a.inputs[1]) : undefined;
  const operands = [emitter.value(factor === undefined ? a : a?.inputs[0]), emitter.value(b), sum];
  return emitter.node("Gemm", operands, { transA: 1, alpha: { float: factor ?? 1 } });
}
