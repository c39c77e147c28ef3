// The trained models that layergraft ships: a base, and what a math expert and a Swahili expert changed of it.
import { cp, mkdir } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { openSafetensors, readTensor, type TensorData, writeSharded } from "../formats/safetensors/index.js";

const SHIPPED = dirname(createRequire(import.meta.url).resolve("#miniature"));

export const MINIATURE_MODELS = { base: "base", math: "math-expert", language: "swahili-expert" } as const;

const TOKENIZER_FILES = ["config.json", "tokenizer.json", "tokenizer_config.json"];

/**
 * Writes the shipped models as Hugging Face folders in bfloat16. They are the same on every machine. A matrix is shipped
 * as integers of 8 bits times a power of two, which the file's metadata has by the matrix's name; an expert's integers
 * are differences from the base's. A sum of two of them has 8 significant bits, so bfloat16 holds every product exactly.
 */
export async function writeMiniature(out: string): Promise<void> {
  const { base } = MINIATURE_MODELS;
  const whole = await readPacked(join(SHIPPED, base, "model.safetensors"));
  for (const name of Object.values(MINIATURE_MODELS)) {
    const changed = name === base ? [] : await readPacked(join(SHIPPED, `${name}.safetensors`));
    const changes = new Map(changed.map((one) => [one.name, one]));
    await mkdir(join(out, name), { recursive: true });
    await writeSharded(
      join(out, name),
      whole.map((tensor) => unpack(tensor, changes.get(tensor.name))),
    );
    for (const file of TOKENIZER_FILES) await cp(join(SHIPPED, base, file), join(out, name, file));
  }
}

interface Packed extends TensorData {
  /** Of the power of two; undefined for a tensor in bfloat16. */
  readonly exponent: number | undefined;
}

async function readPacked(path: string): Promise<Packed[]> {
  const file = await openSafetensors(path);
  return Promise.all(
    file.tensors.map(async (tensor) => {
      const { name, dtype, shape } = tensor;
      const exponent = dtype === "I8" ? Number(file.metadata[name]) : undefined;
      return { name, dtype, shape, data: await readTensor(file, tensor), exponent };
    }),
  );
}

function unpack(whole: Packed, change: Packed | undefined): TensorData {
  const { name, shape, data, exponent } = whole;
  if (exponent === undefined) return change ?? whole;
  const [own, changed] = [new Int8Array(data), change && new Int8Array(change.data)];
  const values = new Float32Array(own.length);
  for (let i = 0; i < own.length; i++) values[i] = ((own[i] ?? 0) + (changed?.[i] ?? 0)) * 2 ** exponent;
  const bits = new Uint16Array(new Uint32Array(values.buffer).map((word) => word >>> 16));
  return { name, shape, dtype: "BF16", data: new Uint8Array(bits.buffer) };
}
