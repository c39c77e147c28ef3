// The trained models that layergraft ships: a base, and what a math expert and a Swahili expert changed of it.
import { cp, mkdir } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { openSafetensors, readTensor, type TensorData, writeSharded } from "../weights/index.js";

const SHIPPED = dirname(createRequire(import.meta.url).resolve("#miniature"));

/** Folders that `writeMiniature` writes. */
export const MINIATURE_MODELS = { base: "base", math: "math-expert", language: "swahili-expert" } as const;

const TOKENIZER_FILES = ["config.json", "tokenizer.json", "tokenizer_config.json"];

/** Writes the shipped models as Hugging Face folders in bfloat16. They are the same on every machine. */
export async function writeMiniature(out: string): Promise<void> {
  const { base, ...experts } = MINIATURE_MODELS;
  const whole = await readTensors(join(SHIPPED, base, "model.safetensors"));
  await cp(join(SHIPPED, base), join(out, base), { recursive: true });
  for (const name of Object.values(experts)) {
    const changed = new Map((await readTensors(join(SHIPPED, `${name}.safetensors`))).map((one) => [one.name, one]));
    await mkdir(join(out, name), { recursive: true });
    await writeSharded(
      join(out, name),
      whole.map((tensor) => changed.get(tensor.name) ?? tensor),
    );
    for (const file of TOKENIZER_FILES) await cp(join(SHIPPED, base, file), join(out, name, file));
  }
}

async function readTensors(path: string): Promise<TensorData[]> {
  const file = await openSafetensors(path);
  return Promise.all(
    file.tensors.map(async (tensor) => {
      const { name, dtype, shape } = tensor;
      return { name, dtype, shape, data: await readTensor(file, tensor) };
    }),
  );
}
