// Every rule of differentiation against finite differences: each operation on operands of random shapes, its second
// derivatives, and random compositions of many operations.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  CASES,
  type Case,
  Choose,
  casesOf,
  draw,
  dtypeOf,
  type Operand,
  TABLE,
} from "../../../test/support/graph-cases.js";
import { type Claim, checkGradients } from "../../../test/support/graph-derivatives.js";
import type { Value } from "../../../test/support/graph-reference.js";
import { Random } from "../../kit/random.js";
import type { Dim } from "./dim.js";
import { gradients, reachable } from "./gradients.js";
import { Graph, OPERATIONS } from "./graph.js";
import type { Node } from "./node.js";

/** Steps or indices: nothing flows through these, wherever they are asked. */
const STEPS = ["less", "lessOrEqual", "equal", "and", "cast", "oneHot", "argMax", "largest", "sortOrder"];

const extent = fc.integer({ min: 1, max: 3 });
const sizes = fc.record({ batch: extent, time: extent, [TABLE]: fc.constant(3) });

/** A graph whose inputs have values. */
class Bound {
  readonly graph = new Graph();
  readonly feeds = new Map<string, Value>();
  readonly random: Random;
  readonly #sizes: ReadonlyMap<string, number>;

  constructor(extents: Record<string, number>, seed: number) {
    this.#sizes = new Map(Object.entries(extents));
    this.random = Random.of(seed, "values");
  }

