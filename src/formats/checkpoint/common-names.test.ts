// One model under several names: each pair is written twice, as two programs would, and must be merged as what it is.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type ReadTensor, readJson, seededTensor, writeTiny } from "../../../test/support/checkpoints.js";
import { Bench, readFolders, type Tensors } from "../../../test/support/merging.js";
import { toNumbers } from "../../../test/support/numbers.js";
import { planRecipe } from "../../merge/index.js";
import { type TensorData, writeSharded } from "../safetensors/writer.js";

const bench = new Bench();

const valuesOf = (tensor: ReadTensor | undefined) => [...toNumbers(tensor as ReadTensor)];

/** Writes a tiny model with its tensors and configuration changed. */
function model(seed: number, edit: (tensors: TensorData[]) => TensorData[], config: Record<string, unknown> = {}) {
  return writeTiny(bench.next("model"), { seed, dtype: "F32", edit: (tensors) => edit([...tensors]), config });
}

const renamed = (pattern: RegExp, to: string) => (tensors: TensorData[]) =>
  tensors.map((tensor) => ({ ...tensor, name: tensor.name.replace(pattern, to) }));

const VISION = ["model.visual.blocks.0.w", "model.visual.blocks.3.w", "mtp.layers.0.w"].map((name, i) =>
  seededTensor(name, [3, 2], 900 + i, "F32"),
);

/** The names of a multimodal wrapper, with a tower and a prediction block. */
const wrapped = (tensors: TensorData[]) => [...renamed(/^model\./, "model.language_model.")(tensors), ...VISION];

const wrapperConfig = {
  model_type: "wrapper",
  text_config: { model_type: "inner", num_hidden_layers: 4, tie_word_embeddings: false },
};

describe("a wrapper and its text model", () => {
  it.each(["task", "language"])("swap layers, and the wrapper gives its tower, as %s", async (role) => {
    const [wrapper, text] = [await model(1, wrapped, wrapperConfig), await model(2, (tensors) => tensors)];
    const [task, language] = role === "task" ? [wrapper, text] : [text, wrapper];
    const { out, tensors } = await bench.merge({ method: "swap", task, language, bottom: 1, top: 1 });
    const [inWrapper, inText] = (await readFolders([wrapper, text])) as [Tensors, Tensors];
    expect([...tensors.keys()].sort()).toEqual([...inWrapper.keys()].sort());
    for (const [name, { data }] of tensors) {
      const layer = Number(/layers\.(\d)/.exec(name)?.[1]);
      const plain = name.replace("language_model.", "");
      if (VISION.some((tensor) => tensor.name === name)) expect(data).toEqual(inWrapper.get(name)?.data);
      else if (name.includes("layers.")) {
        const isLanguage = layer === 0 || layer === 3;
        const fromWrapper = (role === "language") === isLanguage;
        expect([name, data]).toEqual([name, fromWrapper ? inWrapper.get(name)?.data : inText.get(plain)?.data]);
      } else {
        const [a, b] = [valuesOf(inWrapper.get(name)), valuesOf(inText.get(plain))];
        expect(valuesOf(tensors.get(name))).toEqual(a.map((x, i) => Math.fround((x + (b[i] as number)) / 2)));
      }
    }
    expect(readJson(out, "config.json").model_type).toBe("wrapper");
  });

  it("are one model in a difference to their base, which TIES needs", async () => {
    const [base, text] = [await model(1, wrapped, wrapperConfig), await model(2, (tensors) => tensors)];
    const { plan } = await planRecipe({ method: "ties", models: [text], base });
    expect(plan.steps.map(({ tensor }) => tensor)).toEqual(expect.arrayContaining(VISION.map(({ name }) => name)));
    expect(plan.notes.join()).toMatch(/3 tensors beside the decoder .* come from base, as others lack them/);
  });

  it("share no layers' names with a tower of the same depth", async () => {
    const tower = [0, 1, 2, 3].map((i) => seededTensor(`model.visual.blocks.${i}.w`, [2, 2], i, "F32"));
    const wrapper = await model(
      1,
      (tensors) => [...renamed(/^model\./, "model.language_model.")(tensors), ...tower],
      wrapperConfig,
    );
    const { plan } = await planRecipe({ method: "soup", models: [wrapper, wrapper] });
    expect(plan.steps.find(({ tensor }) => tensor === "model.visual.blocks.3.w")).toMatchObject({
      layer: null,
      part: "vision",
    });
  });
});

