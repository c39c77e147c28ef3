// How an expert's matrix differs from its base's, per row and as a whole, in one pass over float32 elements.
// A "row" of the method is an input feature (a column of the stored [out, in] matrix) or an output feature; there is a
// kernel for each. Differences are float32; sums of up to eight of them are float32 and are then added up in float64.
import { addLanes, countLanes, largestLane } from "./lanes";

@inline
function addPromoted(address: usize, x: v128): void {
  v128.store(address, f64x2.add(v128.load(address), f64x2.promote_low_f32x4(x)));
  const upper = f64x2.promote_low_f32x4(v128.shuffle<i64>(x, x, 1, 0));
  v128.store(address, f64x2.add(v128.load(address, 16), upper), 16);
}

@inline
function promotedSum(x: v128): v128 {
  return f64x2.add(f64x2.promote_low_f32x4(x), f64x2.promote_low_f32x4(v128.shuffle<i64>(x, x, 1, 0)));
}

// Stored rows whose differences are summed in float32 before they enter a column's float64 sum.
const GROUP: i32 = 4;

/**
 * Adds to `sums` [columns] the |a - b| of each column, and to `totals` [sum of (a - b)^2, sum of b^2, elements where
 * a equals b]; raises totals[3] to the largest |a - b|. Float64 throughout. Values must be finite; a sum that is not shows
 * that some were not.
 */
export function columnStatistics(a: usize, b: usize, rows: i32, columns: i32, sums: usize, totals: usize): void {
  const stride = <usize>columns << 2;
  const whole = columns & ~7;
  const sign = i32x4.splat(0x7fffffff);
  const zero = f32x4.splat(0);
  let squares = f64x2.splat(0);
  let own = f64x2.splat(0);
  let largest = f32x4.splat(0);
  let equal: i64 = 0;
  for (let row = 0; row < rows; row += GROUP) {
    const group = min(GROUP, rows - row);
    let same = i32x4.splat(0); // a true lane is -1
    for (let column = 0; column < whole; column += 8) {
      let pa = a + (<usize>column << 2);
      let pb = b + (<usize>column << 2);
      let s0 = zero;
      let s1 = zero;
      let q = zero;
      let o = zero;
      for (let r = 0; r < group; r++) {
        const b0 = v128.load(pb);
        const b1 = v128.load(pb, 16);
        const d0 = v128.and(f32x4.sub(v128.load(pa), b0), sign);
        const d1 = v128.and(f32x4.sub(v128.load(pa, 16), b1), sign);
        s0 = f32x4.add(s0, d0);
        s1 = f32x4.add(s1, d1);
        q = f32x4.add(q, f32x4.add(f32x4.mul(d0, d0), f32x4.mul(d1, d1)));
        o = f32x4.add(o, f32x4.add(f32x4.mul(b0, b0), f32x4.mul(b1, b1)));
        largest = f32x4.pmax(largest, f32x4.pmax(d0, d1));
        same = i32x4.add(same, i32x4.add(f32x4.eq(d0, zero), f32x4.eq(d1, zero)));
        pa += stride;
        pb += stride;
      }
      const at = sums + (<usize>column << 3);
      addPromoted(at, s0);
      addPromoted(at + 32, s1);
      squares = f64x2.add(squares, promotedSum(q));
      own = f64x2.add(own, promotedSum(o));
    }
    equal += countLanes(same);
    for (let column = whole; column < columns; column++) {
      for (let r = 0; r < group; r++) {
        const at = <usize>r * stride + (<usize>column << 2);
        const base = load<f32>(b + at);
        const d = abs(load<f32>(a + at) - base);
        const sum = sums + (<usize>column << 3);
        store<f64>(sum, load<f64>(sum) + <f64>d);
        squares = f64x2.add(squares, f64x2(<f64>d * <f64>d, 0));
        own = f64x2.add(own, f64x2(<f64>base * <f64>base, 0));
        largest = f32x4.pmax(largest, f32x4.splat(d));
        if (d == 0) equal++;
      }
    }
    a += stride * GROUP;
    b += stride * GROUP;
  }
  addTotals(totals, addLanes(squares), addLanes(own), <f64>equal, <f64>largestLane(largest));
}