  input(operand: Operand): Node {
    const name = `x${this.feeds.size}`;
    this.feeds.set(name, draw(operand, this.#sizes, this.random));
    return this.graph.input(name, dtypeOf(operand), operand.shape);
  }

  /** The sum of all elements of some nodes, each weighed by a number of its own. */
  weigh(nodes: readonly Node[]): { readonly scalar: Node; readonly weights: Node[] } {
    const { graph } = this;
    const weights = nodes.map(({ shape }) => this.input({ shape, contents: "normal" }));
    const sums = nodes.map((node, i) => {
      const weighed = graph.mul(graph.cast(node, "f32"), weights[i] as Node);
      return graph.sum(
        weighed,
        node.shape.map((_, axis) => axis),
      );
    });
    return { scalar: sums.reduce((a, b) => graph.add(a, b)), weights };
  }

  claims(scalar: Node, inputs: readonly Node[]): Claim[] {
    const found = gradients(this.graph, scalar, inputs);
    return inputs.map((input, i) => ({ input, gradient: found[i] }));
  }

  /** Checks the gradients of a scalar, and returns them. */
  check(scalar: Node, inputs: readonly Node[], tolerance?: number): Node[] {
    const claims = this.claims(scalar, inputs);
    checkGradients(scalar, claims, this.feeds, this.random, tolerance);
    return claims.flatMap(({ gradient }) => gradient ?? []);
  }
}

function bind(one: Case, extents: Record<string, number>, seed: number) {
  const bound = new Bound(extents, seed);
  const operands = one.operands.map((operand) => bound.input(operand));
  const isFloat = (i: number) => dtypeOf(one.operands[i] as Operand) === "f32";
  const flowing = operands.filter((_, i) => isFloat(i) && !one.constant?.includes(i));
  const still = operands.filter((_, i) => !isFloat(i));
  return { bound, flowing, still, result: one.build(bound.graph, operands) };
}

it("are tested for every operation", () => {
  expect(Object.keys(CASES).sort()).toEqual([...OPERATIONS.keys()].sort());
});

describe("the vector-Jacobian product of", () => {
  for (const name of OPERATIONS.keys()) {
    if (STEPS.includes(name)) continue;
    it(name, () => {
      let seen = 0;
      const property = fc.property(casesOf(name), sizes, fc.nat(), (one, extents, seed) => {
        const { bound, flowing, still, result } = bind(one, extents, seed);
        const { scalar } = bound.weigh([result]);
        bound.check(scalar, flowing);
        expect(gradients(bound.graph, scalar, still)).toEqual(still.map(() => undefined));
        if (reachable([result]).some(({ op }) => op === name) && flowing.length > 0) seen++;
      });
      // Products have far more kinds of operands than others.
      fc.assert(property, { numRuns: name === "matmul" ? 100 : 18 });
      expect(seen).toBeGreaterThan(0);
    });
  }
});

describe("no gradient flows through", () => {
  for (const name of STEPS) {
    it(name, () => {
      const property = fc.property(casesOf(name), sizes, fc.nat(), (one, extents, seed) => {
        const { bound, flowing, still, result } = bind(one, extents, seed);
        const { scalar } = bound.weigh([result]);
        const inputs = [...flowing, ...still];
        expect(gradients(bound.graph, scalar, inputs)).toEqual(inputs.map(() => undefined));
      });
      fc.assert(property, { numRuns: 5 });
    });
  }
});

// The derivative of a derivative asks every rule about gradients that are themselves computed from the operands. Third
// derivatives, which make up the error of the difference, are larger here: up to 1e4 next to the poles of 1 / x and
// log x, times h^2 / 6 = 2e-11.
describe("the second derivative of", () => {
  for (const name of OPERATIONS.keys()) {
    if (STEPS.includes(name)) continue;
    it(name, () => {
      const property = fc.property(casesOf(name), sizes, fc.nat(), (one, extents, seed) => {
        const { bound, flowing, result } = bind(one, extents, seed);
        const { scalar, weights } = bound.weigh([result]);
        const first = bound.claims(scalar, flowing).flatMap(({ gradient }) => gradient ?? []);
        if (first.length > 0) bound.check(bound.weigh(first).scalar, [...flowing, ...weights], 1e-5);
      });
      fc.assert(property, { numRuns: 7 });
    });
  }
});

/** What a composition is made of: all values are [batch, 3], and about as large as 1. */
type Step = (graph: Graph, pick: () => Node, inputs: { matrix: Node; vector: Node; ids: Node; mask: Node }) => Node;

const STEPS_OF_COMPOSITION: readonly Step[] = [
  (graph, pick) => graph.add(pick(), pick()),
  (graph, pick) => graph.sub(pick(), pick()),
  (graph, pick) => graph.tanh(graph.mul(pick(), pick())),
  (graph, pick) => graph.div(pick(), graph.add(graph.exp(graph.tanh(pick())), 1)),
  (graph, pick) => graph.log(graph.add(graph.sigmoid(pick()), 0.5)),
  (graph, pick) => graph.silu(graph.gelu(pick())),
  (graph, pick) => graph.gelu(graph.erf(pick()), "tanh"),
  (graph, pick) => graph.sqrt(graph.add(graph.softmax(pick()), 0.25)),
  (graph, pick) => graph.tanh(graph.logSoftmax(pick())),
  (graph, pick, { vector }) => graph.rmsNorm(pick(), vector, 0.1),
  (graph, pick, { vector }) => graph.mul(graph.inverseRms(pick(), 0.5), vector),
  (graph, pick, { matrix }) => graph.tanh(graph.matmul(pick(), matrix, { transB: true, alpha: 0.5 })),
  (graph, pick) => {
    const scores = graph.matmul(pick(), pick(), { transB: true, alpha: 0.3 });
    return graph.matmul(graph.softmax(scores), pick());
  },
  (graph, pick) => {
    const moved = graph.transpose(graph.reshape(pick(), ["batch", 1, 3]), [1, 2, 0]);
    const squares = graph.reshape(graph.matmul(moved, pick()), [3, 3]);
    return graph.matmul(pick(), graph.tanh(squares), { transA: false, transB: true });
  },
  (graph, pick) => {
    const x = pick();
    return graph.concat([graph.slice(x, 1, 1, 3), graph.slice(pick(), 1, 0, 1)], 1);
  },
  (graph, pick) => graph.slice(graph.concat([pick(), pick()], 0), 0, "batch", "2*batch"),
  (graph, pick) => graph.slice(graph.pad(pick(), 1, 2, 6), -1, 1, 4),
  (graph, pick) => graph.sub(pick(), graph.meanLast(pick())),
  (graph, pick) => graph.expand(graph.sum(graph.tanh(pick()), [0], true), ["batch", 3]),
  (graph, pick, { mask }) => graph.where(mask, pick(), pick()),
  (graph, pick, { ids }) => graph.gather(pick(), ids),
  (graph, pick, { ids }) => graph.tanh(graph.scatterRows(ids, pick(), "batch")),
  (graph, pick, { ids }) => graph.add(graph.tanh(graph.pick(graph.matmul(pick(), pick(), { transB: true }), ids)), 1),
  (graph, pick, { ids }) => {
    const loss = graph.crossEntropy(graph.matmul(pick(), pick(), { transB: true }), ids);
    return graph.mul(graph.reshape(graph.sigmoid(loss), ["batch", 1]), pick());
  },
];

interface Planned {
  readonly step: Step;
  /** How far back its operands are. */
  readonly picks: readonly number[];
}

// Seven steps are steeper than one: each may multiply the third derivative, and with it the error of the difference, by
// ten or so. A rule that is wrong is wrong by its own size.
it("are right for compositions with shared parts, to second order", () => {
  const plans = fc.gen().map((generator): Planned[] => {
    const choose = new Choose(generator);
    return Array.from({ length: choose.number(2, 7) }, () => ({
      step: choose.of(STEPS_OF_COMPOSITION),
      picks: [choose.number(0, 3), choose.number(0, 3), choose.number(0, 3)],
    }));
  });
  const check = (first: Step) => (plan: readonly Planned[], extents: { batch: number }, seed: number) => {
    const bound = new Bound(extents, seed);
    const { graph } = bound;
    const float = (shape: Dim[]) => bound.input({ shape, contents: "normal" });
    const [a, b, matrix, vector] = [float(["batch", 3]), float([3]), float([3, 3]), float([3])];
    const ids = bound.input({ shape: ["batch"], contents: { below: "batch" } });
    const mask = bound.input({ shape: ["batch", 3], contents: "bool" });
    const made = [a, graph.mul(a, b)];
    for (const [i, { step, picks }] of plan.entries()) {
      const rest = [...picks];
      // Among what was made last, so that most of it is used, and much of it twice.
      const pick = () => made.at(-1 - Math.min(rest.pop() ?? 0, made.length - 1)) as Node;
      const node = (i === 0 ? first : step)(graph, pick, { matrix, vector, ids, mask });
      made.push(graph.expand(node.shape.length === 1 ? graph.reshape(node, ["batch", 1]) : node, ["batch", 3]));
    }
    const inputs = [a, b, matrix, vector];
    const once = bound.check(bound.weigh([made.at(-1) as Node]).scalar, inputs, 1e-5);
    if (once.length > 0) bound.check(bound.weigh(once).scalar, inputs, 1e-4);
  };
  for (const first of STEPS_OF_COMPOSITION) {
    fc.assert(fc.property(plans, fc.record({ batch: extent }), fc.nat(), check(first)), { numRuns: 2 });
  }
});