describe("a head that the configuration ties", () => {
  const head = (tensors: TensorData[]) => tensors;
  it("is kept where the tensors contradict, and the flag becomes false", async () => {
    const models = [
      await model(1, head, { tie_word_embeddings: true }),
      await model(2, head, { tie_word_embeddings: true }),
    ];
    const { out, tensors } = await bench.merge({ method: "soup", models });
    expect(tensors.has("lm_head.weight")).toBe(true);
    expect(readJson(out, "config.json").tie_word_embeddings).toBe(false);
  });

  it("is kept, and numbers of the configuration stay as they are written", async () => {
    const models = [
      await model(1, head, { tie_word_embeddings: true }),
      await model(2, head, { tie_word_embeddings: true }),
    ];
    for (const folder of models) {
      const file = join(folder, "config.json");
      writeFileSync(file, readFileSync(file, "utf8").replace("{", '{ "init_std": 1.0,'));
    }
    const { out } = await bench.merge({ method: "soup", models });
    expect(readFileSync(join(out, "config.json"), "utf8")).toMatch(/"init_std": 1\.0\b/);
  });

  it("is left out where its bytes are the embedding's", async () => {
    const same = (tensors: TensorData[]) => {
      const embedding = tensors.find(({ name }) => name.includes("embed_tokens")) as TensorData;
      return tensors.map((tensor) => (tensor.name === "lm_head.weight" ? { ...embedding, name: tensor.name } : tensor));
    };
    const models = [
      await model(1, same, { tie_word_embeddings: true }),
      await model(2, same, { tie_word_embeddings: true }),
    ];
    const { out, tensors } = await bench.merge({ method: "soup", models });
    expect(tensors.has("lm_head.weight")).toBe(false);
    expect(readJson(out, "config.json").tie_word_embeddings).toBe(true);
  });

  it("is the embedding of a model that ties it, beside one that does not", async () => {
    const tied = await model(1, (tensors) => tensors.filter(({ name }) => name !== "lm_head.weight"), {
      tie_word_embeddings: true,
    });
    const own = await model(2, head);
    const { out, tensors } = await bench.merge({ method: "soup", models: [tied, own] });
    const [inTied, inOwn] = (await readFolders([tied, own])) as [Tensors, Tensors];
    const [a, b] = [valuesOf(inTied.get("model.embed_tokens.weight")), valuesOf(inOwn.get("lm_head.weight"))];
    expect(valuesOf(tensors.get("lm_head.weight"))).toEqual(a.map((x, i) => Math.fround((x + (b[i] as number)) / 2)));
    expect(readJson(out, "config.json").tie_word_embeddings).toBe(false);
  });
});

