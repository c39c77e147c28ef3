// Specifications of the tiny decoders, both layouts of configurations, and refusals. golden.test.ts compares their logits
// with those of transformers.
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { CASES, configOf, readJson } from "../../../test/support/decoder-fixtures.js";
import { type DecoderSpec, FAMILIES, LLAMA_DEFAULTS } from "../../families/index.js";
import { CheckpointError } from "../../kit/errors.js";
import { readSpec } from "./read-spec.js";

const specOf = (name: string, changes: Record<string, unknown> = {}) =>
  readSpec(configOf({ ...readJson(`${name}/config.json`), ...changes }));

const shapes = (spec: DecoderSpec) => spec.layers.map(({ window, rope }) => [window, rope]);
const rolesOf = (spec: DecoderSpec) => Object.keys(spec.layers[0]?.weights ?? {});

describe("fields", () => {
  it("llama: grouped queries, an untied head, sizes as they stand", () => {
    const spec = specOf("llama");
    const { hidden, heads, kvHeads, headDim, feedForward, vocabularySize, contextLength } = spec;
    expect({ hidden, heads, kvHeads, headDim, feedForward, vocabularySize, contextLength }).toEqual({
      ...{ hidden: 8, heads: 4, kvHeads: 2, headDim: 6, feedForward: 8, vocabularySize: 20, contextLength: 256 },
    });
    expect(spec).toMatchObject({
      ...{ family: "Llama", layout: "sequential", activation: "silu", embeddingScale: 1, residualScale: 1 },
      ...{ logitScale: 1, logitSoftcap: null, norm: { kind: "rms", eps: 1e-5, offset: 0 } },
      attention: { scale: 6 ** -0.5, softcap: null, qkNorm: null },
      head: { name: "lm_head.weight", shape: [20, 8] },
    });
    expect(shapes(spec)).toEqual([
      [null, 0],
      [null, 0],
    ]); // prettier-ignore
    expect(spec.layers[1]?.weights).toEqual({
      q: { weight: { name: "layers.1.self_attn.q_proj.weight", shape: [24, 8] } },
      k: { weight: { name: "layers.1.self_attn.k_proj.weight", shape: [12, 8] } },
      v: { weight: { name: "layers.1.self_attn.v_proj.weight", shape: [12, 8] } },
      o: { weight: { name: "layers.1.self_attn.o_proj.weight", shape: [8, 24] } },
      gate: { weight: { name: "layers.1.mlp.gate_proj.weight", shape: [8, 8] } },
      up: { weight: { name: "layers.1.mlp.up_proj.weight", shape: [8, 8] } },
      down: { weight: { name: "layers.1.mlp.down_proj.weight", shape: [8, 8] } },
      beforeAttention: { weight: { name: "layers.1.input_layernorm.weight", shape: [8] } },
      beforeFeedForward: { weight: { name: "layers.1.post_attention_layernorm.weight", shape: [8] } },
    });
  });

  it("llama with biases: on all seven projections, and a tied head", () => {
    const spec = specOf("llama-bias-linear");
    const { q, k, v, o, gate, up, down } = spec.layers[0]?.weights ?? {};
    expect([q, k, v, o, gate, up, down].map((weights) => weights?.bias?.shape)).toEqual([
      ...[[12], [4], [4], [12], [8], [8], [12]],
    ]);
    expect(spec.head).toBeNull();
  });

  it("mistral and phi3: one window in all layers; none where it is null", () => {
    expect(shapes(specOf("mistral"))).toEqual([
      [5, 0],
      [5, 0],
    ]); // prettier-ignore
    expect(shapes(specOf("phi3"))).toEqual([
      [6, 0],
      [6, 0],
    ]); // prettier-ignore
    expect(shapes(specOf("mistral", { sliding_window: null }))).toEqual([
      [null, 0],
      [null, 0],
    ]); // prettier-ignore
  });

  it("qwen2: biases on queries, keys and values; windows only where they are used", () => {
    const spec = specOf("qwen2");
    expect(spec.layers[0]?.weights.k?.bias).toEqual({ name: "layers.0.self_attn.k_proj.bias", shape: [4] });
    expect(spec.layers[0]?.weights.o?.bias).toBeUndefined();
    expect(shapes(spec)).toEqual([
      [null, 0],
      [4, 0],
    ]); // prettier-ignore
    const unused = { use_sliding_window: false, layer_types: null };
    expect(shapes(specOf("qwen2", unused))).toEqual([
      [null, 0],
      [null, 0],
    ]); // prettier-ignore
  });

  it("norms of queries and keys: of one head, of each, of all together", () => {
    const normOf = (name: string) => {
      const { attention, layers } = specOf(name);
      const { qNorm, kNorm } = layers[0]?.weights ?? {};
      return [attention.qkNorm, qNorm?.weight.shape, kNorm?.weight.shape];
    };
    expect(normOf("qwen3")).toEqual([{ kind: "rms", eps: 1e-6, offset: 0, over: "head" }, [4], [4]]);
    expect(normOf("gemma3")).toEqual([{ kind: "rms", eps: 1e-6, offset: 1, over: "head" }, [4], [4]]);
    expect(normOf("cohere")).toEqual([{ kind: "layer", eps: 1e-5, offset: 0, over: "eachHead" }, [4, 4], [2, 4]]);
    expect(normOf("olmo2")).toEqual([{ kind: "rms", eps: 1e-5, offset: 0, over: "width" }, [16], [8]]);
    expect(normOf("llama")).toEqual([null, undefined, undefined]);
  });

  it("cohere: a parallel block behind one norm, neighbouring dimensions turn", () => {
    const spec = specOf("cohere");
    expect(spec).toMatchObject({
      layout: "parallel",
      logitScale: 0.25,
      norm: { kind: "layer", eps: 1e-5 },
      head: null,
    });
    expect(spec.ropes.map(({ pairs }) => pairs)).toEqual(["interleaved"]);
    expect(rolesOf(spec).filter((role) => /^(before|after)/.test(role))).toEqual(["beforeAttention"]);
  });

  it("cohere2: global layers have no positions", () => {
    expect(shapes(specOf("cohere2"))).toEqual([
      [5, 0],
      [5, 0],
      [null, null],
    ]); // prettier-ignore
  });

  it("gemma: embeddings scaled by sqrt(hidden) in float32, whatever dtype the weights have", () => {
    for (const dtype of ["float32", "bfloat16", "float16", null]) {
      expect(specOf("gemma", { hidden_size: 3072, dtype }).embeddingScale).toBe(Math.fround(Math.sqrt(3072)));
    }
    expect(specOf("gemma").norm.offset).toBe(1);
  });

  it('gemma: "gelu" means the approximation, in gemma alone', () => {
    expect(specOf("gemma", { hidden_act: "gelu" }).activation).toBe("gelu_tanh");
    expect(specOf("gemma2", { hidden_activation: "gelu" }).activation).toBe("gelu");
    expect(specOf("llama", { hidden_act: "gelu" }).activation).toBe("gelu");
  });

  it("gemma2: norms on both sides, softcaps, windows in every other layer", () => {
    const spec = specOf("gemma2");
    const without = { qkNorm: null, valueNorm: null, growth: null, gated: false };
    expect(spec.attention).toEqual({ scale: 3 ** -0.5, softcap: 2, ...without });
    expect(spec.logitSoftcap).toBe(3);
    expect(rolesOf(spec).filter((role) => /^(before|after)/.test(role))).toEqual([
      ...["beforeAttention", "afterAttention", "beforeFeedForward", "afterFeedForward"],
    ]);
    expect(spec.layers[0]?.weights.afterAttention?.weight.name).toBe("layers.0.post_attention_layernorm.weight");
    expect(shapes(spec)).toEqual([
      [5, 0],
      [null, 0],
    ]); // prettier-ignore
    const silent = { attn_logit_softcapping: undefined, final_logit_softcapping: undefined };
    expect(specOf("gemma2", silent)).toMatchObject({ attention: { softcap: 50 }, logitSoftcap: 30 });
    const none = { attn_logit_softcapping: null, final_logit_softcapping: null };
    expect(specOf("gemma2", none)).toMatchObject({ attention: { softcap: null }, logitSoftcap: null });
  });

  it("gemma3: local layers turn by frequencies of their own", () => {
    const spec = specOf("gemma3");
    expect(shapes(spec)).toEqual([
      [5, 1],
      [5, 1],
      [null, 0],
    ]); // prettier-ignore
    expect(spec.ropes.map(({ frequencies }) => [...frequencies])).toEqual([
      [1 / 8, 1000 ** -0.5 / 8],
      [1, 50 ** -0.5],
    ]);
  });

  it("gemma4: later layers attend to keys of earlier ones, and are twice as wide", () => {
    const spec = specOf("gemma4");
    expect(spec.layers.map(({ window, rope, headDim, keysOf }) => [window, rope, headDim, keysOf])).toEqual([
      [5, 1, 4, undefined],
      [null, 0, 8, undefined],
      [5, 1, 4, 0],
      [null, 0, 8, 1],
    ]);
    expect(
      spec.layers.map(({ weights: { k, kNorm, up } }) => [k?.weight.shape, kNorm?.weight.shape, up?.weight.shape]),
    ).toEqual([
      [[8, 8], [4], [8, 8]],
      [[16, 8], [8], [8, 8]],
      [undefined, undefined, [16, 8]],
      [undefined, undefined, [16, 8]],
    ]); // prettier-ignore
    expect([...(spec.ropes[0]?.frequencies ?? [])]).toEqual([1, 100 ** -0.25, 0, 0]);
    // Where keys are values, too.
    expect(
      specOf("gemma4-one").layers.map(({ kvHeads, weights: { k, v } }) => [kvHeads, k?.weight.name === v?.weight.name]),
    ).toEqual([
      [2, false],
      [2, false],
      [1, true],
    ]); // prettier-ignore
  });

  it("smollm3: windows in layers that do not rotate, which are every fourth where no list says it", () => {
    expect(shapes(specOf("smollm3"))).toEqual([
      [5, null],
      [null, 0],
      [null, 0],
    ]); // prettier-ignore
    const silent = { no_rope_layers: undefined, layer_types: undefined, num_hidden_layers: 5 };
    expect(specOf("smollm3", silent).layers.map(({ rope }) => rope)).toEqual([0, 0, 0, null, 0]);
  });

  it("exaone4: with windows, global layers do not rotate; without, all do", () => {
    expect(shapes(specOf("exaone4"))).toEqual([
      [5, 0],
      [5, 0],
      [null, null],
    ]); // prettier-ignore
    expect(shapes(specOf("exaone4-global"))).toEqual([
      [null, 0],
      [null, 0],
    ]); // prettier-ignore
    // As LGAI-EXAONE/EXAONE-4.0-32B writes it.
    expect(shapes(specOf("exaone4", { sliding_window_pattern: "LLG" }))).toEqual(shapes(specOf("exaone4")));
  });

  it("ministral3: queries grow, as the defaults have it where no rotation is written", () => {
    expect(specOf("ministral3").attention.growth).toEqual({ factor: 0.6, every: 3 });
    const silent = specOf("ministral3", { rope_parameters: undefined, max_position_embeddings: 262_144 });
    expect(silent.attention.growth).toEqual({ factor: 0.1, every: 16_384 });
    expect(silent.ropes[0]).toMatchObject({ theta: 1_000_000, attentionFactor: 1, scaling: { factor: 16 } });
  });

  it("hunyuan: alpha stretches the base once, for heads of E, by alpha^(E / (E - 2))", () => {
    expect(specOf("hunyuan").ropes[0]?.theta).toBeCloseTo(100 * 30 ** 1.5, 6);
    const plain = { rope_parameters: { rope_type: "default", rope_theta: 100, alpha: 30 } };
    expect(specOf("hunyuan", plain).ropes[0]?.theta).toBe(100);
  });

  it("apertus: Llama 3's scaling where no rotation is written", () => {
    const { ropes } = specOf("apertus", { rope_parameters: undefined });
    // By transformers 5.24, of heads of 4 dimensions: the second is below the low frequencies, so divided by 8.
    expect([...(ropes[0]?.frequencies ?? [])]).toEqual([1, 12_000_000 ** -0.5 / 8]);
  });

  it("apertus: two weights and two constants of xielu in each layer, none with another activation", () => {
    expect(specOf("apertus").layers[1]?.weights.curveAbove?.weight).toEqual({
      name: "layers.1.mlp.act_fn.alpha_p",
      shape: [1],
    });
    expect(specOf("apertus").layers[1]?.weights.curveSlope?.weight).toEqual({
      name: "layers.1.mlp.act_fn.beta",
      shape: [],
      isConstant: true,
    });
    const { activation, layers } = specOf("apertus", { hidden_act: "silu" });
    expect([activation, layers[0]?.weights.curveAbove]).toEqual(["silu", undefined]);
  });

  it("granite: four scales, of which the one of logits divides", () => {
    const spec = specOf("granite");
    expect(spec).toMatchObject({
      embeddingScale: 1.5,
      residualScale: 0.7,
      logitScale: 1 / 1.7,
      attention: { scale: 0.4 },
    });
  });

  it("phi3: rows of fused projections", () => {
    const { q, k, v, gate, up } = specOf("phi3").layers[0]?.weights ?? {};
    const qkv = "layers.0.self_attn.qkv_proj.weight";
    expect([q, k, v].map((linear) => linear?.weight)).toEqual([
      { name: qkv, shape: [12, 12], rows: { from: 0, of: 20 } },
      { name: qkv, shape: [4, 12], rows: { from: 12, of: 20 } },
      { name: qkv, shape: [4, 12], rows: { from: 16, of: 20 } },
    ]);
    expect([gate, up].map((linear) => linear?.weight.rows)).toEqual([
      { from: 0, of: 16 },
      { from: 8, of: 16 },
    ]); // prettier-ignore
  });

  it("starcoder2: no gate, biases also in norms", () => {
    const spec = specOf("starcoder2");
    expect(rolesOf(spec)).not.toContain("gate");
    expect(spec.finalNorm.bias).toEqual({ name: "norm.bias", shape: [12] });
    expect(spec.layers[0]?.weights.up?.bias).toEqual({ name: "layers.0.mlp.c_fc.bias", shape: [8] });
  });
});

