// Reads GGUF files plainly, for tests: everything is read at once.
import { readFileSync } from "node:fs";
import { ENCODINGS, type Encoding } from "../../src/kernels/index.js";

const TENSOR_TYPES: Readonly<Record<number, Encoding>> = {
  0: "F32",
  1: "F16",
  2: "Q4_0",
  6: "Q5_0",
  7: "Q5_1",
  8: "Q8_0",
  12: "Q4_K",
  13: "Q5_K",
  14: "Q6_K",
  30: "BF16",
};

export interface ReadTensor {
  /** Slowest axis first. */
  readonly shape: readonly number[];
  readonly encoding: Encoding;
  readonly bytes: Uint8Array;
}

export interface ReadGguf {
  readonly metadata: ReadonlyMap<string, unknown>;
  readonly tensors: ReadonlyMap<string, ReadTensor>;
}

export function readGguf(path: string): ReadGguf {
  const file = readFileSync(path);
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  let at = 0;
  const take = (size: number) => {
    at += size;
    return at - size;
  };
  const u32 = () => view.getUint32(take(4), true);
  const u64 = () => Number(view.getBigUint64(take(8), true));
  const string = () => {
    const size = u64();
    return file.toString("utf8", take(size), at);
  };
  const value = (type: number): unknown => {
    if (type === 0 || type === 7) return type === 7 ? view.getUint8(take(1)) === 1 : view.getUint8(take(1));
    if (type === 4) return u32();
    if (type === 5) return view.getInt32(take(4), true);
    if (type === 6) return view.getFloat32(take(4), true);
    if (type === 8) return string();
    if (type !== 9) throw new Error(`value type ${type}`);
    const of = u32();
    return Array.from({ length: u64() }, () => value(of));
  };
  if (file.toString("latin1", take(4), at) !== "GGUF" || u32() !== 3) throw new Error("not a GGUF file of version 3");
  const [count, keys] = [u64(), u64()];
  const metadata = new Map(Array.from({ length: keys }, () => [string(), value(u32())] as const));
  const entries = Array.from({ length: count }, () => {
    const name = string();
    const shape = Array.from({ length: u32() }, u64).reverse();
    return { name, shape, encoding: TENSOR_TYPES[u32()] as Encoding, offset: u64() };
  });
  const start = Math.ceil(at / 32) * 32;
  const tensors = entries.map(({ name, shape, encoding, offset }): [string, ReadTensor] => {
    const { elements, bytes } = ENCODINGS[encoding];
    const size = (shape.reduce((product, extent) => product * extent, 1) / elements) * bytes;
    if (offset % 32 !== 0 || start + offset + size > file.byteLength) throw new Error(`${name} is at ${offset}`);
    return [name, { shape, encoding, bytes: file.subarray(start + offset, start + offset + size) }];
  });
  return { metadata, tensors: new Map(tensors) };
}
