// float32 to the block formats of GGUF: the levels of 32 or 256 elements with a scale (and a minimum) as float16.
// Layouts: ggml-common.h and ggml-quants.c of llama.cpp. Kernels return how many blocks have no finite scale.
import { lowF16 } from "./decode";
import { roundF16 } from "./encode";
import { BLOCK, MOST, minimums, scales, searchAffine, searchSymmetric } from "./search-scales";

const SUPER_BLOCK = 256;

// Work memory of one super-block.
const levels = memory.data(SUPER_BLOCK, 16); // u8

/** The bits of the nearest float16. */
@inline
function halfOf(x: f32): u16 {
  return i32x4.extract_lane(roundF16(f32x4.splat(x)), 0) as u16;
}

@inline
function floatOf(half: u16): f32 {
  return f32x4.extract_lane(lowF16(i16x8.splat(half as i16)), 0);
}

@inline
function isFiniteHalf(half: u16): bool {
  return (half & 0x7c00) != 0x7c00;
}

/** A whole number, 0 for NaN, on which a scalar conversion would trap. */
@inline
function wholeOf(x: f32): i32 {
  return i32x4.extract_lane(i32x4.trunc_sat_f32x4_s(f32x4.splat(x)), 0);
}

/** Sixteen float32 whole numbers to bytes. */
@inline
function toBytes(a: v128, b: v128, c: v128, d: v128): v128 {
  return i8x16.narrow_i16x8_s(
    i16x8.narrow_i32x4_s(i32x4.trunc_sat_f32x4_s(a), i32x4.trunc_sat_f32x4_s(b)),
    i16x8.narrow_i32x4_s(i32x4.trunc_sat_f32x4_s(c), i32x4.trunc_sat_f32x4_s(d)),
  );
}

/** 1.5 x 2^23: sums with it are rounded to whole numbers, which are their lowest bits. */
const ROUNDER: f32 = 12582912;

@inline
function levelsOf(x: v128, scale: v128, offset: v128, least: v128, most: v128, base: v128): v128 {
  const level = f32x4.pmin(most, f32x4.pmax(least, f32x4.div(f32x4.add(x, offset), scale)));
  return i32x4.sub(f32x4.add(level, base), f32x4.splat(ROUNDER));
}

/** Levels 0 to `top` of 16 elements: round((x + offset) / scale) + zero. */
@inline
function storeLevels(x: usize, to: usize, scale: f32, offset: f32, zero: f32, top: f32): void {
  if (scale == 0) {
    v128.store(to, i8x16.splat(zero as i8));
    return;
  }
  const s = f32x4.splat(scale);
  const o = f32x4.splat(offset);
  const least = f32x4.splat(-zero);
  const most = f32x4.splat(top - zero);
  const base = f32x4.splat(ROUNDER + zero);
  const a = levelsOf(v128.load(x), s, o, least, most, base);
  const b = levelsOf(v128.load(x, 16), s, o, least, most, base);
  const c = levelsOf(v128.load(x, 32), s, o, least, most, base);
  const d = levelsOf(v128.load(x, 48), s, o, least, most, base);
  v128.store(to, i8x16.narrow_i16x8_s(i16x8.narrow_i32x4_s(a, b), i16x8.narrow_i32x4_s(c, d)));
}

/** d, then a signed byte per element: x = d q. */
export function quantizeQ8_0(x: usize, to: usize, blocks: i32): i32 {
  let broken = 0;
  for (let block = 0; block < blocks; block++) {
    // Magnitudes compare as integers, and NaN is above all: one instruction where a maximum of floats is several.
    let high = i32x4.splat(0);
    for (let i = 0; i < BLOCK * 4; i += 16) high = i32x4.max_s(high, v128.and(v128.load(x + i), i32x4.splat(0x7fffffff)));
    high = i32x4.max_s(high, v128.shuffle<i32>(high, high, 2, 3, 0, 1));
    high = i32x4.max_s(high, v128.shuffle<i32>(high, high, 1, 0, 3, 2));
    const scale = f32x4.extract_lane(high, 0) / 127;
    const half = halfOf(scale);
    broken += i32(!isFiniteHalf(half));
    store<u16>(to, half);
    const inverse = f32x4.splat(scale == 0 ? 0 : 1 / scale);
    for (let part = 0; part < 2; part++) {
      const at = x + part * 64;
      v128.store(
        to + 2 + part * 16,
        toBytes(
          roundAway(f32x4.mul(v128.load(at), inverse)),
          roundAway(f32x4.mul(v128.load(at, 16), inverse)),
          roundAway(f32x4.mul(v128.load(at, 32), inverse)),
          roundAway(f32x4.mul(v128.load(at, 48), inverse)),
        ),
      );
    }
    x += BLOCK * 4;
    to += 34;
  }
  return broken;
}

