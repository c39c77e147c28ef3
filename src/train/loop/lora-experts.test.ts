// Factors of experts and of recurrences, against PEFT: names, shapes, what adapter_config.json says, loss and gradients.
// @module-tag slow
import { join } from "node:path";
import { expect, it } from "vitest";
import { readJson } from "../../../test/support/checkpoints.js";
import { readTensors } from "../../../test/support/decoder-fixtures.js";
import { golden } from "../../../test/support/golden-decoders.js";
import { openModelSource } from "../../engine/index.js";
import { locateWeights, readSpec } from "../../engine/model/index.js";
import { adapterConfig, factorsOf, leftOutOfLora, loraBase, planLora } from "./lora.js";
import { Optimizer } from "./optimizer.js";
import { TrainableDecoder } from "./trainable.js";

const TRAINED = join(import.meta.dirname, "../../../test/fixtures/peft/trained");
const settings = { rank: 2, alpha: 3, rank_stabilised: true, dropout: 0 };

async function openBase(name: string) {
  const source = await openModelSource(golden(name).folder);
  const spec = readSpec(source.config, source.tensors.keys());
  const { stored } = locateWeights(spec, source.tensors.keys(), name);
  const leftOut = new Set(leftOutOfLora(spec, source.config.modelType).map((one) => stored.get(one.name)));
  const inLayers = [...source.tensors.values()].flatMap(({ tensor, layer }) => (layer === null ? [] : [tensor]));
  return { source, base: loraBase(source, spec, stored), chosen: new Set(inLayers.filter((one) => !leftOut.has(one))) };
}

// Gates and up projections in one tensor and apart, in turns, without gates; names of the files and of memory.
it.each(["qwen3_next-experts", "gpt_oss", "granitemoehybrid-experts", "lfm2_moe", "nemotron_h-experts"])(
  "%s has the factors, the loss and the gradients of PEFT",
  async (name) => {
    const { source, base, chosen } = await openBase(name);
    const lora = planLora(chosen, base, settings);
    const expected = readTensors(join(TRAINED, name, "trained.safetensors"));
    const factors = [...expected.keys()].filter((key) => key.includes("lora_"));
    const made = lora.modules.flatMap((module) => Object.values(factorsOf(module, settings.rank)));
    expect(Object.fromEntries(made.map((one) => [one.name, one.shape]))).toEqual(
      Object.fromEntries(factors.flatMap((key) => (key.startsWith("grad.") ? [] : [[key, expected.get(key)?.shape]]))),
    );
    const config = readJson(join(TRAINED, name, "adapter_config.json"));
    const written = adapterConfig(lora, name);
    for (const [field, value] of Object.entries(written)) {
      expect(Array.isArray(value) ? value.toSorted() : value, field).toEqual(config[field]);
    }
    const model = await TrainableDecoder.open(source, { trained: chosen, lora, threads: 1 });
    const optimizer = new Optimizer(model.parameters, {
      ...{ betas: [0.9, 0.999], eps: 1e-8, decay: 0, decay_all: false, clip: false },
    });
    await model.initialise(optimizer, 0);
    for (const [key, { weights }] of optimizer.parameters) weights.set(expected.get(key)?.values ?? []);
    const { rows, width } = golden(name);
    const padded = (none: number, of: (row: readonly number[]) => readonly number[]) =>
      Int32Array.from(rows.flatMap((row) => [...of(row), ...Array<number>(width - row.length).fill(none)]));
    const { loss } = await model.accumulate(
      {
        ...{ rows: rows.length, time: width, ids: padded(0, (row) => row) },
        ...{ positions: padded(0, (row) => [...row.keys()]), segments: padded(0, (row) => row.map(() => 1)) },
        labels: padded(-1, (row) => [...row.slice(1), -1]),
      },
      optimizer,
    );
    const wanted = expected.get("loss")?.values[0] ?? 0;
    expect(Math.abs(loss / wanted - 1)).toBeLessThan(1e-5);
    for (const [key, { gradient }] of optimizer.parameters) {
      const { values } = expected.get(`grad.${key}`) ?? { values: [] };
      const apart = values.map((value, i) => value - (gradient[i] as number));
      expect(Math.hypot(...apart) / Math.hypot(...values), key).toBeLessThan(1e-4);
    }
    await model.close();
  },
);

it("trains all matrices of a parameter of experts or none, without dropout", async () => {
  const { base, chosen } = await openBase("qwen3_next-experts");
  const some = new Set([...chosen].filter((one) => !one.includes("layers.2.mlp.experts.3.up_proj")));
  expect(() => planLora(some, base, settings)).toThrow(
    "train: the selection has 9 of the 10 matrices of model.layers.2.mlp.experts.gate_up_proj, which LoRA trains together.",
  );
  const down = planLora(new Set([...chosen].filter((one) => /experts\.\d+\.down_proj/.test(one))), base, settings);
  expect(down.modules.map(({ module }) => module)).toEqual([
    "model.layers.0.mlp.experts",
    "model.layers.2.mlp.experts",
  ]);
  expect(() => planLora(chosen, base, { ...settings, dropout: 0.1 })).toThrow("lora.dropout is 0.1, and PEFT has none");
  const attention = new Set([...chosen].filter((one) => one.includes("_attn.")));
  expect(planLora(attention, base, { ...settings, dropout: 0.1 }).targets.targetParameters).toEqual([]);
});
