// Weighted sums in float32: acc = w x, acc += w x, acc /= d. One kernel per stored dtype, eight elements a turn.
import { highBF16, highF16, lowBF16, lowF16 } from "./decode";

export function scaleBF16(src: usize, acc: usize, n: i32, weight: f32): void {
  const w = f32x4.splat(weight);
  for (let i = 0; i < n; i += 8) {
    const x = v128.load(src);
    v128.store(acc, f32x4.mul(lowBF16(x), w));
    v128.store(acc, f32x4.mul(highBF16(x), w), 16);
    src += 16;
    acc += 32;
  }
}

export function addScaledBF16(src: usize, acc: usize, n: i32, weight: f32): void {
  const w = f32x4.splat(weight);
  for (let i = 0; i < n; i += 8) {
    const x = v128.load(src);
    v128.store(acc, f32x4.add(v128.load(acc), f32x4.mul(lowBF16(x), w)));
    v128.store(acc, f32x4.add(v128.load(acc, 16), f32x4.mul(highBF16(x), w)), 16);
    src += 16;
    acc += 32;
  }
}

export function scaleF16(src: usize, acc: usize, n: i32, weight: f32): void {
  const w = f32x4.splat(weight);
  for (let i = 0; i < n; i += 8) {
    const x = v128.load(src);
    v128.store(acc, f32x4.mul(lowF16(x), w));
    v128.store(acc, f32x4.mul(highF16(x), w), 16);
    src += 16;
    acc += 32;
  }
}

export function addScaledF16(src: usize, acc: usize, n: i32, weight: f32): void {
  const w = f32x4.splat(weight);
  for (let i = 0; i < n; i += 8) {
    const x = v128.load(src);
    v128.store(acc, f32x4.add(v128.load(acc), f32x4.mul(lowF16(x), w)));
    v128.store(acc, f32x4.add(v128.load(acc, 16), f32x4.mul(highF16(x), w)), 16);
    src += 16;
    acc += 32;
  }
}

export function scaleF32(src: usize, acc: usize, n: i32, weight: f32): void {
  const w = f32x4.splat(weight);
  for (let i = 0; i < n; i += 8) {
    v128.store(acc, f32x4.mul(v128.load(src), w));
    v128.store(acc, f32x4.mul(v128.load(src, 16), w), 16);
    src += 32;
    acc += 32;
  }
}

export function addScaledF32(src: usize, acc: usize, n: i32, weight: f32): void {
  const w = f32x4.splat(weight);
  for (let i = 0; i < n; i += 8) {
    v128.store(acc, f32x4.add(v128.load(acc), f32x4.mul(v128.load(src), w)));
    v128.store(acc, f32x4.add(v128.load(acc, 16), f32x4.mul(v128.load(src, 16), w)), 16);
    src += 32;
    acc += 32;
  }
}

/** A true division: multiplying by a rounded reciprocal would make averages of three differ in the last bit. */
export function divide(acc: usize, n: i32, divisor: f32): void {
  const d = f32x4.splat(divisor);
  for (let i = 0; i < n; i += 8) {
    v128.store(acc, f32x4.div(v128.load(acc), d));
    v128.store(acc, f32x4.div(v128.load(acc, 16), d), 16);
    acc += 32;
  }
}
