// Element-wise operations of merge methods, over float32 buffers, four elements a turn. Plain twins: ../operations.ts.

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

/** The finalizer of MurmurHash3, in four lanes: every bit of x changes half the bits of the result. */
// @ts-ignore: decorator
@inline
function scramble(x: v128): v128 {
  x = v128.xor(x, i32x4.shr_u(x, 16));
  x = i32x4.mul(x, i32x4.splat(0x85ebca6b));
  x = v128.xor(x, i32x4.shr_u(x, 13));
  x = i32x4.mul(x, i32x4.splat(0xc2b2ae35));
  return v128.xor(x, i32x4.shr_u(x, 16));
}

/** Four uniform 32-bit numbers for the elements index..index+3 under a seed. */
// @ts-ignore: decorator
@inline
function uniform(index: v128, seed0: v128, seed1: v128): v128 {
  return scramble(i32x4.add(v128.xor(scramble(i32x4.add(index, seed0)), seed1), i32x4.mul(index, i32x4.splat(0x9e3779b9))));
}

/** a = a * scale where the element's random number is below `bound` (of 2^32), else 0. `index` is that of the first. */
export function drop(a: usize, n: i32, index: i32, seed0: i32, seed1: i32, bound: u32, scale: f32): void {
  const s0 = i32x4.splat(seed0);
  const s1 = i32x4.splat(seed1);
  const limit = i32x4.splat(bound);
  const factor = f32x4.splat(scale);
  let at = i32x4.add(i32x4.splat(index), i32x4(0, 1, 2, 3));
  const four = i32x4.splat(4);
  for (let i = 0; i < n; i += 4) {
    const kept = i32x4.lt_u(uniform(at, s0, s1), limit);
    v128.store(a, v128.and(f32x4.mul(v128.load(a), factor), kept));
    at = i32x4.add(at, four);
    a += 16;
  }
}

/**
 * Out of `count` buffers, whose addresses stand at `buffers` and weights (float32) at `weights`: the weighted mean (or
 * sum) of the elements that have the sign of the elements' sum. Writes to the first buffer.
 */
export function consensus(
  buffers: usize,
  weights: usize,
  count: i32,
  n: i32,
  tie: f32,
  weighted: i32,
  normalize: i32,
): void {
  const zero = f32x4.splat(0);
  const ofTie = f32x4.splat(tie);
  const first = load<u32>(buffers);
  for (let i: usize = 0; i < <usize>n; i += 4) {
    let vote = zero;
    for (let k = 0; k < count; k++) {
      const x = v128.load(<usize>load<u32>(buffers + (<usize>k << 2)) + (i << 2));
      vote = f32x4.add(vote, weighted ? f32x4.mul(x, v128.load32_splat(weights + (<usize>k << 2))) : x);
    }
    vote = v128.bitselect(ofTie, vote, f32x4.eq(vote, zero));
    const up = f32x4.gt(vote, zero);
    const down = f32x4.lt(vote, zero);
    const broken = f32x4.ne(vote, vote);
    let sum = zero;
    let share = zero;
    for (let k = 0; k < count; k++) {
      const x = v128.load(<usize>load<u32>(buffers + (<usize>k << 2)) + (i << 2));
      const w = v128.load32_splat(weights + (<usize>k << 2));
      // A negative weight turns a change around, and so its vote.
      const voted = weighted ? f32x4.mul(x, w) : x;
      const agrees = v128.or(v128.and(f32x4.gt(voted, zero), up), v128.and(f32x4.lt(voted, zero), down));
      sum = f32x4.add(sum, v128.and(f32x4.mul(x, w), agrees));
      share = f32x4.add(share, v128.and(w, agrees));
    }
    if (normalize) sum = v128.bitselect(zero, f32x4.div(sum, share), f32x4.eq(share, zero));
    v128.store(<usize>first + (i << 2), v128.bitselect(vote, sum, broken));
  }
}

