// The operations in float64 and plain loops: what derivatives and ONNX Runtime are checked against.
import { type Dim, quotientOf, termsOf } from "../../src/engine/graph/dim.js";
import { reachable } from "../../src/engine/graph/gradients.js";
import { GraphError, type Node } from "../../src/engine/graph/node.js";

/** A tensor, row-major; integers and conditions are numbers too. */
export interface Value {
  readonly shape: readonly number[];
  readonly data: Float64Array;
}

/** The attributes of all operations; each reads those that it has. */
interface AllAttributes {
  readonly shape: readonly Dim[];
  readonly axes: readonly number[];
  readonly axis: number;
  readonly range: readonly Dim[];
  readonly keep: boolean;
  readonly transA: boolean;
  readonly transB: boolean;
  readonly alpha: number;
  readonly epsilon: number;
  readonly interleaved: boolean;
  readonly approximate: string;
  readonly to: string;
  readonly reverse: boolean;
  readonly heads: number;
  readonly keyHeads: number;
  readonly scale: number;
  readonly delta: boolean;
  readonly part: string;
  readonly count: number;
}

/** @param size the number that a size is in this evaluation */
type Evaluate = (inputs: readonly Value[], attributes: AllAttributes, size: (dim: Dim) => number) => Value;

const product = (shape: readonly number[]) => shape.reduce((all, extent) => all * extent, 1);

/** Distance between neighbours along each axis. */
const stridesOf = (shape: readonly number[]) => shape.map((_, axis) => product(shape.slice(axis + 1)));

/** An index, checked: the reference does not count from the end, as ONNX does. */
function indexBelow(op: string, index: number, count: number): number {
  if (Number.isInteger(index) && index >= 0 && index < count) return index;
  throw new GraphError(op, `the index ${index} is not one of the ${count} from 0`);
}

function broadcastShapes(shapes: readonly (readonly number[])[]): number[] {
  const rank = Math.max(...shapes.map((shape) => shape.length));
  return Array.from({ length: rank }, (_, axis) => {
    const extents = shapes.map((shape) => shape[axis - (rank - shape.length)] ?? 1);
    return extents.find((extent) => extent !== 1) ?? 1;
  });
}

/** A tensor whose element at each index is the one of a value at position `from`, or 0 where that is negative. */
function collect(shape: readonly number[], { data }: Value, from: (index: readonly number[]) => number): Value {
  const strides = stridesOf(shape);
  const out = Float64Array.from({ length: product(shape) }, (_, i) => {
    const index = shape.map((extent, axis) => Math.floor(i / (strides[axis] as number)) % extent);
    return data[from(index)] ?? 0;
  });
  return { shape, data: out };
}

const dot = (a: readonly number[], b: readonly number[]) => a.reduce((sum, x, i) => sum + x * (b[i] as number), 0);

/** A value repeated to fill a shape. */
function spread(value: Value, shape: readonly number[]): Value {
  const lead = shape.length - value.shape.length;
  const strides = stridesOf(value.shape).map((stride, axis) => (value.shape[axis] === 1 ? 0 : stride));
  return collect(shape, value, (index) => dot(strides, index.slice(lead)));
}

/** Element by element, with broadcasting. */
const elementwise =
  (of: (...operands: number[]) => number): Evaluate =>
  (inputs) => {
    const shape = broadcastShapes(inputs.map((input) => input.shape));
    const operands = inputs.map((input) => spread(input, shape).data);
    const data = Float64Array.from({ length: product(shape) }, (_, i) =>
      of(...operands.map((one) => one[i] as number)),
    );
    return { shape, data };
  };

/** Each row of the last axis by itself. */
function eachRow({ shape, data }: Value, change: (row: Float64Array, index: number) => ArrayLike<number>): Value {
  const width = shape.at(-1) ?? 1;
  const out = data.slice();
  for (let row = 0; row < out.length / width; row++) {
    out.set(change(out.slice(row * width, (row + 1) * width), row), row * width);
  }
  return { shape, data: out };
}

