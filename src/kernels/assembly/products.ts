// Products of dense row-major matrices in float64. Each element is a sum in an order that depends on the sizes alone.
import { addLanes } from "./lanes";

@inline
function increase(address: usize, by: f64): void {
  store<f64>(address, load<f64>(address) + by);
}

@inline
function increasePair(address: usize, by: v128): void {
  v128.store(address, f64x2.add(v128.load(address), by));
}

/** The sum of a[k] b[k] over a row of each. */
function dot(a: usize, b: usize, k: i32): f64 {
  let sum = f64x2.splat(0);
  let i = 0;
  for (; i + 2 <= k; i += 2) {
    sum = f64x2.add(sum, f64x2.mul(v128.load(a), v128.load(b)));
    a += 16;
    b += 16;
  }
  return i < k ? addLanes(sum) + load<f64>(a) * load<f64>(b) : addLanes(sum);
}

/** c [m, n] += a [m, k] times b [n, k] transposed. */
export function addDots(c: usize, a: usize, b: usize, m: i32, n: i32, k: i32): void {
  const nextA = (<usize>k) << 3;
  const nextB = (<usize>k) << 3;
  const nextC = (<usize>n) << 3;
  let i = 0;
  for (; i + 4 <= m; i += 4) {
    let column = b;
    let out = c;
    let j = 0;
    for (; j + 2 <= n; j += 2) {
      let s00 = f64x2.splat(0);
      let s01 = f64x2.splat(0);
      let s10 = f64x2.splat(0);
      let s11 = f64x2.splat(0);
      let s20 = f64x2.splat(0);
      let s21 = f64x2.splat(0);
      let s30 = f64x2.splat(0);
      let s31 = f64x2.splat(0);
      let x = a;
      let y = column;
      let l = 0;
      for (; l + 2 <= k; l += 2) {
        const y0 = v128.load(y);
        const y1 = v128.load(y + nextB);
        const x0 = v128.load(x);
        s00 = f64x2.add(s00, f64x2.mul(x0, y0));
        s01 = f64x2.add(s01, f64x2.mul(x0, y1));
        const x1 = v128.load(x + nextA);
        s10 = f64x2.add(s10, f64x2.mul(x1, y0));
        s11 = f64x2.add(s11, f64x2.mul(x1, y1));
        const x2 = v128.load(x + 2 * nextA);
        s20 = f64x2.add(s20, f64x2.mul(x2, y0));
        s21 = f64x2.add(s21, f64x2.mul(x2, y1));
        const x3 = v128.load(x + 3 * nextA);
        s30 = f64x2.add(s30, f64x2.mul(x3, y0));
        s31 = f64x2.add(s31, f64x2.mul(x3, y1));
        x += 16;
        y += 16;
      }
      if (l < k) {
        const y0 = v128.replace_lane<f64>(f64x2.splat(0), 0, load<f64>(y));
        const y1 = v128.replace_lane<f64>(f64x2.splat(0), 0, load<f64>(y + nextB));
        s00 = f64x2.add(s00, f64x2.mul(v128.load64_zero(x), y0));
        s01 = f64x2.add(s01, f64x2.mul(v128.load64_zero(x), y1));
        s10 = f64x2.add(s10, f64x2.mul(v128.load64_zero(x + nextA), y0));
        s11 = f64x2.add(s11, f64x2.mul(v128.load64_zero(x + nextA), y1));
        s20 = f64x2.add(s20, f64x2.mul(v128.load64_zero(x + 2 * nextA), y0));
        s21 = f64x2.add(s21, f64x2.mul(v128.load64_zero(x + 2 * nextA), y1));
        s30 = f64x2.add(s30, f64x2.mul(v128.load64_zero(x + 3 * nextA), y0));
        s31 = f64x2.add(s31, f64x2.mul(v128.load64_zero(x + 3 * nextA), y1));
      }
      increase(out, addLanes(s00));
      increase(out + 8, addLanes(s01));
      increase(out + nextC, addLanes(s10));
      increase(out + nextC + 8, addLanes(s11));
      increase(out + 2 * nextC, addLanes(s20));
      increase(out + 2 * nextC + 8, addLanes(s21));
      increase(out + 3 * nextC, addLanes(s30));
      increase(out + 3 * nextC + 8, addLanes(s31));
      out += 16;
      column += 2 * nextB;
    }
    if (j < n) {
      increase(out, dot(a, column, k));
      increase(out + nextC, dot(a + nextA, column, k));
      increase(out + 2 * nextC, dot(a + 2 * nextA, column, k));
      increase(out + 3 * nextC, dot(a + 3 * nextA, column, k));
    }
    a += 4 * nextA;
    c += 4 * nextC;
  }
  for (; i < m; i++) {
    for (let j = 0; j < n; j++) increase(c + ((<usize>j) << 3), dot(a, b + (<usize>j) * nextB, k));
    a += nextA;
    c += nextC;
  }
}

