// Plain arithmetic that outputs are compared with: written from the formats' definitions, sharing no code with src/.
import { readdirSync } from "node:fs";
import { type FloatDType, type ReadTensor, readAll } from "./checkpoints.js";

const FORMATS = {
  F32: { mantissa: 23, least: -126, most: 127 },
  BF16: { mantissa: 7, least: -126, most: 127 },
  F16: { mantissa: 10, least: -14, most: 15 },
};

const double = new DataView(new ArrayBuffer(8));

/** Distance of the numbers of a format around a value. */
export function spacingOf(dtype: FloatDType, value: number): number {
  double.setFloat64(0, value);
  const exponent = ((double.getUint32(0) >>> 20) & 0x7ff) - 1023;
  return 2 ** (Math.max(exponent, FORMATS[dtype].least) - FORMATS[dtype].mantissa);
}

/** Rounds to the nearest number of a format, ties to even. */
export function roundTo(dtype: FloatDType, value: number): number {
  if (value === 0 || !Number.isFinite(value)) return value;
  const spacing = spacingOf(dtype, value);
  const units = Math.abs(value) / spacing;
  const below = Math.floor(units);
  const up = units - below > 0.5 || (units - below === 0.5 && below % 2 === 1);
  const magnitude = (up ? below + 1 : below) * spacing;
  return (value < 0 ? -1 : 1) * (magnitude >= 2 ** (FORMATS[dtype].most + 1) ? Infinity : magnitude);
}

/** Values of a stored tensor. */
export function toNumbers({ dtype, data }: Pick<ReadTensor, "dtype" | "data">): number[] {
  const { buffer } = data.slice();
  if (dtype === "F64") return [...new Float64Array(buffer)];
  if (dtype === "F32") return [...new Float32Array(buffer)];
  const patterns = new Uint16Array(buffer);
  if (dtype === "BF16") return [...new Float32Array(Uint32Array.from(patterns, (p) => p << 16).buffer)];
  return Array.from(patterns, (p) => {
    const [sign, exponent, rest] = [p & 0x8000 ? -1 : 1, (p >> 10) & 31, p & 1023];
    if (exponent === 31) return rest ? Number.NaN : sign * Infinity;
    return sign * (exponent === 0 ? rest * 2 ** -24 : (1 + rest / 1024) * 2 ** (exponent - 15));
  });
}

export const weightFilesOf = (folder: string): string[] =>
  readdirSync(folder).filter((name) => name.endsWith(".safetensors"));

/** Every tensor of a folder. */
export const readFolder = (folder: string): Promise<Map<string, ReadTensor>> => readAll(folder, weightFilesOf(folder));
