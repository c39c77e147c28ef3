// Plain references for the kernels that combine several arrays.

const at = (array: ArrayLike<number>, i: number) => array[i] as number;

/** Of each element, the largest by magnitude: of equal ones the last. A NaN is the largest; of several, it is one. */
export function largest(all: readonly Float32Array[]): Float32Array {
  return Float32Array.from(all[0] ?? [], (_, i) =>
    all.map((array) => at(array, i)).reduce((most, x) => (Number.isNaN(x) || Math.abs(x) >= Math.abs(most) ? x : most)),
  );
}

/** The sum where at least `agree` elements are larger than `threshold` times the sum of the others, else 0. */
export function needed(all: readonly Float32Array[], threshold: number, agree: number): Float32Array {
  return Float32Array.from(all[0] ?? [], (_, i) => {
    const own = all.map((array) => at(array, i));
    const sum = own.reduce((total, x) => total + x, 0);
    return own.filter((x) => Math.abs(x) > threshold * Math.abs(sum - x)).length >= agree ? sum : 0;
  });
}

/** The mean of what is not zero, times `shared`; where that is one element, times the number of `alone` instead. */
export function unite(all: readonly Float32Array[], alone: readonly number[], shared: number): Float32Array {
  return Float32Array.from(all[0] ?? [], (_, i) => {
    const used = all.flatMap((array, k) => (at(array, i) === 0 ? [] : [k]));
    const sum = used.reduce((total, k) => total + at(all[k] as Float32Array, i), 0);
    if (used.length === 0) return 0;
    return used.length === 1 ? sum * (alone[used[0] as number] as number) : (shared * sum) / used.length;
  });
}

/** The sum of arrays of rows, each row or column times its factor: [arrays, lines]. */
export function scaleLines(
  all: readonly Float32Array[],
  columns: number,
  factors: Float32Array,
  byColumn: boolean,
): Float32Array {
  const lines = factors.length / all.length;
  return Float32Array.from(all[0] ?? [], (_, i) => {
    const line = byColumn ? i % columns : Math.floor(i / columns);
    return all.reduce((sum, array, k) => sum + at(factors, k * lines + line) * at(array, i), 0);
  });
}

/** The sums of a b over each column, from `before` on. */
export function columnProducts(
  a: Float32Array,
  b: Float32Array,
  columns: number,
  before: Float64Array = new Float64Array(columns),
): Float64Array {
  const sums = before.slice();
  for (const [i, x] of a.entries()) sums[i % columns] = at(sums, i % columns) + x * at(b, i);
  return sums;
}

/** The sum of a b over each row. */
export function rowProducts(a: Float32Array, b: Float32Array, columns: number): Float64Array {
  const sums = new Float64Array(a.length / columns);
  for (const [i, x] of a.entries()) {
    const row = Math.floor(i / columns);
    sums[row] = at(sums, row) + x * at(b, i);
  }
  return sums;
}

/** |a - b| times the Kullback-Leibler divergence of the softmaxes of their rows plus 1e-8. */
export function importance(a: Float32Array, b: Float32Array, columns: number): Float32Array {
  const result = a.slice();
  for (let from = 0; from < a.length; from += columns) {
    const [p, q] = [a, b].map((all) => softmax(all.subarray(from, from + columns))) as [Float64Array, Float64Array];
    const divergence = p.reduce((sum, x, i) => sum + x * Math.log(x / at(q, i)), 0);
    for (let i = from; i < from + columns; i++) result[i] = Math.abs(at(a, i) - at(b, i)) * divergence;
  }
  return result;
}

function softmax(row: Float32Array): Float64Array {
  const most = row.reduce((x, y) => Math.max(x, y), Number.NEGATIVE_INFINITY);
  const powers = Float64Array.from(row, (x) => Math.exp(x - most));
  const sum = powers.reduce((x, y) => x + y, 0);
  return powers.map((x) => x / sum + 1e-8);
}
