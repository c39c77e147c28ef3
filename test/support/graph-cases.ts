// One generator of small graphs per operation: operands of the shapes that it takes, with sizes that are numbers and
// symbols, and what is built of them. Derivatives and lowerings are tested on these, so both tests know every operation.
import fc from "fast-check";
import { addDims, type Dim, multiplyDims } from "../../src/engine/graph/dim.js";
import type { ElementType, Graph, Node } from "../../src/engine/graph/index.js";
import type { Random } from "../../src/kit/random.js";
import { resolveDim, type Value } from "./graph-reference.js";

/**
 * What a tensor holds. normal: about 0, of variance 1. positive: 0.5 to 2.5. apart: the same with either sign, so away
 * from poles and kinks at 0. far: normal around 1000, where exp overflows. bool: 0 or 1. below: indices of an axis of
 * that size.
 */
export type Contents = "normal" | "positive" | "apart" | "far" | "bool" | { readonly below: Dim };

export interface Operand {
  readonly shape: readonly Dim[];
  readonly contents: Contents;
}

export interface Case {
  readonly operands: readonly Operand[];
  build(graph: Graph, operands: readonly Node[]): Node;
  /** Operands, by place, that must be constants: to ask for their gradient is an error. */
  readonly constant?: readonly number[];
}

/** Sizes that may be zero in a run, and that of tables, which rows are taken from and so never are empty. */
export const SYMBOLS = ["batch", "time"] as const;
export const TABLE = "table";

export function dtypeOf({ contents }: Operand): ElementType {
  if (contents === "bool") return "bool";
  return typeof contents === "string" ? "f32" : "i64";
}

/** Draws an operand's values. */
export function draw({ shape, contents }: Operand, sizes: ReadonlyMap<string, number>, random: Random): Value {
  const extents = shape.map((dim) => resolveDim(dim, sizes));
  const count = extents.reduce((product, extent) => product * extent, 1);
  const sign = () => (random.float() < 0.5 ? -1 : 1);
  const one = (): number => {
    if (typeof contents !== "string") return Math.floor(random.float() * resolveDim(contents.below, sizes));
    switch (contents) {
      case "normal":
        return random.normal();
      case "far":
        return 1000 + 3 * random.normal();
      case "positive":
        return 0.5 + 2 * random.float();
      case "apart":
        return sign() * (0.5 + 2 * random.float());
      case "bool":
        return random.float() < 0.5 ? 0 : 1;
    }
  };
  return { shape: extents, data: Float64Array.from({ length: count }, one) };
}

/** Choices of a generator. */
export class Choose {
  readonly #draw: fc.GeneratorValue;

  constructor(generator: fc.GeneratorValue) {
    this.#draw = generator;
  }

  /** A whole number, both ends included; shrinks to the first. */
  number(from: number, to: number): number {
    return this.#draw(fc.integer, { min: from, max: to });
  }
  of<T>(values: readonly T[]): T {
    return values[this.number(0, values.length - 1)] as T;
  }
  flag(): boolean {
    return this.#draw(fc.boolean);
  }
  dim(): Dim {
    return this.of<Dim>([1, 2, 3, ...SYMBOLS]);
  }
  shape(least: number, most: number): Dim[] {
    return Array.from({ length: this.number(least, most) }, () => this.dim());
  }
  order(length: number): number[] {
    const rest = Array.from({ length }, (_, i) => i);
    return Array.from({ length }, () => rest.splice(this.number(0, rest.length - 1), 1)[0] as number);
  }
  /** A shape that broadcasting makes into another: some axes of size 1, some leading ones missing. */
  narrower(shape: readonly Dim[]): Dim[] {
    const kept = shape.slice(this.number(0, this.flag() ? shape.length : 0));
    return kept.map((dim) => (this.number(0, 2) === 2 ? 1 : dim));
  }
  /** The same elements in another shape: axes reordered, joined, and axes of size 1 put between. */
  regrouped(shape: readonly Dim[]): Dim[] {
    const groups: Dim[] = [];
    for (const axis of this.order(shape.length)) {
      const dim = shape[axis] as Dim;
      if (groups.length > 0 && this.flag()) groups.push(multiplyDims(groups.pop() as Dim, dim));
      else groups.push(dim);
      if (this.number(0, 3) === 3) groups.push(1);
    }
    return groups;
  }
}

type Make = (choose: Choose) => Case;

