// The search for the scales of blocks: each lane tries one, and the one with the least weighted squared error wins. The sums
// of many fits are formed before any of these is compared, as a comparison waits for divisions.

export const BLOCK = 32;

/** Blocks that are searched together at most. */
export const MOST = 16;

/** Distance of the inverse scales that are tried, in levels. */
const STEP: f32 = 0.1;

/** Far beyond what a float16 scale can hold, and small enough that sums of squares are finite. */
const LARGEST: f32 = 1e12;

// Offsets in the work memory of a block. From 0 on, in f32: x or x - low, then weights, then w x or w (x - mean).
const WEIGHTS = BLOCK * 4;
const WEIGHTED = BLOCK * 8;
// The best fit so far in each lane.
const GAIN = BLOCK * 12;
const SCALE = GAIN + 16;
const LOWEST = GAIN + 32;
// Of the weights, the sum and the weighted mean; the range of x, or its element with the largest magnitude.
const TOTAL = GAIN + 48;
const MEAN = GAIN + 52;
const RANGE = GAIN + 56;
// Of four fits, the sums of w l, w l l and w x l; there are at most six such groups.
const SUMS = GAIN + 64;
const GROUP = 48;
const SIZE = SUMS + 6 * GROUP;
const work = memory.data(SIZE * MOST, 16);

/** What the last search found, f32 by block. */
export const scales = memory.data(MOST * 4, 16);
export const minimums = memory.data(MOST * 4, 16);

@inline
function largestOf(x: v128): v128 {
  const y = f32x4.pmax(x, v128.shuffle<i32>(x, x, 2, 3, 0, 1));
  return f32x4.pmax(y, v128.shuffle<i32>(y, y, 1, 0, 3, 2));
}

@inline
function smallestOf(x: v128): v128 {
  const y = f32x4.pmin(x, v128.shuffle<i32>(x, x, 2, 3, 0, 1));
  return f32x4.pmin(y, v128.shuffle<i32>(y, y, 1, 0, 3, 2));
}

@inline
function sumOf(x: v128): v128 {
  const y = f32x4.add(x, v128.shuffle<i32>(x, x, 2, 3, 0, 1));
  return f32x4.add(y, v128.shuffle<i32>(y, y, 1, 0, 3, 2));
}

@inline
function first(x: v128): f32 {
  return f32x4.extract_lane(x, 0);
}

/** Sets what is found if no fit is better. Without weights none is. */
@inline
function beginFits(block: usize, scale: f32, lowest: f32, isSearched: bool): void {
  v128.store(block, f32x4.splat(-1), GAIN);
  v128.store(block, f32x4.splat(scale), SCALE);
  v128.store(block, f32x4.splat(lowest), LOWEST);
  if (!isSearched) memory.fill(block + WEIGHTS, 0, BLOCK * 8);
}

/** The lane with the largest gain, as an address that SCALE and LOWEST are offsets from. */
@inline
function bestLane(block: usize): usize {
  const gain = v128.load(block, GAIN);
  return block + (ctz(i32x4.bitmask(f32x4.eq(gain, largestOf(gain)))) << 2);
}

function beginSymmetric(x: usize, block: usize, bytes: usize, squared: bool): void {
  let low = v128.load(x);
  let high = low;
  let sum = f32x4.splat(0);
  for (let i: usize = 0; i < bytes; i += 16) {
    const v = v128.load(x + i);
    const square = f32x4.mul(v, v);
    low = f32x4.pmin(low, v);
    high = f32x4.pmax(high, v);
    sum = f32x4.add(sum, v);
    v128.store(block + i, v);
    v128.store(block + i, squared ? square : f32x4.splat(1), WEIGHTS);
    v128.store(block + i, squared ? f32x4.mul(square, v) : v, WEIGHTED);
  }
  const least = first(smallestOf(low));
  const most = first(largestOf(high));
  const extreme = -least > most ? least : most;
  const isFinite = abs(extreme) < LARGEST && !isNaN(first(sumOf(sum)));
  store<f32>(block, extreme, RANGE);
  beginFits(block, isFinite ? 0 : f32.NaN, 0, isFinite && abs(extreme) >= 1e-30);
}

