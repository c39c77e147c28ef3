// LoRA plans on the fixture's small Llama, and that what is written is opened again by checkpoint/. What PEFT makes of such
// factors, and that it opens them: lora-experts.test.ts.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Checkpoint, openCheckpoint } from "../../formats/checkpoint/checkpoint.js";
import { readTensor } from "../../formats/safetensors/writer.js";
import { resolveSelection } from "../run/selection.js";
import {
  adapterConfig,
  initialFactors,
  type LoraBaseTensor,
  type LoraFactors,
  type LoraModule,
  type LoraPlan,
  planLora,
  writeAdapter,
} from "./lora.js";

const BASE = join(import.meta.dirname, "../../../test/fixtures/lora/base");
const settings = { rank: 4, alpha: 6, rank_stabilised: false, dropout: 0.1 };
let base: Checkpoint;
let folder: string;

beforeAll(async () => {
  base = await openCheckpoint(BASE);
  folder = await mkdtemp(join(tmpdir(), "layergraft-lora-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

function plan(selection: string, changes: Partial<typeof settings> = {}): LoraPlan {
  return planLora(resolveSelection(selection, base), base, { ...settings, ...changes });
}

const ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];

describe("planLora", () => {
  it("takes the matrices of a selection, and says so in PEFT's words", () => {
    const all = plan("layers");
    expect(all.modules).toHaveLength(21);
    expect(all.targets.targetModules.toSorted()).toEqual(ALL.toSorted());
    expect(all.targets.layersToTransform).toBe(null);
    expect(all.modules.find(({ module }) => module === "model.layers.1.self_attn.k_proj")).toEqual({
      ...{ tensors: ["model.layers.1.self_attn.k_proj.weight"], module: "model.layers.1.self_attn.k_proj" },
      ...{ layer: 1, out: 32, in: 64 },
    });
    const outer = plan("attention of layers 0, 2");
    expect(outer.modules).toHaveLength(8);
    expect(outer.targets.targetModules.toSorted()).toEqual(ALL.slice(0, 4).toSorted());
    expect(outer.targets.layersToTransform).toEqual([0, 2]);
    // What no list of last names and layers says is named whole.
    const mixed = plan("q_proj of layers 0 and up_proj of layers 1");
    expect(mixed.targets).toEqual({
      targetModules: ["model.layers.0.self_attn.q_proj", "model.layers.1.mlp.up_proj"],
      targetParameters: [],
      layersToTransform: null,
    });
  });

  // PEFT fails on Gemma 4's clipped modules: github.com/huggingface/peft/issues/3129.
  it("does not name a vision tower's modules, which hold modules or are numbered as layers", () => {
    const text = (layer: number) => [
      `model.language_model.layers.${layer}.self_attn.q_proj.weight`,
      { layer, part: "q_proj" as const, shape: [2, 2] },
    ];
    const targets = (tower: string) => {
      const vision = { layer: null, part: "other" as const, shape: [2, 2] };
      const tensors = new Map([text(0), text(1), [tower, vision]] as [string, LoraBaseTensor][]);
      return planLora(new Set([text(0)[0] as string]), { tensors }, settings).targets;
    };
    const whole = { targetModules: ["model.language_model.layers.0.self_attn.q_proj"], layersToTransform: null };
    const tower = "model.vision_tower.encoder.layers.";
    expect(targets(`${tower}0.self_attn.q_proj.linear.weight`)).toMatchObject(whole);
    expect(targets(`${tower}0.self_attn.q_proj.weight`)).toMatchObject(whole);
    expect(targets(`${tower}2.self_attn.q_proj.weight`)).toMatchObject({ layersToTransform: [0] });
  });

  it("scales by alpha over the rank, or over its root", () => {
    expect(plan("layers").scale).toBe(1.5);
    expect(plan("layers", { rank_stabilised: true }).scale).toBe(3);
  });

  it("refuses what it makes no factors for", () => {
    expect(() => plan("all")).toThrow(
      /the selection has lm_head\.weight, model\.embed_tokens\.weight\. Write "layers"/,
    );
    expect(() => plan("norms")).toThrow(/no matrix that LoRA can train/);
    expect(plan("all but outside").modules).toHaveLength(21);
    const stored = (tensor: Partial<LoraBaseTensor>) => () =>
      planLora(
        new Set(["h.0.c.weight"]),
        { tensors: new Map([["h.0.c.weight", { layer: 0, part: "q_proj", shape: [2, 3], ...tensor }]]) },
        settings,
      );
    expect(stored({})().modules).toHaveLength(1);
    expect(stored({ transposed: true })).toThrow(/is stored \[in, out\]/);
    expect(stored({ shape: [4, 2, 3] })).toThrow(/several matrices/);
    expect(stored({ shape: [4, 1, 3] })).toThrow(/no matrix that LoRA can train/); // a convolution
    expect(stored({ part: "router" })).toThrow(/no matrix/);
    // One norm for each head.
    expect(stored({ part: "q_norm", shape: [4, 8] })).toThrow(/no matrix/);
  });
});

describe("initialFactors", () => {
  const module: LoraModule = { tensors: ["m.weight"], module: "m", layer: 0, out: 5, in: 400 };

  it("is PEFT's distribution: B zero, A uniform within 1 / sqrt(in)", () => {
    const { a, b } = initialFactors(module, 64, 7);
    expect([a.length, b.length]).toEqual([64 * 400, 5 * 64]);
    expect(new Set(b)).toEqual(new Set([0]));
    const bound = 1 / 20;
    expect(Math.max(...a)).toBeLessThanOrEqual(bound);
    expect(Math.max(...a)).toBeGreaterThan(0.999 * bound);
    const mean = a.reduce((sum, x) => sum + x, 0) / a.length;
    const variance = a.reduce((sum, x) => sum + x * x, 0) / a.length;
    expect(Math.abs(mean)).toBeLessThan((4 * bound) / Math.sqrt(3 * a.length));
    expect(variance / (bound ** 2 / 3)).toBeCloseTo(1, 1);
  });

  it("depends on seed and module alone", () => {
    const { a } = initialFactors(module, 2, 7);
    expect(initialFactors({ ...module, out: 9, layer: 3 }, 2, 7).a).toEqual(a);
    expect(initialFactors(module, 2, 8).a).not.toEqual(a);
    expect(initialFactors({ ...module, module: "n" }, 2, 7).a).not.toEqual(a);
  });
});

describe("writeAdapter", () => {
  it("writes what openCheckpoint opens: names, shapes, scale, values", async () => {
    const one = plan("attention of layers 0-1", { rank_stabilised: true });
    const factorsOf = (module: LoraModule): LoraFactors => {
      const { a, b } = initialFactors(module, 4, 3);
      return { a, b: b.fill(0.25) };
    };
    await writeAdapter(folder, { plan: one, factors: factorsOf, base: "org/base" });
    const opened = await openCheckpoint(`${BASE}+${folder}`);
    const { adapter } = opened;
    if (!adapter) throw new Error("no adapter");
    expect(adapter.trainedOn).toBe("org/base");
    expect([...adapter.deltas.keys()].sort()).toEqual(one.modules.flatMap(({ tensors }) => tensors).sort());
    for (const module of one.modules) {
      const delta = adapter.deltas.get(`${module.module}.weight`);
      if (!delta) throw new Error(module.module);
      expect([delta.rank, delta.scale, delta.transposed]).toEqual([4, 3, false]);
      expect([delta.a.shape, delta.b.shape]).toEqual([
        [4, module.in],
        [module.out, 4],
      ]);
      expect(delta.a.name).toBe(`base_model.model.${module.module}.lora_A.weight`);
      const stored = new Float32Array((await readTensor(adapter.file, delta.a)).buffer);
      expect(stored).toEqual(factorsOf(module).a);
    }
    const config = JSON.parse(await readFile(join(folder, "adapter_config.json"), "utf8")) as object;
    expect(config).toEqual(adapterConfig(one, "org/base"));
    expect(config).toMatchObject({
      r: 4,
      lora_alpha: 6,
      use_rslora: true,
      lora_dropout: 0.1,
      layers_to_transform: [0, 1],
    });
  });

  it("rounds to what is asked for, and refuses what does not fit", async () => {
    const one = plan("q_proj of layers 0");
    const factors = ({ in: input, out }: LoraModule) => ({
      a: new Float32Array(4 * input).fill(1e5),
      b: new Float32Array(out * 4),
    });
    await writeAdapter(folder, { plan: one, factors, base: "b", dtype: "BF16" });
    const { adapter } = await openCheckpoint(`${BASE}+${folder}`);
    expect(adapter?.file.tensors.map(({ dtype }) => dtype)).toEqual(["BF16", "BF16"]);
    await expect(writeAdapter(folder, { plan: one, factors, base: "b", dtype: "F16" })).rejects.toThrow(
      "256 values of base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight do not fit float16",
    );
  });
});
