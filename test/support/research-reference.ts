// References in float64 of methods from papers, without code of src/: WIDEN, and those on singular values.
import { changesOf, type Expectation, each, type Model, placeOf, type Tensor, tensorOf } from "./method-reference.js";

type Rows = readonly (readonly number[])[];

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const dot = (a: readonly number[], b: readonly number[]) => sum(a.map((x, i) => x * (b[i] as number)));
const norm = (values: readonly number[]) => Math.sqrt(dot(values, values));
const transpose = (rows: Rows) => (rows[0] ?? []).map((_, j) => rows.map((row) => row[j] as number));
const times = (a: Rows, b: Rows) => a.map((row) => transpose(b).map((column) => dot(row, column)));
const minus = (a: Rows, b: Rows) => a.map((row, i) => row.map((x, j) => x - (b[i]?.[j] as number)));
const plus = (...all: Rows[]) =>
  (all[0] as Rows).map((row, i) => row.map((_, j) => sum(all.map((one) => one[i]?.[j] as number))));

/** The matrices of a tensor, a stack of one or more; a vector is a matrix of one row. */
function matricesOf(values: readonly number[], shape: readonly number[]): Rows[] {
  const [height, width] = shape.length < 2 ? [1, values.length] : [shape.at(-2) as number, shape.at(-1) as number];
  return Array.from({ length: values.length / (height * width) }, (_, m) =>
    Array.from({ length: height }, (__, i) => values.slice((m * height + i) * width, (m * height + i + 1) * width)),
  );
}

/** base + what `merge` makes of the changes of a matrix, within a multiple of the sizes of what it adds. */
function onMatrices(
  models: readonly Model[],
  base: Model,
  merge: (changes: readonly Rows[], base: Rows, name: string, tensor: Tensor) => Rows,
  looseness: number,
): Expectation {
  const changes = models.map((model) => changesOf(model, base));
  return each(models[0] as Model, (name, tensor) => {
    const origin = tensorOf(base, name).values;
    const stacks = changes.map((change) => matricesOf(change.get(name) as number[], tensor.shape));
    const merged = matricesOf(origin, tensor.shape).map((matrix, m) =>
      merge(
        stacks.map((stack) => stack[m] as Rows),
        matrix,
        name,
        tensor,
      ),
    );
    const values = merged.flat(2).map((x, i) => x + (origin[i] as number));
    const most = Math.max(...merged.flat(2).map(Math.abs), ...stacks.flat(3).map(Math.abs), ...origin.map(Math.abs));
    return { ...tensor, values, sizes: values.map(() => looseness * most), how: "near" };
  });
}

// ---- WIDEN: arXiv 2408.03092, sections 3.2 and 3.3 ----

/** Ranks from 0, ascending, divided by their number; equal values in order. */
function ranks(values: readonly number[]): number[] {
  const order = values.map((_, i) => i).sort((a, b) => (values[a] as number) - (values[b] as number) || a - b);
  const found = values.map(() => 0);
  order.forEach((at, rank) => {
    found[at] = rank;
  });
  return found;
}

/** Softmax over models of each entry in units; those above `ratio` times the mean of their model are `score`. */
function scores(
  significance: Rows,
  unit: number,
  meanOf: (own: readonly number[]) => number,
  ratio: number,
  score: number,
): Rows {
  return significance.map((own) =>
    own.map((x, j) => {
      if (x > ratio * meanOf(own)) return score;
      return Math.exp(x / unit) / sum(significance.map((other) => Math.exp((other[j] as number) / unit)));
    }),
  );
}

export const widen = (models: readonly Model[], base: Model, ratio = 1, score = 1): Expectation =>
  onMatrices(
    models,
    base,
    (changes, origin, name, { shape }) => {
      if (shape.length < 2) {
        const own = scores(
          changes.map(([row]) => (row as readonly number[]).map(Math.abs)),
          1,
          mean,
          ratio,
          score,
        );
        return [
          (origin[0] ?? []).map((_, j) =>
            sum(changes.map(([row], i) => (row?.[j] as number) * (own[i]?.[j] as number))),
          ),
        ];
      }
      const isTable = placeOf(name).part === "embed_tokens" || name.includes("embed_tokens");
      const turn = (matrix: Rows) => (isTable ? matrix : transpose(matrix));
      const vectors = turn(origin);
      const tuned = changes.map((change) => turn(plus(origin, change)));
      const moved = tuned.map((own) => own.map((v, j) => Math.abs(norm(v) - norm(vectors[j] as number[]))));
      const turned = tuned.map((own) =>
        own.map((v, j) => {
          const from = vectors[j] as readonly number[];
          return v.every((x, i) => x === from[i]) ? 0 : 1 - dot(v, from) / (norm(v) * norm(from));
        }),
      );
      // The mean of the ranks from 0 to n - 1, to which the middle one of an odd number is equal.
      const middle = (own: readonly number[]) => (own.length - 1) / 2;
      const [m, d] = [moved, turned].map((one) => scores(one.map(ranks), vectors.length, middle, ratio, score)) as [
        Rows,
        Rows,
      ];
      const scaled = changes.map((change, i) =>
        turn(change).map((v, j) => v.map((x) => (x * ((m[i]?.[j] as number) + (d[i]?.[j] as number))) / 2)),
      );
      return turn(plus(...scaled));
    },
    3,
  );