/** c [m, n] += a [m, k] times b [k, n]. */
export function addRows(c: usize, a: usize, b: usize, m: i32, n: i32, k: i32): void {
  const nextA = (<usize>k) << 3;
  const nextB = (<usize>n) << 3;
  const nextC = nextB;
  let i = 0;
  for (; i + 4 <= m; i += 4) {
    let column = b;
    let out = c;
    let j = 0;
    for (; j + 4 <= n; j += 4) {
      let s00 = f64x2.splat(0);
      let s01 = f64x2.splat(0);
      let s10 = f64x2.splat(0);
      let s11 = f64x2.splat(0);
      let s20 = f64x2.splat(0);
      let s21 = f64x2.splat(0);
      let s30 = f64x2.splat(0);
      let s31 = f64x2.splat(0);
      let x = a;
      let y = column;
      for (let l = 0; l < k; l++) {
        const y0 = v128.load(y);
        const y1 = v128.load(y + 16);
        const x0 = v128.load64_splat(x);
        s00 = f64x2.add(s00, f64x2.mul(x0, y0));
        s01 = f64x2.add(s01, f64x2.mul(x0, y1));
        const x1 = v128.load64_splat(x + nextA);
        s10 = f64x2.add(s10, f64x2.mul(x1, y0));
        s11 = f64x2.add(s11, f64x2.mul(x1, y1));
        const x2 = v128.load64_splat(x + 2 * nextA);
        s20 = f64x2.add(s20, f64x2.mul(x2, y0));
        s21 = f64x2.add(s21, f64x2.mul(x2, y1));
        const x3 = v128.load64_splat(x + 3 * nextA);
        s30 = f64x2.add(s30, f64x2.mul(x3, y0));
        s31 = f64x2.add(s31, f64x2.mul(x3, y1));
        x += 8;
        y += nextB;
      }
      increasePair(out, s00);
      increasePair(out + 16, s01);
      increasePair(out + nextC, s10);
      increasePair(out + nextC + 16, s11);
      increasePair(out + 2 * nextC, s20);
      increasePair(out + 2 * nextC + 16, s21);
      increasePair(out + 3 * nextC, s30);
      increasePair(out + 3 * nextC + 16, s31);
      out += 32;
      column += 32;
    }
    for (; j < n; j++) {
      for (let r = 0; r < 4; r++) increase(out + (<usize>r) * nextC, along(a + (<usize>r) * nextA, column, k, nextB));
      out += 8;
      column += 8;
    }
    a += 4 * nextA;
    c += 4 * nextC;
  }
  for (; i < m; i++) {
    for (let j = 0; j < n; j++) increase(c + ((<usize>j) << 3), along(a, b + ((<usize>j) << 3), k, nextB));
    a += nextA;
    c += nextC;
  }
}

/** The sum of a[k] b[k] down a column of b. */
function along(a: usize, b: usize, k: i32, nextB: usize): f64 {
  let sum: f64 = 0;
  for (let l = 0; l < k; l++) {
    sum += load<f64>(a) * load<f64>(b);
    a += 8;
    b += nextB;
  }
  return sum;
}

/** Copies columns of float32 rows, `stride` elements apart, to dense float64 rows: dst [rows, columns]. */
export function widen(src: usize, dst: usize, rows: i32, columns: i32, stride: i32): void {
  for (let row = 0; row < rows; row++) {
    let from = src;
    let column = 0;
    for (; column + 4 <= columns; column += 4) {
      const x = v128.load(from);
      v128.store(dst, f64x2.promote_low_f32x4(x));
      v128.store(dst, f64x2.promote_low_f32x4(v128.shuffle<i64>(x, x, 1, 0)), 16);
      from += 16;
      dst += 32;
    }
    for (; column < columns; column++) {
      store<f64>(dst, <f64>load<f32>(from));
      from += 4;
      dst += 8;
    }
    src += (<usize>stride) << 2;
  }
}
