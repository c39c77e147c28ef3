// Element-wise rules of methods over several buffers, whose addresses are in a table. Computed in float64 where sums are, as the
// plain rules in JavaScript do, and rounded once into the first buffer.

import { promoted, roundTo } from "./lanes";

/** The largest value by magnitude: of equal ones the last. NaN stays. */
export function largest(buffers: usize, count: i32, n: i32): void {
  const first = <usize>load<u32>(buffers);
  const tableEnd = buffers + (<usize>count << 2);
  const end = <usize>n << 2;
  for (let at: usize = 0; at < end; at += 16) {
    let most = v128.load(first + at);
    for (let entry = buffers + 4; entry < tableEnd; entry += 4) {
      const x = v128.load(<usize>load<u32>(entry) + at);
      const taken = v128.or(f32x4.ge(f32x4.abs(x), f32x4.abs(most)), f32x4.ne(x, x));
      most = v128.bitselect(x, most, taken);
    }
    v128.store(first + at, most);
  }
}

/** The sum of the values where at least `agree` of them are larger than `threshold` times the sum of the others, else 0. */
export function needed(buffers: usize, count: i32, n: i32, threshold: f64, agree: i32): void {
  const first = <usize>load<u32>(buffers);
  const tableEnd = buffers + (<usize>count << 2);
  const factor = f64x2.splat(threshold);
  const least = i64x2.splat(-agree); // a true lane is -1
  const end = <usize>n << 2;
  for (let at: usize = 0; at < end; at += 16) {
    let sum0 = f64x2.splat(0);
    let sum1 = f64x2.splat(0);
    for (let entry = buffers; entry < tableEnd; entry += 4) {
      const from = <usize>load<u32>(entry) + at;
      sum0 = f64x2.add(sum0, promoted(from));
      sum1 = f64x2.add(sum1, promoted(from + 8));
    }
    let count0 = i64x2.splat(0);
    let count1 = i64x2.splat(0);
    for (let entry = buffers; entry < tableEnd; entry += 4) {
      const from = <usize>load<u32>(entry) + at;
      count0 = i64x2.add(count0, isNeeded(promoted(from), sum0, factor));
      count1 = i64x2.add(count1, isNeeded(promoted(from + 8), sum1, factor));
    }
    roundTo(
      first + at,
      v128.and(sum0, i64x2.le_s(count0, least)),
      v128.and(sum1, i64x2.le_s(count1, least)),
    );
  }
}

@inline
function isNeeded(x: v128, sum: v128, threshold: v128): v128 {
  return f64x2.gt(f64x2.abs(x), f64x2.mul(threshold, f64x2.abs(f64x2.sub(sum, x))));
}

/**
 * The mean of the values that are not zero, times `shared`; where only one is not zero, that value times its own of `alone`
 * [count], float64.
 */
export function unite(buffers: usize, count: i32, n: i32, alone: usize, shared: f64): void {
  const first = <usize>load<u32>(buffers);
  const factor = f64x2.splat(shared);
  const end = <usize>n << 2;
  for (let at: usize = 0; at < end; at += 16) {
    roundTo(first + at, united(buffers, count, at, alone, factor), united(buffers, count, at + 8, alone, factor));
  }
}

@inline
function united(buffers: usize, count: i32, at: usize, alone: usize, shared: v128): v128 {
  const zero = f64x2.splat(0);
  const one = f64x2.splat(1);
  let sum = zero;
  let used = zero;
  let own = zero;
  for (let k: usize = 0; k < <usize>count; k++) {
    const x = promoted(<usize>load<u32>(buffers + (k << 2)) + at);
    const counts = f64x2.ne(x, zero);
    sum = v128.bitselect(f64x2.add(sum, x), sum, counts);
    used = f64x2.add(used, v128.and(one, counts));
    own = v128.bitselect(v128.load64_splat(alone + (k << 3)), own, counts);
  }
  const mean = f64x2.div(f64x2.mul(shared, sum), used);
  const result = v128.bitselect(f64x2.mul(sum, own), mean, f64x2.eq(used, one));
  return v128.andnot(result, f64x2.eq(used, zero));
}

/**
 * The sum of `count` buffers of [rows, columns], each times factors: float32 [count, stride], a factor for each row, or for
 * each column.
 */
export function scaleLines(
  buffers: usize,
  count: i32,
  rows: i32,
  columns: i32,
  factors: usize,
  stride: i32,
  byColumn: bool,
): void {
  const first = <usize>load<u32>(buffers);
  const tableEnd = buffers + (<usize>count << 2);
  const next = <usize>stride << 2;
  const whole = columns & ~3;
  let at: usize = 0;
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < whole; column += 4) {
      let sum0 = f64x2.splat(0);
      let sum1 = f64x2.splat(0);
      let factor = factors + (<usize>(byColumn ? column : row) << 2);
      for (let entry = buffers; entry < tableEnd; entry += 4) {
        const from = <usize>load<u32>(entry) + at;
        const f0 = byColumn ? promoted(factor) : f64x2.splat(<f64>load<f32>(factor));
        const f1 = byColumn ? promoted(factor + 8) : f0;
        sum0 = f64x2.add(sum0, f64x2.mul(f0, promoted(from)));
        sum1 = f64x2.add(sum1, f64x2.mul(f1, promoted(from + 8)));
        factor += next;
      }
      roundTo(first + at, sum0, sum1);
      at += 16;
    }
    for (let column = whole; column < columns; column++) {
      let sum: f64 = 0;
      let factor = factors + (<usize>(byColumn ? column : row) << 2);
      for (let entry = buffers; entry < tableEnd; entry += 4) {
        sum += <f64>load<f32>(factor) * <f64>load<f32>(<usize>load<u32>(entry) + at);
        factor += next;
      }
      store<f32>(first + at, <f32>sum);
      at += 4;
    }
  }
}

/** Adds to `sums` [columns], float64, the products of a and b [rows, columns] in each column, in the order of the rows. */
export function addColumnProducts(a: usize, b: usize, rows: i32, columns: i32, sums: usize): void {
  const whole = columns & ~3;
  for (let row = 0; row < rows; row++) {
    let sum = sums;
    for (let column = 0; column < whole; column += 4) {
      v128.store(sum, f64x2.add(v128.load(sum), f64x2.mul(promoted(a), promoted(b))));
      v128.store(sum, f64x2.add(v128.load(sum, 16), f64x2.mul(promoted(a + 8), promoted(b + 8))), 16);
      a += 16;
      b += 16;
      sum += 32;
    }
    for (let column = whole; column < columns; column++) {
      store<f64>(sum, load<f64>(sum) + <f64>load<f32>(a) * <f64>load<f32>(b));
      a += 4;
      b += 4;
      sum += 8;
    }
  }
}

/** Writes to `sums` [rows], float64, the products of a and b [rows, columns] in each row, added up in order. */
export function rowProducts(a: usize, b: usize, rows: i32, columns: i32, sums: usize): void {
  for (let row = 0; row < rows; row++) {
    let sum: f64 = 0;
    for (let column = 0; column < columns; column++) {
      sum += <f64>load<f32>(a) * <f64>load<f32>(b);
      a += 4;
      b += 4;
    }
    store<f64>(sums, sum);
    sums += 8;
  }
}
