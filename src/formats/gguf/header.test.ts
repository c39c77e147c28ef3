// Attacks on the header of a GGUF file. llama.cpp or node-llama-cpp end the process or never return on most of them.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { layOutGguf, type Metadata, text, u32 } from "../../export/gguf/gguf-file.js";
import { readGgufHeader } from "./header.js";

const path = join(temporaryFolder(), "model.gguf");
const METADATA: Metadata = new Map([
  ["general.architecture", text("llama")],
  ["llama.block_count", u32(2)],
  ["llama.context_length", u32(512)],
  ["tokenizer.ggml.tokens", { type: "array", of: "string", value: ["a", "b", "ccc"] }],
  ["tokenizer.ggml.scores", { type: "array", of: "f32", value: [0, 1, 2] }],
  ["general.name", text("n".repeat(3_000_000))],
]);
const layout = layOutGguf(METADATA, [
  { name: "token_embd.weight", shape: [3, 64], encoding: "Q8_0" },
  { name: "output_norm.weight", shape: [64], encoding: "F32" },
]);
const whole = Buffer.alloc(layout.bytes);
whole.set(layout.header);

function check(bytes: Uint8Array): void {
  writeFileSync(path, bytes);
  readGgufHeader(path);
}

/** The file with 8 bytes, or 4, at a place after a name. */
function changed(after: string | number, at: number, value: bigint | number): Buffer {
  const bytes = Buffer.from(whole);
  const from = (typeof after === "number" ? after : bytes.indexOf(after) + after.length) + at;
  if (typeof value === "bigint") bytes.writeBigUInt64LE(value, from);
  else bytes.writeUInt32LE(value, from);
  return bytes;
}

describe("a GGUF file", () => {
  it("is accepted whole, with a header larger than what is read at once", () => {
    expect(() => check(whole)).not.toThrow();
    expect(() => check(Buffer.concat([whole, Buffer.alloc(100)]))).not.toThrow();
  });

  it("has its arrays read when they are asked for, and refuses them if the file was cut off meanwhile", () => {
    writeFileSync(path, whole);
    const [first, second] = [readGgufHeader(path).metadata, readGgufHeader(path).metadata];
    expect(first.get("tokenizer.ggml.tokens")).toEqual(["a", "b", "ccc"]);
    writeFileSync(path, whole.subarray(0, whole.indexOf("ccc") + 2));
    expect(first.get("tokenizer.ggml.tokens")).toEqual(["a", "b", "ccc"]);
    for (const name of ["tokens", "scores"]) {
      expect(() => second.get(`tokenizer.ggml.${name}`)).toThrow(/ends within its header/);
    }
  });

  it("is accepted with an encoding that exports do not have, within the file", () => {
    expect(() => check(changed("output_norm.weight", 12, 20))).not.toThrow();
  });

  it("is refused at every length that cuts it off", () => {
    const name = whole.indexOf("nnn");
    const lengths = [0, 3, 4, 10, 23, 24, 30, 100, 200, name, layout.header.byteLength - 64];
    for (const length of lengths) expect(() => check(whole.subarray(0, length))).toThrow(/not a GGUF file|ends within/);
    for (const length of [layout.header.byteLength, layout.bytes - 33]) {
      expect(() => check(whole.subarray(0, length))).toThrow(/it has 3.* MB of 3.* MB; download or export it again/);
    }
  });

  it.each([
    ["a name that is not UTF-8", changed("llama.context_lengt", -3, 0xff), /its name ".*" is not UTF-8/],
    ["another version", changed(4, 0, 99), /its version is 99, and llama.cpp reads 2 and 3/],
    ["too many tensors", changed(8, 0, 2n ** 63n), /has 0 axes/],
    ["too many keys", changed(16, 0, 2n ** 64n - 1n), /has a name of/],
    ["a key of a petabyte", changed(24, 0, 2n ** 50n), /has a name of/],
    ["a value of an unknown type", changed("general.architecture", 0, 77), /has the type 77/],
    ["a string beyond the end", changed("general.architecture", 4, 2n ** 63n), /ends within its header/],
    ["more tokens than bytes", changed("tokenizer.ggml.tokens", 8, 2n ** 60n), /ends within its header/],
    ["more scores than bytes", changed("tokenizer.ggml.scores", 8, 2n ** 60n), /ends within its header/],
    ["an array of arrays", changed("tokenizer.ggml.tokens", 4, 9), /has the type 9/],
    [
      "layers that llama.cpp asserts",
      changed("llama.block_count", 4, 2 ** 31),
      /"llama.block_count" is 2147483648; .* 1 to 512/,
    ],
    ["no layers", changed("llama.block_count", 4, 0), /"llama.block_count" is 0; .* 1 to 512/],
    [
      "a context beyond int32",
      changed("llama.context_length", 4, 2 ** 32 - 1),
      /must be a whole number from 1 to 2147483647/,
    ],
    ["layers in a fraction", changed("llama.block_count", 0, 6), /"llama.block_count" is 2.*e-45; it must be a whole/],
    ["a tensor of 5000 axes", changed("token_embd.weight", 0, 5000), /has 5000 axes; 1 to 4 are allowed/],
    ["a tensor without rows", changed("token_embd.weight", 12, 0n), /has the shape \[64, 0\]/],
    ["a tensor larger than numbers", changed("token_embd.weight", 4, 2n ** 62n), /has the shape/],
    ["rows that do not fill blocks", changed("token_embd.weight", 4, 65n), /do not fill blocks of Q8_0/],
    ["a tensor in the place of another", changed("output_norm.weight", 16, 1n), /begins at byte 1, not at 224/],
    ["a tensor beyond the end", changed("token_embd.weight", 24, 2n ** 60n), /download or export it again/],
  ])("with %s is refused", (_, bytes, message) => {
    expect(() => check(bytes)).toThrow(message);
  });
});
