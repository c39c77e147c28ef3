// What lies between two float32 arrays, summed up in one pass. Differences are float32, sums are float64.

/**
 * Writes five float64 to `out`: sum of |a - b|, sum of (a - b)^2, largest |a - b|, how many differ, and how many
 * differences are not finite (those count as differing and enter none of the sums).
 */
export function deltaStatistics(a: usize, b: usize, n: i32, out: usize): void {
  let sumLow = f64x2.splat(0);
  let sumHigh = f64x2.splat(0);
  let squareLow = f64x2.splat(0);
  let squareHigh = f64x2.splat(0);
  let largest = f32x4.splat(0);
  let differing = i32x4.splat(0); // a true lane is -1
  let broken = i32x4.splat(0);
  const mask = i32x4.splat(0x7fffffff);
  const infinity = i32x4.splat(0x7f800000);
  for (let i = 0; i < n; i += 4) {
    let d = v128.and(f32x4.sub(v128.load(a), v128.load(b)), mask);
    const wrong = i32x4.ge_s(d, infinity);
    broken = i32x4.add(broken, wrong);
    differing = i32x4.add(differing, i32x4.ne(d, i32x4.splat(0)));
    d = v128.andnot(d, wrong);
    largest = f32x4.pmax(largest, d);
    const low = f64x2.promote_low_f32x4(d);
    const high = f64x2.promote_low_f32x4(v128.shuffle<i64>(d, d, 1, 0));
    sumLow = f64x2.add(sumLow, low);
    sumHigh = f64x2.add(sumHigh, high);
    squareLow = f64x2.add(squareLow, f64x2.mul(low, low));
    squareHigh = f64x2.add(squareHigh, f64x2.mul(high, high));
    a += 16;
    b += 16;
  }
  const sum = f64x2.add(sumLow, sumHigh);
  const square = f64x2.add(squareLow, squareHigh);
  store<f64>(out, f64x2.extract_lane(sum, 0) + f64x2.extract_lane(sum, 1));
  store<f64>(out, f64x2.extract_lane(square, 0) + f64x2.extract_lane(square, 1), 8);
  store<f64>(
    out,
    <f64>max(
      max(f32x4.extract_lane(largest, 0), f32x4.extract_lane(largest, 1)),
      max(f32x4.extract_lane(largest, 2), f32x4.extract_lane(largest, 3)),
    ),
    16,
  );
  store<f64>(out, <f64>countLanes(differing), 24);
  store<f64>(out, <f64>countLanes(broken), 32);
}

// @ts-ignore: decorator
@inline
function countLanes(counts: v128): i32 {
  return -(
    i32x4.extract_lane(counts, 0) +
    i32x4.extract_lane(counts, 1) +
    i32x4.extract_lane(counts, 2) +
    i32x4.extract_lane(counts, 3)
  );
}
