// The regression that calibrates one router. Letters in shapes: N tokens, E experts, D width.

import { CancelledError } from "../kit/index.js";
import { conjugateGradients } from "./conjugate-gradients.js";
import { Graph } from "./graph/graph.js";
import type { Node } from "./graph/node.js";
import { type LayerInputs, matrix } from "./layer-inputs.js";
import { lowerGraph } from "./runtime/lower.js";
import { openSession, type Session, type SessionOptions, type TensorValue } from "./runtime/session.js";

/** A router: its matrix [E, D] and bias [E]. */
export interface Router {
  readonly weight: Float32Array;
  readonly bias: Float32Array;
}

export interface Regression {
  /** The merged router, at which the solver starts. */
  readonly start: Router;
  /** The router of each expert. */
  readonly experts: readonly Router[];
  /** What the router reads; the group is the expert. */
  readonly inputs: readonly LayerInputs[];
  /** Factor of the Hessian off its diagonal. */
  readonly scale: number;
}

/** As in the authors' script. */
const SOLVER = { tolerance: 1e-6, iterations: 1000 };

/** Solves regressions of routers of one size. */
export class RouterRegression {
  readonly #sizes: Sizes;
  readonly #signal: AbortSignal | undefined;
  readonly #sessions: { readonly shares: Session; readonly product: Session };

  private constructor(sizes: Sizes, sessions: { shares: Session; product: Session }, signal: AbortSignal | undefined) {
    this.#sizes = sizes;
    this.#sessions = sessions;
    this.#signal = signal;
  }

  /** @throws RuntimeMissingError if ONNX Runtime is not installed */
  static async open(
    sizes: Sizes,
    { threads, signal }: Pick<SessionOptions, "threads"> & { readonly signal?: AbortSignal | undefined },
  ): Promise<RouterRegression> {
    const open = (build: typeof sharesOf) => openSession(lowerGraph(build(new Graph(), sizes)), { threads });
    return new RouterRegression(sizes, { shares: await open(sharesOf), product: await open(productOf) }, signal);
  }

  async close(): Promise<void> {
    const { shares, product } = this.#sessions;
    await shares.close();
    await product.close();
  }

  /**
   * The W that solves sum_i S_i(W) = sum_i S_i(W_i), where S_i(W) is the mean of H W x x^T over the tokens of expert i,
   * H = diag(r) - r r^T and r = softmax(W_i x + b_i); off the diagonal of S_i as a matrix, times the scale (arXiv 2606.03391).
   * @returns [E, D]
   * @throws CancelledError if the signal fires
   */
  async solve({ start, experts, inputs, scale }: Regression): Promise<Float32Array> {
    const size = start.weight.length;
    const zeros = () => experts.map(() => new Float64Array(size));
    const counts = experts.map((_, i) =>
      inputs.reduce((sum, { x, group }) => sum + (group === i ? this.#rows(x) : 0), 0),
    );
    const add = (sums: readonly Float64Array[], expert: number, values: TensorValue | undefined) => {
      const [sum, factor] = [sums[expert] as Float64Array, 1 / (counts[expert] as number)];
      for (let i = 0; i < size; i++) sum[i] = (sum[i] as number) + factor * ((values as Floats).data[i] as number);
    };
    const shares: TensorValue[] = [];
    const diagonals = zeros();
    for (const { x, group: expert } of inputs) {
      const feeds = { x: this.#matrix(x), ...this.#router(experts[expert] as Router) };
      const found = await this.#run(this.#sessions.shares, feeds, ["shares", "diagonal"]);
      shares.push(found.shares as TensorValue);
      add(diagonals, expert, found.diagonal);
    }
    /** sum_i S_i(W_i). @param of W_i */
    const apply = async (of: (expert: number) => Router) => {
      const sums = zeros();
      for (const [p, { x, group: expert }] of inputs.entries()) {
        const feeds = { x: this.#matrix(x), shares: shares[p] as TensorValue, ...this.#router(of(expert)) };
        add(sums, expert, (await this.#run(this.#sessions.product, feeds, ["product"])).product);
      }
      const total = new Float64Array(size);
      for (const [i, sum] of sums.entries()) {
        const { weight } = of(i);
        const diagonal = diagonals[i] as Float64Array;
        for (let at = 0; at < size; at++) {
          const own = (diagonal[at] as number) * (weight[at] as number);
          total[at] = (total[at] as number) + scale * (sum[at] as number) + (1 - scale) * own;
        }
      }
      return total;
    };
    // Of a bias, what an expert's has beyond the merge's.
    const targets = experts.map(({ weight, bias }): Router => {
      return { weight, bias: bias.map((value, i) => value - (start.bias[i] as number)) };
    });
    const wanted = await apply((expert) => targets[expert] as Router);
    const found = Float64Array.from(start.weight);
    const bias = new Float32Array(start.bias.length);
    const multiply = (x: Float64Array) => {
      const router = { weight: Float32Array.from(x), bias };
      return apply(() => router);
    };
    await conjugateGradients(multiply, wanted, found, SOLVER);
    return Float32Array.from(found);
  }

  #run(session: Session, feeds: Readonly<Record<string, TensorValue>>, outputs: readonly string[]) {
    if (this.#signal?.aborted) throw new CancelledError("stopped before the end");
    return session.run(feeds, outputs);
  }

  #rows(x: Float32Array): number {
    return x.length / this.#sizes.width;
  }

  #matrix(data: Float32Array): TensorValue {
    return matrix(data, this.#sizes.width);
  }

  #router({ weight, bias }: Router): Record<string, TensorValue> {
    return { weight: this.#matrix(weight), bias: { dtype: "f32", shape: [bias.length], data: bias } };
  }
}

type Floats = TensorValue & { readonly dtype: "f32" };

interface Sizes {
  readonly experts: number;
  readonly width: number;
}

/** x [N, D] and W x + b [N, E]. */
function routed(graph: Graph, { experts, width }: Sizes) {
  const x = graph.input("x", "f32", ["rows", width]);
  const product = graph.matmul(x, graph.input("weight", "f32", [experts, width]), { transB: true });
  return { x, z: graph.add(product, graph.input("bias", "f32", [experts])) };
}

/** r [N, E], and the sum over tokens of r (1 - r) x^2 [E, D]: the diagonal of the sum of H times x x^T. */
function sharesOf(graph: Graph, sizes: Sizes): Record<string, Node> {
  const { x, z } = routed(graph, sizes);
  const shares = graph.softmax(z);
  const variances = graph.sub(shares, graph.mul(shares, shares));
  return { shares, diagonal: graph.matmul(variances, graph.mul(x, x), { transA: true }) };
}

/** The sum over tokens of H (W x + b) x^T, [E, D]. */
function productOf(graph: Graph, sizes: Sizes): Record<string, Node> {
  const { x, z } = routed(graph, sizes);
  const shares = graph.input("shares", "f32", ["rows", sizes.experts]);
  const weighed = graph.mul(shares, z);
  const curved = graph.sub(weighed, graph.mul(shares, graph.sum(weighed, [1], true)));
  return { product: graph.matmul(curved, x, { transA: true }) };
}
