// Element-wise operations of merge methods, over float32 buffers, four elements at a time.
import { countLanes, increment } from "./lanes";

/** a = a - b */
export function subtract(a: usize, b: usize, n: i32): void {
  for (let i = 0; i < n; i += 8) {
    v128.store(a, f32x4.sub(v128.load(a), v128.load(b)));
    v128.store(a, f32x4.sub(v128.load(a, 16), v128.load(b, 16)), 16);
    a += 32;
    b += 32;
  }
}

/** a = 0 where |by| < low or |by| > high; what is NaN stays. `a` and `by` may be one buffer. */
export function trimBy(a: usize, by: usize, n: i32, low: f32, high: f32): void {
  const least = f32x4.splat(low);
  const most = f32x4.splat(high);
  for (let i = 0; i < n; i += 4) {
    const size = f32x4.abs(v128.load(by));
    const dropped = v128.or(f32x4.lt(size, least), f32x4.gt(size, most));
    v128.store(a, v128.andnot(v128.load(a), dropped));
    a += 16;
    by += 16;
  }
}

/**
 * Out of `count` buffers, whose addresses are in `buffers` and weights (float32) in `weights`: the weighted mean (or
 * sum) of the elements that have the sign of the elements' sum. Writes to the first buffer.
 */
export function electSigns(
  buffers: usize,
  weights: usize,
  count: i32,
  n: i32,
  tie: f32,
  weighted: i32,
  normalize: i32,
): void {
  // Two vectors at a time, so each table lookup serves eight elements.
  const zero = f32x4.splat(0);
  const one = f32x4.splat(1);
  const ofTie = f32x4.splat(tie);
  const first = <usize>load<u32>(buffers);
  const tableEnd = buffers + (<usize>count << 2);
  const end = <usize>n << 2;
  for (let at: usize = 0; at < end; at += 32) {
    let vote0 = zero;
    let vote1 = zero;
    let w = weights;
    for (let entry = buffers; entry < tableEnd; entry += 4) {
      const from = <usize>load<u32>(entry) + at;
      const share = weighted ? v128.load32_splat(w) : one;
      vote0 = f32x4.add(vote0, f32x4.mul(v128.load(from), share));
      vote1 = f32x4.add(vote1, f32x4.mul(v128.load(from, 16), share));
      w += 4;
    }
    vote0 = v128.bitselect(ofTie, vote0, f32x4.eq(vote0, zero));
    vote1 = v128.bitselect(ofTie, vote1, f32x4.eq(vote1, zero));
    let sum0 = zero;
    let sum1 = zero;
    let share0 = zero;
    let share1 = zero;
    w = weights;
    for (let entry = buffers; entry < tableEnd; entry += 4) {
      const from = <usize>load<u32>(entry) + at;
      const weight = v128.load32_splat(w);
      // A negative weight reverses a change and its vote.
      const turn = weighted ? weight : one;
      const x0 = v128.load(from);
      const x1 = v128.load(from, 16);
      const agrees0 = sameSign(f32x4.mul(x0, turn), vote0);
      const agrees1 = sameSign(f32x4.mul(x1, turn), vote1);
      sum0 = f32x4.add(sum0, v128.and(f32x4.mul(x0, weight), agrees0));
      sum1 = f32x4.add(sum1, v128.and(f32x4.mul(x1, weight), agrees1));
      share0 = f32x4.add(share0, v128.and(weight, agrees0));
      share1 = f32x4.add(share1, v128.and(weight, agrees1));
      w += 4;
    }
    if (normalize) {
      sum0 = v128.bitselect(sum0, f32x4.div(sum0, share0), f32x4.eq(share0, zero));
      sum1 = v128.bitselect(sum1, f32x4.div(sum1, share1), f32x4.eq(share1, zero));
    }
    v128.store(first + at, v128.bitselect(vote0, sum0, f32x4.ne(vote0, vote0)));
    v128.store(first + at, v128.bitselect(vote1, sum1, f32x4.ne(vote1, vote1)), 16);
  }
}

