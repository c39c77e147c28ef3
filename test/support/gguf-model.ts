// A model and the GGUF file that is made of it, as rows of numbers.
import { join } from "node:path";
import { openModelSource } from "../../src/engine/index.js";
import { planGguf, writeGguf } from "../../src/export/index.js";
import { readTensors } from "./decoder-fixtures.js";
import { type ReadTensor, readGguf } from "./gguf-reader.js";

export type Rows = readonly (readonly number[])[];

/** Consecutive parts of a list. */
export function chunks<T>(list: readonly T[], size: number): T[][] {
  return Array.from({ length: list.length / size }, (_, i) => list.slice(i * size, (i + 1) * size));
}

export const scaled = (rows: Rows, factor: number): number[][] =>
  rows.map((row) => row.map((value) => Math.fround(value * factor)));

export interface ExportedModel {
  /** Without the architecture's name. */
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly architecture: unknown;
  readonly names: readonly string[];
  readonly notes: readonly string[];
  /** The last axis of a stored tensor as rows; of a vector, one row. */
  readonly stored: (name: string) => Rows;
  readonly written: (name: string) => Rows;
}

/** Exports a model in float32. */
export async function exportModel(model: string): Promise<ExportedModel> {
  const out = `${model}.gguf`;
  const plan = await planGguf(await openModelSource(model), { type: "f32" });
  await writeGguf(plan, { out, force: true });
  const { metadata, tensors } = readGguf(out);
  const values = readTensors(join(model, "model.safetensors"));
  const architecture = metadata.get("general.architecture");
  const own = [...metadata].flatMap(([key, value]) =>
    key.startsWith(`${architecture}.`) ? [[key.slice(`${architecture}.`.length), value] as const] : [],
  );
  return {
    architecture,
    metadata: Object.fromEntries(own),
    names: [...tensors.keys()],
    notes: plan.notes,
    stored: (name) => {
      const found = values.get(name);
      return chunks(found?.values ?? [], found?.shape.at(-1) ?? 1);
    },
    written: (name) => {
      const { bytes, shape } = tensors.get(name) as ReadTensor;
      return chunks([...new Float32Array(Uint8Array.from(bytes).buffer)], shape.at(-1) ?? 1);
    },
  };
}