/** Rounds two blocks to levels from -half to half - 1, one inverse scale per lane, and sums for a group of fits of each. */
function sumSymmetric(a: usize, b: usize, bytes: usize, group: usize, inverseA: v128, inverseB: v128, half: f32): void {
  const least = f32x4.splat(-half);
  const most = f32x4.splat(half - 1);
  let xlA = f32x4.splat(0);
  let llA = f32x4.splat(0);
  let xlB = f32x4.splat(0);
  let llB = f32x4.splat(0);
  let i: usize = 0;
  do {
    const levelA = f32x4.pmin(f32x4.pmax(f32x4.nearest(f32x4.mul(v128.load32_splat(a + i), inverseA)), least), most);
    const levelB = f32x4.pmin(f32x4.pmax(f32x4.nearest(f32x4.mul(v128.load32_splat(b + i), inverseB)), least), most);
    xlA = f32x4.add(xlA, f32x4.mul(v128.load32_splat(a + i, WEIGHTED), levelA));
    xlB = f32x4.add(xlB, f32x4.mul(v128.load32_splat(b + i, WEIGHTED), levelB));
    llA = f32x4.add(llA, f32x4.mul(f32x4.mul(v128.load32_splat(a + i, WEIGHTS), levelA), levelA));
    llB = f32x4.add(llB, f32x4.mul(f32x4.mul(v128.load32_splat(b + i, WEIGHTS), levelB), levelB));
    i += 4;
  } while (i < bytes);
  v128.store(a + group, llA, SUMS + 16);
  v128.store(a + group, xlA, SUMS + 32);
  v128.store(b + group, llB, SUMS + 16);
  v128.store(b + group, xlB, SUMS + 32);
}

/** Fits x = s l to the five groups of sums by least squares. */
function keepSymmetric(block: usize): void {
  let bestGain = v128.load(block, GAIN);
  let bestScale = v128.load(block, SCALE);
  for (let at = block; at < block + 5 * GROUP; at += GROUP) {
    const xl = v128.load(at, SUMS + 32);
    const scale = f32x4.div(xl, v128.load(at, SUMS + 16));
    const gain = f32x4.mul(scale, xl);
    const better = f32x4.gt(gain, bestGain);
    bestGain = v128.bitselect(gain, bestGain, better);
    bestScale = v128.bitselect(scale, bestScale, better);
  }
  v128.store(block, bestGain, GAIN);
  v128.store(block, bestScale, SCALE);
}

/**
 * The scales s of x = s l, l from -half to half - 1, for `count` blocks of `n` elements. The largest magnitude comes near the
 * level -half, as there is one more level below zero than above. A scale is 0 for zeros, NaN where an element is not finite.
 * @param squared weights x^2 (else 1)
 */
export function searchSymmetric(x: usize, count: i32, n: i32, half: f32, squared: bool): void {
  const bytes = n << 2;
  for (let i = 0; i < count; i++) beginSymmetric(x + i * bytes, work + i * SIZE, bytes, squared);
  for (let i = 0; i < count; i += 2) {
    const a = work + i * SIZE;
    const b = work + min(i + 1, count - 1) * SIZE;
    for (let group = 0; group < 5; group++) {
      const from: f32 = half + STEP * ((group as f32) * 4 - 10);
      const stretch = f32x4.neg(f32x4.add(f32x4.splat(from), f32x4(0, STEP, 2 * STEP, 3 * STEP)));
      const inverseA = f32x4.div(stretch, v128.load32_splat(a, RANGE));
      const inverseB = f32x4.div(stretch, v128.load32_splat(b, RANGE));
      sumSymmetric(a, b, bytes, group * GROUP, inverseA, inverseB, half);
    }
  }
  for (let i = 0; i < count; i++) {
    keepSymmetric(work + i * SIZE);
    store<f32>(scales + (i << 2), load<f32>(bestLane(work + i * SIZE), SCALE));
  }
}

/** Sets where levels begin. What is below has the level 0, as no inverse scale is negative. */
@inline
function storeAbove(x: usize, block: usize, low: v128): void {
  for (let i = 0; i < BLOCK * 4; i += 16) {
    v128.store(block + i, f32x4.pmax(f32x4.sub(v128.load(x + i), low), f32x4.splat(0)));
  }
}

