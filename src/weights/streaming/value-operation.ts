// What can be done with values besides adding them up: the few operations that merge methods are composed of. The same
// tree of operations is written by a method over named tensors and numbers yet to be measured, and executed by a thread
// over files and numbers; what numbers, values and masks are is therefore left open here.

/**
 * An operation on values, in float32, element by element unless it says otherwise. `of` are its values, all of one shape.
 *
 * `S` stands for a number, `V` for a value, `M` for a mask over rows or columns.
 */
export type Operation<S, V, M> =
  | Subtract<V>
  | Trim<S, V>
  | TrimBy<S, V>
  | Drop<S, V>
  | DropByMagnitude<V>
  | Consensus<S, V>
  | Variance<V>
  | Approach<V>
  | Select<V, M>
  | SlerpRows<S, V>;

/** of[0] - of[1]: what an expert changed. */
export interface Subtract<V> {
  readonly op: "subtract";
  readonly of: readonly V[];
}

/** of[0] where low <= |of[0]| <= high, else 0. */
export interface Trim<S, V> {
  readonly op: "trim";
  readonly of: readonly V[];
  readonly low: S;
  readonly high: S;
}

/** of[0] where |of[1]| >= low, else 0. */
export interface TrimBy<S, V> {
  readonly op: "trim-by";
  readonly of: readonly V[];
  readonly low: S;
}

/** Each element of of[0] with probability `density`, times `scale`, else 0. The choice depends on seed and index alone. */
export interface Drop<S, V> {
  readonly op: "drop";
  readonly of: readonly V[];
  readonly density: number;
  readonly scale: S;
  readonly seed: Seed;
}

/**
 * Each element of of[0] with a probability that grows with the rank of its magnitude in its stored row, from
 * density - epsilon to density + epsilon, divided by that probability; else 0.
 */
export interface DropByMagnitude<V> {
  readonly op: "drop-by-magnitude";
  readonly of: readonly V[];
  readonly density: number;
  readonly epsilon: number;
  readonly seed: Seed;
}

/**
 * The elements that agree with the sign of their sum, averaged (or summed where not `normalize`) by weight.
 *
 * Where weights cancel out the sum is left as it is. The sign is that of sum(w_i x_i), or of sum(x_i) where not `weighted`; of a zero sum it is `tie`. Zeros agree with
 * nothing.
 */
export interface Consensus<S, V> {
  readonly op: "consensus";
  readonly of: readonly V[];
  readonly weights: readonly S[];
  readonly weighted: boolean;
  readonly normalize: boolean;
  readonly tie: S;
}

/** mean((x_i - mean(x_i))^2) over the values. */
export interface Variance<V> {
  readonly op: "variance";
  readonly of: readonly V[];
}

/** of[0] moved towards of[1] by at most `step`: a + clamp(step / |b - a|, 0, 1) (b - a). */
export interface Approach<V> {
  readonly op: "approach";
  readonly of: readonly V[];
  readonly step: number;
}

/** Rows or columns of of[0] that a mask marks, the others of of[1]. Of a stack of matrices each has its own. */
export interface Select<V, M> {
  readonly op: "select";
  readonly of: readonly V[];
  readonly mask: M;
  readonly axis: "rows" | "columns";
  /** Elements of one matrix. */
  readonly matrix: number;
}

/** Each stored row of of[0] turned towards that of of[1] by the share t of their angle; see `slerpWeights`. */
export interface SlerpRows<S, V> {
  readonly op: "slerp-rows";
  readonly of: readonly V[];
  readonly t: S;
  /** Cosine beyond which the interpolation is a straight line. */
  readonly straight: number;
}

/** Two halves of a 64-bit seed. */
export type Seed = readonly [number, number];

export type OperationName = Operation<unknown, unknown, unknown>["op"];

/** Whether an operation needs whole stored rows at once. */
export function needsRows({ op }: { readonly op: OperationName }): boolean {
  return op === "drop-by-magnitude" || op === "select" || op === "slerp-rows";
}

/** The same operation over other numbers, values and masks. */
export function mapOperation<S, V, M, S2, V2, M2>(
  operation: Operation<S, V, M>,
  to: { readonly value: (value: V) => V2; readonly number: (number: S) => S2; readonly mask: (mask: M) => M2 },
): Operation<S2, V2, M2> {
  const of = operation.of.map(to.value);
  switch (operation.op) {
    case "trim":
      return { ...operation, of, low: to.number(operation.low), high: to.number(operation.high) };
    case "trim-by":
      return { ...operation, of, low: to.number(operation.low) };
    case "drop":
      return { ...operation, of, scale: to.number(operation.scale) };
    case "consensus":
      return { ...operation, of, weights: operation.weights.map(to.number), tie: to.number(operation.tie) };
    case "select":
      return { ...operation, of, mask: to.mask(operation.mask) };
    case "slerp-rows":
      return { ...operation, of, t: to.number(operation.t) };
    default:
      return { ...operation, of };
  }
}

/** The numbers of an operation, whatever they stand for. */
export function numbersOf<S, V, M>(operation: Operation<S, V, M>): S[] {
  const numbers: S[] = [];
  mapOperation(operation, {
    value: () => undefined,
    mask: () => undefined,
    number: (number) => {
      numbers.push(number);
    },
  });
  return numbers;
}

/**
 * Weights of v0 and v1 in their spherical interpolation: sin((1 - t) W) / sin W and sin(t W) / sin W with W the angle
 * between them; (1 - t) and t where |cos W| > `straight`, as the sine is too small to divide by, or where one of them is
 * zero. Shoemake 1985.
 */
export function slerpWeights(
  dot: number,
  square0: number,
  square1: number,
  t: number,
  straight: number,
): readonly [number, number] {
  const size = Math.sqrt(square0) * Math.sqrt(square1);
  const cosine = size > 0 ? dot / size : 1;
  if (!(Math.abs(cosine) <= straight)) return [1 - t, t];
  const angle = Math.acos(cosine);
  return [Math.sin((1 - t) * angle) / Math.sin(angle), Math.sin(t * angle) / Math.sin(angle)];
}
