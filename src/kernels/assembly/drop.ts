// Elements dropped at random: each element's number is a function of its index and a seed.
import { increment } from "./lanes";

/**
 * Four uniform 32-bit numbers for four indices under a seed: an integer hash of three rounds (the constants of "triple32",
 * by C. Wellons), with half of the seed in each of the first two.
 */
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
  do {
    const keptLow = i32x4.lt_u(uniform(low, s0, s1), limit);
    const keptHigh = i32x4.lt_u(uniform(high, s0, s1), limit);
    v128.store(a, v128.and(f32x4.mul(v128.load(a), factor), keptLow));
    v128.store(a, v128.and(f32x4.mul(v128.load(a, 16), factor), keptHigh), 16);
    low = i32x4.add(low, eight);
    high = i32x4.add(high, eight);
    a += 32;
    n -= 8;
  } while (n > 0);
}

/** Keys of magnitudes: the exponent and the first 7 bits of the fraction, as bfloat16 has them. */
const KEYS = 1 << 15;
/** How often a row has each key, all 0 between rows; and the probability of each. */
const counts: usize = memory.data((KEYS << 2) + 16, 16);
const shares: usize = memory.data((KEYS << 2) + 16, 16);

/**
 * Keeps each element of rows with a probability that grows with the rank of its magnitude in its row, and divides it by
 * that. Magnitudes with the same key share the mean of their ranks.
 */
export function dropByRank(
  a: usize,
  rows: i32,
  columns: i32,
  index: i32,
  seed0: i32,
  seed1: i32,
  density: f32,
  epsilon: f32,
  divide: bool,
): void {
  const low = columns > 1 ? density - epsilon : density;
  const step: f32 = columns > 1 ? epsilon / <f32>(columns - 1) : 0; // of half a rank
  const s0 = i32x4.splat(seed0);
  const s1 = i32x4.splat(seed1);
  for (let row = 0; row < rows; row++) {
    rankRow(a, columns, low, step);
    let indices = i32x4.add(i32x4.splat(index), i32x4(0, 1, 2, 3));
    const end = a + (<usize>columns << 2);
    for (; a + 16 <= end; a += 16) {
      v128.store(a, keptOf(a, uniform(indices, s0, s1), divide));
      indices = i32x4.add(indices, i32x4.splat(4));
    }
    if (a < end) {
      const isOwn = i32x4.lt_s(i32x4(0, 1, 2, 3), i32x4.splat(<i32>(end - a) >> 2));
      v128.store(a, v128.bitselect(keptOf(a, uniform(indices, s0, s1), divide), v128.load(a), isOwn));
    }
    a = end;
    index += columns;
  }
}

/** The key of a float32: its upper half without the sign. */
@inline
function keyOf(at: usize): u32 {
  return <u32>load<u16>(at, 2) & (KEYS - 1);
}

@inline
function shareOf(at: usize): usize {
  return <usize>keyOf(at) << 2;
}

@inline
function lowestLane(x: v128): u32 {
  const y = i32x4.min_u(x, v128.shuffle<i32>(x, x, 2, 3, 0, 1));
  return i32x4.extract_lane(i32x4.min_u(y, v128.shuffle<i32>(y, y, 1, 0, 3, 2)), 0);
}

@inline
function highestLane(x: v128): u32 {
  const y = i32x4.max_u(x, v128.shuffle<i32>(x, x, 2, 3, 0, 1));
  return i32x4.extract_lane(i32x4.max_u(y, v128.shuffle<i32>(y, y, 1, 0, 3, 2)), 0);
}

/** Four elements of a ranked row where a draw keeps them, else 0. */
@inline
function keptOf(a: usize, draw: v128, divide: bool): v128 {
  let share = v128.load32_zero(shares + shareOf(a));
  share = v128.load32_lane(shares + shareOf(a + 4), share, 1);
  share = v128.load32_lane(shares + shareOf(a + 8), share, 2);
  share = v128.load32_lane(shares + shareOf(a + 12), share, 3);
  const isKept = f32x4.lt(f32x4.convert_i32x4_s(i32x4.shr_u(draw, 8)), f32x4.mul(share, f32x4.splat(16777216)));
  const x = v128.load(a);
  return v128.and(divide ? f32x4.div(x, share) : x, isKept);
}

/** Writes to `shares` the probability of each key that a row has. */
function rankRow(a: usize, columns: i32, low: f32, step: f32): void {
  const end = a + (<usize>columns << 2);
  const one = i32x4.splat(1);
  const keys = i32x4.splat(KEYS - 1);
  let least = i32x4.splat(-1); // of what is not zero, minus 1
  let most = i32x4.splat(0);
  let at = a;
  for (; at + 16 <= end; at += 16) {
    const four = v128.and(i32x4.shr_u(v128.load(at), 16), keys);
    least = i32x4.min_u(least, i32x4.sub(four, one));
    most = i32x4.max_u(most, four);
    increment(counts, keyOf(at));
    increment(counts, keyOf(at + 4));
    increment(counts, keyOf(at + 8));
    increment(counts, keyOf(at + 12));
  }
  for (; at < end; at += 4) {
    const key = i32x4.splat(keyOf(at));
    least = i32x4.min_u(least, i32x4.sub(key, one));
    most = i32x4.max_u(most, key);
    increment(counts, keyOf(at));
  }
  const first = lowestLane(least) + 1;
  const last = highestLane(most);
  const zeros = load<u32>(counts);
  store<u32>(counts, 0);
  store<f32>(shares, min<f32>(low + step * <f32>(zeros - 1), 1)); // not read where zeros is 0
  let before = i32x4.splat(zeros);
  const none = i32x4.splat(0);
  for (let key = first; key <= last; key += 4) {
    const own = v128.load(counts + (<usize>key << 2));
    if (!v128.any_true(own)) continue;
    v128.store(counts + (<usize>key << 2), none);
    // Sums of the counts up to and with each.
    const pairs = i32x4.add(own, v128.shuffle<i32>(own, none, 4, 0, 1, 2));
    const through = i32x4.add(before, i32x4.add(pairs, v128.shuffle<i32>(pairs, none, 4, 4, 0, 1)));
    // Twice the mean rank: the first of the key, and the last.
    const ranks = i32x4.sub(i32x4.add(through, through), i32x4.add(own, i32x4.splat(1)));
    const share = f32x4.add(f32x4.splat(low), f32x4.mul(f32x4.convert_i32x4_s(ranks), f32x4.splat(step)));
    v128.store(shares + (<usize>key << 2), f32x4.pmin(share, f32x4.splat(1)));
    before = v128.shuffle<i32>(through, through, 3, 3, 3, 3);
  }
}