describe("configurations", () => {
  const OLD = ["llama", "llama-yarn", "qwen2", "cohere2", "gemma3", "phi3-longrope"];

  it("nemotron_h: kinds of layers as letters, as transformers 4 writes them", () => {
    const changes = { layers_block_type: null, num_hidden_layers: 4, hybrid_override_pattern: "M-*M" };
    expect(specOf("nemotron_h", changes)).toEqual(specOf("nemotron_h"));
    const roles = specOf("nemotron_h").layers.map(({ weights }) =>
      ["mix", "up", "q"].filter((role) => role in weights),
    );
    expect(roles).toEqual([["mix"], ["up"], ["q"], ["mix"]]);
  });

  it("lfm2: which layers attend, and the width of the feed-forward part", () => {
    const attends = (changes: object) =>
      specOf("lfm2", { layer_types: null, ...changes }).layers.map(({ weights }) => weights.q !== undefined);
    expect(attends({})).toEqual([true, true, true]);
    expect(attends({ full_attn_idxs: [0, 2] })).toEqual([true, false, true]);
    // int(2 * 11 / 3) = 7, int(1.3 * 7) = 9, and 10 is the next multiple of 5.
    expect(specOf("lfm2").feedForward).toBe(10);
    expect(specOf("lfm2", { block_ffn_dim_multiplier: null }).feedForward).toBe(7);
    expect(specOf("lfm2", { block_ff_dim: 30, block_auto_adjust_ff_dim: false }).feedForward).toBe(30);
  });

  it.each(OLD)("%s reads the same in the layout of transformers 4", (name) => {
    expect(readSpec(configOf(name, "config.old.json"))).toEqual(specOf(name));
  });

  it("gemma4 reads the same as transformers writes it and as it is published", () => {
    const published = { global_head_dim: 8, per_layer_config: undefined };
    expect(specOf("gemma4", published)).toEqual(specOf("gemma4"));
    const one = { global_head_dim: 6, num_global_key_value_heads: 1, per_layer_config: undefined };
    expect(specOf("gemma4-one", one)).toEqual(specOf("gemma4-one"));
    // Only where keys are values, too.
    const two = specOf("gemma4-one", { ...one, attention_k_eq_v: false });
    expect(two.layers.map(({ kvHeads }) => kvHeads)).toEqual([2, 2, 2]);
    expect(specOf("gemma4", { per_layer_config: undefined }).layers[1]?.headDim).toBe(512);
    // transformers writes as many digits as the number of the last layer has.
    expect(specOf("gemma4", { per_layer_config: { "01": { head_dim: 8 }, "03": { head_dim: 8 } } })).toEqual(
      specOf("gemma4"),
    );
  });

  it("what config.json does not say is as the class of transformers has it", () => {
    const expected = readJson("defaults.json") as Record<string, Record<string, unknown>>;
    // Fields that transformers fills in from others, or drops, when it makes a configuration.
    const derived = new Set(["num_key_value_heads", "head_dim"]);
    const runnable = FAMILIES.filter(({ traits }) => traits);
    const different = runnable.flatMap(({ modelTypes, defaults = {} }) =>
      Object.entries({ ...LLAMA_DEFAULTS, ...defaults }).flatMap(([field, value]) => {
        const [modelType = ""] = modelTypes;
        if (field === "rope_parameters") return []; // objects; tested above
        // What a family inherits from Llama and its class does not have is not read.
        if (!(field in defaults) && !(field in (expected[modelType] ?? {}))) return [];
        const theirs = expected[modelType]?.[field];
        const same = theirs === value || (value === null && derived.has(field));
        return same ? [] : [`${modelType}.${field}: ${value}, in transformers ${theirs}`];
      }),
    );
    expect(different).toEqual([
      "qwen2.sliding_window: 4096, in transformers null", // nulled there, as use_sliding_window is false
      "qwen3.sliding_window: 4096, in transformers null",
      "qwen3_moe.sliding_window: 4096, in transformers null",
    ]);
  });

  it("the text tower of a multimodal checkpoint, with the defaults that its configuration relies on", () => {
    // As google/gemma-3-4b-it has it, shortened.
    const text = { hidden_size: 2560, intermediate_size: 10_240, num_hidden_layers: 34, sliding_window: 1024 };
    const spec = readSpec(
      configOf({
        ...{ model_type: "gemma3", torch_dtype: "bfloat16", vision_config: { hidden_size: 1152 } },
        text_config: { ...text, model_type: "gemma3_text", rope_scaling: { factor: 8, rope_type: "linear" } },
      }),
    );
    expect(spec).toMatchObject({
      ...{
        vocabularySize: 262_208,
        hidden: 2560,
        heads: 8,
        kvHeads: 4,
        headDim: 256,
        embeddingScale: Math.fround(Math.sqrt(2560)),
      },
      ...{ contextLength: 131_072, head: null, attention: { scale: 1 / 16 } },
    });
    expect(spec.layers.map(({ window }) => window === null)).toEqual(
      Array.from({ length: 34 }, (_, i) => (i + 1) % 6 === 0),
    );
    expect(spec.ropes.map(({ frequencies }) => frequencies[0])).toEqual([1 / 8, 1]);
  });

  it("a larger context is all that a larger max_position_embeddings changes", () => {
    for (const name of ["mistral", "llama-bias-linear", "llama", "llama-yarn", "gemma3", "gemma4"]) {
      expect(specOf(name, { max_position_embeddings: 4096 })).toEqual({ ...specOf(name), contextLength: 4096 });
    }
  });

  it("null counts as absent where transformers derives the value", () => {
    const spec = specOf("llama", { head_dim: null, num_key_value_heads: null });
    expect([spec.headDim, spec.kvHeads]).toEqual([2, 4]);
  });
});