const unary =
  (apply: (graph: Graph, x: Node) => Node, contents: Contents = "normal"): Make =>
  (choose) => ({
    operands: [{ shape: choose.shape(0, 3), contents }],
    build: (graph, [x]) => apply(graph, x as Node),
  });

/** Two operands of every broadcast pattern; one of them twice, or a number in place of one, now and then. */
const binary =
  (name: string, contents: readonly [Contents, Contents] = ["normal", "normal"], numbers = true): Make =>
  (choose) => {
    const shape = choose.shape(0, 4);
    const first = { shape: choose.narrower(shape), contents: contents[0] };
    const second = { shape: choose.narrower(shape), contents: contents[1] };
    const kind = choose.number(0, 7);
    if (kind === 7) return { operands: [second], build: (graph, [x]) => graph.apply(name, [x as Node, x as Node]) };
    if (kind === 6 && numbers) {
      return { operands: [first], build: (graph, [x]) => graph.apply(name, [x as Node, graph.constant(1.5)]) };
    }
    if (kind === 5 && numbers) {
      return { operands: [second], build: (graph, [x]) => graph.apply(name, [graph.constant(-0.75), x as Node]) };
    }
    return { operands: [first, second], build: (graph, operands) => graph.apply(name, operands) };
  };

/** Indices and floats alike. */
const comparison =
  (name: string): Make =>
  (choose) =>
    binary(name, choose.flag() ? ["normal", "normal"] : [{ below: 3 }, { below: 3 }], false)(choose);

const rowwise =
  (apply: (graph: Graph, x: Node) => Node): Make =>
  (choose) => ({
    operands: [{ shape: choose.shape(1, 3), contents: choose.of<Contents>(["normal", "far"]) }],
    build: (graph, [x]) => apply(graph, x as Node),
  });

const epsilons = [1e-6, 1e-2, 0.5];

const withAxis = (shape: readonly Dim[], axis: number, dim: Dim) => shape.map((old, i) => (i === axis ? dim : old));

const ascending = (graph: Graph, ids: Node): Node => {
  const column = graph.reshape(ids, [ids.shape[0] as Dim, 1]);
  return graph.reshape(graph.gather(column, graph.sortOrder(ids)), ids.shape);
};

/** Rows of a table and what indices are below. */
const tableRows: readonly Dim[] = [1, 2, 3, TABLE];

