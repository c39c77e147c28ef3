// The operations that merge methods are composed of: their fields, and how a thread computes them.
import type { Kernels } from "../kernels/kernels.js";
import { callCode } from "./own-code.js";

/**
 * Field types of operations: source tensors and measured numbers in a plan, file bytes and known numbers on a thread.
 */
export interface Terms {
  readonly number: unknown;
  readonly value: unknown;
  /** Selects rows or columns. */
  readonly mask: unknown;
  /** A number for each row or column of each value. */
  readonly factors: unknown;
}

/** Two halves of a 64-bit seed. */
export type Seed = readonly [number, number];

interface FieldTypes<T extends Terms> {
  readonly number: T["number"];
  readonly numberPerValue: readonly T["number"][];
  readonly numbers: readonly T["number"][];
  readonly mask: T["mask"];
  readonly factors: T["factors"];
  readonly text: string;
  /** From 0 to 1. */
  readonly share: number;
  /** 0 or more. */
  readonly size: number;
  /** 1 or more. */
  readonly count: number;
  readonly flag: boolean;
  readonly axis: "rows" | "columns";
  readonly seed: Seed;
}

export type FieldKind = keyof FieldTypes<Terms>;

type Fields = Readonly<Record<string, FieldKind>>;
type FieldsOf<F extends Fields, T extends Terms> = { readonly [Name in keyof F]: FieldTypes<T>[F[Name]] };

/** Terms on a thread. A mask has one byte per row or column, 1 if selected. */
interface BoundTerms extends Terms {
  readonly number: number;
  readonly mask: Uint8Array;
  readonly factors: Float32Array;
}

/** Elements of a tensor that are computed at once. */
export interface Block {
  /** First element, counted among the evaluated elements. */
  readonly begin: number;
  /** First element, counted in the whole tensor; differs from `begin` if only a part is evaluated. */
  readonly index: number;
  readonly length: number;
  /** Elements in a stored row. */
  readonly columns: number;
}

/** Memory that operations may use. */
export interface Workspace {
  readonly kernels: Kernels;
  /** Space for an address of each value. */
  readonly table: number;
  /** Space for a weight of each value. */
  readonly weights: number;
  readonly scratch: number;
}

interface Declaration<F extends Fields> {
  /** Number of values, all of one shape; any number from 1 if not given, 0 for a tensor that no source has. */
  readonly values?: number;
  readonly fields: F;
  /** Whether it needs whole stored rows at once. */
  readonly wholeRows?: true;
  /** Bytes of scratch memory for rows of this many elements. */
  readonly scratch?: (columns: number) => number;
  /** Computes a block in float32. `buffers` are addresses of the values; the result replaces the first. */
  readonly apply: (
    buffers: readonly number[],
    fields: FieldsOf<F, BoundTerms>,
    block: Block,
    workspace: Workspace,
  ) => void;
}

function declare<const F extends Fields>(declaration: Declaration<F>): Declaration<F> {
  return declaration;
}

/** Number of values of a 32-bit draw. */
const DRAWS = 2 ** 32;
/** Counters for ranking a row. */
const COUNTS_BYTES = 4096 * 4;

