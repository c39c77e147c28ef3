// float32 to the stored dtype with one rounding, to nearest, ties to even. Every NaN becomes the one canonical quiet
// NaN of the dtype: WebAssembly leaves a NaN's sign and payload to the machine, and the same inputs must give the
// same bytes on all of them.
@inline
function isNaN4(x: v128): v128 {
  return f32x4.ne(x, x);
}

/** Adds just under half a unit of the kept part, one more if that part is odd, and cuts. Infinity stays infinity. */
@inline
function roundBF16(x: v128): v128 {
  const odd = v128.and(i32x4.shr_u(x, 16), i32x4.splat(1));
  const rounded = i32x4.shr_u(i32x4.add(i32x4.add(x, i32x4.splat(0x7fff)), odd), 16);
  return v128.bitselect(i32x4.splat(0x7fc0), rounded, isNaN4(x));
}

export function encodeBF16(acc: usize, dst: usize, n: i32): void {
  do {
    v128.store(dst, i16x8.narrow_i32x4_u(roundBF16(v128.load(acc)), roundBF16(v128.load(acc, 16))));
    acc += 32;
    dst += 16;
    n -= 8;
  } while (n > 0);
}

/**
 * Four float32 to float16 in 32-bit lanes. Three ranges, computed together and selected:
 * 65536 and up is infinity; below 2^-14 a float32 addition of 0.5 does the rounding at the place of the last
 * subnormal bit; between them the exponent is re-biased and the mantissa rounded as integers.
 */
@inline
export function roundF16(x: v128): v128 {
  const magnitude = v128.and(x, i32x4.splat(0x7fffffff));
  const sign = v128.xor(x, magnitude);
  const subnormal = i32x4.sub(f32x4.add(magnitude, f32x4.splat(0.5)), i32x4.splat(0x3f000000));
  const odd = v128.and(i32x4.shr_u(magnitude, 13), i32x4.splat(1));
  const rebiased = i32x4.add(i32x4.add(magnitude, i32x4.splat(0xfff - 0x38000000)), odd); // 0x38000000: 112 << 23
  const normal = i32x4.shr_u(rebiased, 13);
  let half = v128.bitselect(subnormal, normal, i32x4.lt_s(magnitude, i32x4.splat(0x38800000))); // 2^-14
  half = v128.bitselect(i32x4.splat(0x7c00), half, i32x4.ge_s(magnitude, i32x4.splat(0x47800000))); // 65536
  half = v128.or(half, i32x4.shr_u(sign, 16));
  return v128.bitselect(i32x4.splat(0x7e00), half, isNaN4(x));
}

export function encodeF16(acc: usize, dst: usize, n: i32): void {
  do {
    v128.store(dst, i16x8.narrow_i32x4_u(roundF16(v128.load(acc)), roundF16(v128.load(acc, 16))));
    acc += 32;
    dst += 16;
    n -= 8;
  } while (n > 0);
}

/**
 * Four float32 to float8 (E4M3) in 32-bit lanes, at most 448. Below 2^-6 a float32 addition of 2^14 rounds at the place of
 * the last subnormal bit, 2^-9.
 */
@inline
function roundF8(x: v128): v128 {
  const whole = v128.and(x, i32x4.splat(0x7fffffff));
  const magnitude = f32x4.pmin(whole, f32x4.splat(448));
  const subnormal = i32x4.sub(f32x4.add(magnitude, f32x4.splat(16384)), i32x4.splat(0x46800000)); // 2^14
  const odd = v128.and(i32x4.shr_u(magnitude, 20), i32x4.splat(1));
  const rebiased = i32x4.add(i32x4.add(magnitude, i32x4.splat(0x7ffff - 0x3c000000)), odd); // 0x3c000000: 120 << 23
  const normal = i32x4.shr_u(rebiased, 20);
  const code = v128.bitselect(subnormal, normal, i32x4.lt_s(magnitude, i32x4.splat(0x3c800000))); // 2^-6
  const signed = v128.or(code, i32x4.shr_u(v128.xor(x, whole), 24));
  return v128.bitselect(i32x4.splat(0x7f), signed, isNaN4(x));
}

export function encodeF8_E4M3(acc: usize, dst: usize, n: i32): void {
  do {
    const codes = i16x8.narrow_i32x4_u(roundF8(v128.load(acc)), roundF8(v128.load(acc, 16)));
    v128.store64_lane(dst, i8x16.narrow_i16x8_u(codes, codes), 0);
    acc += 32;
    dst += 8;
    n -= 8;
  } while (n > 0);
}

export function encodeF32(acc: usize, dst: usize, n: i32): void {
  const quiet = i32x4.splat(0x7fc00000);
  do {
    const x = v128.load(acc);
    v128.store(dst, v128.bitselect(quiet, x, isNaN4(x)));
    acc += 16;
    dst += 16;
    n -= 4;
  } while (n > 0);
}

/** How many elements are infinite or NaN: all bits of their exponent, which `mask` has, are set. */
@inline
function countNonFinite<T>(src: usize, n: i32, mask: v128): i32 {
  const end = src + n * sizeof<T>();
  let count = 0;
  for (; src < end; src += 16) {
    count += popcnt(v128.bitmask<T>(v128.eq<T>(v128.and(v128.load(src), mask), mask)));
  }
  return count;
}

export function countNonFiniteBF16(src: usize, n: i32): i32 {
  return countNonFinite<i16>(src, n, i16x8.splat(0x7f80));
}

export function countNonFiniteF16(src: usize, n: i32): i32 {
  return countNonFinite<i16>(src, n, i16x8.splat(0x7c00));
}

export function countNonFiniteF32(src: usize, n: i32): i32 {
  return countNonFinite<i32>(src, n, i32x4.splat(0x7f800000));
}

export function countNonFiniteF64(src: usize, n: i32): i32 {
  return countNonFinite<i64>(src, n, i64x2.splat(0x7ff0000000000000));
}
