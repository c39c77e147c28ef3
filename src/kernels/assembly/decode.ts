// Four or eight stored elements to float32 lanes, exactly: every bfloat16 and float16 value is a float32 value.

/**
 * Lower four of eight bfloat16 in `x`: a bfloat16 is the upper half of a float32, so each gets sixteen zero bits below it.
 * As an interleaving with zeros this is one instruction of x86 and of ARM; widening and shifting would be two or three.
 */
@inline
export function lowBF16(x: v128): v128 {
  return v128.shuffle<i16>(i16x8.splat(0), x, 0, 8, 1, 9, 2, 10, 3, 11);
}

@inline
function highBF16(x: v128): v128 {
  return v128.shuffle<i16>(i16x8.splat(0), x, 4, 12, 5, 13, 6, 14, 7, 15);
}

/**
 * Four float16, zero-extended to 32 bits, to float32.
 * Exponent and mantissa move to their float32 place, which is off by the difference of the biases; a product with
 * 2^112 corrects it and makes subnormals normal on the way, both without rounding. Infinity and NaN have all exponent
 * bits set, which are set again afterwards.
 */
@inline
function widenF16(h: v128): v128 {
  const sign = i32x4.shl(v128.and(h, i32x4.splat(0x8000)), 16);
  const magnitude = v128.and(h, i32x4.splat(0x7fff));
  const scaled = f32x4.mul(i32x4.shl(magnitude, 13), f32x4.splat(5.192296858534828e33)); // 2^112
  const special = v128.and(i32x4.ge_s(magnitude, i32x4.splat(0x7c00)), i32x4.splat(0x7f800000));
  return v128.or(v128.or(scaled, special), sign);
}

@inline
export function lowF16(x: v128): v128 {
  return widenF16(i32x4.extend_low_i16x8_u(x));
}

@inline
function highF16(x: v128): v128 {
  return widenF16(i32x4.extend_high_i16x8_u(x));
}

// Element types encode the stored dtypes: u16 for bfloat16, i16 for float16, f32 for float32.

@inline
export function low<T>(address: usize): v128 {
  if (isFloat<T>()) return v128.load(address);
  return isSigned<T>() ? lowF16(v128.load(address)) : lowBF16(v128.load(address));
}

@inline
export function high<T>(address: usize): v128 {
  if (isFloat<T>()) return v128.load(address, 16);
  return isSigned<T>() ? highF16(v128.load(address)) : highBF16(v128.load(address));
}