/** One number for each row of the last axis. */
function reduceRows(x: Value, shape: readonly number[], of: (row: Float64Array, index: number) => number): Value {
  const width = x.shape.at(-1) as number;
  const data = Float64Array.from({ length: x.data.length / width }, (_, row) =>
    of(x.data.subarray(row * width, (row + 1) * width), row),
  );
  return { shape, data };
}

/** The largest element of a row, and the logarithm of the sum of exp(x - largest): apart, as their sum is rounded. */
function logSum(row: Float64Array): { readonly largest: number; readonly rest: number } {
  const largest = row.reduce((most, x) => Math.max(most, x), Number.NEGATIVE_INFINITY);
  return { largest, rest: Math.log(row.reduce((sum, x) => sum + Math.exp(x - largest), 0)) };
}

const inverseRmsOf = (row: Float64Array, epsilon: number) =>
  1 / Math.sqrt(row.reduce((sum, x) => sum + x * x, 0) / row.length + epsilon);

/** The error function to 1e-14, by its series for small arguments and a continued fraction for large ones. */
export function erf(x: number): number {
  const a = Math.abs(x);
  if (a > 6) return Math.sign(x);
  if (a < 2.5) {
    let [term, sum] = [x, x];
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
      term *= (-x * x) / n;
      sum += term / (2 * n + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * sum;
  }
  let fraction = 0;
  for (let k = 60; k > 0; k--) fraction = k / 2 / (a + fraction);
  return Math.sign(x) * (1 - Math.exp(-a * a) / (Math.sqrt(Math.PI) * (a + fraction)));
}

const logistic = (x: number) => 1 / (1 + Math.exp(-x));

/** A value moved by `start` along an axis of another extent; zeros where it has no elements. */
function moved(x: Value, axis: number, start: number, extent: number): Value {
  const strides = stridesOf(x.shape);
  const shape = x.shape.map((dim, i) => (i === axis ? extent : dim));
  return collect(shape, x, (index) => {
    const at = (index[axis] as number) - start;
    if (at < 0 || at >= (x.shape[axis] as number)) return -1;
    return dot(strides, index) - start * (strides[axis] as number);
  });
}

const matmul: Evaluate = (inputs, attributes) => {
  /** [batch, rows, columns] of an operand, the last two swapped where it is transposed. */
  const operand = (value: Value, transposed: boolean, batch: readonly number[]) => {
    const whole = spread(value, [...batch, ...value.shape.slice(-2)]);
    const [rows, columns] = value.shape.slice(-2) as [number, number];
    const [rowStep, columnStep] = transposed ? [1, columns] : [columns, 1];
    return {
      size: transposed ? [columns, rows] : [rows, columns],
      at: (n: number, i: number, j: number) => whole.data[n * rows * columns + i * rowStep + j * columnStep] as number,
    };
  };
  const [a, b] = inputs as [Value, Value];
  const batch = broadcastShapes([a.shape.slice(0, -2), b.shape.slice(0, -2)]);
  const [x, y] = [operand(a, attributes.transA, batch), operand(b, attributes.transB, batch)];
  const [rows, inner, columns] = [x.size[0] as number, x.size[1] as number, y.size[1] as number];
  const data = Float64Array.from({ length: product(batch) * rows * columns }, (_, at) => {
    const [n, i, j] = [Math.floor(at / (rows * columns)), Math.floor(at / columns) % rows, at % columns];
    let sum = 0;
    for (let k = 0; k < inner; k++) sum += x.at(n, i, k) * y.at(n, k, j);
    return attributes.alpha * sum;
  });
  return { shape: [...batch, rows, columns], data };
};

const sum: Evaluate = ([x], { axes, keep }) => {
  const { shape, data } = x as Value;
  const kept = shape.map((extent, axis) => (axes.includes(axis) ? 1 : extent));
  const strides = stridesOf(kept).map((stride, axis) => (axes.includes(axis) ? 0 : stride));
  const from = stridesOf(shape);
  const out = new Float64Array(product(kept));
  for (const [i, value] of data.entries()) {
    const index = shape.map((extent, axis) => Math.floor(i / (from[axis] as number)) % extent);
    const to = dot(strides, index);
    out[to] = (out[to] as number) + value;
  }
  return { shape: keep ? kept : shape.filter((_, axis) => !axes.includes(axis)), data: out };
};

const slice: Evaluate = ([x], { axis, range }, size) => {
  const [start, end] = range.map(size) as [number, number];
  return moved(x as Value, axis, -start, end - start);
};

const pad: Evaluate = ([x], { axis, range }, size) => {
  const [start, extent] = range.map(size) as [number, number];
  return moved(x as Value, axis, start, extent);
};

const concat: Evaluate = (inputs, { axis }) => {
  const ends = inputs.map((_, i) =>
    inputs.slice(0, i + 1).reduce((sum, { shape }) => sum + (shape[axis] as number), 0),
  );
  const parts = inputs.map((input, i) =>
    moved(input, axis, i === 0 ? 0 : (ends[i - 1] as number), ends.at(-1) as number),
  );
  const data = parts.map((part) => part.data).reduce((sum, part) => sum.map((x, i) => x + (part[i] as number)));
  return { shape: parts[0]?.shape ?? [], data };
};

const gather: Evaluate = (inputs) => {
  const [table, ids] = inputs as [Value, Value];
  const width = table.shape[1] as number;
  return collect([...ids.shape, width], table, (index) => {
    const id = ids.data[dot(stridesOf(ids.shape), index.slice(0, -1))] as number;
    return indexBelow("gather", id, table.shape[0] as number) * width + (index.at(-1) as number);
  });
};

const scatterRows: Evaluate = (inputs, { shape }, size) => {
  const [ids, values] = inputs as [Value, Value];
  const width = values.shape[1] as number;
  const rows = size(shape[0] as Dim);
  const data = new Float64Array(rows * width);
  for (const [i, value] of values.data.entries()) {
    const id = indexBelow("scatterRows", ids.data[Math.floor(i / width)] as number, rows);
    data[id * width + (i % width)] = (data[id * width + (i % width)] as number) + value;
  }
  return { shape: [rows, width], data };
};

const rope: Evaluate = (inputs, { interleaved }) => {
  const [x, positions, cos, sin] = inputs as [Value, Value, Value, Value];
  const [, heads, times] = x.shape as [number, number, number];
  const half = cos.shape[1] as number;
  return eachRow(x, (row, index) => {
    const batch = Math.floor(index / (heads * times));
    const position = positions.data[batch * times + (index % times)] as number;
    const at = indexBelow("rope", position, cos.shape[0] as number);
    for (let i = 0; i < half; i++) {
      const [p, q] = interleaved ? [2 * i, 2 * i + 1] : [i, i + half];
      const [c, s] = [cos.data[at * half + i] as number, sin.data[at * half + i] as number];
      const [a, b] = [row[p] as number, row[q] as number];
      row[p] = a * c - b * s;
      row[q] = b * c + a * s;
    }
    return row;
  });
};

const cast: Evaluate = ([x], { to }) => {
  const { shape, data } = x as Value;
  return { shape, data: data.map((v) => (to === "bool" ? (v === 0 ? 0 : 1) : to === "i64" ? Math.trunc(v) : v)) };
};

const gelu: Evaluate = ([x], { approximate }) => {
  const { shape, data } = x as Value;
  // Tanh: arXiv 1606.08415, section 2.
  const tanh = (v: number) => Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v ** 3));
  const of = approximate === "none" ? (v: number) => erf(v / Math.SQRT2) : tanh;
  return { shape, data: data.map((v) => (v * (1 + of(v))) / 2) };
};

