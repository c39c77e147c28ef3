// Exports the tiny decoders as float32 and compares them with what llama.cpp's converter makes of them: every tensor's
// bytes, and the metadata (test/fixtures/gguf/make_gguf.py).
import { createHash } from "node:crypto";
import { cpSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { writeTinyTokenizer } from "../../../test/support/export-fixtures.js";
import { readGguf } from "../../../test/support/gguf-reader.js";
import { openModelSource } from "../../engine/index.js";
import { planGguf } from "./plan-gguf.js";
import { writeGguf } from "./write-gguf.js";

const FIXTURES = join(import.meta.dirname, "../../../test/fixtures");

interface Converted {
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Shape, and the beginning of a SHA-256. */
  readonly tensors: Readonly<Record<string, readonly [readonly number[], string]>>;
}

const CONVERTED = JSON.parse(readFileSync(join(FIXTURES, "gguf/converted.json"), "utf8")) as Record<string, Converted>;

/** Fields without meaning for the graph, or those that we write otherwise; both files compute the same. */
const OURS: Readonly<Record<string, readonly string[]>> = {
  // A scale of rotations that scales nothing.
  cohere: ["rope.scaling.type"],
  cohere2: ["rope.scaling.type"],
  // YaRN as divisors of the frequencies, which also hold with unusual parameters.
  "llama-yarn": ["rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length"],
  // Windows that llama.cpp does not compute.
  phi3: ["attention.sliding_window", "rope.scaling.original_context_length"],
  "phi3-longrope": ["attention.sliding_window"],
};

/** Tensors that differ: queries that make up for a scale that llama.cpp's converter leaves out. */
const SCALED: Readonly<Record<string, RegExp>> = {
  gemma2: /attn_q\.weight/,
  gemma3: /attn_q_norm\.weight/,
};

test.each(Object.keys(CONVERTED))("%s is what llama.cpp's converter writes", async (name) => {
  const folder = temporaryFolder();
  const model = join(folder, name);
  cpSync(join(FIXTURES, "decoders", name), model, { recursive: true });
  writeTinyTokenizer(model);
  const source = await openModelSource(model);
  if (name === "cohere") {
    // Its norms of queries and keys are read in models of 64 layers and more.
    await expect(planGguf(source, { type: "f32" })).rejects.toThrow(/it has norms of queries and keys/);
    return;
  }
  const out = join(folder, "model.gguf");
  await writeGguf(await planGguf(source, { type: "f32" }), { out });
  const { metadata, tensors } = readGguf(out);
  const { metadata: keys, tensors: wanted } = CONVERTED[name] as Converted;

  const architecture = metadata.get("general.architecture") as string;
  for (const [key, value] of Object.entries(keys)) {
    if (key.startsWith("GGUF.") || OURS[name]?.includes(key.slice(architecture.length + 1))) continue;
    expect([key, metadata.get(key)]).toEqual([key, typeof value === "number" ? expect.closeTo(value, 6) : value]);
  }
  const computed = (tensor: string) => name === "llama-yarn" && tensor === "rope_freqs.weight";
  expect([...tensors.keys()].filter((tensor) => !computed(tensor)).sort()).toEqual(Object.keys(wanted).sort());
  for (const [tensor, [shape, digest]] of Object.entries(wanted)) {
    const found = tensors.get(tensor);
    expect([tensor, found?.shape]).toEqual([tensor, shape]);
    const same = createHash("sha256")
      .update(found?.bytes ?? "")
      .digest("hex")
      .startsWith(digest);
    // Divisors are rounded from float64 here.
    if (!/^rope_/.test(tensor)) expect([tensor, same]).toEqual([tensor, !SCALED[name]?.test(tensor)]);
  }
});