describe("a head that one model stores and another ties", () => {
  const half = (a: number[], b: number[]) => a.map((x, i) => Math.fround((x + (b[i] as number)) / 2));

  it.each([
    ["biogpt", "output_projection", (name: string) => name, {}],
    ["whisper", "proj_out", (name: string) => name.replace(/^model\./, "model.decoder."), {}],
    [
      "pix2struct",
      "decoder.lm_head",
      (name: string) => name.replace(/^model\./, "decoder.").replace(".self_attn.o_proj", ".attention.output"),
      { is_encoder_decoder: true },
    ],
  ])("is found in %s, where it is %s", async (model_type, module, place, more) => {
    const named = (tensors: TensorData[]) =>
      tensors.map((one) => ({ ...one, name: one.name.startsWith("lm_head") ? `${module}.weight` : place(one.name) }));
    const isHead = ({ name }: TensorData) => name === `${module}.weight`;
    const config = { model_type, ...more };
    const tied = await model(1, (tensors) => named(tensors).filter((one) => !isHead(one)), {
      ...config,
      tie_word_embeddings: true,
    });
    const own = await model(2, named, { ...config, tie_word_embeddings: false });
    const { out, tensors } = await bench.merge({ method: "soup", models: [tied, own] });
    const [inTied, inOwn] = (await readFolders([tied, own])) as [Tensors, Tensors];
    const embedding = valuesOf(inTied.get(place("model.embed_tokens.weight")));
    expect(valuesOf(tensors.get(`${module}.weight`))).toEqual(half(embedding, valuesOf(inOwn.get(`${module}.weight`))));
    expect(readJson(out, "config.json").tie_word_embeddings).toBe(false);
  });

  it("leaves what the text tower ties as it is", async () => {
    const [of, config] = [(flag: boolean) => ({ tie_word_embeddings: flag }), { ...wrapperConfig.text_config }];
    const tied = await model(1, (tensors) => wrapped(tensors).filter(({ name }) => name !== "lm_head.weight"), {
      model_type: "wrapper",
      text_config: { ...config, ...of(true) },
      ...of(true),
    });
    const own = await model(2, wrapped, {
      model_type: "wrapper",
      text_config: { ...config, ...of(true) },
      ...of(false),
    });
    const { out } = await bench.merge({ method: "soup", models: [tied, own] });
    expect(readJson(out, "config.json")).toMatchObject({ text_config: of(true), ...of(false) });
  });

  it("is refused, not copied, where its name is unknown", async () => {
    const scorer = seededTensor("scorer.weight", [24, 8], 7, "F32");
    const [a, b] = [
      await model(1, (t) => [...t, scorer], { model_type: "x" }),
      await model(2, (t) => t, { model_type: "x" }),
    ];
    await expect(planRecipe({ method: "soup", models: [a, b] })).rejects.toThrow(/lacks 1 tensor .*scorer\.weight/);
  });
});

describe("names that transformers has in memory", () => {
  it("are those of the files: routers of Phi-3.5-MoE", async () => {
    const router = (module: string, seed: number) =>
      [0, 1, 2, 3].map((layer) => seededTensor(`model.layers.${layer}.${module}.weight`, [2, 8], seed + layer, "F32"));
    const [a, b] = await Promise.all([
      model(1, (tensors) => [...tensors, ...router("block_sparse_moe.gate", 70)], { model_type: "phimoe" }),
      model(2, (tensors) => [...tensors, ...router("mlp.router", 80)], { model_type: "phimoe" }),
    ]);
    const { tensors } = await bench.merge({ method: "soup", models: [a, b] });
    const [inA, inB] = (await readFolders([a, b])) as [Tensors, Tensors];
    expect([...tensors.keys()].sort()).toEqual([...inA.keys()].sort());
    const gate = "model.layers.2.block_sparse_moe.gate.weight";
    const [x, y] = [valuesOf(inA.get(gate)), valuesOf(inB.get("model.layers.2.mlp.router.weight"))];
    expect(valuesOf(tensors.get(gate))).toEqual(x.map((value, i) => Math.fround((value + (y[i] as number)) / 2)));
  });

  it("are refused where their values are converted, towers too", async () => {
    const at = "model.layers.0.attention.query_key_value.weight";
    const fused = seededTensor(at, [16, 8], 7, "F32");
    const joined = (tensors: TensorData[]) => [
      ...tensors.filter(({ name }) => !/s\.0\..*[qkv]_proj/.test(name)),
      fused,
    ];
    const config = { model_type: "sarvam_moe" };
    const models = [await model(1, (tensors) => tensors, config), await model(2, joined, config)];
    await expect(planRecipe({ method: "soup", models })).rejects.toThrow(`stores ${at} as transformers does`);
    const tower = ["vision_tower.encoder.blocks.0.wqkv.weight", "vision_tower.layers.0.attn.q_proj.weight"].map(
      (name) => seededTensor(name, [8, 8], 9, "F32"),
    );
    const kimi = { model_type: "kimi_k25" };
    const [whole, other] = tower.map((one, i) => model(i, (tensors) => [...tensors, one], kimi));
    const pair = await Promise.all([whole as Promise<string>, other as Promise<string>]);
    await expect(planRecipe({ method: "soup", models: pair })).rejects.toThrow(/wqkv\.weight as transformers does/);
  });
});