/** As `columnStatistics`, but adds to `sums` [rows] the |a - b| of each stored row; a vector is a matrix of one row. */
export function rowStatistics(a: usize, b: usize, rows: i32, columns: i32, sums: usize, totals: usize): void {
  const whole = columns & ~7;
  const sign = i32x4.splat(0x7fffffff);
  const zero = f32x4.splat(0);
  let squares = f64x2.splat(0);
  let own = f64x2.splat(0);
  let largest: f64 = 0;
  let equal: i64 = 0;
  for (let row = 0; row < rows; row++) {
    let sum = f64x2.splat(0);
    let top = zero;
    let same = i32x4.splat(0);
    for (let column = 0; column < whole; column += 8) {
      const b0 = v128.load(b);
      const b1 = v128.load(b, 16);
      const d0 = v128.and(f32x4.sub(v128.load(a), b0), sign);
      const d1 = v128.and(f32x4.sub(v128.load(a, 16), b1), sign);
      sum = f64x2.add(sum, promotedSum(f32x4.add(d0, d1)));
      squares = f64x2.add(squares, promotedSum(f32x4.add(f32x4.mul(d0, d0), f32x4.mul(d1, d1))));
      own = f64x2.add(own, promotedSum(f32x4.add(f32x4.mul(b0, b0), f32x4.mul(b1, b1))));
      top = f32x4.pmax(top, f32x4.pmax(d0, d1));
      same = i32x4.add(same, i32x4.add(f32x4.eq(d0, zero), f32x4.eq(d1, zero)));
      a += 32;
      b += 32;
    }
    for (let column = whole; column < columns; column++) {
      const base = load<f32>(b);
      const d = abs(load<f32>(a) - base);
      sum = f64x2.add(sum, f64x2(<f64>d, 0));
      squares = f64x2.add(squares, f64x2(<f64>d * <f64>d, 0));
      own = f64x2.add(own, f64x2(<f64>base * <f64>base, 0));
      top = f32x4.pmax(top, f32x4.splat(d));
      if (d == 0) equal++;
      a += 4;
      b += 4;
    }
    equal += countLanes(same);
    largest = max(largest, <f64>largestLane(top));
    store<f64>(sums, load<f64>(sums) + addLanes(sum));
    sums += 8;
  }
  addTotals(totals, addLanes(squares), addLanes(own), <f64>equal, largest);
}

@inline
function addTotals(totals: usize, squares: f64, own: f64, equal: f64, largest: f64): void {
  store<f64>(totals, load<f64>(totals) + squares);
  store<f64>(totals, load<f64>(totals, 8) + own, 8);
  store<f64>(totals, load<f64>(totals, 16) + equal, 16);
  store<f64>(totals, max(load<f64>(totals, 24), largest), 24);
}

/** Adds to `totals` [sum of (x - b)(y - b), elements where the two differences have opposite signs], float64. */
export function pairStatistics(x: usize, y: usize, b: usize, n: i32, totals: usize): void {
  const zero = f32x4.splat(0);
  let dot = f64x2.splat(0);
  let opposed: i64 = 0;
  const whole = n & ~7;
  for (let i = 0; i < whole; i += 8) {
    const b0 = v128.load(b);
    const b1 = v128.load(b, 16);
    const p0 = f32x4.mul(f32x4.sub(v128.load(x), b0), f32x4.sub(v128.load(y), b0));
    const p1 = f32x4.mul(f32x4.sub(v128.load(x, 16), b1), f32x4.sub(v128.load(y, 16), b1));
    dot = f64x2.add(dot, promotedSum(f32x4.add(p0, p1)));
    opposed += popcnt(i32x4.bitmask(f32x4.lt(p0, zero)) | (i32x4.bitmask(f32x4.lt(p1, zero)) << 4));
    x += 32;
    y += 32;
    b += 32;
  }
  for (let i = whole; i < n; i++) {
    const base = load<f32>(b);
    const p = (load<f32>(x) - base) * (load<f32>(y) - base);
    dot = f64x2.add(dot, f64x2(<f64>p, 0));
    if (p < 0) opposed++;
    x += 4;
    y += 4;
    b += 4;
  }
  store<f64>(totals, load<f64>(totals) + addLanes(dot));
  store<f64>(totals, load<f64>(totals, 8) + <f64>opposed, 8);
}
