// Weighted sums in float32: acc = w x, acc += w x, acc /= d. One kernel per stored dtype, eight elements a turn.
import { high, low } from "./decode";

@inline
function scale<T>(src: usize, acc: usize, n: i32, weight: f32): void {
  const w = f32x4.splat(weight);
  do {
    const x0 = low<T>(src);
    const x1 = high<T>(src);
    v128.store(acc, f32x4.mul(x0, w));
    v128.store(acc, f32x4.mul(x1, w), 16);
    src += 8 * sizeof<T>();
    acc += 32;
    n -= 8;
  } while (n > 0);
}

@inline
function addScaled<T>(src: usize, acc: usize, n: i32, weight: f32): void {
  const w = f32x4.splat(weight);
  for (let i = 0; i < n; i += 8) {
    const x0 = low<T>(src);
    const x1 = high<T>(src);
    v128.store(acc, f32x4.add(v128.load(acc), f32x4.mul(x0, w)));
    v128.store(acc, f32x4.add(v128.load(acc, 16), f32x4.mul(x1, w)), 16);
    src += 8 * sizeof<T>();
    acc += 32;
  }
}

@inline
function difference<T>(a: usize, b: usize, out: usize, n: i32): void {
  do {
    const x0 = f32x4.sub(low<T>(a), low<T>(b));
    const x1 = f32x4.sub(high<T>(a), high<T>(b));
    v128.store(out, x0);
    v128.store(out, x1, 16);
    a += 8 * sizeof<T>();
    b += 8 * sizeof<T>();
    out += 32;
    n -= 8;
  } while (n > 0);
}

export function differenceBF16(a: usize, b: usize, out: usize, n: i32): void {
  difference<u16>(a, b, out, n);
}

export function differenceF16(a: usize, b: usize, out: usize, n: i32): void {
  difference<i16>(a, b, out, n);
}

export function differenceF32(a: usize, b: usize, out: usize, n: i32): void {
  difference<f32>(a, b, out, n);
}

export function scaleBF16(src: usize, acc: usize, n: i32, weight: f32): void {
  scale<u16>(src, acc, n, weight);
}

export function scaleF16(src: usize, acc: usize, n: i32, weight: f32): void {
  scale<i16>(src, acc, n, weight);
}

export function scaleF32(src: usize, acc: usize, n: i32, weight: f32): void {
  scale<f32>(src, acc, n, weight);
}

export function addScaledBF16(src: usize, acc: usize, n: i32, weight: f32): void {
  addScaled<u16>(src, acc, n, weight);
}

export function addScaledF16(src: usize, acc: usize, n: i32, weight: f32): void {
  addScaled<i16>(src, acc, n, weight);
}

export function addScaledF32(src: usize, acc: usize, n: i32, weight: f32): void {
  addScaled<f32>(src, acc, n, weight);
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
