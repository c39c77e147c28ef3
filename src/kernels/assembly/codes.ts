// A row of codes to float32: (value of the code - zero) x scale, rounded once, as quantised checkpoints define it.

/**
 * @param bits of a code, 2, 4 or 8; the lowest of a byte are the first
 * @param row place of the row among the codes, and `scaleRow` among the scales and zeros
 * @param places added to these by column, i32
 * @param values float32 by code
 */
export function decodeCodes(
  bits: i32,
  codes: usize,
  row: i32,
  places: usize,
  values: usize,
  scales: usize,
  zeros: usize,
  scaleRow: i32,
  scalePlaces: usize,
  n: usize,
  to: usize,
): void {
  // A byte has 1, 2 or 4 codes.
  const shift: i32 = bits === 8 ? 0 : bits === 4 ? 1 : 2;
  const inByte = (1 << shift) - 1;
  const mask = <u8>((<i32>1 << bits) - 1);
  for (let at: usize = 0; at < n * 4; at += 4) {
    const place = row + load<i32>(places + at);
    const code = <usize>((load<u8>(codes + <usize>(place >> shift)) >> <u8>((place & inByte) * bits)) & mask);
    const scale = <usize>(scaleRow + load<i32>(scalePlaces + at)) << 2;
    const value = load<f32>(values + (code << 2)) - load<f32>(zeros + scale);
    store<f32>(to + at, value * load<f32>(scales + scale));
  }
}
