// Serializes results of measurements: numbers as they are, infinity by name, masks as packed bits, factors as base64.

import { z } from "zod";
import { recordOf } from "../../kit/settings/index.js";
import type { Measured, MeasuredResult } from "./expression.js";

export const packedResult = z.lazy(() =>
  z.union([
    z.array(z.union([z.number(), z.literal("Infinity")])),
    z
      .object({ rows: z.int().min(0), mask: z.string() })
      .refine(({ rows, mask }) => rows <= mask.length * 6, "says more rows than its mask has bits"),
    z.object({ factors: z.base64().describe("float32, little-endian") }),
  ]),
);

export const packedMeasured = z.lazy(() => recordOf(packedResult));

export type PackedResult = z.output<typeof packedResult>;
export type PackedMeasured = Readonly<Record<string, PackedResult>>;

export function packResult(result: MeasuredResult): PackedResult {
  if (result instanceof Uint8Array) return { rows: result.length, mask: packBits(result) };
  if (result instanceof Float32Array) return { factors: Buffer.from(result.buffer).toString("base64") };
  return result.map((x) => (x === Number.POSITIVE_INFINITY ? "Infinity" : x));
}

export function unpackResult(packed: PackedResult): MeasuredResult {
  if ("factors" in packed) return new Float32Array(new Uint8Array(Buffer.from(packed.factors, "base64")).buffer);
  if ("mask" in packed) return unpackBits(packed.mask, packed.rows);
  return packed.map((x) => (x === "Infinity" ? Number.POSITIVE_INFINITY : x));
}

export function packMeasured(measured: Measured): PackedMeasured {
  return Object.fromEntries([...measured].map(([id, result]) => [id, packResult(result)]));
}

export function unpackMeasured(packed: PackedMeasured): Map<string, MeasuredResult> {
  return new Map(Object.entries(packed).map(([id, result]) => [id, unpackResult(result)]));
}

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