// ---- singular values ----

interface Singular {
  /** Left vectors, singular values from the largest, right vectors. */
  readonly u: Rows;
  readonly s: readonly number[];
  readonly v: Rows;
}

/** By rotations of pairs of columns until all are orthogonal (Hestenes 1958). */
function svd(matrix: Rows): Singular {
  if (matrix.length < (matrix[0]?.length ?? 0)) {
    const { u, s, v } = svd(transpose(matrix));
    return { u: v, s, v: u };
  }
  const a = transpose(matrix).map((column) => [...column]);
  const v = a.map((_, i) => a.map((__, j) => Number(i === j)));
  for (let sweep = 0, left = 1; left > 1e-15 && sweep < 60; sweep++) {
    left = 0;
    for (let p = 0; p < a.length; p++) {
      for (let q = p + 1; q < a.length; q++) {
        const [x, y] = [a[p] as number[], a[q] as number[]];
        const [alpha, beta, gamma] = [dot(x, x), dot(y, y), dot(x, y)];
        if (gamma === 0 || alpha === 0 || beta === 0) continue;
        left = Math.max(left, Math.abs(gamma) / Math.sqrt(alpha * beta));
        const zeta = (beta - alpha) / (2 * gamma);
        const t = (zeta < 0 ? -1 : 1) / (Math.abs(zeta) + Math.sqrt(1 + zeta * zeta));
        const c = 1 / Math.sqrt(1 + t * t);
        for (const [one, two] of [
          [x, y],
          [v[p], v[q]],
        ] as [number[], number[]][]) {
          one.forEach((value, i) => {
            const other = two[i] as number;
            one[i] = c * value - c * t * other;
            two[i] = c * t * value + c * other;
          });
        }
      }
    }
  }
  const order = a.map((_, i) => i).sort((i, j) => norm(a[j] as number[]) - norm(a[i] as number[]));
  const s = order.map((i) => norm(a[i] as number[]));
  return {
    u: order.map((i, k) => (a[i] as number[]).map((x) => x / (s[k] as number))),
    s,
    v: order.map((i) => v[i] as number[]),
  };
}

/** sum s_i u_i v_i^T */
const composed = ({ u, s, v }: Singular): Rows =>
  times(transpose(u.map((x, i) => x.map((y) => y * (s[i] as number)))), v);
const top = ({ u, s, v }: Singular, rank: number): Singular => ({
  u: u.slice(0, rank),
  s: s.slice(0, rank),
  v: v.slice(0, rank),
});
const mean = (values: readonly number[]) => sum(values) / values.length;

/** The vectors nearest to given ones that are orthonormal. */
function polar(vectors: Rows): Rows {
  const { u, s, v } = svd(vectors);
  return composed({ u, s: s.map(() => 1), v });
}

/** Matrices of layers as `merge` says; of all else the mean change. */
const onLayers = (models: readonly Model[], base: Model, lambda: number, merge: (changes: readonly Rows[]) => Rows) =>
  onMatrices(
    models,
    base,
    (changes, _, name, { shape }) => {
      const isMatrix = shape.length > 1 && placeOf(name).layer !== null;
      const merged = isMatrix ? merge(changes) : plus(...changes).map((row) => row.map((x) => x / models.length));
      return merged.map((row) => row.map((x) => lambda * x));
    },
    // Factors are rounded to float32, of which a row adds up several.
    40,
  );

/** arXiv 2502.04959, algorithm 1 */
export const isoC = (models: readonly Model[], base: Model, lambda = 1): Expectation =>
  onLayers(models, base, lambda, (changes) => {
    const found = svd(plus(...changes));
    return composed({ ...found, s: found.s.map(() => mean(found.s)) });
  });

