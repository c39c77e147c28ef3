// The difference of two float32 arrays, summed up in one pass. Differences are float32, sums are float64.
import { addLanes, countLanes, largestLane } from "./lanes";

/**
 * Writes six float64 to `out`: sum of |a - b|, sum of (a - b)^2, sum of b^2, largest |a - b|, how many differ, and how
 * many differences are not finite (those enter none of the sums; the same infinity or NaN twice does not differ).
 */
export function deltaStatistics(a: usize, b: usize, n: i32, out: usize): void {
  let sumLow = f64x2.splat(0);
  let sumHigh = f64x2.splat(0);
  let squareLow = f64x2.splat(0);
  let squareHigh = f64x2.splat(0);
  let baseLow = f64x2.splat(0);
  let baseHigh = f64x2.splat(0);
  let largest = f32x4.splat(0);
  let differing = i32x4.splat(0); // a true lane is -1
  let broken = i32x4.splat(0);
  const mask = i32x4.splat(0x7fffffff);
  const infinity = i32x4.splat(0x7f800000);
  for (let i = 0; i < n; i += 4) {
    const value = v128.load(a);
    const base = v128.load(b);
    let d = v128.and(f32x4.sub(value, base), mask);
    const wrong = i32x4.ge_s(d, infinity);
    broken = i32x4.add(broken, wrong);
    const same = v128.or(i32x4.eq(value, base), v128.and(f32x4.ne(value, value), f32x4.ne(base, base)));
    differing = i32x4.add(differing, v128.andnot(i32x4.ne(d, i32x4.splat(0)), same));
    d = v128.andnot(d, wrong);
    largest = f32x4.pmax(largest, d);
    const low = f64x2.promote_low_f32x4(d);
    const high = f64x2.promote_low_f32x4(v128.shuffle<i64>(d, d, 1, 0));
    sumLow = f64x2.add(sumLow, low);
    sumHigh = f64x2.add(sumHigh, high);
    squareLow = f64x2.add(squareLow, f64x2.mul(low, low));
    squareHigh = f64x2.add(squareHigh, f64x2.mul(high, high));
    const counted = v128.andnot(base, wrong);
    const lowBase = f64x2.promote_low_f32x4(counted);
    const highBase = f64x2.promote_low_f32x4(v128.shuffle<i64>(counted, counted, 1, 0));
    baseLow = f64x2.add(baseLow, f64x2.mul(lowBase, lowBase));
    baseHigh = f64x2.add(baseHigh, f64x2.mul(highBase, highBase));
    a += 16;
    b += 16;
  }
  store<f64>(out, addLanes(f64x2.add(sumLow, sumHigh)));
  store<f64>(out, addLanes(f64x2.add(squareLow, squareHigh)), 8);
  store<f64>(out, addLanes(f64x2.add(baseLow, baseHigh)), 16);
  store<f64>(out, <f64>largestLane(largest), 24);
  store<f64>(out, <f64>countLanes(differing), 32);
  store<f64>(out, <f64>countLanes(broken), 40);
}

/** As `deltaStatistics` where every b is 0. */
export function ownStatistics(a: usize, n: i32, out: usize): void {
  let sumLow = f64x2.splat(0);
  let sumHigh = f64x2.splat(0);
  let squareLow = f64x2.splat(0);
  let squareHigh = f64x2.splat(0);
  let largest = f32x4.splat(0);
  let differing = i32x4.splat(0); // a true lane is -1
  let broken = i32x4.splat(0);
  const mask = i32x4.splat(0x7fffffff);
  const infinity = i32x4.splat(0x7f800000);
  const zero = i32x4.splat(0);
  for (let i = 0; i < n; i += 4) {
    let d = v128.and(v128.load(a), mask);
    const wrong = i32x4.ge_s(d, infinity);
    broken = i32x4.add(broken, wrong);
    differing = i32x4.add(differing, i32x4.ne(d, zero));
    d = v128.andnot(d, wrong);
    largest = f32x4.pmax(largest, d);
    const low = f64x2.promote_low_f32x4(d);
    const high = f64x2.promote_low_f32x4(v128.shuffle<i64>(d, d, 1, 0));
    sumLow = f64x2.add(sumLow, low);
    sumHigh = f64x2.add(sumHigh, high);
    squareLow = f64x2.add(squareLow, f64x2.mul(low, low));
    squareHigh = f64x2.add(squareHigh, f64x2.mul(high, high));
    a += 16;
  }
  store<f64>(out, addLanes(f64x2.add(sumLow, sumHigh)));
  store<f64>(out, addLanes(f64x2.add(squareLow, squareHigh)), 8);
  store<f64>(out, 0, 16);
  store<f64>(out, <f64>largestLane(largest), 24);
  store<f64>(out, <f64>countLanes(differing), 32);
  store<f64>(out, <f64>countLanes(broken), 40);
}
