// Sums and maxima over the lanes of a vector, and counters in memory.

// @ts-ignore: decorator
@inline
export function addLanes(sum: v128): f64 {
  return f64x2.extract_lane(sum, 0) + f64x2.extract_lane(sum, 1);
}

/** How many lanes were true, added up where a true lane is -1. */
// @ts-ignore: decorator
@inline
export function countLanes(counts: v128): i32 {
  return -(
    i32x4.extract_lane(counts, 0) +
    i32x4.extract_lane(counts, 1) +
    i32x4.extract_lane(counts, 2) +
    i32x4.extract_lane(counts, 3)
  );
}

// @ts-ignore: decorator
@inline
export function largestLane(x: v128): f32 {
  return max(
    max(f32x4.extract_lane(x, 0), f32x4.extract_lane(x, 1)),
    max(f32x4.extract_lane(x, 2), f32x4.extract_lane(x, 3)),
  );
}

// @ts-ignore: decorator
@inline
export function increment(counts: usize, key: u32): void {
  const at = counts + (<usize>key << 2);
  store<u32>(at, load<u32>(at) + 1);
}