/** arXiv 2502.04959, algorithm 2 */
export const isoCts = (models: readonly Model[], base: Model, share: number): Expectation =>
  onLayers(models, base, 1, (changes) => {
    const rank = Math.min(changes[0]?.length ?? 0, changes[0]?.[0]?.length ?? 0);
    const each = (rank - Math.floor(share * rank)) / changes.length;
    // As Python rounds: of two whole numbers as near, the even one.
    const own = [Math.floor(each), Math.ceil(each)].toSorted(
      (a, b) => Math.abs(a - each) - Math.abs(b - each) || (a % 2) - (b % 2),
    )[0] as number;
    const common = top(svd(plus(...changes)), rank - own * changes.length);
    const spaces = changes.map((change) => {
      const projected = times(transpose(common.u), times(common.u, change));
      return top(svd(common.u.length > 0 ? minus(change, projected) : change), own);
    });
    const all = [...spaces, common];
    const s = all.flatMap((space) => space.s);
    return composed({
      u: polar(all.flatMap(({ u }) => u)),
      s: s.map(() => mean(s)),
      v: polar(all.flatMap(({ v }) => v)),
    });
  });

/** arXiv 2412.00081, algorithm 1 */
export const tsvM = (models: readonly Model[], base: Model): Expectation =>
  onLayers(models, base, 1, (changes) => {
    const rank = Math.min(changes[0]?.length ?? 0, changes[0]?.[0]?.length ?? 0);
    const all = changes.map((change) => top(svd(change), Math.floor(rank / changes.length)));
    return composed({
      u: polar(all.flatMap(({ u }) => u)),
      s: all.flatMap(({ s }) => s),
      v: polar(all.flatMap(({ v }) => v)),
    });
  });

/** Singular values of noise, of unit variance in a matrix of this shape, by their distribution: the median (Marchenko and Pastur 1967). */
function medianOfNoise(beta: number): number {
  const [low, high] = [(1 - Math.sqrt(beta)) ** 2, (1 + Math.sqrt(beta)) ** 2];
  // Simpson's rule over y, with x = low + (high - low) y^2, where the density's root at the lower end is smooth.
  const upTo = (end: number) => {
    const n = 4000;
    const f = (y: number) => {
      const x = low + (high - low) * y * y;
      const slope = 2 * (high - low) * y;
      return x === 0
        ? Math.sqrt(high) * 2 * Math.sqrt(high)
        : (Math.sqrt(Math.max(0, (high - x) * (x - low))) / x) * slope;
    };
    const h = end / n;
    return (h / 3) * sum(Array.from({ length: n + 1 }, (_, i) => (i === 0 || i === n ? 1 : i % 2 ? 4 : 2) * f(i * h)));
  };
  let [a, b] = [0, 1];
  for (let i = 0; i < 50; i++) {
    const middle = (a + b) / 2;
    if (upTo(middle) < upTo(1) / 2) a = middle;
    else b = middle;
  }
  return Math.sqrt(low + (high - low) * a * a);
}

/** arXiv 2605.20296, with the threshold of Gavish and Donoho (arXiv 1305.5870), equations 4 and 11 */
export const dgHard = (expert: Model, base: Model, scale = 1): Expectation =>
  onMatrices(
    [expert],
    base,
    ([change = []], _, name, { shape }) => {
      if (shape.length < 2 || placeOf(name).layer === null) return change;
      const found = svd(change);
      const [short, long] = [change.length, change[0]?.length ?? 0].toSorted((x, y) => x - y) as [number, number];
      const beta = short / long;
      const omega = Math.sqrt(2 * (beta + 1) + (8 * beta) / (beta + 1 + Math.sqrt(beta * beta + 14 * beta + 1)));
      const median =
        ((found.s[Math.floor((short - 1) / 2)] as number) + (found.s[Math.ceil((short - 1) / 2)] as number)) / 2;
      const threshold = (scale * omega * median) / medianOfNoise(beta);
      return composed({ ...found, s: found.s.map((s) => (s > threshold ? s : 0)) });
    },
    40,
  );

// ---- NuSLERP by column ----

/** The arc between the columns of two models, or of their changes. */
export const turnedColumns = (models: readonly [Model, Model], t: number, base?: Model): Expectation => {
  const zero: Model = new Map(
    [...models[0]].map(([name, tensor]) => [name, { ...tensor, values: tensor.values.map(() => 0) }]),
  );
  return onMatrices(
    models,
    base ?? zero,
    ([a = [], b = []], _, __, { shape }) => {
      const columns = (matrix: Rows) => (shape.length < 2 ? matrix : transpose(matrix));
      const other = columns(b);
      const turned = columns(a).map((v, j) => {
        const w = other[j] as readonly number[];
        const size = norm(v) * norm(w);
        const angle = Math.acos(size > 0 ? Math.max(-1, Math.min(1, dot(v, w) / size)) : 0);
        const isStraight = angle < 1e-4 || Math.PI - angle < 1e-4;
        const [p, q] = isStraight ? [1 - t, t] : [1 - t, t].map((share) => Math.sin(share * angle) / Math.sin(angle));
        return v.map((x, i) => (p as number) * x + (q as number) * (w[i] as number));
      });
      return columns(turned);
    },
    3,
  );
};