it("experts in one tensor and one by one are the same model", async () => {
  const fused = seededTensor("model.layers.0.mlp.experts.gate_up_proj", [2, 6, 4], 5, "F32");
  const down = seededTensor("model.layers.0.mlp.experts.down_proj", [2, 4, 3], 6, "F32");
  const values = (tensor: TensorData) => new Float32Array(tensor.data.slice().buffer);
  const cut = (name: string, tensor: TensorData, at: number, shape: number[]): TensorData => {
    const bytes = shape.reduce((a, b) => a * b, 4);
    return { name, dtype: "F32", shape, data: tensor.data.slice(at * bytes, (at + 1) * bytes) };
  };
  const single = [0, 1].flatMap((expert) => {
    const at = `model.layers.0.block_sparse_moe.experts.${expert}`;
    return [
      cut(`${at}.w1.weight`, fused, 2 * expert, [3, 4]),
      cut(`${at}.w3.weight`, fused, 2 * expert + 1, [3, 4]),
      cut(`${at}.w2.weight`, down, expert, [4, 3]),
    ];
  });
  const [a, b] = [await model(1, (t) => [...t, fused, down]), await model(1, (t) => [...t, ...single])];
  const { tensors } = await bench.merge({
    method: "soup",
    models: [
      { model: a, weight: 0.25 },
      { model: b, weight: 0.75 },
    ],
  });
  // The names are those of the files that have them: transformers would not open others.
  const merged = single.map(({ name }) => valuesOf(tensors.get(name)));
  expect(merged.map((one) => [...one])).toEqual(single.map((one) => [...values(one)]));
});

it("a checkpoint whose quantisation is not read is refused beside a plain one, by name", async () => {
  const four = (tensors: TensorData[]) =>
    tensors.flatMap((tensor): TensorData[] => {
      if (!tensor.name.endsWith("up_proj.weight")) return [tensor];
      const packed: TensorData = {
        ...tensor,
        dtype: "U8",
        shape: [tensor.data.length / 4, 1],
        data: new Uint8Array(tensor.data.length / 4),
      };
      return [packed, seededTensor(`${tensor.name}.absmax`, [2], 3, "F32")];
    });
  const models = [
    await model(1, (tensors) => tensors),
    await model(2, four, { quantization_config: { quant_method: "bitsandbytes" } }),
  ];
  await expect(planRecipe({ method: "soup", models })).rejects.toThrow(
    /models\[1\] \(model\d+\) is quantised \(bitsandbytes\) and only copied, as codes of bitsandbytes are not read, models\[0\] \(model\d+\) is not; for models\[1\], use the original model, or load this one in Python and save what model\.dequantize\(\) makes of it/,
  );
});

describe("a model without one stack of layers", () => {
  const stacks = ["encoder", "decoder"].flatMap((stack, s) =>
    [0, 1].map((i) => seededTensor(`model.${stack}.layers.${i}.w`, [2, 2], 10 * s + i, "F32")),
  );
  const towers = async (seed: number) => {
    const folder = bench.next("towers");
    await writeTiny(folder, { layers: 1 });
    const tensors = stacks.map(({ name, shape }, i) => seededTensor(name, [...shape], seed + i, "F32"));
    await writeSharded(folder, tensors);
    writeFileSync(join(folder, "config.json"), JSON.stringify({ model_type: "whisper", is_encoder_decoder: true }));
    return folder;
  };

  it("is averaged, by stack where a rule says so, and refused where layers are named", async () => {
    const models = [await towers(1), await towers(50)];
    const weights = [
      [
        { parts: "encoder", value: 1 },
        { parts: "decoder", value: 0 },
      ],
      [
        { parts: "encoder", value: 0 },
        { parts: "decoder", value: 1 },
      ],
    ];
    const { tensors } = await bench.merge({
      method: "soup",
      models: models.map((one, i) => ({ model: one, weight: weights[i] as { parts: string; value: number }[] })),
    });
    const [first, second] = (await readFolders(models)) as [Tensors, Tensors];
    for (const [name, { data }] of tensors)
      expect(data).toEqual((name.includes("encoder") ? first : second).get(name)?.data);
    const [task = "", language = ""] = models;
    await expect(planRecipe({ method: "swap", task, language })).rejects.toThrow(
      /has no layers to choose: it has an encoder and a decoder\. Use a method/,
    );
  });
});

