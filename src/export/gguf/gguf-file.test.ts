import { expect, it } from "vitest";
import { layOutGguf, type MetadataValue } from "./gguf-file.js";

const u32 = (value: number) => Buffer.from(Uint32Array.of(value).buffer);
const u64 = (value: number) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
const text = (value: string) => Buffer.concat([u64(Buffer.from(value).byteLength), Buffer.from(value)]);

it("writes arrays as the format says, the same in each file that has them", () => {
  // The empty string, characters of two to four bytes, and half of a pair.
  const strings = ["", "a", "é", "日本", "😀", "\ud83d"];
  const values: [string, MetadataValue, Buffer][] = [
    ["s", { type: "array", of: "string", value: strings }, Buffer.concat([u32(8), u64(6), ...strings.map(text)])],
    [
      "f",
      { type: "array", of: "f32", value: [0.5, -2] },
      Buffer.concat([u32(6), u64(2), Buffer.from(Float32Array.of(0.5, -2).buffer)]),
    ],
    [
      "i",
      { type: "array", of: "i32", value: [-1] },
      Buffer.concat([u32(5), u64(1), Buffer.from(Int32Array.of(-1).buffer)]),
    ],
    ["u", { type: "array", of: "u8", value: [] }, Buffer.concat([u32(0), u64(0)])],
  ];
  const head = [Buffer.from("GGUF"), u32(3), u64(0), u64(values.length)];
  const expected = Buffer.concat([...head, ...values.flatMap(([key, , bytes]) => [text(key), u32(9), bytes])]);
  for (const _ of [1, 2]) {
    const { header } = layOutGguf(new Map(values.map(([key, value]) => [key, value])), []);
    expect(Buffer.from(header).subarray(0, expected.length).equals(expected)).toBe(true);
    expect(header.length - expected.length).toBeLessThan(32);
  }
});