/** To the nearest whole number, halves away from zero, as the reference rounds in this format. */
@inline
function roundAway(x: v128): v128 {
  const whole = f32x4.trunc(x);
  const one = v128.or(v128.and(x, i32x4.splat(0x80000000)), f32x4.splat(1));
  return f32x4.add(whole, v128.and(one, f32x4.ge(f32x4.abs(f32x4.sub(x, whole)), f32x4.splat(0.5))));
}

/** The scale of a block of 32, which the first of sixteen searches for all of them. */
@inline
function symmetricScale(x: usize, block: i32, blocks: i32, half: f32): u16 {
  const place = block & (MOST - 1);
  if (place == 0) searchSymmetric(x, min(blocks - block, MOST), BLOCK, half, false);
  return halfOf(load<f32>(scales + (place << 2)));
}

/** d, then the levels of element i and i + 16 in byte i: x = d (q - 8). */
export function quantizeQ4_0(x: usize, to: usize, blocks: i32): i32 {
  let broken = 0;
  for (let block = 0; block < blocks; block++) {
    const half = symmetricScale(x, block, blocks, 8);
    broken += i32(!isFiniteHalf(half));
    store<u16>(to, half);
    storeLevels(x, levels, floatOf(half), 0, 8, 15);
    storeLevels(x + 64, levels + 16, floatOf(half), 0, 8, 15);
    v128.store(to + 2, v128.or(v128.load(levels), i8x16.shl(v128.load(levels, 16), 4)));
    x += BLOCK * 4;
    to += 18;
  }
  return broken;
}

/** The fifth bits of 32 levels, and the lower four as Q4_0 has them. */
@inline
function storeFiveBits(high: usize, low: usize): void {
  const a = v128.load(levels);
  const b = v128.load(levels, 16);
  const bits = (i8x16.bitmask(i8x16.shl(a, 3)) & 0xffff) | (i8x16.bitmask(i8x16.shl(b, 3)) << 16);
  store<u32>(high, bits);
  v128.store(low, v128.or(v128.and(a, i8x16.splat(15)), i8x16.shl(b, 4)));
}

/** d, fifth bits, lower bits: x = d (q - 16). */
export function quantizeQ5_0(x: usize, to: usize, blocks: i32): i32 {
  let broken = 0;
  for (let block = 0; block < blocks; block++) {
    const half = symmetricScale(x, block, blocks, 16);
    broken += i32(!isFiniteHalf(half));
    store<u16>(to, half);
    storeLevels(x, levels, floatOf(half), 0, 16, 31);
    storeLevels(x + 64, levels + 16, floatOf(half), 0, 16, 31);
    storeFiveBits(to + 2, to + 6);
    x += BLOCK * 4;
    to += 22;
  }
  return broken;
}

/** d, m, fifth bits, lower bits: x = d q + m. */
export function quantizeQ5_1(x: usize, to: usize, blocks: i32): i32 {
  let broken = 0;
  for (let block = 0; block < blocks; block++) {
    const place = block & (MOST - 1);
    if (place == 0) searchAffine(x, min(blocks - block, MOST), 31, -0.5, 4);
    const half = halfOf(load<f32>(scales + (place << 2)));
    const halfMinimum = halfOf(-load<f32>(minimums + (place << 2)));
    broken += i32(!isFiniteHalf(half) || !isFiniteHalf(halfMinimum));
    store<u16>(to, half);
    store<u16>(to + 2, halfMinimum);
    const offset = -floatOf(halfMinimum);
    storeLevels(x, levels, floatOf(half), offset, 0, 31);
    storeLevels(x + 64, levels + 16, floatOf(half), offset, 0, 31);
    storeFiveBits(to + 4, to + 8);
    x += BLOCK * 4;
    to += 24;
  }
  return broken;
}

/**
 * The head of a super-block of Q4_K and Q5_K: d, dmin, and 6 bits each for the scale and the minimum of eight blocks, in 12
 * bytes. Fills `levels`.
 * @returns whether a scale is not finite
 */
function affineSuperBlock(x: usize, to: usize, top: f32, from: f32, groups: i32): bool {
  let mostScale: f32 = 0;
  let mostMinimum: f32 = 0;
  let isBroken = false;
  searchAffine(x, 8, top, from, groups);
  for (let block = 0; block < 8; block++) {
    const scale = load<f32>(scales + (block << 2));
    isBroken = isBroken || scale != scale;
    mostScale = max(mostScale, scale);
    mostMinimum = max(mostMinimum, load<f32>(minimums + (block << 2)));
  }
  const d = halfOf(mostScale / 63);
  const dmin = halfOf(mostMinimum / 63);
  store<u16>(to, d);
  store<u16>(to + 2, dmin);
  const scaleUnit: f32 = mostScale > 0 ? 63 / mostScale : 0;
  const minimumUnit: f32 = mostMinimum > 0 ? 63 / mostMinimum : 0;
  for (let block = 0; block < 8; block++) {
    const s = sixBits(load<f32>(scales + (block << 2)) * scaleUnit);
    const m = sixBits(load<f32>(minimums + (block << 2)) * minimumUnit);
    if (block < 4) {
      store<u8>(to + 4 + block, s as u8);
      store<u8>(to + 8 + block, m as u8);
    } else {
      store<u8>(to + 8 + block, ((s & 15) | ((m & 15) << 4)) as u8);
      store<u8>(to + block, (load<u8>(to + block) | ((s >> 4) << 6)) as u8);
      store<u8>(to + 4 + block, (load<u8>(to + 4 + block) | ((m >> 4) << 6)) as u8);
    }
    const scale = floatOf(d) * (s as f32);
    const offset = floatOf(dmin) * (m as f32);
    const at = block * BLOCK;
    storeLevels(x + (at << 2), levels + at, scale, offset, 0, top);
    storeLevels(x + (at << 2) + 64, levels + at + 16, scale, offset, 0, top);
  }
  return isBroken || !isFiniteHalf(d) || !isFiniteHalf(dmin);
}

