// Operations that only move elements: reshape, transpose, slice, pad, concat, expand.
import { addDims, type Dim, sameDims, sizeOf, subtractDims } from "./dim.js";
import { GraphError, type Node } from "./node.js";
import { ANY, type Operation, requireOperands } from "./operation.js";

type ShapeAttributes = { readonly shape: readonly Dim[] };

const reshape: Operation<ShapeAttributes> = {
  name: "reshape",
  infer(inputs, { shape }) {
    requireOperands("reshape", inputs, ANY);
    const [x] = inputs as [Node];
    if (sizeOf(x.shape) !== sizeOf(shape)) {
      throw new GraphError("reshape", `[${shape.join(", ")}] has another number of elements`, inputs);
    }
    return { dtype: x.dtype, shape };
  },
  derive: (graph, { inputs: [x] }, gradient) => [graph.reshape(gradient, (x as Node).shape)],
  simplify: (graph, [node], { shape }) => {
    const x = node as Node;
    if (sameDims(x.shape, shape)) return x;
    return x.op === "reshape" ? graph.reshape(x.inputs[0] as Node, shape) : undefined;
  },
};

type AxesAttributes = { readonly axes: readonly number[] };

const transpose: Operation<AxesAttributes> = {
  name: "transpose",
  infer(inputs, { axes }) {
    requireOperands("transpose", inputs, ANY);
    const [x] = inputs as [Node];
    if ([...axes].sort((a, b) => a - b).some((axis, i) => axis !== i) || axes.length !== x.shape.length) {
      throw new GraphError("transpose", `[${axes.join(", ")}] is not an order of its axes`, inputs);
    }
    return { dtype: x.dtype, shape: axes.map((axis) => x.shape[axis] as Dim) };
  },
  derive: (graph, { attributes }, gradient) => {
    const { axes } = attributes as AxesAttributes;
    return [
      graph.transpose(
        gradient,
        axes.map((_, axis) => axes.indexOf(axis)),
      ),
    ];
  },
  simplify: (graph, [node], { axes }) => {
    const x = node as Node;
    if (axes.every((axis, i) => axis === i)) return x;
    if (x.op !== "transpose") return undefined;
    const inner = x.attributes.axes as readonly number[];
    return graph.transpose(
      x.inputs[0] as Node,
      axes.map((axis) => inner[axis] as number),
    );
  },
};

type RangeAttributes = { readonly axis: number; readonly range: readonly Dim[] };

/** Whether a size is certainly larger than another. */
function isBeyond(size: Dim, extent: Dim): boolean {
  const more = subtractDims(size, extent);
  return typeof more === "number" && more > 0;
}

const slice: Operation<RangeAttributes> = {
  name: "slice",
  infer(inputs, { axis, range }) {
    requireOperands("slice", inputs, ANY);
    const [x] = inputs as [Node];
    const [start, end] = range as [Dim, Dim];
    const extent = x.shape[axis];
    if (extent === undefined) throw new GraphError("slice", `has no axis ${axis}`, inputs);
    if (isBeyond(end, extent)) {
      throw new GraphError("slice", `${start} to ${end} is out of range`, inputs);
    }
    const length = subtractDims(end, start);
    if (length === undefined) throw new GraphError("slice", `the size from ${start} to ${end} is not known`, inputs);
    return { dtype: x.dtype, shape: x.shape.map((dim, i) => (i === axis ? length : dim)) };
  },
  derive: (graph, { inputs, attributes }, gradient) => {
    const { axis, range } = attributes as RangeAttributes;
    const [x] = inputs as [Node];
    return [graph.pad(gradient, axis, range[0] as Dim, x.shape[axis] as Dim)];
  },
  simplify: (_, [x], { axis, range }) => (range[0] === 0 && range[1] === x?.shape[axis] ? x : undefined),
};

const pad: Operation<RangeAttributes> = {
  name: "pad",
  infer(inputs, { axis, range }) {
    requireOperands("pad", inputs, "f32");
    const [x] = inputs as [Node];
    const [start, extent] = range as [Dim, Dim];
    const length = x.shape[axis];
    if (length === undefined) throw new GraphError("pad", `has no axis ${axis}`, inputs);
    if (isBeyond(addDims(start, length), extent)) {
      throw new GraphError("pad", `does not fit into ${extent} from ${start}`, inputs);
    }
    return { dtype: "f32", shape: x.shape.map((dim, i) => (i === axis ? extent : dim)) };
  },
  derive: (graph, { inputs, attributes }, gradient) => {
    const { axis, range } = attributes as RangeAttributes;
    const [x] = inputs as [Node];
    const start = range[0] as Dim;
    return [graph.slice(gradient, axis, start, addDims(start, x.shape[axis] as Dim))];
  },
  simplify: (_, [x], { axis, range }) => (range[0] === 0 && range[1] === x?.shape[axis] ? x : undefined),
};

const concat: Operation<{ readonly axis: number }> = {
  name: "concat",
  infer(inputs, { axis }) {
    const [first] = inputs;
    if (first?.shape[axis] === undefined) throw new GraphError("concat", `there is no axis ${axis}`, inputs);
    const rest = (node: Node) => node.shape.filter((_, i) => i !== axis);
    if (inputs.some((node) => node.dtype !== first.dtype || !sameDims(rest(node), rest(first)))) {
      throw new GraphError("concat", "the parts do not fit together", inputs);
    }
    const extent = addDims(...inputs.map(({ shape }) => shape[axis] as Dim));
    return { dtype: first.dtype, shape: first.shape.map((dim, i) => (i === axis ? extent : dim)) };
  },
  derive: (graph, { inputs, attributes }, gradient) => {
    const axis = attributes.axis as number;
    let end: Dim = 0;
    return inputs.map(({ shape }) => {
      const start = end;
      end = addDims(start, shape[axis] as Dim);
      return graph.slice(gradient, axis, start, end);
    });
  },
  simplify: (_, inputs) => (inputs.length === 1 ? inputs[0] : undefined),
};

const expand: Operation<ShapeAttributes> = {
  name: "expand",
  infer(inputs, { shape }) {
    requireOperands("expand", inputs, ANY);
    const [x] = inputs as [Node];
    const lead = shape.length - x.shape.length;
    if (lead < 0 || x.shape.some((dim, axis) => dim !== 1 && dim !== shape[axis + lead])) {
      throw new GraphError("expand", `cannot fill [${shape.join(", ")}]`, inputs);
    }
    return { dtype: x.dtype, shape };
  },
  derive: (graph, { inputs: [x] }, gradient) => [graph.sumTo(gradient, (x as Node).shape)],
  simplify: (_, [x], { shape }) => (x && sameDims(x.shape, shape) ? x : undefined),
};

export const MOVEMENT: readonly Operation[] = [reshape, transpose, slice, pad, concat, expand].map(
  (operation) => operation as unknown as Operation,
);
