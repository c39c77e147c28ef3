// One step of AdamW in place, sums of squares, and accumulation of gradients.
import { addLanes } from "./lanes";

/**
 * w, m and v after one step on the gradient g, all float32. The order of the operations is PyTorch's, so results differ
 * from it only in the last bit.
 */
export function adamw(
  w: usize,
  g: usize,
  m: usize,
  v: usize,
  n: i32,
  scale: f32,
  keep: f32,
  mixM: f32,
  keepV: f32,
  mixV: f32,
  correctV: f32,
  epsilon: f32,
  rate: f32,
): void {
  const scales = f32x4.splat(scale);
  const keeps = f32x4.splat(keep);
  const mixesM = f32x4.splat(mixM);
  const keepsV = f32x4.splat(keepV);
  const mixesV = f32x4.splat(mixV);
  const correctsV = f32x4.splat(correctV);
  const epsilons = f32x4.splat(epsilon);
  const rates = f32x4.splat(rate);
  do {
    const gradient = f32x4.mul(v128.load(g), scales);
    const oldM = v128.load(m);
    const newM = f32x4.add(oldM, f32x4.mul(mixesM, f32x4.sub(gradient, oldM)));
    const newV = f32x4.add(f32x4.mul(v128.load(v), keepsV), f32x4.mul(f32x4.mul(mixesV, gradient), gradient));
    const root = f32x4.add(f32x4.mul(f32x4.sqrt(newV), correctsV), epsilons);
    const move = f32x4.div(f32x4.mul(rates, newM), root);
    v128.store(m, newM);
    v128.store(v, newV);
    v128.store(w, f32x4.sub(f32x4.mul(v128.load(w), keeps), move));
    w += 16;
    g += 16;
    m += 16;
    v += 16;
    n -= 4;
  } while (n > 0);
}

/** The sum of a[i]^2 in float64, in eight lanes that are added up pairwise; what follows the last element is zero. */
export function sumSquares(a: usize, n: i32): f64 {
  let sum0 = f64x2.splat(0);
  let sum1 = f64x2.splat(0);
  let sum2 = f64x2.splat(0);
  let sum3 = f64x2.splat(0);
  for (let i = 0; i < n; i += 8) {
    const x = v128.load(a);
    const y = v128.load(a, 16);
    const x0 = f64x2.promote_low_f32x4(x);
    const x1 = f64x2.promote_low_f32x4(v128.shuffle<i64>(x, x, 1, 0));
    const y0 = f64x2.promote_low_f32x4(y);
    const y1 = f64x2.promote_low_f32x4(v128.shuffle<i64>(y, y, 1, 0));
    sum0 = f64x2.add(sum0, f64x2.mul(x0, x0));
    sum1 = f64x2.add(sum1, f64x2.mul(x1, x1));
    sum2 = f64x2.add(sum2, f64x2.mul(y0, y0));
    sum3 = f64x2.add(sum3, f64x2.mul(y1, y1));
    a += 32;
  }
  return addLanes(f64x2.add(f64x2.add(sum0, sum1), f64x2.add(sum2, sum3)));
}

/** a = a + b in float32 */
export function add(a: usize, b: usize, n: i32): void {
  for (let i = 0; i < n; i += 8) {
    v128.store(a, f32x4.add(v128.load(a), v128.load(b)));
    v128.store(a, f32x4.add(v128.load(a, 16), v128.load(b, 16)), 16);
    a += 32;
    b += 32;
  }
}
