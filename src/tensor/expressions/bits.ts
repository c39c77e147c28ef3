/** Packs bytes that are 0 or 1 into bits, as base64. */
export function packBits(flags: Uint8Array): string {
  const bits = new Uint8Array(Math.ceil(flags.length / 8));
  flags.forEach((flag, i) => {
    if (flag) bits[i >> 3] = (bits[i >> 3] ?? 0) | (1 << (i & 7));
  });
  return Buffer.from(bits).toString("base64");
}

export function unpackBits(text: string, length: number): Uint8Array {
  const bits = Buffer.from(text, "base64");
  return Uint8Array.from({ length }, (_, i) => ((bits[i >> 3] ?? 0) >> (i & 7)) & 1);
}
