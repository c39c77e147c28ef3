// Sums and maxima over the lanes of a vector, conversions between float32 and float64, and counters in memory.

@inline
export function addLanes(sum: v128): f64 {
  return f64x2.extract_lane(sum, 0) + f64x2.extract_lane(sum, 1);
}

/** How many lanes were true, added up where a true lane is -1. */
@inline
export function countLanes(counts: v128): i32 {
  return -(
    i32x4.extract_lane(counts, 0) +
    i32x4.extract_lane(counts, 1) +
    i32x4.extract_lane(counts, 2) +
    i32x4.extract_lane(counts, 3)
  );
}

@inline
export function largestLane(x: v128): f32 {
  const y = f32x4.max(x, v128.shuffle<i32>(x, x, 2, 3, 0, 1));
  return f32x4.extract_lane(f32x4.max(y, v128.shuffle<i32>(y, y, 1, 0, 3, 2)), 0);
}

@inline
export function increment(counts: usize, key: u32): void {
  const at = counts + (<usize>key << 2);
  store<u32>(at, load<u32>(at) + 1);
}

/** Two float32 from an address on, as float64. */
@inline
export function promoted(at: usize): v128 {
  return f64x2.promote_low_f32x4(v128.load64_zero(at));
}

/** Stores four float64 as float32. */
@inline
export function roundTo(at: usize, low: v128, high: v128): void {
  const first = f32x4.demote_f64x2_zero(low);
  v128.store(at, v128.shuffle<i64>(first, f32x4.demote_f64x2_zero(high), 0, 2));
}