/** The population variance of `count` buffers, element by element, to the first of them. */
export function variance(buffers: usize, count: i32, n: i32): void {
  const first = load<u32>(buffers);
  const k32 = f32x4.splat(<f32>count);
  for (let i: usize = 0; i < <usize>n; i += 4) {
    let sum = f32x4.splat(0);
    for (let k = 0; k < count; k++) {
      sum = f32x4.add(sum, v128.load(<usize>load<u32>(buffers + (<usize>k << 2)) + (i << 2)));
    }
    const mean = f32x4.div(sum, k32);
    let squares = f32x4.splat(0);
    for (let k = 0; k < count; k++) {
      const d = f32x4.sub(v128.load(<usize>load<u32>(buffers + (<usize>k << 2)) + (i << 2)), mean);
      squares = f32x4.add(squares, f32x4.mul(d, d));
    }
    v128.store(<usize>first + (i << 2), f32x4.div(squares, k32));
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

/** Adds the counts of |a|'s upper 16 bits to 65536 counters. */
export function countUpper(a: usize, n: i32, counts: usize): void {
  for (let i = 0; i < n; i++) {
    const at = counts + (<usize>((load<u32>(a) & 0x7fffffff) >> 16) << 2);
    store<u32>(at, load<u32>(at) + 1);
    a += 4;
  }
}

/** Adds the counts of |a|'s lower 16 bits, of those elements whose upper bits are `upper`. */
export function countLower(a: usize, n: i32, upper: u32, counts: usize): void {
  for (let i = 0; i < n; i++) {
    const bits = load<u32>(a) & 0x7fffffff;
    if (bits >> 16 == upper) {
      const at = counts + (<usize>(bits & 0xffff) << 2);
      store<u32>(at, load<u32>(at) + 1);
    }
    a += 4;
  }
}

/**
 * Ranks `n` magnitudes of a row, ties by position, and keeps each with a probability that grows with its rank, divided by
 * it. `keys` is a buffer of n u32, `order` one of 2 n, `counts` one of 2048.
 */
export function dropByMagnitude(
  a: usize,
  n: i32,
  index: i32,
  seed0: i32,
  seed1: i32,
  density: f32,
  epsilon: f32,
  keys: usize,
  order: usize,
  counts: usize,
): void {
  for (let i = 0; i < n; i++) {
    store<u32>(order + (<usize>i << 2), i);
    store<u32>(keys + (<usize>i << 2), load<u32>(a + (<usize>i << 2)) & 0x7fffffff);
  }
  // Radix sort of positions by key, three rounds of 11 bits, stable.
  let from = order;
  let to = order + (<usize>n << 2);
  for (let shift = 0; shift < 33; shift += 11) {
    memory.fill(counts, 0, 8192);
    for (let i = 0; i < n; i++) {
      const at = counts + (<usize>((load<u32>(keys + (<usize>i << 2)) >> shift) & 2047) << 2);
      store<u32>(at, load<u32>(at) + 1);
    }
    let sum: u32 = 0;
    for (let d = 0; d < 2048; d++) {
      const at = counts + (<usize>d << 2);
      const count = load<u32>(at);
      store<u32>(at, sum);
      sum += count;
    }
    for (let i = 0; i < n; i++) {
      const position = load<u32>(from + (<usize>i << 2));
      const at = counts + (<usize>((load<u32>(keys + (<usize>position << 2)) >> shift) & 2047) << 2);
      const place = load<u32>(at);
      store<u32>(at, place + 1);
      store<u32>(to + (<usize>place << 2), position);
    }
    const other = from;
    from = to;
    to = other;
  }
  const low = density - epsilon;
  const span: f32 = n > 1 ? (2 * epsilon) / <f32>(n - 1) : 0;
  for (let rank = 0; rank < n; rank++) {
    const position = load<u32>(from + (<usize>rank << 2));
    const at = a + (<usize>position << 2);
    const probability = n > 1 ? low + <f32>rank * span : density;
    const draw = single(index + <i32>position, seed0, seed1);
    if (<f64>draw < <f64>probability * 4294967296.0) store<f32>(at, load<f32>(at) / min<f32>(probability, 1));
    else store<f32>(at, 0);
  }
}

// @ts-ignore: decorator
@inline
function single(index: i32, seed0: i32, seed1: i32): u32 {
  return i32x4.extract_lane(uniform(i32x4.splat(index), i32x4.splat(seed0), i32x4.splat(seed1)), 0);
}