@inline
function sixBits(x: f32): i32 {
  return wholeOf(min<f32>(max<f32>(nearest(x), 0), 63));
}

/** Blocks 2 i and 2 i + 1 share 32 bytes, with 4 bits each: x = d s q - dmin m. */
export function quantizeQ4_K(x: usize, to: usize, blocks: i32): i32 {
  let broken = 0;
  for (let block = 0; block < blocks; block++) {
    broken += i32(affineSuperBlock(x, to, 15, -1, 6));
    for (let pair = 0; pair < 4; pair++) {
      for (let part = 0; part < 32; part += 16) {
        const at = levels + pair * 64 + part;
        v128.store(to + 16 + pair * 32 + part, v128.or(v128.load(at), i8x16.shl(v128.load(at, 32), 4)));
      }
    }
    x += SUPER_BLOCK * 4;
    to += 144;
  }
  return broken;
}

/** As Q4_K, with the fifth bit of block b in bit b of 32 bytes before the others. */
export function quantizeQ5_K(x: usize, to: usize, blocks: i32): i32 {
  let broken = 0;
  for (let block = 0; block < blocks; block++) {
    broken += i32(affineSuperBlock(x, to, 31, -0.5, 4));
    for (let part = 0; part < 32; part += 16) {
      let high = i8x16.splat(0);
      for (let b = 7; b >= 0; b--) {
        high = v128.or(i8x16.shl(high, 1), i8x16.shr_u(v128.load(levels + b * BLOCK + part), 4));
      }
      v128.store(to + 16 + part, high);
      for (let pair = 0; pair < 4; pair++) {
        const at = levels + pair * 64 + part;
        const low = v128.and(v128.load(at), i8x16.splat(15));
        v128.store(to + 48 + pair * 32 + part, v128.or(low, i8x16.shl(v128.load(at, 32), 4)));
      }
    }
    x += SUPER_BLOCK * 4;
    to += 176;
  }
  return broken;
}

/** Lower 4 bits, upper 2 bits, a signed byte per 16 elements, d: x = d s (q - 32). */
export function quantizeQ6_K(x: usize, to: usize, blocks: i32): i32 {
  let broken = 0;
  for (let block = 0; block < blocks; block++) {
    let extreme: f32 = 0;
    let isBroken = false;
    searchSymmetric(x, 16, 16, 32, true);
    for (let part = 0; part < 16; part++) {
      const scale = load<f32>(scales + (part << 2));
      isBroken = isBroken || scale != scale;
      if (abs(scale) > abs(extreme)) extreme = scale;
    }
    const unit: f32 = extreme == 0 ? 0 : -128 / extreme;
    const half = halfOf(extreme == 0 ? 0 : 1 / unit);
    broken += i32(isBroken || !isFiniteHalf(half));
    store<u16>(to + 208, half);
    for (let part = 0; part < 16; part++) {
      const s = wholeOf(min<f32>(max<f32>(nearest(load<f32>(scales + (part << 2)) * unit), -128), 127));
      store<i8>(to + 192 + part, s as i8);
      storeLevels(x + part * 64, levels + part * 16, floatOf(half) * (s as f32), 0, 32, 63);
    }
    const four = i8x16.splat(15);
    for (let side = 0; side < 2; side++) {
      for (let part = 0; part < 32; part += 16) {
        const at = levels + side * 128 + part;
        const q0 = v128.load(at);
        const q1 = v128.load(at, 32);
        const q2 = v128.load(at, 64);
        const q3 = v128.load(at, 96);
        v128.store(to + side * 64 + part, v128.or(v128.and(q0, four), i8x16.shl(q2, 4)));
        v128.store(to + side * 64 + part + 32, v128.or(v128.and(q1, four), i8x16.shl(q3, 4)));
        const low = v128.or(i8x16.shr_u(q0, 4), i8x16.shl(i8x16.shr_u(q1, 4), 2));
        const high = v128.or(i8x16.shl(i8x16.shr_u(q2, 4), 4), i8x16.shl(i8x16.shr_u(q3, 4), 6));
        v128.store(to + 128 + side * 32 + part, v128.or(low, high));
      }
    }
    x += SUPER_BLOCK * 4;
    to += 210;
  }
  return broken;
}
