// Reads the tiny decoders of test/fixtures/decoders for tests.
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { type CheckpointConfig, parseConfig } from "../../src/formats/checkpoint/index.js";

const FOLDER = join(import.meta.dirname, "../fixtures/decoders");

export const CASES = readdirSync(FOLDER, { withFileTypes: true }).flatMap((entry) =>
  entry.isDirectory() ? [entry.name] : [],
);

export const readJson = (name: string): Record<string, unknown> =>
  JSON.parse(readFileSync(join(FOLDER, name), "utf8")) as Record<string, unknown>;

/** The configuration of a case, or a given one. */
export const configOf = (json: string | Record<string, unknown>, file = "config.json"): CheckpointConfig =>
  parseConfig(typeof json === "string" ? readJson(join(json, file)) : json, `checkpoint/${file}`);

export interface Values {
  readonly shape: readonly number[];
  readonly values: readonly number[];
}

/** A safetensors file of float32 and int64. @param path absolute, or of a fixture */
export function readTensors(path: string): ReadonlyMap<string, Values> {
  const bytes = readFileSync(resolve(FOLDER, path));
  const start = 8 + Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString("utf8", 8, start)) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  >;
  return new Map(
    Object.entries(header).flatMap(([tensor, entry]) => {
      if (tensor === "__metadata__") return [];
      const [from, to] = entry.data_offsets;
      const data = Uint8Array.from(bytes.subarray(start + from, start + to)).buffer;
      const values = entry.dtype === "I64" ? [...new BigInt64Array(data)].map(Number) : [...new Float32Array(data)];
      return [[tensor, { shape: entry.shape, values }] as const];
    }),
  );
}
