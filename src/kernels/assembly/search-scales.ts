// The search for the scales of blocks: each lane tries one, and the one with the least weighted squared error wins.

// @ts-ignore: decorator
@inline
export const BLOCK = 32;

/** Distance of the inverse scales that are tried, in levels. */
const STEP: f32 = 0.1;

/** Far beyond what a float16 scale can hold, and small enough that sums of squares are finite. */
const LARGEST: f32 = 1e12;

// Work memory of one block, f32: x or x - low, weights, and w x or w (x - mean). One address and fixed offsets reach all three.
const work = memory.data(BLOCK * 12, 16);
// @ts-ignore: decorator
@inline
const WEIGHTS = BLOCK * 4;
// @ts-ignore: decorator
@inline
const WEIGHTED = BLOCK * 8;

/** The minimum that belongs to the scale of the last `searchAffine`. */
export let minimum: f32 = 0;

// @ts-ignore: decorator
@inline
export function largestLane(x: v128): f32 {
  const y = f32x4.max(x, v128.shuffle<i32>(x, x, 2, 3, 0, 1));
  return f32x4.extract_lane(f32x4.max(y, v128.shuffle<i32>(y, y, 1, 0, 3, 2)), 0);
}

// @ts-ignore: decorator
@inline
function smallestLane(x: v128): f32 {
  const y = f32x4.min(x, v128.shuffle<i32>(x, x, 2, 3, 0, 1));
  return f32x4.extract_lane(f32x4.min(y, v128.shuffle<i32>(y, y, 1, 0, 3, 2)), 0);
}

// @ts-ignore: decorator
@inline
function sumOfLanes(x: v128): f32 {
  const y = f32x4.add(x, v128.shuffle<i32>(x, x, 2, 3, 0, 1));
  return f32x4.extract_lane(f32x4.add(y, v128.shuffle<i32>(y, y, 1, 0, 3, 2)), 0);
}

// @ts-ignore: decorator
@inline
export function clamp(x: v128, least: f32, most: f32): v128 {
  return f32x4.pmin(f32x4.pmax(x, f32x4.splat(least)), f32x4.splat(most));
}

/** The value of the lane in which `gain` is largest. */
// @ts-ignore: decorator
@inline
function best(gain: v128, values: v128): f32 {
  let most = f32x4.extract_lane(gain, 0);
  let found = f32x4.extract_lane(values, 0);
  if (f32x4.extract_lane(gain, 1) > most) {
    most = f32x4.extract_lane(gain, 1);
    found = f32x4.extract_lane(values, 1);
  }
  if (f32x4.extract_lane(gain, 2) > most) {
    most = f32x4.extract_lane(gain, 2);
    found = f32x4.extract_lane(values, 2);
  }
  return f32x4.extract_lane(gain, 3) > most ? f32x4.extract_lane(values, 3) : found;
}

/**
 * The scale s of x = s l, l from -half to half - 1, for `n` elements. The largest magnitude comes near the level -half, as
 * there is one more level below zero than above.
 * @param squared weights x^2 (else 1)
 * @returns 0 for zeros; NaN or infinite where an element is
 */
export function searchSymmetric(x: usize, n: i32, half: f32, squared: bool): f32 {
  let low = v128.load(x);
  let high = low;
  for (let i = 4; i < n; i += 4) {
    const v = v128.load(x + (i << 2));
    low = f32x4.min(low, v);
    high = f32x4.max(high, v);
  }
  const least = smallestLane(low);
  const most = largestLane(high);
  const extreme = -least > most ? least : most;
  if (!(abs(extreme) < LARGEST)) return f32.NaN;
  if (abs(extreme) < 1e-30) return 0;
  const end = work + (<usize>n << 2);
  for (let at = work; at < end; at += 16) {
    const v = v128.load(x + at - work);
    v128.store(at, v);
    v128.store(at, squared ? f32x4.mul(v, v) : f32x4.splat(1), WEIGHTS);
    v128.store(at, squared ? f32x4.mul(f32x4.mul(v, v), v) : v, WEIGHTED);
  }
  let bestGain = f32x4.splat(-1);
  let bestScale = f32x4.splat(0);
  for (let group = 0; group < 5; group++) {
    const first: f32 = STEP * ((group as f32) * 4 - 10);
    const stretch = f32x4.add(f32x4.splat(half + first), f32x4(0, STEP, 2 * STEP, 3 * STEP));
    const inverse = f32x4.div(f32x4.neg(stretch), f32x4.splat(extreme));
    let xl = f32x4.splat(0);
    let ll = f32x4.splat(0);
    for (let at = work; at < end; at += 4) {
      const level = clamp(f32x4.nearest(f32x4.mul(v128.load32_splat(at), inverse)), -half, half - 1);
      xl = f32x4.add(xl, f32x4.mul(v128.load32_splat(at, WEIGHTED), level));
      ll = f32x4.add(ll, f32x4.mul(f32x4.mul(v128.load32_splat(at, WEIGHTS), level), level));
    }
    const scale = f32x4.div(xl, ll);
    const gain = f32x4.mul(scale, xl);
    const better = f32x4.gt(gain, bestGain);
    bestGain = v128.bitselect(gain, bestGain, better);
    bestScale = v128.bitselect(scale, bestScale, better);
  }
  return best(bestGain, bestScale);
}

/** Gain, scale and lowest value of the best scale so far, in each lane. */
const bests = memory.data(48, 16);
/** Sum of the weights, and the weighted mean, of the block in `searchAffine`. */
let total: f32 = 0;
let mean: f32 = 0;

