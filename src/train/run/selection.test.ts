import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RecipeError } from "../../kit/errors.js";
import { parseSelection, resolveSelection, type Selectable } from "./selection.js";

const LAYERS = 12;
const IN_LAYER = {
  "input_layernorm.weight": "input_norm",
  "self_attn.q_proj.weight": "q_proj",
  "self_attn.q_proj.bias": "q_proj",
  "self_attn.k_proj.weight": "k_proj",
  "post_attention_layernorm.weight": "pre_mlp_norm",
  "mlp.up_proj.weight": "up_proj",
} as const;

function model(layers = LAYERS, tied = false): Map<string, Selectable> {
  const tensors = new Map<string, Selectable>([["model.embed_tokens.weight", { layer: null, part: "embed_tokens" }]]);
  for (let layer = 0; layer < layers; layer++) {
    for (const [name, part] of Object.entries(IN_LAYER)) tensors.set(`model.layers.${layer}.${name}`, { layer, part });
  }
  tensors.set("model.norm.weight", { layer: null, part: "final_norm" });
  if (!tied) tensors.set("lm_head.weight", { layer: null, part: "lm_head" });
  return tensors;
}

const all = [...model().keys()];
const select = (text: string, tensors = model()) => [...resolveSelection(text, { tensors, layers: LAYERS })];
const inLayers = (...layers: number[]) =>
  all.filter((name) => layers.includes(Number(/layers\.(\d+)/.exec(name)?.[1])));
const named = (pattern: RegExp, from = all) => from.filter((name) => pattern.test(name));

it("counts the biases of all experts in one tensor among biases, and what only ends so not", () => {
  const tensors = new Map<string, Selectable>([
    ["layers.0.mlp.experts.down_proj_bias", { layer: 0, part: "down_proj" }],
    ["layers.0.mlp.experts.down_proj", { layer: 0, part: "down_proj" }],
    ["layers.0.mixer.dt_bias", { layer: 0, part: "mixer" }],
  ]);
  expect([...resolveSelection("biases", { tensors, layers: 1 })]).toEqual(["layers.0.mlp.experts.down_proj_bias"]);
});

