// Blocks of GGUF files against what the Python package gguf reads (test/fixtures/gguf/make_dequantized.py).
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { Converter } from "./convert.js";
import type { StoredBlocks } from "./encodings.js";

const FIXTURE = join(import.meta.dirname, "../../test/fixtures/gguf/dequantized.json");
const cases = JSON.parse(readFileSync(FIXTURE, "utf8")) as Record<StoredBlocks, { blocks: string; values: string }>;

it.each(Object.entries(cases))("%s has the same values, to the bit", (type, { blocks, values }) => {
  const found = new Converter().dequantize(type as StoredBlocks, Buffer.from(blocks, "base64"));
  const wanted = Buffer.from(values, "base64");
  expect(found.length).toBe(wanted.length / 4);
  const bits = new Uint32Array(found.buffer, found.byteOffset, found.length);
  expect([...bits]).toEqual(Array.from({ length: bits.length }, (_, i) => wanted.readUInt32LE(4 * i)));
});