/** Sets where levels begin. What is below has the level 0, as no inverse scale is negative. */
function storeAbove(x: usize, low: f32): void {
  for (let i = 0; i < BLOCK * 4; i += 16) {
    v128.store(work + i, f32x4.pmax(f32x4.sub(v128.load(x + i), f32x4.splat(low)), f32x4.splat(0)));
  }
}

/**
 * Rounds the 32 elements of `storeAbove` to levels of at most `top`, one inverse scale per lane, and fits x = s l + b to each
 * by least squares; b is at most 0. Keeps the fits that are better than those so far.
 */
function fitLevels(inverse: v128, top: f32): void {
  let l1 = f32x4.splat(0);
  let l2 = f32x4.splat(0);
  let cl = f32x4.splat(0);
  for (let at = work; at < work + BLOCK * 4; at += 4) {
    const level = f32x4.pmin(f32x4.nearest(f32x4.mul(v128.load32_splat(at), inverse)), f32x4.splat(top));
    const wl = f32x4.mul(v128.load32_splat(at, WEIGHTS), level);
    l1 = f32x4.add(l1, wl);
    l2 = f32x4.add(l2, f32x4.mul(wl, level));
    cl = f32x4.add(cl, f32x4.mul(v128.load32_splat(at, WEIGHTED), level));
  }
  // Fits are compared by the variance that they explain, as sums of squares would cancel.
  const centre = f32x4.splat(mean);
  const middle = f32x4.div(l1, f32x4.splat(total));
  const spread = f32x4.sub(l2, f32x4.mul(l1, middle));
  const slope = f32x4.div(cl, spread);
  const begin = f32x4.sub(centre, f32x4.mul(slope, middle));
  const above = f32x4.gt(begin, f32x4.splat(0));
  const ratio = f32x4.div(f32x4.add(cl, f32x4.mul(centre, l1)), l2);
  const scale = v128.bitselect(ratio, slope, above);
  const b = v128.bitselect(f32x4.splat(0), begin, above);
  const bias = f32x4.sub(f32x4.add(b, f32x4.mul(scale, middle)), centre);
  const explained = f32x4.mul(scale, f32x4.sub(f32x4.add(cl, cl), f32x4.mul(scale, spread)));
  const gain = f32x4.sub(explained, f32x4.mul(f32x4.splat(total), f32x4.mul(bias, bias)));
  const known = v128.load(bests);
  const better = v128.and(f32x4.gt(gain, known), f32x4.gt(spread, f32x4.splat(0)));
  v128.store(bests, v128.bitselect(gain, known, better));
  v128.store(bests, v128.bitselect(scale, v128.load(bests, 16), better), 16);
  v128.store(bests, v128.bitselect(b, v128.load(bests, 32), better), 32);
}

/**
 * The scale s and, in `minimum`, the m of x = s l - m, l from 0 to `top`, m from 0, for 32 elements. Weights are |x| plus
 * the root of the mean square. Levels that begin at the lowest element are tried first, with `groups` times four inverse
 * scales from (top + from) / range on; then those that begin where the best of these fits does.
 */
export function searchAffine(x: usize, top: f32, from: f32, groups: i32): f32 {
  let low = v128.load(x);
  let high = low;
  let squares = f32x4.mul(low, low);
  for (let i = 16; i < BLOCK * 4; i += 16) {
    const v = v128.load(x + i);
    low = f32x4.min(low, v);
    high = f32x4.max(high, v);
    squares = f32x4.add(squares, f32x4.mul(v, v));
  }
  const least = min<f32>(smallestLane(low), 0);
  const range = largestLane(high) - least;
  minimum = -least;
  if (!(range < LARGEST)) return f32.NaN;
  if (range < 1e-30) return 0;
  const root = f32x4.splat(sqrt<f32>(sumOfLanes(squares) / 32));
  let totals = f32x4.splat(0);
  let products = f32x4.splat(0);
  for (let i = 0; i < BLOCK * 4; i += 16) {
    const v = v128.load(x + i);
    const w = f32x4.add(root, f32x4.abs(v));
    v128.store(work + i, w, WEIGHTS);
    totals = f32x4.add(totals, w);
    products = f32x4.add(products, f32x4.mul(w, v));
  }
  total = sumOfLanes(totals);
  mean = sumOfLanes(products) / total;
  for (let i = 0; i < BLOCK * 4; i += 16) {
    const difference = f32x4.sub(v128.load(x + i), f32x4.splat(mean));
    v128.store(work + i, f32x4.mul(v128.load(work + i, WEIGHTS), difference), WEIGHTED);
  }
  v128.store(bests, f32x4.splat(-1));
  v128.store(bests, f32x4.splat(range / top), 16);
  v128.store(bests, f32x4.splat(least), 32);
  storeAbove(x, least);
  for (let group = 0; group < groups; group++) {
    const first: f32 = top + from + STEP * ((group as f32) * 4);
    const stretch = f32x4.add(f32x4.splat(first), f32x4(0, STEP, 2 * STEP, 3 * STEP));
    fitLevels(f32x4.div(stretch, f32x4.splat(range)), top);
  }
  for (let round = 0; round < 2; round++) {
    const scale = best(v128.load(bests), v128.load(bests, 16));
    const begin = best(v128.load(bests), v128.load(bests, 32));
    const stretch = round == 0 ? f32x4(0.97, 0.99, 1, 1.02) : f32x4(0.98, 1, 1.01, 1.03);
    storeAbove(x, begin);
    fitLevels(f32x4.div(stretch, f32x4.splat(scale)), top);
  }
  minimum = -best(v128.load(bests), v128.load(bests, 32));
  return best(v128.load(bests), v128.load(bests, 16));
}