/** Every operation by name. `of` are its values. */
export const OPERATIONS = {
  /** of[0] - of[1]: what an expert changed. */
  subtract: declare({
    values: 2,
    fields: {},
    apply: ([a = 0, b = 0], _, { length }, { kernels }) => kernels.wasm.subtract(a, b, length),
  }),

  /** of[0] where low <= |of[0]| <= high, else 0. */
  trim: declare({
    values: 1,
    fields: { low: "number", high: "number" },
    apply: ([a = 0], { low, high }, { length }, { kernels }) => kernels.wasm.trimBy(a, a, length, low, high),
  }),

  /** of[0] where |of[1]| >= low, else 0. */
  "trim-by": declare({
    values: 2,
    fields: { low: "number" },
    apply: ([a = 0, b = 0], { low }, { length }, { kernels }) => kernels.wasm.trimBy(a, b, length, low, Infinity),
  }),

  /**
   * of[0] where low <= |last value| <= high, else 0; where that equals `low`, only before the index `before`, and where it
   * equals `high`, only from the index `from` on.
   */
  cut: declare({
    fields: { low: "number", before: "number", high: "number", from: "number" },
    apply: (buffers, { low, before, high, from }, { index, length }, { kernels }) => {
      const [a = 0] = buffers;
      const by = buffers.at(-1) ?? a;
      kernels.wasm.trimBy(a, by, length, low, high);
      const [values, sizes] = [kernels.floats(a, length), kernels.floats(by, length)];
      for (let i = Math.max(0, before - index); i < length; i++) {
        if (Math.abs(sizes[i] as number) === low) values[i] = 0;
      }
      for (let i = 0; i < Math.min(length, from - index); i++) {
        if (Math.abs(sizes[i] as number) === high) values[i] = 0;
      }
    },
  }),

  /** Each element of of[0] with probability `density`, times `scale`, else 0. Depends only on seed and index. */
  drop: declare({
    values: 1,
    fields: { density: "share", scale: "number", seed: "seed" },
    apply: ([a = 0], { density, scale, seed }, { index, length }, { kernels }) => {
      const kept = Math.round(density * DRAWS);
      if (kept >= DRAWS) kernels.wasm.scaleF32(a, a, length, scale);
      else kernels.wasm.drop(a, length, index, ...seed, kept, scale);
    },
  }),

  /**
   * Each element of of[0] with a probability that grows with the rank of its magnitude in its stored row, from
   * density - epsilon to density + epsilon, divided by that probability if `divide`; else 0.
   */
  "drop-by-magnitude": declare({
    values: 1,
    fields: { density: "share", epsilon: "share", divide: "flag", seed: "seed" },
    wholeRows: true,
    scratch: (columns) => COUNTS_BYTES + columns * 16 + 128,
    apply: ([a = 0], { density, epsilon, divide, seed }, { index, length, columns }, { kernels, scratch }) => {
      for (let at = 0; at < length; at += columns) {
        kernels.wasm.dropByMagnitude(
          a + at * 4,
          columns,
          index + at,
          ...seed,
          density,
          epsilon,
          divide,
          scratch + COUNTS_BYTES,
          scratch,
        );
      }
    },
  }),

  /**
   * The elements that agree with the sign of their sum, averaged (or summed where not `normalize`) by weight. Where
   * weights cancel out the sum is left as it is. The sign is that of sum(w_i x_i), or of sum(x_i) where not `weighted`;
   * of a zero sum it is `tie`. Zeros agree with nothing.
   */
  consensus: declare({
    fields: { weights: "numberPerValue", weighted: "flag", normalize: "flag", tie: "number" },
    apply: (buffers, { weights, weighted, normalize, tie }, { length }, workspace) => {
      const { kernels, table } = workspace;
      kernels.counters(table, buffers.length).set(buffers);
      kernels.floats(workspace.weights, buffers.length).set(weights);
      kernels.wasm.consensus(table, workspace.weights, buffers.length, length, tie, weighted, normalize);
    },
  }),

  /** mean((x_i - mean(x_i))^2) over the values. */
  variance: declare({
    fields: {},
    apply: (buffers, _, { length }, { kernels, table }) => {
      kernels.counters(table, buffers.length).set(buffers);
      kernels.wasm.variance(table, buffers.length, length);
    },
  }),

  /** |of[0] - of[1]| over the sum of the sizes of the other values, which counts as at least `floor`. */
  deviation: declare({
    fields: { floor: "size" },
    apply: (buffers, { floor }, { length }, { kernels }) => {
      const [into, other, ...sizes] = buffers.map((buffer) => kernels.floats(buffer, length)) as [
        Float32Array,
        Float32Array,
        ...Float32Array[],
      ];
      for (let i = 0; i < length; i++) {
        let size = 0;
        for (const value of sizes) size += Math.abs(value[i] as number);
        into[i] = Math.abs((into[i] as number) - (other[i] as number)) / Math.max(floor, size);
      }
    },
  }),

  /** of[0] moved towards of[1] by at most `step`: a + clamp(step / |b - a|, 0, 1) (b - a). */
  approach: declare({
    values: 2,
    fields: { step: "size" },
    apply: ([a = 0, b = 0], { step }, { length }, { kernels }) => kernels.wasm.approach(a, b, length, step),
  }),

  /**
   * Rows or columns of of[0] where the mask selects them, else of[1]. In a stack, each matrix of `matrix` elements has
   * its own mask.
   */
  select: declare({
    values: 2,
    fields: { mask: "mask", axis: "axis", matrix: "count" },
    wholeRows: true,
    scratch: (columns) => columns * 4,
    apply: ([a = 0, b = 0], fields, block, { kernels, scratch }) => {
      const { index, length, columns } = block;
      if (fields.axis === "rows") {
        const [into, from] = [kernels.floats(a, length), kernels.floats(b, length)];
        for (let at = 0; at < length; at += columns) {
          if (fields.mask[(index + at) / columns] !== 1) into.set(from.subarray(at, at + columns), at);
        }
      } else {
        eachMatrix(fields, block, (mask, from, count) => {
          kernels.integers(scratch, mask.length).set(Int32Array.from(mask, (marked) => -marked));
          kernels.wasm.selectColumns(a + from * 4, b + from * 4, count / columns, columns, scratch);
        });
      }
    },
  }),

  /**
   * The sum of the values, each row or column of each times its own factor. Factors are [values, lines], for each matrix
   * of `matrix` elements.
   */
  "scale-lines": declare({
    fields: { factors: "factors", axis: "axis", matrix: "count" },
    wholeRows: true,
    apply: (buffers, { factors, axis, matrix }, { index, length, columns }, { kernels }) => {
      const values = buffers.map((buffer) => kernels.floats(buffer, length));
      const into = values[0] as Float32Array;
      const lines = axis === "columns" ? columns : matrix / columns;
      for (let i = 0; i < length; i++) {
        const at = (index + i) % matrix;
        let line = ((index + i - at) / matrix) * values.length * lines;
        line += axis === "columns" ? at % columns : Math.floor(at / columns);
        let sum = 0;
        for (let k = 0; k < values.length; k++) {
          sum += (factors[line + k * lines] as number) * ((values[k] as Float32Array)[i] as number);
        }
        into[i] = sum;
      }
    },
  }),

  /** The values of each matrix merged by a rule, with a number. The evaluator calls `mergeMatrix`, as it takes all rows. */
  "whole-matrix": declare({
    fields: { rule: "text", number: "size", matrix: "count" },
    wholeRows: true,
    apply: () => undefined,
  }),

  /**
   * The mean of the values that are not zero, times `shared`; where only one is not zero, that value times its `alone`.
   */
  unite: declare({
    fields: { alone: "numberPerValue", shared: "number" },
    apply: (buffers, { alone, shared }, { length }, { kernels }) => {
      const values = buffers.map((buffer) => kernels.floats(buffer, length));
      const into = values[0] as Float32Array;
      for (let i = 0; i < length; i++) {
        let [sum, count, last] = [0, 0, 0];
        for (let k = 0; k < values.length; k++) {
          const x = (values[k] as Float32Array)[i] as number;
          if (x === 0) continue;
          sum += x;
          count++;
          last = k;
        }
        into[i] = count === 0 ? 0 : count === 1 ? sum * (alone[last] as number) : (shared * sum) / count;
      }
    },
  }),

  /** The sum of the values where at least `agree` of them are larger than `threshold` times the sum of the others, else 0. */
  needed: declare({
    fields: { threshold: "size", agree: "count" },
    apply: (buffers, { threshold, agree }, { length }, { kernels }) => {
      const values = buffers.map((buffer) => kernels.floats(buffer, length));
      const into = values[0] as Float32Array;
      for (let i = 0; i < length; i++) {
        let [sum, count] = [0, 0];
        for (const value of values) sum += value[i] as number;
        for (const value of values) {
          const x = value[i] as number;
          if (Math.abs(x) > threshold * Math.abs(sum - x)) count++;
        }
        into[i] = count >= agree ? sum : 0;
      }
    },
  }),

  /**
   * |of[0] - of[1]| times the Kullback-Leibler divergence of the softmaxes of their stored rows, each plus 1e-8, float64.
   */
  importance: declare({
    values: 2,
    fields: {},
    wholeRows: true,
    apply: ([a = 0, b = 0], _, { length, columns }, { kernels }) => {
      const [into, other] = [kernels.floats(a, length), kernels.floats(b, length)];
      for (let at = 0; at < length; at += columns) {
        const [p, q] = [into, other].map((all) => softmax(all.subarray(at, at + columns)));
        const divergence = (p as Float64Array).reduce(
          (sum, x, i) => sum + x * Math.log(x / ((q as Float64Array)[i] as number)),
          0,
        );
        for (let i = at; i < at + columns; i++)
          into[i] = Math.abs((into[i] as number) - (other[i] as number)) * divergence;
      }
    },
  }),

  /** The average of of[0], of[2], ... by of[1], of[3], ..., each at least `floor`, times the weight of each. */
  weigh: declare({
    fields: { weights: "numberPerValue", floor: "size" },
    apply: (buffers, { weights, floor }, { length }, { kernels }) => {
      const values = buffers.map((buffer) => kernels.floats(buffer, length));
      const into = values[0] as Float32Array;
      for (let i = 0; i < length; i++) {
        // Of differences from the first, so that equal values stay as they are.
        const first = into[i] as number;
        let [total, sum] = [0, 0];
        for (let k = 0; k < values.length; k += 2) {
          const weight = (weights[k] as number) * Math.max(floor, values[k + 1]?.[i] as number);
          total += weight;
          sum += weight * ((values[k]?.[i] as number) - first);
        }
        into[i] = first + sum / total;
      }
    },
  }),

  /** The mean of each stored row of the values times Model Stock's ratio for the angles between them in that row. */
  "stock-rows": declare({
    fields: {},
    wholeRows: true,
    apply: (buffers, _, { length, columns }, { kernels }) => {
      const values = buffers.map((buffer) => kernels.floats(buffer, length));
      const into = values[0] as Float32Array;
      for (let at = 0; at < length; at += columns) {
        const rows = values.map((all) => all.subarray(at, at + columns));
        const gram = rows.map((x) => rows.map((y) => x.reduce((sum, one, i) => sum + one * (y[i] as number), 0)));
        const ratio = stockRatio(gram) / values.length;
        for (let i = 0; i < columns; i++) {
          into[at + i] = ratio * rows.reduce((sum, row) => sum + (row[i] as number), 0);
        }
      }
    },
  }),

  /** Known values from `at` on, as [rows, columns]: a tensor that no source has. */
  given: declare({
    values: 0,
    fields: { values: "factors", at: "size", rows: "count", columns: "count" },
    apply: ([a = 0], { values, at }, { index, length }, { kernels }) =>
      kernels.floats(a, length).set(values.subarray(at + index, at + index + length)),
  }),

  /** A function of a user's file, which `code` names by its digest. */
  call: declare({
    fields: { code: "text", function: "text", numbers: "numbers" },
    wholeRows: true,
    apply: (buffers, { code, function: name, numbers }, { length, columns }, { kernels }) => {
      const values = buffers.map((buffer) => kernels.floats(buffer, length));
      callCode(code, name, values, numbers, columns);
    },
  }),

  /** Each stored row of of[0] turned towards that of of[1] by the share t of their angle; see `slerpWeights`. */
  "slerp-rows": declare({
    values: 2,
    fields: { t: "number", straight: "share" },
    wholeRows: true,
    apply: ([a = 0, b = 0], { t, straight }, { length, columns }, { kernels }) => {
      const [into, other] = [kernels.floats(a, length), kernels.floats(b, length)];
      for (let at = 0; at < length; at += columns) {
        let [dot, square0, square1] = [0, 0, 0];
        for (let i = at; i < at + columns; i++) {
          const [x, y] = [into[i] ?? 0, other[i] ?? 0];
          dot += x * y;
          square0 += x * x;
          square1 += y * y;
        }
        const [weight0, weight1] = slerpWeights(dot, square0, square1, t, straight);
        for (let i = at; i < at + columns; i++) into[i] = weight0 * (into[i] ?? 0) + weight1 * (other[i] ?? 0);
      }
    },
  }),
} as const;