describe("refusals", () => {
  const refused = (name: string, changes: Record<string, unknown>): CheckpointError => {
    try {
      specOf(name, changes);
    } catch (error) {
      if (error instanceof CheckpointError) return error;
      throw error;
    }
    throw new Error("not refused");
  };

  test("an unknown family: names the supported ones, and what works", () => {
    const error = refused("llama", { model_type: "mamba" });
    expect(error.message).toMatch(/"mamba".*supported are llama, mistral, .*qwen2.*Merging and analysis work for it/s);
    expect(error.where).toMatchObject({ file: "checkpoint/config.json", field: "model_type", actual: "mamba" });
  });

  test.each(["smollm3", "llama", "qwen3_vl"])("%s whose head is tied by a text", (name) => {
    const error = refused(name, { tie_word_embeddings: "false" });
    expect(error.message).toBe('checkpoint/config.json: tie_word_embeddings is "false"; it must be true or false');
    expect(error.where).toMatchObject({ field: "tie_word_embeddings" });
  });

  test.each([
    ["llama", { hidden_act: "xielu" }, "hidden_act", /hidden_act is "xielu"; it must be one of silu, .*relu/],
    ["llama", { quantization_config: { bits: 4 } }, "quantization_config", /marks the weights as quantized/],
    [
      "llama",
      { rope_parameters: { rope_type: "axial" } },
      "rope_parameters.rope_type",
      /"axial"; it must be one of default, /,
    ],
    ["llama", { rope_parameters: { rope_type: "linear" } }, "rope_parameters.factor", /factor is missing/],
    ["llama", { partial_rotary_factor: 0.5 }, "partial_rotary_factor", /0.5; this family rotates whole heads/],
    [
      "llama",
      { rope_parameters: { rope_theta: 0.5 } },
      "rope_parameters.rope_theta",
      /is 0.5; it must be a number above 1/,
    ],
    ["llama", { head_dim: 5 }, "head_dim", /leaves 5 rotated dimensions/],
    ["llama", { head_dim: 2 ** 20 }, "head_dim", /up to 65536/],
    ["llama", { num_attention_heads: 2 ** 40 }, "num_attention_heads", /from 1 to 16777216/],
    ["llama", { num_key_value_heads: 3 }, "num_key_value_heads", /3; it must divide num_attention_heads, 4/],
    ["llama", { attention_bias: "yes" }, "attention_bias", /"yes"; it must be true or false/],
    ["llama", { rms_norm_eps: -1 }, "rms_norm_eps", /number above 0/],
    ["mistral", { sliding_window: 0 }, "sliding_window", /is 0/],
    ["qwen2", { use_sliding_window: false }, "use_sliding_window", /layer_types lists sliding_attention/],
    ["gemma2", { sliding_window: null }, "sliding_window", /is null/],
    ["gemma2", { layer_types: ["full_attention"] }, "layer_types", /a list of 2 entries, each one of full_attention/],
    ["gemma3", { use_bidirectional_attention: true }, "use_bidirectional_attention", /only causal/],
    ["gemma3", { rope_parameters: { rope_type: "default" } }, "rope_parameters", /neither full_attention nor sliding/],
    ["gemma4", { use_bidirectional_attention: "all" }, "use_bidirectional_attention", /only causal/],
    ["gemma4-experts", { top_k_experts: 6 }, "top_k_experts", /is 6, of 5 experts/],
    ["gemma4", { num_kv_shared_layers: 3 }, "num_kv_shared_layers", /leaves no full_attention layer with keys of its/],
    ["gemma4", { per_layer_config: { 1: { head_dim: 8 } } }, "per_layer_config", /gives layer 1 another head_dim/],
    ["gemma4", { per_layer_config: { 1: { num_key_value_heads: 3 } } }, "num_attention_heads", /must divide it/],
    ["gemma4", { use_bidirectional_attention: true }, "use_bidirectional_attention", /is true; only causal/],
    [
      "ministral3",
      { layer_types: ["full_attention"] },
      "layer_types",
      /a list of 2 entries, each one of full_attention/,
    ],
    ["llama", { layer_types: ["conv", "full_attention"] }, "layer_types", /a list of 2 entries/],
    ["llama", { layer_types: "full_attention" }, "layer_types", /a list of 2 entries/],
    [
      "qwen3",
      { max_window_layers: "1", use_sliding_window: false },
      "max_window_layers",
      /is "1"; it must be a number/,
    ],
    ["mistral", { mlp_bias: "no" }, "mlp_bias", /is "no"; it must be true or false/],
    ["gemma3", { hidden_act: 3 }, "hidden_act", /is 3; it must be a text/],
    ["exaone4", { sliding_window: "4" }, "sliding_window", /is "4"; it must be a whole number/],
    ["llama", { num_local_experts: 8 }, "num_local_experts", /is 8; experts are not supported in this family/],
    ["llama", { alibi: true }, "alibi", /is true; only rotary positions/],
    ["cohere2", { rope_parameters: { full_attention: {} } }, "rope_parameters.full_attention", /rotation/],
    ["smollm3", { no_rope_layers: [1, 2, 0] }, "no_rope_layers", /a list of 3 entries, each one of 0, 1/],
    [
      "ministral3",
      { rope_parameters: { rope_type: "yarn", factor: 2, original_max_position_embeddings: 16 } },
      "rope_parameters.llama_4_scaling_beta",
      /is missing; this family multiplies queries by it/,
    ],
    ["exaone4", { layer_types: null, sliding_window: null }, "sliding_window", /is null/],
    ["glm4", { partial_rotary_factor: null, rope_parameters: { partial_rotary_factor: 1.5 } }, "factor", /is 1.5/],
    ["lfm2", { layer_types: ["conv", "full_attention", "x"] }, "layer_types", /each one of full_attention, conv/],
    ["qwen3_next", { num_experts: 8, num_experts_per_tok: 9 }, "num_experts_per_tok", /is 9, of 8 experts/],
    [
      "qwen3_next",
      { num_experts: 8, num_experts_per_tok: 2, shared_expert_intermediate_size: 0 },
      "shared_expert_intermediate_size",
      /is 0/,
    ],
    ["qwen3_next", { linear_num_key_heads: 3 }, "linear_num_key_heads", /3; it must divide linear_num_value_heads, 4/],
    [
      "granitemoehybrid",
      { mamba_n_heads: 5 },
      "mamba_n_heads",
      /is 5; it must divide the width of the state space, 12/,
    ],
    ["granitemoehybrid", { mamba_n_groups: 4 }, "mamba_n_groups", /is 4; it must divide the heads/],
    ["granitemoehybrid", { time_step_limit: [0, 1] }, "time_step_limit", /has an upper limit/],
    ["falcon_h1", { projectors_bias: true }, "projectors_bias", /multipliers of such biases are not supported/],
    [
      "nemotron_h",
      { num_hidden_layers: 4, layers_block_type: ["mlp"] },
      "layers_block_type",
      /has 1 entries; the model has 4 layers/,
    ],
    ["nemotron_h-experts", { n_group: 4 }, "n_group", /is 4, topk_group 2; it must divide the 6 experts/],
    ["phi3-longrope", { original_max_position_embeddings: 1 }, "original_max_position_embeddings", /at least 2/],
  ])("%s with %j", (name, changes, field, message) => {
    const error = refused(name, changes);
    expect(error.message).toMatch(message);
    expect(error.where.field).toContain(field);
    expect(error.message).toContain("Merging and analysis work for it");
  });

  test("whatever stands in a field, the answer is a description or a sentence", () => {
    const fields = [...new Set(CASES.flatMap((name) => Object.keys(readJson(`${name}/config.json`))))];
    const nested = [
      "factor",
      "rope_type",
      "rope_theta",
      "long_factor",
      "original_max_position_embeddings",
      "beta_fast",
    ];
    const change = (inside: string[]) =>
      fc.dictionary(fc.constantFrom(...inside), fc.jsonValue({ maxDepth: 1 }), { maxKeys: 3 });
    const property = fc.property(
      fc.constantFrom(...CASES),
      change(fields.filter((field) => field !== "num_hidden_layers")),
      change(nested),
      (name, changes, rope) => {
        const json = readJson(`${name}/config.json`);
        const parameters = { ...(json.rope_parameters as object), ...rope };
        try {
          const spec = readSpec(configOf({ ...json, rope_parameters: parameters, ...changes }));
          expect(spec.ropes.map((one) => one.frequencies.length * 2)).toEqual(spec.ropes.map((one) => one.dimensions));
          expect(spec.ropes.every((one) => one.dimensions >= 2)).toBe(true);
        } catch (error) {
          if (!(error instanceof CheckpointError)) throw error;
        }
      },
    );
    fc.assert(property, { numRuns: 300 });
  });

  test("all reasons at once", () => {
    const error = refused("llama", {
      hidden_act: "tanh",
      rms_norm_eps: null,
      rope_parameters: { rope_type: "llama3" },
    });
    expect(error.message.split("\n").slice(1, -1)).toEqual([
      "  - rms_norm_eps is null; it must be a number above 0",
      expect.stringContaining('  - hidden_act is "tanh"'),
      ...["factor", "low_freq_factor", "high_freq_factor"].map(
        (field) => `  - rope_parameters.${field} is missing; it must be a number above 0`,
      ),
    ]);
  });
});
