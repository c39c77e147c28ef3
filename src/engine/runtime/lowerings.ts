// Each operation of a graph in ONNX (opset 21) or in ONNX Runtime's own operators (com.microsoft).
import type { Dim } from "../graph/dim.js";
import type { Node } from "../graph/node.js";
import { expertMatmul, expertOuter, stack } from "./expert-lowerings.js";
import type { Emitter } from "./lower.js";
import { type BodyValue, MICROSOFT } from "./onnx.js";

export type Lowering = (emitter: Emitter, node: Node) => string;

/** An operation with one counterpart, which has the same operands. */
const direct =
  (opType: string, attributes: Parameters<Emitter["node"]>[2] = {}, domain = ""): Lowering =>
  (emitter, { inputs }) =>
    emitter.node(
      opType,
      inputs.map((input) => emitter.value(input)),
      attributes,
      domain,
    );

/** ONNX's codes of element types. */
const TYPE_CODES = { f32: 1, i64: 7, bool: 9 } as const;

const matmul: Lowering = (emitter, { inputs, attributes }) => {
  const { transA, transB, alpha } = attributes as { transA: boolean; transB: boolean; alpha: number };
  const [x, weight] = inputs as [Node, Node];
  const quantized = emitter.quantized(weight);
  if (quantized && transB && !transA) {
    const [N, K] = weight.shape as [number, number];
    const parts = [emitter.value(x), quantized.codes, quantized.scales];
    // 4: products of integers, for which each operand's blocks are rounded to int8. Those in float32 take twice as long with 4
    // bits, and are slower than unquantized ones with 8.
    const sizes = { N, K, bits: quantized.bits, block_size: quantized.block, accuracy_level: 4 };
    const product = emitter.node("MatMulNBits", parts, sizes, MICROSOFT);
    return alpha === 1 ? product : emitter.node("Mul", [product, emitter.floats([alpha], [])]);
  }
  const operands = inputs.map((input) => emitter.value(input));
  if (!transA && !transB && alpha === 1) return emitter.node("MatMul", operands);
  const flags = { transA: transA ? 1 : 0, transB: transB ? 1 : 0, alpha: { float: alpha } };
  return emitter.node("FusedMatMul", operands, flags, MICROSOFT);
};

const sum: Lowering = (emitter, { inputs: [x], attributes }) => {
  const { axes, keep } = attributes as { axes: readonly number[]; keep: boolean };
  return emitter.node("ReduceSum", [emitter.value(x), emitter.integers(axes)], { keepdims: keep ? 1 : 0 });
};

const reshape: Lowering = (emitter, { inputs: [input], shape }) => {
  const x = input as Node;
  // An unknown size needs no computation where it is 0, which copies the operand's size at that axis, or -1, which is
  // inferred. -1 cannot be inferred next to a 0 that may mean no elements.
  const target = shape.map((dim, axis) => (typeof dim === "number" ? dim : x.shape[axis] === dim ? 0 : -1));
  const inferred = target.filter((size) => size === -1).length;
  if (shape.includes(0) || inferred > 1 || (inferred === 1 && target.includes(0)))
    return withShape(emitter, emitter.value(x), shape);
  return emitter.node("Reshape", [emitter.value(x), emitter.integers(target)]);
};

/** A value reshaped to a computed shape, any of whose sizes may be 0. */
const withShape = (emitter: Emitter, name: string, shape: readonly Dim[]): string =>
  emitter.node("Reshape", [name, emitter.shape(shape)], { allowzero: 1 });

const slice: Lowering = (emitter, { inputs: [x], attributes }) => {
  const [start, end] = (attributes.range as readonly Dim[]).map((dim) => emitter.size(dim)) as [string, string];
  return emitter.node("Slice", [emitter.value(x), start, end, emitter.integers([attributes.axis as number])]);
};