export const CASES: Readonly<Record<string, Make>> = {
  neg: unary((graph, x) => graph.neg(x)),
  exp: unary((graph, x) => graph.exp(x)),
  log: unary((graph, x) => graph.log(x), "positive"),
  sqrt: unary((graph, x) => graph.sqrt(x), "positive"),
  reciprocal: unary((graph, x) => graph.reciprocal(x), "apart"),
  tanh: unary((graph, x) => graph.tanh(x)),
  sigmoid: unary((graph, x) => graph.sigmoid(x)),
  erf: unary((graph, x) => graph.erf(x)),
  relu: unary((graph, x) => graph.relu(x), "apart"),
  silu: unary((graph, x) => graph.silu(x)),
  gelu: (choose) => {
    const approximate = choose.of(["none", "tanh"] as const);
    return unary((graph, x) => graph.gelu(x, approximate))(choose);
  },
  add: binary("add"),
  sub: binary("sub"),
  mul: binary("mul"),
  div: binary("div", ["normal", "apart"]),
  less: comparison("less"),
  lessOrEqual: comparison("lessOrEqual"),
  equal: comparison("equal"),
  and: binary("and", ["bool", "bool"], false),
  where: (choose) => {
    const shape = choose.shape(0, 4);
    const [condition, a, b] = [choose.narrower(shape), choose.narrower(shape), choose.narrower(shape)];
    const contents = choose.number(0, 4) === 4 ? { below: 3 } : "normal";
    return {
      operands: [
        { shape: condition, contents: "bool" },
        { shape: a, contents },
        { shape: b, contents },
      ],
      build: (graph, operands) => graph.apply("where", operands),
    };
  },
  cast: (choose) => {
    const to = choose.of<ElementType>(["f32", "i64", "bool"]);
    const contents = choose.of<Contents>(["apart", "bool", { below: 3 }]);
    const from = contents === "apart" ? "f32" : contents === "bool" ? "bool" : "i64";
    return {
      operands: [{ shape: choose.shape(0, 3), contents }],
      build: (graph, [x]) => graph.cast(x as Node, from === to ? "bool" : to),
    };
  },
  matmul: (choose) => {
    const [transA, transB] = [choose.flag(), choose.flag()];
    const [m, k, n] = [choose.dim(), choose.dim(), choose.dim()];
    const batch = choose.shape(0, 2);
    // One matrix for a whole batch is what decoders do most.
    const batchOf = () => (choose.number(0, 2) === 2 ? [] : choose.narrower(batch));
    const [a, b] = [batchOf(), batchOf()];
    const alpha = choose.of([1, 0.5, -2]);
    return {
      operands: [
        { shape: [...a, ...(transA ? [k, m] : [m, k])], contents: "normal" },
        { shape: [...b, ...(transB ? [n, k] : [k, n])], contents: "normal" },
      ],
      build: (graph, [x, y]) => graph.matmul(x as Node, y as Node, { transA, transB, alpha }),
    };
  },
  sum: (choose) => {
    const shape = choose.shape(0, 4);
    const axes = shape.flatMap((_, axis) => (choose.flag() ? [axis] : []));
    const keep = choose.flag();
    const negative = choose.flag();
    return {
      operands: [{ shape, contents: "normal" }],
      build: (graph, [x]) =>
        graph.sum(
          x as Node,
          axes.map((axis) => (negative ? axis - shape.length : axis)),
          keep,
        ),
    };
  },
  softmax: rowwise((graph, x) => graph.softmax(x)),
  logSoftmax: rowwise((graph, x) => graph.logSoftmax(x)),
  reshape: (choose) => {
    const shape = choose.shape(0, 4);
    const to = choose.regrouped(shape);
    const again = choose.flag() ? choose.regrouped(to) : undefined;
    return {
      operands: [{ shape, contents: "normal" }],
      build: (graph, [x]) => {
        const once = graph.reshape(x as Node, to);
        return again ? graph.reshape(once, again) : once;
      },
    };
  },
  transpose: (choose) => {
    const shape = choose.shape(0, 4);
    const orders = Array.from({ length: choose.number(1, 2) }, () => choose.order(shape.length));
    return {
      operands: [{ shape, contents: "normal" }],
      build: (graph, [x]) => orders.reduce((node, order) => graph.transpose(node, order), x as Node),
    };
  },
  slice: (choose) => {
    const shape = choose.shape(1, 4);
    const axis = choose.number(0, shape.length - 1);
    const said = choose.flag() ? axis : axis - shape.length;
    if (choose.flag()) {
      const extent = choose.number(1, 4);
      const [start, end] = [choose.number(0, extent), choose.number(0, extent)].sort((a, b) => a - b) as [
        number,
        number,
      ];
      return {
        operands: [{ shape: withAxis(shape, axis, extent), contents: "normal" }],
        build: (graph, [x]) => graph.slice(x as Node, said, start, end),
      };
    }
    // A part of an axis that was joined of three: as a cache and what is new are.
    const parts = [choose.dim(), choose.dim(), choose.dim()];
    const [from, to] = [choose.number(0, 3), choose.number(0, 3)].sort((a, b) => a - b) as [number, number];
    return {
      operands: parts.map((part) => ({ shape: withAxis(shape, axis, part), contents: "normal" })),
      build: (graph, operands) => {
        const start = addDims(...parts.slice(0, from));
        return graph.slice(graph.concat(operands, axis), said, start, addDims(...parts.slice(0, to)));
      },
    };
  },
  pad: (choose) => {
    const shape = choose.shape(1, 4);
    const axis = choose.number(0, shape.length - 1);
    const [before, after] = [choose.of<Dim>([0, 1, 2, ...SYMBOLS]), choose.of<Dim>([0, 1, 2, ...SYMBOLS])];
    const contents = "normal";
    // What is padded by a symbol needs a feed that knows it.
    const known = [before, after].filter((dim) => typeof dim === "string").map((dim) => ({ shape: [dim], contents }));
    return {
      operands: [{ shape, contents }, ...(known as Operand[])],
      build: (graph, [x, ...rest]) => {
        const padded = graph.pad(x as Node, axis, before, addDims(before, shape[axis] as Dim, after));
        return rest.reduce((node, other) => graph.add(node, graph.sum(other, [0])), padded);
      },
    };
  },
  concat: (choose) => {
    const shape = choose.shape(1, 4);
    const axis = choose.number(0, shape.length - 1);
    const parts = Array.from({ length: choose.number(1, 3) }, () => choose.dim());
    const twice = choose.flag();
    const said = choose.flag() ? axis : axis - shape.length;
    return {
      operands: parts.map((part) => ({ shape: withAxis(shape, axis, part), contents: "normal" })),
      build: (graph, operands) => graph.concat(twice ? [...operands, operands[0] as Node] : operands, said),
    };
  },
  expand: (choose) => {
    const shape = choose.shape(0, 4);
    const known = shape.filter((dim) => typeof dim === "string");
    return {
      operands: [
        { shape: choose.narrower(shape), contents: "normal" },
        ...known.map((dim): Operand => ({ shape: [dim], contents: "normal" })),
      ],
      build: (graph, [x, ...rest]) => {
        // An addition would do without the expansion; a product of matrices needs it.
        const filled = graph.exp(graph.expand(x as Node, shape));
        return rest.reduce((node, other) => graph.mul(node, graph.sum(other, [0])), filled);
      },
    };
  },
  gather: (choose) => {
    const rows = choose.of(tableRows);
    return {
      operands: [
        { shape: [rows, choose.dim()], contents: "normal" },
        { shape: choose.shape(0, 3), contents: { below: rows } },
      ],
      build: (graph, [table, ids]) => graph.gather(table as Node, ids as Node),
    };
  },
  scatterRows: (choose) => {
    const [rows, count] = [choose.of([1, 2, 3]), choose.dim()];
    return {
      operands: [
        { shape: [count], contents: { below: rows } },
        { shape: [count, choose.dim()], contents: "normal" },
      ],
      build: (graph, [ids, values]) => graph.scatterRows(ids as Node, values as Node, rows),
    };
  },
  pick: (choose) => {
    const [rows, width] = [choose.dim(), choose.of(tableRows)];
    return {
      operands: [
        { shape: [rows, width], contents: "normal" },
        { shape: choose.flag() ? [rows] : [rows, choose.number(1, 3)], contents: { below: width } },
      ],
      build: (graph, [x, ids]) => graph.pick(x as Node, ids as Node),
    };
  },
  oneHot: (choose) => {
    const depth = choose.of([1, 2, 4]);
    return {
      operands: [{ shape: choose.shape(0, 3), contents: { below: depth } }],
      build: (graph, [ids]) => graph.oneHot(ids as Node, depth),
    };
  },
  argMax: (choose) => ({
    operands: [{ shape: [...choose.shape(0, 3), choose.of(tableRows)], contents: "normal" }],
    build: (graph, [x]) => graph.argMax(x as Node),
  }),
  largest: (choose) => {
    const width = choose.number(1, 4);
    const count = choose.number(1, width);
    return {
      operands: [{ shape: [choose.of(tableRows), width], contents: "normal" }],
      build: (graph, [x]) => graph.largest(x as Node, count),
    };
  },
  sortOrder: (choose) => ({
    operands: [{ shape: [choose.of(tableRows)], contents: { below: 3 } }],
    build: (graph, [ids]) => graph.sortOrder(ids as Node),
  }),
  stack: (choose) => {
    const shape = choose.shape(0, 3);
    return {
      operands: Array.from({ length: choose.number(1, 3) }, () => ({ shape, contents: "normal" }) as const),
      build: (graph, operands) => graph.stack(operands),
    };
  },
  expertMatmul: (choose) => {
    const [rows, inner, columns] = [choose.of(tableRows), choose.number(1, 3), choose.number(1, 3)];
    const [experts, transB, isStacked] = [choose.number(1, 4), choose.flag(), choose.flag()];
    const matrix = transB ? [columns, inner] : [inner, columns];
    const matrices: Operand[] = isStacked
      ? Array.from({ length: experts }, () => ({ shape: matrix, contents: "normal" }))
      : [{ shape: [experts, ...matrix], contents: "normal" }];
    return {
      operands: [
        { shape: [rows, inner], contents: "normal" },
        { shape: [rows], contents: { below: experts } },
        ...matrices,
      ],
      build: (graph, [x, ids, ...rest]) => {
        const whole = isStacked ? graph.stack(rest) : (rest[0] as Node);
        return graph.expertMatmul(x as Node, ascending(graph, ids as Node), whole, transB);
      },
    };
  },
  expertOuter: (choose) => {
    const [rows, experts] = [choose.of(tableRows), choose.number(1, 4)];
    return {
      operands: [
        { shape: [rows, choose.number(1, 3)], contents: "normal" },
        { shape: [rows, choose.number(1, 3)], contents: "normal" },
        { shape: [rows], contents: { below: experts } },
      ],
      build: (graph, [a, b, ids]) => graph.expertOuter(a as Node, b as Node, ascending(graph, ids as Node), experts),
    };
  },
  rmsNorm: (choose) => {
    const width = choose.number(1, 4);
    const epsilon = choose.of(epsilons);
    return {
      operands: [
        { shape: [...choose.shape(0, 3), width], contents: "apart" },
        { shape: [width], contents: "normal" },
      ],
      build: (graph, [x, weight]) => graph.rmsNorm(x as Node, weight as Node, epsilon),
    };
  },
  inverseRms: (choose) => {
    const epsilon = choose.of(epsilons);
    return {
      operands: [{ shape: [...choose.shape(0, 3), choose.number(1, 4)], contents: "apart" }],
      build: (graph, [x]) => graph.inverseRms(x as Node, epsilon),
    };
  },
  rope: (choose) => {
    const half = choose.number(1, 2);
    const width = 2 * half + choose.of([0, 1, 2]);
    const [batch, time, interleaved] = [choose.of<Dim>([1, 2, "batch"]), choose.of<Dim>([1, "time"]), choose.flag()];
    // Any numbers do for the tables: that they are cosines and sines is nobody's assumption.
    const table: Operand = { shape: [TABLE, half], contents: "normal" };
    return {
      operands: [
        { shape: [batch, choose.number(1, 3), time, width], contents: "normal" },
        { shape: [batch, time], contents: { below: TABLE } },
        table,
        table,
      ],
      build: (graph, [x, positions, cos, sin]) =>
        graph.rope(x as Node, positions as Node, cos as Node, sin as Node, interleaved),
      constant: [2, 3],
    };
  },
  linearAttention: (choose) => {
    const [batch, time] = [choose.of<Dim>([1, 2, "batch"]), choose.of<Dim>([1, 5, "time"])];
    const [keyHeads, group, K, V] = [
      choose.number(1, 2),
      choose.number(1, 2),
      choose.number(1, 3),
      choose.number(1, 2),
    ];
    const [delta, chunk, heads] = [choose.flag(), choose.of([1, 2, 4]), keyHeads * group];
    const operand = (width: number): Operand => ({ shape: [batch, time, width], contents: "normal" });
    return {
      operands: [keyHeads * K, keyHeads * K, heads * V, heads, ...(delta ? [heads] : [])].map(operand),
      build: (graph, [query, key, value, decay, ...rate]) =>
        graph.linearAttention(
          // As in models: keys of a length below 1, so that a state does not grow.
          [query, graph.mul(graph.tanh(key as Node), 0.5), value, graph.neg(graph.mul(decay as Node, decay as Node))]
            .map((node) => node as Node)
            .concat(rate),
          { heads, keyHeads, scale: 0.5, chunk, delta, part: "values" },
        ),
    };
  },
  recurrence: (choose) => {
    const [steps, batch] = [choose.dim(), choose.shape(0, 2)];
    const [A, E, scales] = [choose.number(1, 3), choose.number(1, 2), choose.flag()];
    const size = scales ? 1 : A;
    const reverse = choose.flag();
    return {
      operands: [
        { shape: [steps, ...batch, size, size], contents: "normal" },
        { shape: [steps, ...batch, A, E], contents: "normal" },
      ],
      build: (graph, [m, b]) => graph.recurrence(m as Node, b as Node, reverse),
    };
  },
  crossEntropy: (choose) => {
    const [rows, width] = [choose.dim(), choose.of(tableRows)];
    return {
      operands: [
        { shape: [rows, width], contents: choose.of<Contents>(["normal", "far"]) },
        { shape: [rows], contents: { below: width } },
      ],
      build: (graph, [logits, labels]) => graph.crossEntropy(logits as Node, labels as Node),
    };
  },
};

/** Cases of an operation. */
export function casesOf(name: string): fc.Arbitrary<Case> {
  const make = CASES[name];
  if (!make) throw new Error(`the operation ${name} has no case, so neither its derivative nor its lowering is tested`);
  return fc.gen().map((generator) => make(new Choose(generator)));
}
