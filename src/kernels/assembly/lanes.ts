// Sums and maxima over the lanes of a vector, and counters in memory.

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