const pad: Lowering = (emitter, { inputs: [input], attributes }) => {
  const x = input as Node;
  const [start, extent] = attributes.range as readonly [Dim, Dim];
  const length = x.shape[attributes.axis as number] as Dim;
  const after = emitter.once(`after ${start} ${length} ${extent}`, () => {
    if ([start, length, extent].every((dim) => typeof dim === "number")) {
      return emitter.integers([(extent as number) - (start as number) - (length as number)]);
    }
    return emitter.node("Sub", [
      emitter.node("Sub", [emitter.size(extent), emitter.size(start)]),
      emitter.size(length),
    ]);
  });
  const pads = emitter.node("Concat", [emitter.size(start), after], { axis: 0 });
  const axes = emitter.integers([attributes.axis as number]);
  return emitter.node("Pad", [emitter.value(x), pads, emitter.floats([0], []), axes]);
};

const expand: Lowering = (emitter, { inputs: [x], shape }) =>
  emitter.node("Expand", [emitter.value(x), emitter.shape(shape)]);

// Rows of the stored table are cast: a cast of the whole table would be a second copy of it.
const gather: Lowering = (emitter, { inputs: [table, ids] }) => {
  const stored = emitter.stored(table as Node);
  const rows = emitter.node("Gather", [stored?.name ?? emitter.value(table), emitter.value(ids)], { axis: 0 });
  return stored && stored.dtype !== "f32" ? emitter.node("Cast", [rows], { to: TYPE_CODES.f32 }) : rows;
};

/** Elements of rows [N, V] at ids [N], as [N]; at ids [N, k], as [N, k]. */
function pickFrom(emitter: Emitter, rows: string, ids: Node | undefined): string {
  if (ids?.shape.length === 2) return emitter.node("GatherElements", [rows, emitter.value(ids)], { axis: 1 });
  const column = emitter.node("Unsqueeze", [emitter.value(ids), emitter.integers([1])]);
  const picked = emitter.node("GatherElements", [rows, column], { axis: 1 });
  return emitter.node("Squeeze", [picked, emitter.integers([1])]);
}

const logSoftmaxOf = (emitter: Emitter, x: Node | undefined): string =>
  emitter.once(`LogSoftmax ${emitter.value(x)}`, () => emitter.node("LogSoftmax", [emitter.value(x)], { axis: -1 }));

const oneHot: Lowering = (emitter, { inputs, attributes, shape }) => {
  const ids = inputs[0] as Node;
  const depth = emitter.size((attributes.shape as readonly Dim[])[0] as Dim);
  const of = (name: string) => emitter.node("OneHot", [name, depth, emitter.floats([0, 1], [2])], { axis: -1 });
  // ONNX does not support the one-hot vector of an index without axes.
  if (ids.shape.length > 0) return of(emitter.value(ids));
  return withShape(emitter, of(withShape(emitter, emitter.value(ids), [1])), shape);
};

/** Minus a one-hot matrix, as in the derivative of a cross-entropy: subtracts 1 in each row without that matrix. */
const sub: Lowering = (emitter, node) => {
  const [x, y] = node.inputs as [Node, Node];
  const rows = y.inputs[0];
  const isOfRows = rows?.shape.length === 1 && x.shape.join() === y.shape.join();
  if (y.op !== "oneHot" || !isOfRows) return direct("Sub")(emitter, node);
  const column = emitter.node("Unsqueeze", [emitter.value(rows), emitter.integers([1])]);
  const ones = emitter.node("Expand", [emitter.floats([-1], [1, 1]), emitter.shape([x.shape[0] as Dim, 1])]);
  return emitter.node("ScatterElements", [emitter.value(x), column, ones], { axis: 1, reduction: "add" });
};

/** A reduction's result in its shape: without rows, ONNX Runtime keeps the axis that it should reduce. */
const reduced = (emitter: Emitter, name: string, shape: readonly Dim[]): string =>
  shape.every((dim) => typeof dim === "number") ? name : withShape(emitter, name, shape);