/** Weights are |x| plus the root of the mean square. */
function beginAffine(x: usize, block: usize, top: f32): void {
  let low = v128.load(x);
  let high = low;
  let squares = f32x4.mul(low, low);
  for (let i = 16; i < BLOCK * 4; i += 16) {
    const v = v128.load(x + i);
    low = f32x4.pmin(low, v);
    high = f32x4.pmax(high, v);
    squares = f32x4.add(squares, f32x4.mul(v, v));
  }
  const square = first(sumOf(squares));
  const least = isNaN(square) ? square : min<f32>(first(smallestOf(low)), 0);
  const range = first(largestOf(high)) - least;
  const root = f32x4.splat(sqrt<f32>(square / 32));
  let totals = f32x4.splat(0);
  let products = f32x4.splat(0);
  for (let i = 0; i < BLOCK * 4; i += 16) {
    const v = v128.load(x + i);
    const w = f32x4.add(root, f32x4.abs(v));
    v128.store(block + i, w, WEIGHTS);
    totals = f32x4.add(totals, w);
    products = f32x4.add(products, f32x4.mul(w, v));
  }
  const total = sumOf(totals);
  const mean = f32x4.div(sumOf(products), total);
  for (let i = 0; i < BLOCK * 4; i += 16) {
    const difference = f32x4.sub(v128.load(x + i), mean);
    v128.store(block + i, f32x4.mul(v128.load(block + i, WEIGHTS), difference), WEIGHTED);
  }
  storeAbove(x, block, f32x4.splat(least));
  store<f32>(block, first(total), TOTAL);
  store<f32>(block, first(mean), MEAN);
  store<f32>(block, range, RANGE);
  const isSearched = range < LARGEST && range >= 1e-30;
  beginFits(block, isSearched ? range / top : range < LARGEST ? 0 : f32.NaN, least, isSearched);
}

/** Rounds a block to levels of at most `top`, one inverse scale per lane, and sums for the first group of its fits. */
function sumGroup(block: usize, inverse: v128, top: f32): void {
  const most = f32x4.splat(top);
  let l1 = f32x4.splat(0);
  let l2 = f32x4.splat(0);
  let cl = f32x4.splat(0);
  let at = block;
  do {
    const level = f32x4.pmin(f32x4.nearest(f32x4.mul(v128.load32_splat(at), inverse)), most);
    const wl = f32x4.mul(v128.load32_splat(at, WEIGHTS), level);
    l1 = f32x4.add(l1, wl);
    l2 = f32x4.add(l2, f32x4.mul(wl, level));
    cl = f32x4.add(cl, f32x4.mul(v128.load32_splat(at, WEIGHTED), level));
    at += 4;
  } while (at < block + BLOCK * 4);
  v128.store(block, l1, SUMS);
  v128.store(block, l2, SUMS + 16);
  v128.store(block, cl, SUMS + 32);
}

/** The same for two groups, from `group` on, with each element loaded once. */
function sumGroups(block: usize, group: usize, inverseA: v128, inverseB: v128, top: f32): void {
  const most = f32x4.splat(top);
  let l1A = f32x4.splat(0);
  let l2A = f32x4.splat(0);
  let clA = f32x4.splat(0);
  let l1B = f32x4.splat(0);
  let l2B = f32x4.splat(0);
  let clB = f32x4.splat(0);
  let at = block;
  do {
    const x = v128.load32_splat(at);
    const w = v128.load32_splat(at, WEIGHTS);
    const c = v128.load32_splat(at, WEIGHTED);
    const levelA = f32x4.pmin(f32x4.nearest(f32x4.mul(x, inverseA)), most);
    const levelB = f32x4.pmin(f32x4.nearest(f32x4.mul(x, inverseB)), most);
    const wlA = f32x4.mul(w, levelA);
    const wlB = f32x4.mul(w, levelB);
    l1A = f32x4.add(l1A, wlA);
    l1B = f32x4.add(l1B, wlB);
    l2A = f32x4.add(l2A, f32x4.mul(wlA, levelA));
    l2B = f32x4.add(l2B, f32x4.mul(wlB, levelB));
    clA = f32x4.add(clA, f32x4.mul(c, levelA));
    clB = f32x4.add(clB, f32x4.mul(c, levelB));
    at += 4;
  } while (at < block + BLOCK * 4);
  block += group;
  v128.store(block, l1A, SUMS);
  v128.store(block, l2A, SUMS + 16);
  v128.store(block, clA, SUMS + 32);
  v128.store(block, l1B, SUMS + GROUP);
  v128.store(block, l2B, SUMS + GROUP + 16);
  v128.store(block, clB, SUMS + GROUP + 32);
}