const transpose: Evaluate = ([value], { axes }) => {
  const x = value as Value;
  const strides = stridesOf(x.shape);
  const turned = axes.map((axis) => strides[axis] as number);
  const shape = axes.map((axis) => x.shape[axis] as number);
  return collect(shape, x, (index) => dot(turned, index));
};

const pick: Evaluate = (inputs) => {
  const [x, ids] = inputs as [Value, Value];
  const [each, width] = [ids.shape[1] ?? 1, x.shape[1] as number];
  const data = ids.data.map((id, i) => x.data[Math.floor(i / each) * width + indexBelow("pick", id, width)] as number);
  return { shape: ids.shape, data };
};

/** Places of a row in the order of its values; equal ones keep theirs. */
const sorted = (row: Float64Array, sign: number) =>
  [...row.keys()].sort((a, b) => sign * ((row[a] as number) - (row[b] as number)));

const largest: Evaluate = ([value], { count }) => {
  const x = value as Value;
  const width = x.shape.at(-1) as number;
  const rows = Array.from({ length: x.data.length / width }, (_, row) =>
    sorted(x.data.subarray(row * width, (row + 1) * width), -1).slice(0, count),
  );
  return { shape: [...x.shape.slice(0, -1), count], data: Float64Array.from(rows.flat()) };
};