/** Where x and the vote are both positive or both negative. */
@inline
function sameSign(x: v128, vote: v128): v128 {
  const zero = f32x4.splat(0);
  return v128.or(
    v128.and(f32x4.gt(x, zero), f32x4.gt(vote, zero)),
    v128.and(f32x4.lt(x, zero), f32x4.lt(vote, zero)),
  );
}

/** Adds to `total` (float64) the sum of a[i] b[i], each product exact in float64; what follows the last element is zero. */
export function addProducts(a: usize, b: usize, n: i32, total: usize): void {
  let low = f64x2.splat(0);
  let high = f64x2.splat(0);
  for (let i = 0; i < n; i += 4) {
    const x = v128.load(a);
    const y = v128.load(b);
    low = f64x2.add(low, f64x2.mul(f64x2.promote_low_f32x4(x), f64x2.promote_low_f32x4(y)));
    const xs = v128.shuffle<i64>(x, x, 1, 0);
    const ys = v128.shuffle<i64>(y, y, 1, 0);
    high = f64x2.add(high, f64x2.mul(f64x2.promote_low_f32x4(xs), f64x2.promote_low_f32x4(ys)));
    a += 16;
    b += 16;
  }
  const sum = f64x2.add(low, high);
  store<f64>(total, load<f64>(total) + f64x2.extract_lane(sum, 0) + f64x2.extract_lane(sum, 1));
}

/**
 * The population variance of `count` buffers, element by element, into the first. Computed in float64 and rounded once, so
 * equal variances stay equal in any order of values; on differences from the first, so equal elements have variance 0 and
 * sum(d^2) - sum(d)^2 / count loses at most a digit: it is at least sum(d^2) / (count + 1).
 */
export function variance(buffers: usize, count: i32, n: i32): void {
  const first = <usize>load<u32>(buffers);
  const tableEnd = buffers + (<usize>count << 2);
  const share = f64x2.splat(1 / <f64>count);
  const end = <usize>n << 2;
  for (let at: usize = 0; at < end; at += 16) {
    const origin0 = f64x2.promote_low_f32x4(v128.load64_zero(first + at));
    const origin1 = f64x2.promote_low_f32x4(v128.load64_zero(first + at, 8));
    let sum0 = f64x2.splat(0);
    let sum1 = f64x2.splat(0);
    let squares0 = f64x2.splat(0);
    let squares1 = f64x2.splat(0);
    for (let entry = buffers + 4; entry < tableEnd; entry += 4) {
      const from = <usize>load<u32>(entry) + at;
      const d0 = f64x2.sub(f64x2.promote_low_f32x4(v128.load64_zero(from)), origin0);
      const d1 = f64x2.sub(f64x2.promote_low_f32x4(v128.load64_zero(from, 8)), origin1);
      sum0 = f64x2.add(sum0, d0);
      sum1 = f64x2.add(sum1, d1);
      squares0 = f64x2.add(squares0, f64x2.mul(d0, d0));
      squares1 = f64x2.add(squares1, f64x2.mul(d1, d1));
    }
    const rest0 = f64x2.sub(squares0, f64x2.mul(f64x2.mul(sum0, sum0), share));
    const rest1 = f64x2.sub(squares1, f64x2.mul(f64x2.mul(sum1, sum1), share));
    v128.store64_lane(first + at, f32x4.demote_f64x2_zero(f64x2.mul(rest0, share)), 0);
    v128.store64_lane(first + at, f32x4.demote_f64x2_zero(f64x2.mul(rest1, share)), 0, 8);
  }
}

/** a = a moved towards b by at most `step`. */
export function approach(a: usize, b: usize, n: i32, step: f32): void {
  const most = f32x4.splat(step);
  for (let i = 0; i < n; i += 4) {
    const x = v128.load(a);
    const y = v128.load(b);
    const d = f32x4.sub(y, x);
    const size = f32x4.abs(d);
    // Where the distance is within the step, the result is b itself, not a sum that rounds to it.
    const moved = f32x4.add(x, v128.or(v128.and(d, f32x4.splat(-0.0)), most));
    v128.store(a, v128.bitselect(d, v128.bitselect(moved, y, f32x4.gt(size, most)), f32x4.ne(d, d)));
    a += 16;
    b += 16;
  }
}