const argMax: Lowering = (emitter, { inputs: [x], shape }) =>
  reduced(emitter, emitter.node("ArgMax", [emitter.value(x)], { axis: -1, keepdims: 0 }), shape);

// ONNX takes the lower index of equal elements first.
const largest: Lowering = (emitter, { inputs: [x], attributes }) => {
  const count = emitter.integers([attributes.count as number]);
  return emitter.nodeOf(2, "TopK", [emitter.value(x), count], { axis: -1 })[1] as string;
};

const sortOrder: Lowering = (emitter, { inputs: [ids] }) => {
  const all = emitter.node("Shape", [emitter.value(ids)]);
  return emitter.nodeOf(2, "TopK", [emitter.value(ids), all], { axis: 0, largest: 0 })[1] as string;
};

// ScatterND adds on several threads and loses sums; ScatterElements uses one.
const scatterRows: Lowering = (emitter, { inputs: [ids, values], shape }) => {
  const zeros = emitter.node("Expand", [emitter.floats([0], [1, 1]), emitter.shape(shape)]);
  const column = emitter.node("Unsqueeze", [emitter.value(ids), emitter.integers([1])]);
  const indices = emitter.node("Expand", [column, emitter.shape((values as Node).shape)]);
  return emitter.node("ScatterElements", [zeros, indices, emitter.value(values)], { axis: 0, reduction: "add" });
};

const rope: Lowering = (emitter, { inputs, attributes }) => {
  const [x, positions, cos, sin] = inputs as [Node, Node, Node, Node];
  const [heads, width, rotated] = [x.shape[1] as number, x.shape[3] as number, 2 * (cos.shape[1] as number)];
  const partial = rotated < width ? { rotary_embedding_dim: rotated, num_heads: heads } : {};
  const operands = [x, positions, cos, sin].map((input) => emitter.value(input));
  return emitter.node(
    "RotaryEmbedding",
    operands,
    { interleaved: attributes.interleaved ? 1 : 0, ...partial },
    MICROSOFT,
  );
};

/** The norm and, where it is needed, 1 over the root mean square: one node of ONNX Runtime computes both. */
const rmsNorm: Lowering = (emitter, node) => {
  const [x, weight] = node.inputs;
  const epsilon = node.attributes.epsilon as number;
  const inverse = emitter.nodes.find(
    ({ op, inputs, attributes }) => op === "inverseRms" && inputs[0] === x && attributes.epsilon === epsilon,
  );
  const [y, r] = emitter.nodeOf(
    inverse ? 2 : 1,
    "SimplifiedLayerNormalization",
    [emitter.value(x), emitter.value(weight)],
    { axis: -1, epsilon: { float: epsilon }, stash_type: 1 },
  );
  if (inverse && r !== undefined) emitter.define(inverse, r);
  return y as string;
};

const inverseRms: Lowering = (emitter, { inputs: [input], attributes, shape }) => {
  const x = input as Node;
  const operands = [emitter.value(x), emitter.integers([-1])];
  const squares = reduced(emitter, emitter.node("ReduceSumSquare", operands, { keepdims: 1 }), shape);
  const mean = emitter.node("Mul", [squares, emitter.floats([1 / (x.shape.at(-1) as number)], [])]);
  const shifted = emitter.node("Add", [mean, emitter.floats([attributes.epsilon as number], [])]);
  return emitter.node("Reciprocal", [emitter.node("Sqrt", [shifted])]);
};