describe("resolveSelection", () => {
  const cases: [string, readonly string[]][] = [
    ["all", all],
    ["layers 0-2,10-11", inLayers(0, 1, 2, 10, 11)],
    ["layers 0-2, 10 - 11", inLayers(0, 1, 2, 10, 11)],
    ["layers 0-2 and 10-11", inLayers(0, 1, 2, 10, 11)],
    ["layer 3", inLayers(3)],
    ["layers bottom 2, top 1", inLayers(0, 1, 11)],
    ["layers but layers bottom 5 and top 6", inLayers(5)],
    ["q_proj of layers 3, top 1", named(/q_proj/, inLayers(3, 11))],
    ["embeddings, mlp of layers bottom 1", [...named(/embed/), ...named(/up|post/, inLayers(0))]],
    ["layers top 12", inLayers(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)],
    ["layers", named(/layers/)],
    ["all but layers 0-4", all.filter((name) => !inLayers(0, 1, 2, 3, 4).includes(name))],
    ["all except embeddings, head and norms", named(/proj/)],
    ["attention", named(/self_attn|input_layernorm/)],
    ["attention only", named(/self_attn|input_layernorm/)],
    ["attention but norms", named(/self_attn/)],
    ["mlp", named(/mlp|post_attention/)],
    ["norms", named(/norm/)],
    ["biases", named(/bias/)],
    ["outside", named(/embed|model\.norm|lm_head/)],
    ["embeddings, head", named(/embed|lm_head/)],
    ["q_proj,up_proj", named(/q_proj|up_proj/)],
    ["embed_tokens", named(/embed/)],
    ["post_attention_layernorm", named(/post_attention/)], // a module's own name
    ["pre_mlp_norm", named(/post_attention/)], // the part that it is
    ["attention of layers 5-6", named(/self_attn|input_layernorm/, inLayers(5, 6))],
    ["q_proj and k_proj of layers 1, 3", named(/[qk]_proj/, inLayers(1, 3))],
    ["embeddings, q_proj and k_proj in layer 1", [...named(/embed/), ...named(/[qk]_proj/, inLayers(1))]],
    ["q_proj of layers 1 and mlp of layers 2", [...named(/q_proj/, inLayers(1)), ...named(/up|post/, inLayers(2))]],
    ["embeddings and layers 3-4", [...named(/embed/), ...inLayers(3, 4)]],
    ["layers 1-2 but q_proj of layers 1 and 5", inLayers(1, 2).filter((name) => !/layers\.1\..*q_proj/.test(name))],
  ];
  it.each(cases)("%s", (text, wanted) => {
    expect(wanted.length).toBeGreaterThan(0);
    expect(select(text)).toEqual(wanted);
  });

  const problems: [string, RegExp][] = [
    ["layers 0-12", /train: the model has no layer 12; its layers are 0 to 11/],
    ["layers bottom 13", /train: bottom 13 is more than the model's 12 layers/],
    ["layers top 0", /has the end after "layers top 0", where at least one layer is expected/],
    ["layers top", /has the end after "layers top", where the number of a layer is expected/],
    ["embeddings of layers top 1", /embeddings of layers top 1 matches nothing; embeddings is outside/],
    ["top 2", /has "top", where layers, a part/],
    ["layers 5-3", /layers in ascending order, 3-5, is expected/],
    ["attn", /the model has no attn; it has all, layers, outside/],
    ["q_prj", /the model has no q_prj; .*; did you mean q_proj\?/],
    ["v_proj", /the model has no v_proj; .*; did you mean/],
    ["embeddings of layers 1", /embeddings of layers 1 matches nothing; embeddings is outside the layers/],
    ["mlp but layers", /"mlp but layers" leaves nothing to select/],
    ["", /has the end, where layers, a part/],
    ["attention,", /has the end after "attention ,", where layers/],
    ["layers 1-", /has the end after "layers 1 -", where the number of a layer is expected/],
    ["layers 99999999999999999999", /the number of a layer is expected/],
    ["attention 3", /has "3" after "attention", where a comma, and, but, or the end is expected/],
    ["attention of mlp", /has "mlp" after "attention of", where layers is expected/],
    ["all but", /has the end after "all but"/],
    ["layer attention", /the number of a layer/],
    ["q_proj; drop", /has ";" after "q_proj"/],
  ];
  it.each(problems)("refuses %j", (text, message) => {
    expect(() => select(text)).toThrow(message);
    expect(() => select(text)).toThrow(RecipeError);
  });

  it("says that a tied head is the embedding", () => {
    expect(() => select("head", model(LAYERS, true))).toThrow(/has no head\. Its output head is the embedding/);
  });

  it("says where a part is that some layers lack", () => {
    const tensors = model();
    for (const layer of [0, 1, 2, 7]) tensors.delete(`model.layers.${layer}.self_attn.q_proj.bias`);
    expect(() => select("biases of layers 0-2", tensors)).toThrow("biases is in layers 3-6, 8-11");
  });
});

describe("parseSelection", () => {
  it("reads any text, or refuses it with a RecipeError", () => {
    const word = fc.constantFrom(
      "all",
      "layers",
      "norms",
      "q_proj",
      ",",
      "and",
      "but",
      "of",
      "layer",
      "bottom",
      "-",
      "3",
      "only",
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(word, fc.string()), { maxLength: 8 }), (words) => {
        try {
          expect(parseSelection(words.join(" ")).terms.length).toBeGreaterThan(0);
        } catch (error) {
          expect(error).toBeInstanceOf(RecipeError);
        }
      }),
      { numRuns: 500 },
    );
  });
});