const sortOrder: Evaluate = ([ids]) => {
  const { shape, data } = ids as Value;
  return { shape, data: Float64Array.from(sorted(data, 1)) };
};

const stack: Evaluate = (inputs) => ({
  shape: [inputs.length, ...(inputs[0] as Value).shape],
  data: Float64Array.from(inputs.flatMap(({ data }) => [...data])),
});

const expertMatmul: Evaluate = (inputs, { transB }) => {
  const [x, ids, matrices] = inputs as [Value, Value, Value];
  const [experts, rows, columns] = matrices.shape as [number, number, number];
  const [inner, outer] = transB ? [columns, rows] : [rows, columns];
  const data = Float64Array.from({ length: ids.data.length * outer }, (_, at) => {
    const [row, j] = [Math.floor(at / outer), at % outer];
    const begin = indexBelow("expertMatmul", ids.data[row] as number, experts) * rows * columns;
    let sum = 0;
    for (let i = 0; i < inner; i++) {
      const weight = matrices.data[begin + (transB ? j * columns + i : i * columns + j)] as number;
      sum += (x.data[row * inner + i] as number) * weight;
    }
    return sum;
  });
  return { shape: [ids.data.length, outer], data };
};

const expertOuter: Evaluate = (inputs, { shape }, size) => {
  const [a, b, ids] = inputs as [Value, Value, Value];
  const [p, q] = [a.shape[1] as number, b.shape[1] as number];
  const experts = size(shape[0] as Dim);
  const data = new Float64Array(experts * p * q);
  for (const [row, id] of ids.data.entries()) {
    for (let at = 0; at < p * q; at++) {
      const [x, y] = [a.data[row * p + Math.floor(at / q)] as number, b.data[row * q + (at % q)] as number];
      data[id * p * q + at] = (data[id * p * q + at] as number) + x * y;
    }
  }
  return { shape: [experts, p, q], data };
};

const oneHot: Evaluate = ([value], { shape }, size) => {
  const ids = value as Value;
  const depth = size(shape[0] as Dim);
  const data = new Float64Array(ids.data.length * depth);
  for (const [i, id] of ids.data.entries()) data[i * depth + indexBelow("oneHot", id, depth)] = 1;
  return { shape: [...ids.shape, depth], data };
};

const argMax: Evaluate = ([value]) => {
  const x = value as Value;
  const best = (row: Float64Array) => row.reduce((top, one, i) => (one > (row[top] as number) ? i : top), 0);
  return reduceRows(x, x.shape.slice(0, -1), best);
};