/** One node computes the values and the last state. */
const linearAttention: Lowering = (emitter, node) => {
  const { heads, keyHeads, scale, delta } = node.attributes as {
    heads: number;
    keyHeads: number;
    scale: number;
    delta: boolean;
  };
  const value = (at: number) => (node.inputs[at] ? emitter.value(node.inputs[at]) : "");
  const [query, key, values, decay, rate] = [0, 1, 2, 3, 4].map(value) as [string, string, string, string, string];
  const state = value(delta ? 5 : 4);
  const operands = [query, key, values, state, decay, ...(delta ? [rate] : [])];
  const attributes = {
    q_num_heads: keyHeads,
    kv_num_heads: heads,
    update_rule: delta ? "gated_delta" : "gated",
    scale: { float: scale },
  };
  const outputs = emitter.nodeOf(2, "LinearAttention", operands, attributes, MICROSOFT);
  const other = emitter.nodes.find(
    ({ op, inputs, attributes }) =>
      op === node.op &&
      inputs.every((input, i) => input === node.inputs[i]) &&
      attributes.part !== node.attributes.part,
  );
  const [own, rest] = node.attributes.part === "values" ? outputs : outputs.toReversed();
  if (other && rest !== undefined) emitter.define(other, rest);
  return own as string;
};

const recurrence: Lowering = (emitter, { inputs: [m, b], attributes, shape }) => {
  const scaled = (m as Node).shape.at(-1) === 1;
  const [state, factor, added] = [emitter.fresh(), emitter.fresh(), emitter.fresh()];
  const floats = (name: string): BodyValue => ({ name, type: "floats" });
  const body = emitter.body([state, factor, added].map(floats), () => {
    const kept = emitter.node(scaled ? "Mul" : "MatMul", [factor, state]);
    return [emitter.node("Add", [kept, added]), emitter.node("Identity", [state])].map(floats);
  });
  const start = emitter.node("Expand", [emitter.floats([0], []), emitter.shape(shape.slice(1))]);
  const direction = attributes.reverse ? 1 : 0;
  const [, states] = emitter.nodeOf(2, "Scan", [start, emitter.value(m), emitter.value(b)], {
    body,
    num_scan_inputs: 2,
    scan_input_directions: [direction, direction],
    scan_output_directions: [direction],
  });
  return states as string;
};

export const LOWERINGS: Readonly<Record<string, Lowering>> = {
  neg: direct("Neg"),
  exp: direct("Exp"),
  log: direct("Log"),
  sqrt: direct("Sqrt"),
  reciprocal: direct("Reciprocal"),
  tanh: direct("Tanh"),
  sigmoid: direct("Sigmoid"),
  erf: direct("Erf"),
  relu: direct("Relu"),
  silu: direct("QuickGelu", { alpha: { float: 1 } }, MICROSOFT),
  gelu: (emitter, { inputs: [x], attributes }) =>
    emitter.node("Gelu", [emitter.value(x)], { approximate: attributes.approximate as string }),
  add: direct("Add"),
  sub,
  mul: direct("Mul"),
  div: direct("Div"),
  less: direct("Less"),
  lessOrEqual: direct("LessOrEqual"),
  equal: direct("Equal"),
  and: direct("And"),
  where: direct("Where"),
  cast: (emitter, { inputs: [x], dtype }) => emitter.node("Cast", [emitter.value(x)], { to: TYPE_CODES[dtype] }),
  matmul,
  sum,
  softmax: direct("Softmax", { axis: -1 }),
  logSoftmax: (emitter, { inputs: [x] }) => logSoftmaxOf(emitter, x),
  reshape,
  transpose: (emitter, { inputs: [x], attributes }) =>
    emitter.node("Transpose", [emitter.value(x)], { perm: attributes.axes as readonly number[] }),
  slice,
  pad,
  concat: (emitter, { inputs, attributes }) =>
    emitter.node(
      "Concat",
      inputs.map((input) => emitter.value(input)),
      { axis: attributes.axis as number },
    ),
  expand,
  gather,
  scatterRows,
  pick: (emitter, { inputs: [x, ids] }) => pickFrom(emitter, emitter.value(x), ids),
  oneHot,
  argMax,
  largest,
  sortOrder,
  stack,
  expertMatmul,
  expertOuter,
  rope,
  rmsNorm,
  inverseRms,
  linearAttention,
  recurrence,
  crossEntropy: (emitter, { inputs: [logits, labels] }) =>
    emitter.node("Neg", [pickFrom(emitter, logSoftmaxOf(emitter, logits), labels)]),
};