/** a = b in the columns where the mask (-1 or 0 per column) is 0. */
export function selectColumns(a: usize, b: usize, rows: i32, columns: i32, mask: usize): void {
  for (let row = 0; row < rows; row++) {
    let at = mask;
    for (let column = 0; column < columns; column++) {
      if (load<i32>(at) == 0) store<u32>(a, load<u32>(b));
      at += 4;
      a += 4;
      b += 4;
    }
  }
}

/**
 * Counts the bits of |a|, an integer key in the order of the magnitudes: those below `from` in counts[0], and from there on
 * those of each of `bins` ranges of 2^shift keys. A range of several keys has two counters: its first key, and the others.
 */
export function countKeys(a: usize, n: i32, from: u32, shift: u32, bins: u32, counts: usize): void {
  const mask = i32x4.splat(0x7fffffff);
  const least = i32x4.splat(from);
  const width = i32x4.splat(bins << shift);
  const ranges = counts + 4;
  const apart: u32 = shift > 0 ? 1 : 0;
  const others: u32 = (1 << shift) - 1;
  let below = i32x4.splat(0); // a true lane is -1
  let i = 0;
  for (; i + 8 <= n; i += 8) {
    const x = v128.and(v128.load(a), mask);
    const y = v128.and(v128.load(a, 16), mask);
    below = i32x4.add(below, i32x4.add(i32x4.lt_s(x, least), i32x4.lt_s(y, least)));
    const d = i32x4.sub(x, least);
    const e = i32x4.sub(y, least);
    let inside = i32x4.bitmask(i32x4.lt_u(d, width)) | (i32x4.bitmask(i32x4.lt_u(e, width)) << 4);
    for (; inside != 0; inside &= inside - 1) {
      const at = (load<u32>(a + (<usize>ctz(inside) << 2)) & 0x7fffffff) - from;
      increment(ranges, ((at >> shift) << apart) | <u32>((at & others) != 0));
    }
    a += 32;
  }
  let sum: u32 = countLanes(below);
  for (; i < n; i++) {
    const key = load<u32>(a) & 0x7fffffff;
    if (key < from) sum++;
    else if (key - from < bins << shift) {
      increment(ranges, (((key - from) >> shift) << apart) | <u32>(((key - from) & others) != 0));
    }
    a += 4;
  }
  store<u32>(counts, load<u32>(counts) + sum);
}

/** Writes index and count of each of n counters that is not zero to `pairs` and clears it; returns how many there are. */
export function takeCounts(counts: usize, n: i32, pairs: usize): i32 {
  const start = pairs;
  for (let i = 0; i < n; i += 4) {
    const at = counts + (<usize>i << 2);
    if (!v128.any_true(v128.load(at))) continue;
    for (let j = i; j < min(i + 4, n); j++) {
      const count = load<u32>(counts + (<usize>j << 2));
      if (count == 0) continue;
      store<u32>(pairs, j);
      store<u32>(pairs, count, 4);
      store<u32>(counts + (<usize>j << 2), 0);
      pairs += 8;
    }
  }
  return <i32>((pairs - start) >> 3);
}

/** Adds to `totals` (float64) how many of n elements are positive, and how many negative. */
export function countSigns(a: usize, n: i32, totals: usize): void {
  const zero = f32x4.splat(0);
  let positive: i64 = 0;
  let negative: i64 = 0;
  let i = 0;
  for (; i + 4 <= n; i += 4) {
    const x = v128.load(a);
    positive += popcnt(i32x4.bitmask(f32x4.gt(x, zero)));
    negative += popcnt(i32x4.bitmask(f32x4.lt(x, zero)));
    a += 16;
  }
  for (; i < n; i++) {
    const x = load<f32>(a);
    if (x > 0) positive++;
    else if (x < 0) negative++;
    a += 4;
  }
  store<f64>(totals, load<f64>(totals) + <f64>positive);
  store<f64>(totals, load<f64>(totals, 8) + <f64>negative, 8);
}
