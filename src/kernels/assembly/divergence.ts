// The importance of changes in arcee_fusion. The exponential and the logarithm are those of fdlibm (Sun Microsystems, 1993), which V8's
// Math has, to the bit; two at a time in the ranges that almost all weights are in.

import { largestLane, promoted, roundTo } from "./lanes";

/** Added to each share of a softmax, as mergekit does. */
const LEAST: f64 = 1e-8;

/** e^x for x from -infinity to 0. Below -700, where the sum of a softmax does not change, e^-700. NaN stays. */
@inline
function exponential(x: v128): v128 {
  x = f64x2.pmax(x, f64x2.splat(-700));
  const size = f64x2.abs(x);
  const one = f64x2.splat(1);
  // x = k ln 2 + high - low; k is 0 up to half of ln 2, which its upper 32 bits decide.
  const isFar = f64x2.ge(size, f64x2.splat(reinterpret<f64>(0x3fd62e4300000000)));
  const turns = f64x2.trunc(f64x2.sub(f64x2.mul(f64x2.splat(1.44269504088896338700), x), f64x2.splat(0.5)));
  const k = v128.and(turns, isFar);
  const high = f64x2.sub(x, f64x2.mul(k, f64x2.splat(6.93147180369123816490e-1)));
  const low = f64x2.mul(k, f64x2.splat(1.90821492927058770002e-10));
  const r = f64x2.sub(high, low);
  const t = f64x2.mul(r, r);
  let c = f64x2.add(f64x2.splat(-1.65339022054652515390e-6), f64x2.mul(t, f64x2.splat(4.13813679705723846039e-8)));
  c = f64x2.add(f64x2.splat(6.61375632143793436117e-5), f64x2.mul(t, c));
  c = f64x2.add(f64x2.splat(-2.77777777770155933842e-3), f64x2.mul(t, c));
  c = f64x2.add(f64x2.splat(1.66666666666666019037e-1), f64x2.mul(t, c));
  c = f64x2.sub(r, f64x2.mul(t, c));
  const share = f64x2.div(f64x2.mul(r, c), f64x2.sub(f64x2.splat(2), c));
  const y = f64x2.sub(one, f64x2.sub(f64x2.sub(low, share), high));
  // The sum's last bits are k + 1023, the exponent of 2^k.
  const power = i64x2.shl(f64x2.add(k, f64x2.splat(6755399441055744.0 + 1023.0)), 52);
  const isTiny = f64x2.lt(size, f64x2.splat(reinterpret<f64>(0x3e30000000000000)));
  return v128.bitselect(f64x2.add(one, x), f64x2.mul(y, power), isTiny);
}

const LG1: f64 = 6.666666666666735130e-1;
const LG2: f64 = 3.999999999940941908e-1;
const LG3: f64 = 2.857142874366239149e-1;
const LG4: f64 = 2.222219843214978396e-1;
const LG5: f64 = 1.818357216161805012e-1;
const LG6: f64 = 1.531383769920937332e-1;
const LG7: f64 = 1.479819860511658591e-1;

/** The natural logarithm of normal numbers from 0.75 to 1.375. */
@inline
function logarithmNearOne(x: v128): v128 {
  const f = f64x2.sub(x, f64x2.splat(1));
  const s = f64x2.div(f, f64x2.add(f64x2.splat(2), f));
  const z = f64x2.mul(s, s);
  const w = f64x2.mul(z, z);
  const even = f64x2.add(f64x2.splat(LG4), f64x2.mul(w, f64x2.splat(LG6)));
  const t1 = f64x2.mul(w, f64x2.add(f64x2.splat(LG2), f64x2.mul(w, even)));
  let odd = f64x2.add(f64x2.splat(LG5), f64x2.mul(w, f64x2.splat(LG7)));
  odd = f64x2.add(f64x2.splat(LG3), f64x2.mul(w, odd));
  const r = f64x2.add(f64x2.mul(z, f64x2.add(f64x2.splat(LG1), f64x2.mul(w, odd))), t1);
  const far = f64x2.sub(f, f64x2.mul(s, f64x2.sub(f, r)));
  const square = f64x2.mul(f, f);
  const half = f64x2.sub(f64x2.splat(0.5), f64x2.mul(f64x2.splat(0.33333333333333333), f));
  const near = f64x2.sub(f, f64x2.mul(square, half));
  const edge: f64 = 1.0 / 1048576.0;
  const isNear = v128.and(f64x2.ge(f, f64x2.splat(-edge)), f64x2.lt(f, f64x2.splat(edge)));
  return v128.bitselect(near, far, isNear);
}