const crossEntropy: Evaluate = (inputs) => {
  const [logits, labels] = inputs as [Value, Value];
  return reduceRows(logits, labels.shape, (row, i) => {
    const { largest, rest } = logSum(row);
    return largest - (row[indexBelow("crossEntropy", labels.data[i] as number, row.length)] as number) + rest;
  });
};

const rmsNorm: Evaluate = (inputs, { epsilon }) => {
  const [x, weight] = inputs as [Value, Value];
  return eachRow(x, (row) => {
    const inverse = inverseRmsOf(row, epsilon);
    return row.map((value, i) => value * inverse * (weight.data[i] as number));
  });
};

const inverseRms: Evaluate = ([value], { epsilon }) => {
  const x = value as Value;
  return reduceRows(x, [...x.shape.slice(0, -1), 1], (row) => inverseRmsOf(row, epsilon));
};

/** Position by position. */
const linearAttention: Evaluate = (inputs, { heads, keyHeads, scale, delta, part }) => {
  const [query, key, value, decay] = inputs as [Value, Value, Value, Value];
  const [rate, start] = delta ? [inputs[4], inputs[5]] : [undefined, inputs[4]];
  const [batch, time, wide] = value.shape as [number, number, number];
  const [K, V] = [(key.shape[2] as number) / keyHeads, wide / heads];
  const read = new Float64Array(batch * time * wide);
  const states = start ? start.data.slice() : new Float64Array(batch * heads * K * V);
  for (let row = 0; row < batch; row++) {
    for (let head = 0; head < heads; head++) {
      const state = states.subarray((row * heads + head) * K * V, (row * heads + head + 1) * K * V);
      for (let t = 0; t < time; t++) {
        const at = row * time + t;
        const keyAt = (at * keyHeads + Math.floor(head / (heads / keyHeads))) * K;
        const kept = Math.exp(decay.data[at * heads + head] as number);
        for (let i = 0; i < K * V; i++) state[i] = (state[i] as number) * kept;
        for (let j = 0; j < V; j++) {
          const column = (of: Value) =>
            Array.from({ length: K }, (_, i) => (of.data[keyAt + i] as number) * (state[i * V + j] as number));
          const total = (list: readonly number[]) => list.reduce((a, b) => a + b, 0);
          const given = value.data[(at * heads + head) * V + j] as number;
          const added = rate ? (rate.data[at * heads + head] as number) * (given - total(column(key))) : given;
          for (let i = 0; i < K; i++) {
            state[i * V + j] = (state[i * V + j] as number) + (key.data[keyAt + i] as number) * added;
          }
          read[(at * heads + head) * V + j] = scale * total(column(query));
        }
      }
    }
  }
  return part === "values" ? { shape: value.shape, data: read } : { shape: [batch, heads, K, V], data: states };
};

const recurrence: Evaluate = (inputs, { reverse }) => {
  const [m, b] = inputs as [Value, Value];
  const steps = b.shape[0] as number;
  const cut = ({ shape, data }: Value, step: number): Value => {
    const size = data.length / steps;
    return { shape: shape.slice(1), data: data.slice(step * size, (step + 1) * size) };
  };
  const out = new Float64Array(b.data.length);
  let state: Value = { shape: b.shape.slice(1), data: new Float64Array(b.data.length / steps) };
  for (let n = 0; n < steps; n++) {
    const step = reverse ? steps - 1 - n : n;
    out.set(state.data, step * state.data.length);
    const scales = m.shape.at(-1) === 1;
    const attributes = { transA: false, transB: false, alpha: 1 } as AllAttributes;
    const kept = (scales ? elementwise((x, y) => x * y) : matmul)([cut(m, step), state], attributes, Number);
    state = { shape: state.shape, data: kept.data.map((x, i) => x + (cut(b, step).data[i] as number)) };
  }
  return { shape: b.shape, data: out };
};

/** softmax, or its logarithm */
const softmaxLike =
  (of: (logarithm: number) => number): Evaluate =>
  ([x]) =>
    eachRow(x as Value, (row) => {
      const { largest, rest } = logSum(row);
      return row.map((value) => of(value - largest - rest));
    });