export type OperationName = keyof typeof OPERATIONS;

type OperationOf<Name extends OperationName, T extends Terms> = {
  readonly op: Name;
  readonly of: readonly T["value"][];
} & FieldsOf<(typeof OPERATIONS)[Name]["fields"], T>;

export type Operation<T extends Terms> = { [Name in OperationName]: OperationOf<Name, T> }[OperationName];

export function declarationOf({ op }: { readonly op: OperationName }): Declaration<Fields> {
  return OPERATIONS[op] as unknown as Declaration<Fields>;
}

/** The same operation over other terms. */
export function mapOperation<From extends Terms, To extends Terms>(
  operation: Operation<From>,
  to: {
    readonly value: (value: From["value"]) => To["value"];
    readonly number: (number: From["number"]) => To["number"];
    readonly mask: (mask: From["mask"]) => To["mask"];
    readonly factors: (factors: From["factors"]) => To["factors"];
  },
): Operation<To> {
  const fields = { ...operation, of: operation.of.map(to.value) } as Record<string, unknown>;
  for (const [name, kind] of Object.entries(declarationOf(operation).fields)) {
    if (kind === "number") fields[name] = to.number(fields[name]);
    else if (kind === "numberPerValue" || kind === "numbers")
      fields[name] = (fields[name] as From["number"][]).map(to.number);
    else if (kind === "mask") fields[name] = to.mask(fields[name]);
    else if (kind === "factors") fields[name] = to.factors(fields[name]);
  }
  return fields as Operation<To>;
}

