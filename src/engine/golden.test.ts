// The engine against what transformers computed from the same weights: logits, greedy answers.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openSafetensors, readTensor } from "../safetensors/index.js";
import { LoadedDecoder } from "./loaded-decoder.js";
import { openModelSource } from "./model-source.js";

const root = process.env.GOLD ?? "";
for (const family of existsSync(root) ? readdirSync(root) : []) {
  if (!existsSync(join(root, family, "expected.safetensors")) || family === "training") continue;
  it(family, async () => {
    const folder = join(root, family);
    const file = await openSafetensors(join(folder, "expected.safetensors"));
    const read = async (name: string) => {
      const info = file.tensors.find((tensor) => tensor.name === name);
      if (!info) throw new Error(name);
      return { info, bytes: (await readTensor(file, info)).slice().buffer };
    };
    const ids = await read("input_ids");
    const [B, T] = ids.info.shape as [number, number];
    const all = Array.from(new BigInt64Array(ids.bytes), Number);
    const mask = Array.from(new BigInt64Array((await read("attention_mask")).bytes), Number);
    const logits = new Float32Array((await read("logits")).bytes);
    const decoder = await LoadedDecoder.load(await openModelSource(folder), { threads: 1 });
    const V = decoder.spec.vocabularySize;
    let worst = 0;
    for (let b = 0; b < B; b++) {
      const row = all.slice(b * T, (b + 1) * T).filter((_, t) => mask[b * T + t] === 1);
      const cache = decoder.newCache(1);
      cache.add();
      const out: number[] = [];
      for (let at = 0; at < row.length; at += 5) {
        const part = row.slice(at, at + 5);
        const r = await decoder.pass(
          cache,
          [part],
          part.map((_, i) => ({ row: 0, at: i })),
          ["logits"],
        );
        out.push(...(r.logits as Float32Array));
      }
      const pads = T - row.length;
      for (let i = 0; i < out.length; i++)
        worst = Math.max(worst, Math.abs((out[i] as number) - (logits[(b * T + pads) * V + i] as number)));
    }
    console.log(family, worst);
    expect(worst).toBeLessThan(1e-4);
    await decoder.close();
  });
}