/** By the names of operations. */
export const EVALUATIONS: Readonly<Record<string, Evaluate>> = {
  neg: elementwise((x) => -x),
  exp: elementwise(Math.exp),
  log: elementwise(Math.log),
  sqrt: elementwise(Math.sqrt),
  reciprocal: elementwise((x) => 1 / x),
  tanh: elementwise(Math.tanh),
  sigmoid: elementwise(logistic),
  erf: elementwise(erf),
  relu: elementwise((x) => Math.max(x, 0)),
  silu: elementwise((x) => x * logistic(x)),
  add: elementwise((a, b) => a + b),
  sub: elementwise((a, b) => a - b),
  mul: elementwise((a, b) => a * b),
  div: elementwise((a, b) => a / b),
  less: elementwise((a, b) => (a < b ? 1 : 0)),
  lessOrEqual: elementwise((a, b) => (a <= b ? 1 : 0)),
  equal: elementwise((a, b) => (a === b ? 1 : 0)),
  and: elementwise((a, b) => (a && b ? 1 : 0)),
  where: elementwise((condition, a, b) => (condition ? a : b)),
  softmax: softmaxLike(Math.exp),
  logSoftmax: softmaxLike((x) => x),
  reshape: ([x], { shape }, size) => ({ shape: shape.map(size), data: (x as Value).data }),
  expand: ([x], { shape }, size) => spread(x as Value, shape.map(size)),
  ...{ cast, gelu, matmul, sum, transpose, slice, pad, concat, gather, scatterRows, pick, oneHot, argMax },
  ...{ rmsNorm, inverseRms, rope, crossEntropy, linearAttention, recurrence },
  ...{ largest, sortOrder, stack, expertMatmul, expertOuter },
};

/**
 * Values of nodes.
 * @param feeds values of the inputs by name; they give the symbols of shapes their numbers
 */
export function evaluate(outputs: readonly Node[], feeds: ReadonlyMap<string, Value>): Value[] {
  const nodes = reachable(outputs);
  const size = sizesOf(nodes, feeds);
  const values = new Map<Node, Value>();
  for (const node of nodes) {
    if (node.op === "input") {
      values.set(node, feeds.get(node.attributes.name as string) as Value);
    } else if (node.op === "constant") {
      const data = Float64Array.from(node.attributes.values as readonly number[]);
      values.set(node, { shape: node.shape as readonly number[], data });
    } else {
      const inputs = node.inputs.map((input) => values.get(input) as Value);
      values.set(node, EVALUATIONS[node.op]?.(inputs, node.attributes as unknown as AllAttributes, size) as Value);
    }
  }
  return outputs.map((output) => values.get(output) as Value);
}

/**
 * A size as a number.
 * @throws RangeError if a symbol has no value
 */
export function resolveDim(dim: Dim, values: ReadonlyMap<string, number>): number {
  return termsOf(dim).reduce((sum, { factor, symbols }) => {
    const product = symbols.reduce((all, symbol) => {
      const quotient = quotientOf(symbol);
      const value = quotient ? Math.ceil(resolveDim(quotient.dim, values) / quotient.by) : values.get(symbol);
      if (value === undefined) throw new RangeError(`the size ${symbol} is not known`);
      return all * value;
    }, factor);
    return sum + product;
  }, 0);
}

/** Sizes as numbers: a symbol has the extent of the inputs whose shapes name it. */
function sizesOf(nodes: readonly Node[], feeds: ReadonlyMap<string, Value>): (dim: Dim) => number {
  const known = new Map<string, number>();
  for (const { op, shape, attributes } of nodes) {
    if (op !== "input") continue;
    for (const [axis, dim] of shape.entries()) {
      if (typeof dim === "string") known.set(dim, feeds.get(attributes.name as string)?.shape[axis] as number);
    }
  }
  return (dim) => resolveDim(dim, known);
}