/** The parts of a block that are in one matrix each, with that matrix's mask of columns. */
function eachMatrix(
  { mask, matrix }: { readonly mask: Uint8Array; readonly matrix: number },
  { index, length, columns }: Block,
  each: (mask: Uint8Array, from: number, length: number) => void,
): void {
  for (let from = 0; from < length; ) {
    const number = Math.floor((index + from) / matrix);
    const until = Math.min(length, (number + 1) * matrix - index);
    each(mask.subarray(number * columns, (number + 1) * columns), from, until - from);
    from = until;
  }
}

/** Softmax of a row plus 1e-8, as mergekit takes it. */
function softmax(row: Float32Array): Float64Array {
  const most = row.reduce((x, y) => Math.max(x, y), Number.NEGATIVE_INFINITY);
  const powers = Float64Array.from(row, (x) => Math.exp(x - most));
  const sum = powers.reduce((x, y) => x + y, 0);
  return powers.map((x) => x / sum + 1e-8);
}

/**
 * Model Stock's interpolation ratio t = N cos / (1 + (N - 1) cos), cos the mean cosine of pairs of changes; 0 if these point
 * away from each other. arXiv 2403.19522, equation 1.
 * @param gram dot products of the changes, [N, N]
 */
export function stockRatio(gram: readonly (readonly number[])[]): number {
  const cosines = gram.flatMap((row, i) =>
    row.slice(i + 1).map((product, k) => {
      const size = Math.sqrt(row[i] ?? 0) * Math.sqrt(gram[i + 1 + k]?.[i + 1 + k] ?? 0);
      return size > 0 ? product / size : 0;
    }),
  );
  const mean = cosines.reduce((sum, cosine) => sum + cosine, 0) / cosines.length;
  return mean <= 0 ? 0 : (gram.length * mean) / (1 + (gram.length - 1) * mean);
}

/**
 * Weights of v0 and v1 in their spherical interpolation: sin((1 - t) W) / sin W and sin(t W) / sin W with W the angle
 * between them; (1 - t) and t where |cos W| > `straight`, as the sine is too small to divide by. A zero vector has no
 * direction and counts as a right angle, as in mergekit: a change of few elements is nearly at right angles to another.
 * Shoemake 1985.
 */
export function slerpWeights(
  dot: number,
  square0: number,
  square1: number,
  t: number,
  straight: number,
): readonly [number, number] {
  const size = Math.sqrt(square0) * Math.sqrt(square1);
  const cosine = size > 0 ? dot / size : 0;
  if (!(Math.abs(cosine) <= straight)) return [1 - t, t];
  const angle = Math.acos(cosine);
  return [Math.sin((1 - t) * angle) / Math.sin(angle), Math.sin(t * angle) / Math.sin(angle)];
}