/** The natural logarithm of a positive normal number, or NaN. */
function logarithm(x: f64): f64 {
  if (!(x < Infinity)) return x;
  const bits = reinterpret<u64>(x);
  const upper = <i32>(bits >> 32);
  const hx = upper & 0x000fffff;
  const i = (hx + 0x95f64) & 0x100000;
  const k = <f64>((upper >> 20) - 1023 + (i >> 20));
  const normal = reinterpret<f64>((<u64>(hx | (i ^ 0x3ff00000)) << 32) | (bits & 0xffffffff));
  const high = k * 6.93147180369123816490e-1;
  const low = k * 1.90821492927058770002e-10;
  const f = normal - 1.0;
  if ((0x000fffff & (2 + hx)) < 3) {
    if (f == 0) return k == 0 ? 0 : high + low;
    const r = f * f * (0.5 - 0.33333333333333333 * f);
    return k == 0 ? f - r : high - (r - low - f);
  }
  const s = f / (2.0 + f);
  const z = s * s;
  const w = z * z;
  const t1 = w * (LG2 + w * (LG4 + w * LG6));
  const t2 = z * (LG1 + w * (LG3 + w * (LG5 + w * LG7)));
  const r = t2 + t1;
  if (((hx - 0x6147a) | (0x6b851 - hx)) > 0) {
    const half = 0.5 * f * f;
    if (k == 0) return f - (half - s * (half + r));
    return high - (half - (s * (half + r) + low) - f);
  }
  if (k == 0) return f - s * (f - r);
  return high - (s * (f - r) - low - f);
}

@inline
function distance(a: usize, b: usize): v128 {
  return f64x2.abs(f64x2.sub(promoted(a), promoted(b)));
}

/** Writes e^(x - the largest) of a row to `to` [columns, and one more]. @returns their sum, in order */
function powersOf(row: usize, columns: i32, to: usize): f64 {
  let most = f32x4.splat(-Infinity);
  let i = 0;
  for (; i + 4 <= columns; i += 4) most = f32x4.max(most, v128.load(row + (<usize>i << 2)));
  let largest = largestLane(most);
  for (; i < columns; i++) largest = max<f32>(largest, load<f32>(row + (<usize>i << 2)));
  const top = f64x2.splat(<f64>largest);
  let sum: f64 = 0;
  i = 0;
  for (; i + 2 <= columns; i += 2) {
    const powers = exponential(f64x2.sub(f64x2.promote_low_f32x4(v128.load64_zero(row)), top));
    v128.store(to, powers);
    sum += f64x2.extract_lane(powers, 0);
    sum += f64x2.extract_lane(powers, 1);
    row += 8;
    to += 16;
  }
  if (i < columns) {
    const powers = exponential(f64x2.sub(f64x2.promote_low_f32x4(v128.load32_zero(row)), top));
    store<f64>(to, f64x2.extract_lane(powers, 0));
    store<f64>(to + 8, 0);
    sum += f64x2.extract_lane(powers, 0);
  }
  return sum;
}

/**
 * a = |a - b| times the Kullback-Leibler divergence of the softmaxes of their rows, each plus 1e-8, in float64.
 * @param scratch space for two rows of float64, each with one number more
 */
export function importance(a: usize, b: usize, rows: i32, columns: i32, scratch: usize): void {
  const other = scratch + (<usize>(columns + 1) << 3);
  const least = f64x2.splat(LEAST);
  for (let row = 0; row < rows; row++) {
    const ofP = f64x2.splat(powersOf(a, columns, scratch));
    const ofQ = f64x2.splat(powersOf(b, columns, other));
    let divergence: f64 = 0;
    let at: usize = 0;
    for (let i = 0; i < columns; i += 2) {
      const p = f64x2.add(f64x2.div(v128.load(scratch + at), ofP), least);
      const q = f64x2.add(f64x2.div(v128.load(other + at), ofQ), least);
      const ratio = f64x2.div(p, q);
      const isNear = v128.and(f64x2.ge(ratio, f64x2.splat(0.75)), f64x2.le(ratio, f64x2.splat(1.375)));
      let logs: v128;
      if (i64x2.all_true(isNear)) logs = logarithmNearOne(ratio);
      else logs = f64x2(logarithm(f64x2.extract_lane(ratio, 0)), logarithm(f64x2.extract_lane(ratio, 1)));
      const products = f64x2.mul(p, logs);
      divergence += f64x2.extract_lane(products, 0);
      if (i + 1 < columns) divergence += f64x2.extract_lane(products, 1);
      at += 16;
    }
    const factor = f64x2.splat(divergence);
    let i = 0;
    for (; i + 4 <= columns; i += 4) {
      roundTo(a, f64x2.mul(distance(a, b), factor), f64x2.mul(distance(a + 8, b + 8), factor));
      a += 16;
      b += 16;
    }
    for (; i < columns; i++) {
      store<f32>(a, <f32>(abs(<f64>load<f32>(a) - <f64>load<f32>(b)) * divergence));
      a += 4;
      b += 4;
    }
  }
}
