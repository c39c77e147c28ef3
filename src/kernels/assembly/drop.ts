// Elements dropped at random: each element's number is a function of its index and a seed.
import { increment } from "./lanes";

/**
 * Four uniform 32-bit numbers for four indices under a seed: an integer hash of three rounds (the constants of "triple32",
 * by C. Wellons), with half of the seed in each of the first two.
 */
// @ts-ignore: decorator
@inline
function uniform(index: v128, seed0: v128, seed1: v128): v128 {
  let x = v128.xor(index, seed0);
  x = i32x4.mul(v128.xor(x, i32x4.shr_u(x, 17)), i32x4.splat(0xed5ad4bb));
  x = v128.xor(v128.xor(x, i32x4.shr_u(x, 11)), seed1);
  x = i32x4.mul(x, i32x4.splat(0xac4c1b51));
  x = i32x4.mul(v128.xor(x, i32x4.shr_u(x, 15)), i32x4.splat(0x31848bab));
  return v128.xor(x, i32x4.shr_u(x, 14));
}

/** a = a * scale where the element's random number is below `bound` (of 2^32), else 0. `index` is that of the first. */
export function drop(a: usize, n: i32, index: i32, seed0: i32, seed1: i32, bound: u32, scale: f32): void {
  const s0 = i32x4.splat(seed0);
  const s1 = i32x4.splat(seed1);
  const limit = i32x4.splat(bound);
  const factor = f32x4.splat(scale);
  let low = i32x4.add(i32x4.splat(index), i32x4(0, 1, 2, 3));
  let high = i32x4.add(low, i32x4.splat(4));
  const eight = i32x4.splat(8);
  for (let i = 0; i < n; i += 8) {
    const keptLow = i32x4.lt_u(uniform(low, s0, s1), limit);
    const keptHigh = i32x4.lt_u(uniform(high, s0, s1), limit);
    v128.store(a, v128.and(f32x4.mul(v128.load(a), factor), keptLow));
    v128.store(a, v128.and(f32x4.mul(v128.load(a, 16), factor), keptHigh), 16);
    low = i32x4.add(low, eight);
    high = i32x4.add(high, eight);
    a += 32;
  }
}

/** Ranges of keys that rows are counted in, at most. A row has about one for each element, over 8 powers of two. */
const BINS = 4096;

// Of the row at hand: the number of ranges, the bits of a key within one, and how many ranges are before the first.
let bins: i32 = 0;
let shift: i32 = 0;
let base: i32 = 0;

/**
 * Keeps each magnitude of a row with a probability that grows with its rank, ties by position, and divides it by that.
 * `scratch` has 4 n + 32 u32, `counts` as many as `BINS`.
 */
