// Checkpoints and adapters named as trainers' wrappers leave them: equal to those with plain names.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { seededTensor, temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { type TensorData, writeSafetensors } from "../safetensors/index.js";
import { openCheckpoint } from "./checkpoint.js";
import { unwrapped } from "./wrapped-names.js";

const home = temporaryFolder();
const LAYERS = ["model.layers.0.", "model.layers.1."];
const inLayers = (wrapper: string) => (name: string) =>
  LAYERS.reduce((now, layer) => now.replace(layer, `${layer}${wrapper}.`), name);

it("removes wrappers at any place, and DDP's name in front", () => {
  expect(
    [
      "_orig_mod.model.norm.weight",
      "module._orig_mod.module.model.norm.weight",
      "model._fsdp_wrapped_module._checkpoint_wrapped_module.norm.weight",
      "base_model.model.module.model.norm.weight",
      "model.module.norm.weight",
      "model.my_orig_mod.norm.weight",
    ].map(unwrapped),
  ).toEqual([
    "model.norm.weight",
    "model.norm.weight",
    "model.norm.weight",
    "base_model.model.model.norm.weight",
    "model.module.norm.weight",
    "model.my_orig_mod.norm.weight",
  ]);
});

describe("a model", () => {
  const write = (name: string, rename: (name: string) => string) =>
    writeTiny(join(home, name), {
      layers: 2,
      edit: (tensors) => tensors.map((tensor) => ({ ...tensor, name: rename(tensor.name) })),
    });

  it.each<[string, (name: string) => string]>([
    ["torch.compile", (name) => `_orig_mod.${name}`],
    ["torch.compile of each layer", inLayers("_orig_mod")],
    ["DDP", (name) => `module.${name}`],
    ["FSDP", (name) => `_fsdp_wrapped_module.${inLayers("_fsdp_wrapped_module")(name)}`],
    ["checkpointing", inLayers("_checkpoint_wrapped_module")],
  ])("in %s has the names, layers and parts of the plain one", async (wrapper, rename) => {
    const plain = await openCheckpoint(await write(`plain ${wrapper}`, (name) => name));
    const { tensors, layerPrefix, architecture, notes } = await openCheckpoint(await write(wrapper, rename));
    const placed = (all: typeof tensors) => [...all].map(([name, { layer, part }]) => [name, layer, part]).sort();
    expect(placed(tensors)).toEqual(placed(plain.tensors));
    expect([layerPrefix, architecture]).toEqual([plain.layerPrefix, plain.architecture]);
    expect(notes.join()).toContain("as a trainer had wrapped their modules");
  });

  it("keeps names that would become equal", async () => {
    const both = await writeTiny(join(home, "both"), {
      layers: 2,
      edit: (tensors) => [...tensors, seededTensor("_orig_mod.model.norm.weight", [8], 3)],
    });
    const { tensors } = await openCheckpoint(both);
    expect(tensors.has("_orig_mod.model.norm.weight") && tensors.has("model.norm.weight")).toBe(true);
  });
});

describe("an adapter", () => {
  const at = "base_model.model.model.layers.1.self_attn.q_proj";
  const FACTORS = [
    seededTensor(`${at}.lora_A.weight`, [2, 8], 1, "F32"),
    seededTensor(`${at}.lora_B.weight`, [8, 2], 2, "F32"),
    seededTensor("base_model.model.lm_head.modules_to_save.weight", [24, 8], 3),
  ];

  async function write(name: string, tensors: readonly TensorData[], file = "adapter_model.safetensors") {
    const folder = join(home, name);
    mkdirSync(folder);
    await writeSafetensors(join(folder, file), tensors);
    const config = { peft_type: "LORA", r: 2, lora_alpha: 3, target_modules: ["q_proj"], modules_to_save: ["lm_head"] };
    writeFileSync(join(folder, "adapter_config.json"), JSON.stringify(config));
    return `${await writeTiny(join(home, `base ${name}`), { layers: 2 })}+${folder}`;
  }

  const renamed = (rename: (name: string) => string) =>
    FACTORS.map((tensor) => ({ ...tensor, name: rename(tensor.name) }));
  const changes = async (source: string) => {
    const { adapter } = await openCheckpoint(source);
    const factors = [...(adapter?.deltas ?? [])].map(([name, { a, b }]) => [name, a.shape, b.shape]);
    return [factors, [...(adapter?.replacements.keys() ?? [])]];
  };
  const WANTED = [[["model.layers.1.self_attn.q_proj.weight", [2, 8], [8, 2]]], ["lm_head.weight"]];

  it.each<[string, (name: string) => string]>([
    ["PEFT", (name) => name],
    ["torch.compile around PEFT", (name) => `_orig_mod.${name}`],
    ["torch.compile around its base", (name) => name.replace("base_model.model.", "base_model.model._orig_mod.")],
    ["DDP", (name) => `module.${name}`],
    ["FSDP", inLayers("_fsdp_wrapped_module")],
    ["the adapter's name", (name) => name.replace(/\.weight$/, ".policy.weight")],
  ])("with the names of %s changes the same tensors", async (name, rename) => {
    expect(await changes(await write(`adapter ${name}`, renamed(rename)))).toEqual(WANTED);
  });

  it("may be in model.safetensors, which must have factors", async () => {
    expect(await changes(await write("adapter in a model's file", FACTORS, "model.safetensors"))).toEqual(WANTED);
    const whole = await write("no factors", FACTORS.slice(2), "model.safetensors");
    await expect(openCheckpoint(whole)).rejects.toThrow("its model.safetensors has no factors of an adapter");
  });

  it("of several in one file is asked for", async () => {
    const both = [...renamed((name) => name.replace(/\.weight$/, ".policy.weight")), ...FACTORS.slice(0, 2)].map(
      (tensor) => ({ ...tensor, name: tensor.name.replace(/lora_(.)\.weight$/, "lora_$1.reference.weight") }),
    );
    await expect(openCheckpoint(await write("two", both))).rejects.toThrow(
      "has the factors of several adapters (policy, reference)",
    );
  });
});
