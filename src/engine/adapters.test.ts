import { copyFileSync, cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../test/support/checkpoints.js";
import { planRecipe } from "../merge/index.js";
import { executePlan } from "../merge/output/index.js";
import { LoadedDecoder } from "./loaded-decoder.js";
import { openModelSource } from "./model-source.js";

const peft = (...path: string[]) => join(fileURLToPath(new URL("../../test/fixtures/peft", import.meta.url)), ...path);

async function logitsOf(model: string): Promise<number[]> {
  const decoder = await LoadedDecoder.load(await openModelSource(model), { threads: 1 });
  const cache = decoder.newCache(1);
  cache.add();
  const ids = [1, 3, 7, 23, 11];
  const wanted = ids.map((_, at) => ({ row: 0, at }));
  const { logits = new Float32Array() } = await decoder.pass(cache, [ids], wanted, ["logits"], ids.length);
  return [...logits];
}

it.each(["dora", "enlarged", "enlarged-tied", "tokens"])(
  "a model with an adapter has the logits of PEFT's merge, %s",
  async (name) => {
    const merged = join(temporaryFolder(), "merged");
    cpSync(peft(name, "base"), merged, { recursive: true });
    copyFileSync(peft(name, "expected.safetensors"), join(merged, "model.safetensors"));
    const config = JSON.parse(readFileSync(join(merged, "config.json"), "utf8"));
    const rows = name.startsWith("enlarged") ? 28 : 24;
    writeFileSync(join(merged, "config.json"), JSON.stringify({ ...config, vocab_size: rows }));
    const [found, wanted] = [await logitsOf(`${peft(name, "base")}+${peft(name, "adapter")}`), await logitsOf(merged)];
    expect(found.length).toBe(wanted.length);
    expect(Math.max(...found.map((x, i) => Math.abs(x - (wanted[i] ?? Number.NaN))))).toBeLessThan(1e-6);
  },
);

it("a model whose sum of base and adapter is rounded has a note, and float32 has none", async () => {
  const model = (base: string) => `${base}+${peft("dora", "adapter")}`;
  const wide = await openModelSource(model(peft("dora", "base")));
  expect(wide.notes.filter((note) => note.includes("rounded"))).toEqual([]);
  const narrow = join(temporaryFolder(), "narrow");
  const opened = await planRecipe({ method: "soup", models: [peft("dora", "base")], dtype: "bfloat16" });
  await executePlan(opened, { out: narrow });
  const { notes } = await openModelSource(model(narrow));
  expect(notes.filter((note) => /^the sum of base and adapter is rounded to bfloat16/.test(note))).toHaveLength(1);
});
