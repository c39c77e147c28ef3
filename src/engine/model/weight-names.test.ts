// Names of weights in checkpoints: every tensor of the tiny decoders has a role, whatever stands before its name.
import { describe, expect, it } from "vitest";
import { CASES, configOf, readTensors } from "../../../test/support/decoder-fixtures.js";
import { CheckpointError } from "../../kit/errors.js";
import { readSpec } from "./read-spec.js";
import { locateWeights, weightsOf } from "./weight-names.js";

const namesOf = (name: string) => [...readTensors(`${name}/model.safetensors`).keys()];
const llama = readSpec(configOf("llama"));

describe("locateWeights", () => {
  it.each(CASES)("%s: every tensor is used, and every weight is there", (name) => {
    const names = namesOf(name);
    const { stored, unused } = locateWeights(readSpec(configOf(name), names), names, name);
    expect(unused).toEqual([]);
    // Towers of wrappers are not part of the decoder.
    const others = /^(model\.)?(visual|vision_tower|embed_vision|multi_modal_projector)\./;
    expect([...new Set(stored.values())].sort()).toEqual(names.filter((tensor) => !others.test(tensor)).sort());
  });

  it.each([
    ["", ""],
    ["model.", ""],
    ["model.language_model.", ""], // transformers 5
    ["language_model.model.", "language_model."], // transformers 4
    ["model.language_model.", "model."],
  ])("finds decoders under %j, with the head under %j", (stem, head) => {
    const names = namesOf("llama").map((name) => name.replace(/^model\./, stem).replace(/^lm_head/, `${head}lm_head`));
    const others = ["vision_tower.encoder.layers.0.self_attn.o_proj.weight", "vision_tower.embed_tokens.bias"];
    const { stored } = locateWeights(llama, [...others, ...names], "here");
    expect(stored.get("layers.1.mlp.down_proj.weight")).toBe(`${stem}layers.1.mlp.down_proj.weight`);
    expect(stored.get("lm_head.weight")).toBe(`${head}lm_head.weight`);
  });

  it("says which tensors of the layers have no role, but for buffers", () => {
    const extra = ["model.layers.0.self_attn.q_proj.bias", "model.layers.0.self_attn.rotary_emb.inv_freq"];
    const { unused } = locateWeights(llama, [...namesOf("llama"), ...extra, "model.other"], "here");
    expect(unused).toEqual(["model.layers.0.self_attn.q_proj.bias"]);
  });

  it("names what is missing", () => {
    const gone = "model.layers.1.mlp.up_proj.weight";
    const locate = (names: string[]) => () => locateWeights(llama, names, "here");
    expect(locate(namesOf("llama").filter((name) => name !== gone))).toThrow(
      /^here is missing 1 of the 21 weights of its decoder \(Llama\): model\.layers\.1\.mlp\.up_proj\.weight; /,
    );
    expect(locate(namesOf("llama").filter((name) => name !== "lm_head.weight"))).toThrow(
      /is missing 1 .*: lm_head\.weight;/,
    );
    expect(locate(["a"])).toThrow(CheckpointError);
    const twice = namesOf("llama").flatMap((name) => [name, `copy.${name}`]);
    expect(locate(twice)).toThrow(/under each of model\., copy\.model\./);
  });
});

it("weightsOf lists the rows of a fused tensor one by one", () => {
  const weights = weightsOf(readSpec(configOf("phi3")));
  const fused = weights.filter(({ name }) => name === "layers.1.self_attn.qkv_proj.weight");
  expect(fused.map(({ shape }) => shape[0])).toEqual([12, 4, 4]);
  expect(weights.at(-1)?.name).toBe("lm_head.weight");
});
