// Blocks of GGUF files to float32, as `dequantize_row_*` of ggml-quants.c computes them: the scale of a group times its
// whole numbers, then the offset of the group, each rounded to float32. All whole numbers fit eight bits, with sign.
import { lowF16 } from "./decode";

/** Added where a group has no offset: it leaves every number as it is, zeros with their sign. */
const NOTHING: f32 = -0.0;

@inline
function half(address: usize): f32 {
  return f32x4.extract_lane(lowF16(i16x8.splat(load<i16>(address))), 0);
}

@inline
function put8(to: usize, q: v128, scale: v128, plus: v128): void {
  const low = f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(q));
  const high = f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(q));
  v128.store(to, f32x4.add(f32x4.mul(low, scale), plus));
  v128.store(to, f32x4.add(f32x4.mul(high, scale), plus), 16);
}

/** Sixteen numbers: scale times `q`, 16 i8, plus an offset. */
@inline
function put16(to: usize, q: v128, scale: f32, plus: f32): void {
  const scales = f32x4.splat(scale);
  const offsets = f32x4.splat(plus);
  put8(to, i16x8.extend_low_i8x16_s(q), scales, offsets);
  put8(to + 32, i16x8.extend_high_i8x16_s(q), scales, offsets);
}

@inline
function lowNibbles(q: v128): v128 {
  return v128.and(q, i8x16.splat(15));
}

@inline
function highNibbles(q: v128): v128 {
  return i8x16.shr_u(q, 4);
}

/** 16 where a bit of the lower half of `bits` is set, by its number. */
@inline
function fifthBits(bits: u32): v128 {
  const bytes = i8x16.swizzle(i32x4.splat(bits), i8x16(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1));
  const mask = i8x16(1, 2, 4, 8, 16, 32, 64, -128, 1, 2, 4, 8, 16, 32, 64, -128);
  return v128.and(i8x16.eq(v128.and(bytes, mask), mask), i8x16.splat(16));
}

// A block of 32 has a scale d, in two forms an offset m (float16), in two the fifth bits of its numbers, then 16 bytes whose
// lower halves are the first 16 numbers and whose upper halves are the others; Q8_0 has 32 bytes.

export function dequantizeQ4_0(from: usize, to: usize, blocks: usize): void {
  for (let b: usize = 0; b < blocks; b++, from += 18, to += 128) {
    const d = half(from);
    const q = v128.load(from, 2);
    put16(to, i8x16.sub(lowNibbles(q), i8x16.splat(8)), d, NOTHING);
    put16(to + 64, i8x16.sub(highNibbles(q), i8x16.splat(8)), d, NOTHING);
  }
}

export function dequantizeQ4_1(from: usize, to: usize, blocks: usize): void {
  for (let b: usize = 0; b < blocks; b++, from += 20, to += 128) {
    const d = half(from);
    const m = half(from + 2);
    const q = v128.load(from, 4);
    put16(to, lowNibbles(q), d, m);
    put16(to + 64, highNibbles(q), d, m);
  }
}

export function dequantizeQ5_0(from: usize, to: usize, blocks: usize): void {
  for (let b: usize = 0; b < blocks; b++, from += 22, to += 128) {
    const d = half(from);
    const fifth = load<u32>(from, 2);
    const q = v128.load(from, 6);
    put16(to, i8x16.sub(v128.or(lowNibbles(q), fifthBits(fifth)), i8x16.splat(16)), d, NOTHING);
    put16(to + 64, i8x16.sub(v128.or(highNibbles(q), fifthBits(fifth >> 16)), i8x16.splat(16)), d, NOTHING);
  }
}

export function dequantizeQ5_1(from: usize, to: usize, blocks: usize): void {
  for (let b: usize = 0; b < blocks; b++, from += 24, to += 128) {
    const d = half(from);
    const m = half(from + 2);
    const fifth = load<u32>(from, 4);
    const q = v128.load(from, 8);
    put16(to, v128.or(lowNibbles(q), fifthBits(fifth)), d, m);
    put16(to + 64, v128.or(highNibbles(q), fifthBits(fifth >> 16)), d, m);
  }
}

export function dequantizeQ8_0(from: usize, to: usize, blocks: usize): void {
  for (let b: usize = 0; b < blocks; b++, from += 34, to += 128) {
    const d = half(from);
    put16(to, v128.load(from, 2), d, NOTHING);
    put16(to + 64, v128.load(from, 18), d, NOTHING);
  }
}

// A block of 256 has groups of 16 or 32 with scales of their own, in units of one for the block. Their numbers lie in
// stretches of 128 (64 in Q4_K and Q5_K), a few bits of each byte for each group.