/** Fits x = s l + b to the first `groups` of sums by least squares; b is at most 0. */
function keepAffine(block: usize, groups: i32): void {
  // Fits are compared by the variance that they explain, as sums of squares would cancel.
  const centre = v128.load32_splat(block, MEAN);
  const total = v128.load32_splat(block, TOTAL);
  let bestGain = v128.load(block, GAIN);
  let bestScale = v128.load(block, SCALE);
  let lowest = v128.load(block, LOWEST);
  for (let at = block; at < block + groups * GROUP; at += GROUP) {
    const l1 = v128.load(at, SUMS);
    const l2 = v128.load(at, SUMS + 16);
    const cl = v128.load(at, SUMS + 32);
    const middle = f32x4.div(l1, total);
    const spread = f32x4.sub(l2, f32x4.mul(l1, middle));
    const slope = f32x4.div(cl, spread);
    const begin = f32x4.sub(centre, f32x4.mul(slope, middle));
    const ratio = f32x4.div(f32x4.add(cl, f32x4.mul(centre, l1)), l2);
    const scale = v128.bitselect(ratio, slope, f32x4.gt(begin, f32x4.splat(0)));
    const b = f32x4.pmin(f32x4.splat(0), begin);
    const bias = f32x4.sub(f32x4.add(b, f32x4.mul(scale, middle)), centre);
    const explained = f32x4.mul(scale, f32x4.sub(f32x4.add(cl, cl), f32x4.mul(scale, spread)));
    const gain = f32x4.sub(explained, f32x4.mul(total, f32x4.mul(bias, bias)));
    const better = v128.and(f32x4.gt(gain, bestGain), f32x4.gt(spread, f32x4.splat(0)));
    bestGain = v128.bitselect(gain, bestGain, better);
    bestScale = v128.bitselect(scale, bestScale, better);
    lowest = v128.bitselect(b, lowest, better);
  }
  v128.store(block, bestGain, GAIN);
  v128.store(block, bestScale, SCALE);
  v128.store(block, lowest, LOWEST);
}

/**
 * The scales s and, in `minimums`, the m of x = s l - m, l from 0 to `top`, m from 0, for `count` blocks of 32 elements.
 * Levels that begin at the lowest element are tried first, with `groups` (an even number) times four inverse scales from
 * (top + from) / range on; then those that begin where the best of these fits does.
 */
export function searchAffine(x: usize, count: i32, top: f32, from: f32, groups: i32): void {
  for (let i = 0; i < count; i++) {
    const block = work + i * SIZE;
    beginAffine(x + i * BLOCK * 4, block, top);
    const range = v128.load32_splat(block, RANGE);
    const steps = f32x4(0, STEP, 2 * STEP, 3 * STEP);
    for (let group = 0; group < groups; group += 2) {
      const a = f32x4.add(f32x4.splat(top + from + STEP * ((group as f32) * 4)), steps);
      const b = f32x4.add(f32x4.splat(top + from + STEP * (((group + 1) as f32) * 4)), steps);
      sumGroups(block, group * GROUP, f32x4.div(a, range), f32x4.div(b, range), top);
    }
  }
  for (let i = 0; i < count; i++) keepAffine(work + i * SIZE, groups);
  for (let round = 0; round < 2; round++) {
    const stretch = round == 0 ? f32x4(0.97, 0.99, 1, 1.02) : f32x4(0.98, 1, 1.01, 1.03);
    for (let i = 0; i < count; i++) {
      const block = work + i * SIZE;
      const lane = bestLane(block);
      storeAbove(x + i * BLOCK * 4, block, v128.load32_splat(lane, LOWEST));
      sumGroup(block, f32x4.div(stretch, v128.load32_splat(lane, SCALE)), top);
    }
    for (let i = 0; i < count; i++) keepAffine(work + i * SIZE, 1);
  }
  for (let i = 0; i < count; i++) {
    const lane = bestLane(work + i * SIZE);
    store<f32>(scales + (i << 2), load<f32>(lane, SCALE));
    store<f32>(minimums + (i << 2), -load<f32>(lane, LOWEST));
  }
}