export function dropByMagnitude(
  a: usize,
  n: i32,
  index: i32,
  seed0: i32,
  seed1: i32,
  density: f32,
  epsilon: f32,
  divide: bool,
  scratch: usize,
  counts: usize,
): void {
  const low = n > 1 ? density - epsilon : density;
  const span: f32 = n > 1 ? (2 * epsilon) / <f32>(n - 1) : 0;
  const length = <usize>((n + 7) & ~7) << 2;
  let keys = scratch + 2 * length;
  let draws = keys + length;
  const s0 = i32x4.splat(seed0);
  const s1 = i32x4.splat(seed1);
  let indices = i32x4.add(i32x4.splat(index), i32x4(0, 1, 2, 3));
  let largest = i32x4.splat(0);
  for (let at: usize = 0; at < length; at += 16) {
    const key = v128.and(v128.load(a + at), i32x4.splat(0x7fffffff));
    largest = i32x4.max_s(largest, key);
    v128.store(keys + at, key);
    v128.store(draws + at, uniform(indices, s0, s1));
    indices = i32x4.add(indices, i32x4.splat(4));
  }
  const one = i32x4.max_s(largest, v128.shuffle<i32>(largest, largest, 2, 3, 0, 1));
  const top = max(i32x4.extract_lane(one, 0), i32x4.extract_lane(one, 1));
  const size = max(31 - clz(n), 6);
  bins = min(1 << size, BINS);
  shift = max(26 - size, 14);
  base = (top >> shift) - (bins - 1);
  memory.fill(counts, 0, <usize>bins << 2);
  for (let i = 0; i < n; i++) increment(counts, binOf(load<i32>(keys + (<usize>i << 2))));
  let sum: u32 = 0;
  const last = counts + (<usize>bins << 2);
  for (let at = counts; at < last; at += 4) {
    const count = load<u32>(at);
    store<u32>(at, sum);
    sum += count;
  }
  sortKeys(keys, n, scratch, counts);
  for (let rank = 0; rank < n; rank++) store<i32>(keys + (<usize>load<u32>(scratch + (<usize>rank << 3)) << 2), rank);
  for (let i = 0; i < n; i += 4) {
    const ranks = f32x4.convert_i32x4_s(v128.load(keys));
    const probability = f32x4.add(f32x4.splat(low), f32x4.mul(ranks, f32x4.splat(span)));
    const limit = i32x4.trunc_sat_f32x4_u(f32x4.ceil(f32x4.mul(probability, f32x4.splat(4294967296))));
    const certain = f32x4.ge(probability, f32x4.splat(1)); // its limit is 2^32, which is cut
    const isKept = v128.or(i32x4.lt_u(v128.load(draws), limit), certain);
    const x = v128.load(a);
    const kept = v128.and(divide ? f32x4.div(x, f32x4.pmin(probability, f32x4.splat(1))) : x, isKept);
    // What follows the row stays as it is.
    v128.store(a, v128.bitselect(kept, x, i32x4.lt_s(i32x4(0, 1, 2, 3), i32x4.splat(n - i))));
    a += 16;
    keys += 16;
    draws += 16;
  }
}

// @ts-ignore: decorator
@inline
function binOf(key: i32): u32 {
  return max((key >> shift) - base, 0);
}

/** Sorts (key, position) pairs: by bin, then within each bin by insertion, from afar where a bin has many. */
function sortKeys(keys: usize, n: i32, pairs: usize, counts: usize): void {
  for (let i = 0; i < n; i++) {
    const key = load<i32>(keys + (<usize>i << 2));
    const at = counts + (<usize>binOf(key) << 2);
    const place = load<u32>(at);
    store<u32>(at, place + 1);
    store<u64>(pairs + (<usize>place << 3), (<u64>key << 32) | <u64>i);
  }
  let begin: u32 = 0;
  for (let bin = 0; bin < bins; bin++) {
    const end = load<u32>(counts + (<usize>bin << 2)); // where the next bin starts
    let gap = <i32>(end - begin) >> 1;
    if (gap > 16 && isSorted(pairs + (<usize>begin << 3), pairs + (<usize>end << 3))) gap = 0; // such as zeros
    for (; gap > 16; gap = (gap * 5) / 11) insert(pairs, begin, end, gap);
    begin = end;
  }
  insert(pairs, 0, n, 1);
}

function isSorted(from: usize, end: usize): bool {
  for (from += 8; from < end; from += 8) if (load<u64>(from - 8) > load<u64>(from)) return false;
  return true;
}

/** One round of Shell's sort. */
// @ts-ignore: decorator
@inline
function insert(pairs: usize, begin: i32, end: i32, gap: i32): void {
  const step = <usize>gap << 3;
  const first = pairs + (<usize>begin << 3) + step;
  const last = pairs + (<usize>end << 3);
  for (let at = first; at < last; at += 8) {
    const pair = load<u64>(at);
    let to = at;
    while (to >= first && load<u64>(to - step) > pair) {
      store<u64>(to, load<u64>(to - step));
      to -= step;
    }
    store<u64>(to, pair);
  }
}