/** Scales and offsets of 16 numbers each, four bits. 16 scales, 64 bytes of numbers, d, m. */
export function dequantizeQ2_K(from: usize, to: usize, blocks: usize): void {
  for (let b: usize = 0; b < blocks; b++, from += 84) {
    const d = half(from + 80);
    const m = half(from + 82);
    for (let group: usize = 0; group < 16; group++, to += 64) {
      const packed = load<u8>(from + group);
      const q = v128.load(from + 16 + (group >> 3) * 32 + (group & 1) * 16);
      const two = v128.and(i8x16.shr_u(q, <i32>(((group >> 1) & 3) << 1)), i8x16.splat(3));
      put16(to, two, d * <f32>(packed & 15), -(m * <f32>(packed >> 4)));
    }
  }
}

/** Scales of 16 numbers each, six bits, less 32; numbers of three bits, the third in the first 32 bytes. */
export function dequantizeQ3_K(from: usize, to: usize, blocks: usize): void {
  for (let b: usize = 0; b < blocks; b++, from += 110) {
    const d = half(from + 108);
    const scales = from + 96;
    for (let group: usize = 0; group < 16; group++, to += 64) {
      const four = load<u8>(scales + (group & 7)) >> <u8>((group >> 3) << 2);
      const two = load<u8>(scales + 8 + (group & 3)) >> <u8>((group >> 2) << 1);
      const scale = <i32>((four & 15) | ((two & 3) << 4)) - 32;
      const half16 = (group & 1) * 16;
      const q = v128.load(from + 32 + (group >> 3) * 32 + half16);
      const low = v128.and(i8x16.shr_u(q, <i32>(((group >> 1) & 3) << 1)), i8x16.splat(3));
      const bit = i8x16.splat(<i8>(<i32>1 << <i32>(group >> 1)));
      const isSet = i8x16.eq(v128.and(v128.load(from + half16), bit), bit);
      put16(to, i8x16.sub(low, v128.andnot(i8x16.splat(4), isSet)), d * <f32>scale, NOTHING);
    }
  }
}

/** The six-bit scale of a group of 32 in the 12 bytes that Q4_K and Q5_K have, and its offset. */
@inline
function scaleOf(scales: usize, group: usize): u32 {
  if (group < 4) return load<u8>(scales + group) & 63;
  return (load<u8>(scales + group + 4) & 15) | ((load<u8>(scales + group - 4) >> 6) << 4);
}

@inline
function offsetOf(scales: usize, group: usize): u32 {
  if (group < 4) return load<u8>(scales + group + 4) & 63;
  return (load<u8>(scales + group + 4) >> 4) | ((load<u8>(scales + group) >> 6) << 4);
}

/** Eight groups of 32; `high` is the place of the fifth bits, or 0. */
@inline
function eightGroups(from: usize, numbers: usize, high: usize, to: usize): void {
  const d = half(from);
  const m = half(from + 2);
  for (let group: usize = 0; group < 8; group++, to += 128) {
    const scale = d * <f32>scaleOf(from + 4, group);
    const plus = -(m * <f32>offsetOf(from + 4, group));
    for (let at: usize = 0; at < 32; at += 16) {
      const packed = v128.load(numbers + (group >> 1) * 32 + at);
      let q = group & 1 ? highNibbles(packed) : lowNibbles(packed);
      if (high) {
        const bit = i8x16.splat(<i8>(<i32>1 << <i32>group));
        q = v128.or(q, v128.and(i8x16.eq(v128.and(v128.load(high + at), bit), bit), i8x16.splat(16)));
      }
      put16(to + at * 4, q, scale, plus);
    }
  }
}

export function dequantizeQ4_K(from: usize, to: usize, blocks: usize): void {
  for (let b: usize = 0; b < blocks; b++, from += 144, to += 1024) eightGroups(from, from + 16, 0, to);
}

export function dequantizeQ5_K(from: usize, to: usize, blocks: usize): void {
  for (let b: usize = 0; b < blocks; b++, from += 176, to += 1024) eightGroups(from, from + 48, from + 16, to);
}

/** Scales of 16 numbers each, signed bytes; numbers of six bits, the upper two apart, less 32. */
export function dequantizeQ6_K(from: usize, to: usize, blocks: usize): void {
  for (let b: usize = 0; b < blocks; b++, from += 210) {
    const d = half(from + 208);
    for (let group: usize = 0; group < 16; group++, to += 64) {
      const stretch = group >> 3;
      const quarter = (group >> 1) & 3;
      const half16 = (group & 1) * 16;
      const packed = v128.load(from + stretch * 64 + (quarter & 1) * 32 + half16);
      const four = quarter >> 1 ? highNibbles(packed) : lowNibbles(packed);
      const upper = i8x16.shr_u(v128.load(from + 128 + stretch * 32 + half16), <i32>(quarter << 1));
      const two = i8x16.shl(v128.and(upper, i8x16.splat(3)), 4);
      const scale = d * <f32>load<i8>(from + 192 + group);
      put16(to, i8x16.sub(v128.or(four, two), i8x16.splat(32)), scale, NOTHING);
    }
  }
}
