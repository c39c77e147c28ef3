// Plain references for the kernels of merge methods.

const round = Math.fround;

/** a = a - b */
export function subtract(a: Float32Array, b: Float32Array): void {
  for (let i = 0; i < a.length; i++) a[i] = (a[i] ?? 0) - (b[i] ?? 0);
}

/**
 * a = 0 where |by| < low or |by| > high; what is NaN stays. Sizes are compared as float32, which is what order statistics
 * are found among.
 */
export function trimBy(a: Float32Array, by: Float32Array, low: number, high: number): void {
  for (let i = 0; i < a.length; i++) {
    const size = Math.fround(Math.abs(by[i] ?? 0));
    if (size < low || size > high) a[i] = 0;
  }
}

/**
 * The random number of an element under a seed, uniform over 0..2^32-1. A function of both alone: an integer hash of three
 * rounds (the constants of "triple32", by C. Wellons), with half of the seed in each of the first two. Seeds are to be
 * hashes themselves: indices and first halves that differ alike meet.
 */
export function uniform(index: number, seed0: number, seed1: number): number {
  let x = index ^ seed0;
  x = Math.imul(x ^ (x >>> 17), 0xed5ad4bb);
  x = Math.imul(x ^ (x >>> 11) ^ seed1, 0xac4c1b51);
  x = Math.imul(x ^ (x >>> 15), 0x31848bab);
  return (x ^ (x >>> 14)) >>> 0;
}

/** a = a * scale where the element's random number is below `bound` (of 2^32), else 0. */
export function drop(a: Float32Array, index: number, seed0: number, seed1: number, bound: number, scale: number): void {
  for (let i = 0; i < a.length; i++) a[i] = uniform(index + i, seed0, seed1) < bound ? (a[i] ?? 0) * scale : 0;
}

/** The weighted mean (or sum) of the elements that have the sign of the elements' sum, to the first array. */
export function electSigns(
  arrays: readonly Float32Array[],
  weights: readonly number[],
  tie: number,
  weighted: boolean,
  normalize: boolean,
): void {
  const [first] = arrays;
  if (!first) return;
  for (let i = 0; i < first.length; i++) {
    const votes = arrays.map((array, k) => (weighted ? round((array[i] ?? 0) * (weights[k] ?? 0)) : (array[i] ?? 0)));
    const total = votes.reduce((sum, vote) => round(sum + vote), 0);
    const sign = total === 0 ? Math.sign(tie) : Math.sign(total);
    let sum = 0;
    let share = 0;
    arrays.forEach((array, k) => {
      if (sign === 0 || Math.sign(votes[k] ?? 0) !== sign) return;
      const weight = weights[k] ?? 0;
      sum = round(sum + round((array[i] ?? 0) * weight));
      share = round(share + weight);
    });
    first[i] = Number.isNaN(total) ? total : !normalize || share === 0 ? sum : sum / share;
  }
}

/**
 * The population variance of arrays, element by element, to the first of them; computed in float64, rounded once.
 * Computed on differences from the first, so equal elements have variance 0.
 */
export function variance(arrays: readonly Float32Array[]): void {
  const [first] = arrays;
  if (!first) return;
  for (let i = 0; i < first.length; i++) {
    const shifted = arrays.slice(1).map((array) => (array[i] ?? 0) - (first[i] ?? 0));
    const sum = shifted.reduce((total, y) => total + y, 0);
    const squares = shifted.reduce((total, y) => total + y * y, 0);
    const share = 1 / arrays.length;
    first[i] = (squares - sum * sum * share) * share;
  }
}

/** a = a moved towards b by at most `step`. */
export function approach(a: Float32Array, b: Float32Array, step: number): void {
  for (let i = 0; i < a.length; i++) {
    const x = a[i] ?? 0;
    const y = b[i] ?? 0;
    const d = round(y - x);
    if (Number.isNaN(d)) a[i] = d;
    else a[i] = Math.abs(d) > step ? x + (d < 0 ? -step : step) : y;
  }
}

/** a = b in the columns that the mask (-1 or 0 per column) does not mark. */
export function selectColumns(a: Float32Array, b: Float32Array, mask: Int32Array): void {
  for (let i = 0; i < a.length; i++) if (mask[i % mask.length] === 0) a[i] = b[i] ?? 0;
}

/**
 * Counts the keys of magnitudes below `from` in counts[0], and those of ranges of 2^shift keys from there on behind it: the first
 * key of a range and the others apart.
 */
export function countKeys(a: Float32Array, from: number, shift: number, counts: Uint32Array): void {
  for (const bits of new Uint32Array(a.buffer, a.byteOffset, a.length)) {
    const key = bits & 0x7fffffff;
    const range = Math.floor((key - from) / 2 ** shift);
    const inside = shift === 0 ? range : 2 * range + (key - from === range * 2 ** shift ? 0 : 1);
    const at = key < from ? 0 : 1 + inside;
    if (at < counts.length) counts[at] = (counts[at] ?? 0) + 1;
  }
}

/** How many elements are positive, and how many negative. */
export function countSigns(a: Float32Array): [positive: number, negative: number] {
  let [positive, negative] = [0, 0];
  for (const x of a) {
    if (x > 0) positive++;
    else if (x < 0) negative++;
  }
  return [positive, negative];
}

/** Keeps each element of one row with a probability that grows with the rank of its magnitude, perhaps divided by it. */
export function dropByRank(
  a: Float32Array,
  index: number,
  seed0: number,
  seed1: number,
  density: number,
  epsilon: number,
  divide: boolean,
): void {
  const n = a.length;
  // As bfloat16, cut: what is not a number ranks by its bits, as infinity or above.
  const keys = Uint16Array.from(new Uint32Array(a.slice().buffer), (bits) => (bits & 0x7fffffff) >>> 16);
  const sorted = keys.toSorted();
  const low = n > 1 ? round(round(density) - round(epsilon)) : round(density);
  const step = n > 1 ? round(round(epsilon) / (n - 1)) : 0;
  for (const [position, key] of keys.entries()) {
    const twiceTheRank = sorted.indexOf(key) + sorted.lastIndexOf(key); // the mean of the ranks of equals
    const probability = Math.min(round(low + round(twiceTheRank * step)), 1);
    const isKept = (uniform(index + position, seed0, seed1) >>> 8) / 2 ** 24 < probability;
    a[position] = isKept ? (a[position] ?? 0) / (divide ? probability : 1) : 0;
  }
}