describe("keys of layers that use those of earlier layers", () => {
  const config = { num_kv_shared_layers: 2 };
  const without = (tensors: TensorData[]) =>
    tensors.filter(({ name }) => !/layers\.[23]\.self_attn\.(k_proj|v_proj|k_norm)\./.test(name));

  it("are left out where a model has them and another does not, as published and as transformers saves it", async () => {
    const published = await model(1, (tensors) => tensors, config);
    const tuned = await model(2, without, config);
    for (const models of [
      [published, tuned],
      [tuned, published],
    ]) {
      const { tensors } = await bench.merge({ method: "soup", models });
      expect([...tensors.keys()].filter((name) => /layers\.[23]\..*[kv]_(proj|norm)/.test(name))).toEqual([]);
      expect([...tensors.keys()].filter((name) => /layers\.[01]\..*[kv]_proj/.test(name))).toHaveLength(4);
      const { notes } = (await planRecipe({ method: "soup", models })).plan;
      expect(notes.filter((note) => note.includes("layers that use those of earlier layers"))).toHaveLength(1);
    }
  });

  it("are merged where all have them", async () => {
    const [a, b] = [await model(1, (tensors) => tensors, config), await model(2, (tensors) => tensors, config)];
    const { tensors } = await bench.merge({ method: "soup", models: [a, b] });
    expect([...tensors.keys()].filter((name) => /[kv]_proj/.test(name))).toHaveLength(8);
  });
});

describe("BERT alone and below a head", () => {
  const plain = (tensors: TensorData[]): TensorData[] => {
    const shape = { "embeddings.word_embeddings": [16, 4], "embeddings.LayerNorm": [4], "pooler.dense": [4, 4] };
    const kept = tensors.filter(({ name }) => /layers\.\d\.(self_attn\.q_proj|mlp\.down_proj)/.test(name));
    const layers = kept.map(({ name, ...tensor }) => ({
      ...tensor,
      name: name
        .replace("model.layers", "encoder.layer")
        .replace("self_attn.q_proj", "attention.self.query")
        .replace("mlp.down_proj", "output.dense"),
    }));
    const seed = Number(kept[0]?.data[0]);
    const beside = Object.entries(shape).map(([name, size], i) =>
      seededTensor(`${name}.weight`, size, seed + i, "F32"),
    );
    return [...layers, ...beside];
  };
  const below = (tensors: TensorData[]): TensorData[] => [
    ...renamed(/^/, "bert.")(plain(tensors)).filter(({ name }) => !name.includes("pooler")),
    ...["bias", "transform.dense.weight", "transform.dense.bias"].map((name, i) =>
      seededTensor(`cls.predictions.${name}`, [4], 700 + i, "F32"),
    ),
  ];
  const config = { model_type: "bert", tie_word_embeddings: true };

  it.each([
    ["first", [0, 1]],
    ["second", [1, 0]],
  ])("are averaged in every part that both have, alone as the %s", async (_, order) => {
    const both = [await model(1, plain, config), await model(2, below, config)];
    const { tensors } = await bench.merge({ method: "soup", models: order.map((i) => both[i] as string) });
    const [alone, withHead] = (await readFolders(both)) as [Tensors, Tensors];
    const names = [...alone.keys()].map((name) => `bert.${name}`);
    expect([...tensors.keys()].sort()).toEqual([...new Set([...names, ...withHead.keys()])].sort());
    for (const [name, tensor] of tensors) {
      const [a, b] = [alone.get(name.slice("bert.".length)), withHead.get(name)];
      const means = a && b && valuesOf(a).map((x, i) => Math.fround((x + (valuesOf(b)[i] as number)) / 2));
      expect([name, valuesOf(tensor)]).toEqual([name, means ?? valuesOf(a ?? b)]);
    }
  });
});
