// No array has the length of a tensor: with arrays of at most 4 MiB, everything that streams weights works on a tensor of 6.5 MB.
// One of Gemma 3 27B has 5.6 GB in float32, and an array of bytes 4 GiB at most before Node.js 22.3.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { openSafetensors, readTensor, writeSafetensors } from "../src/formats/safetensors/index.js";
import type { RecipeInput } from "../src/merge/index.js";
import { analyze, diff, exportModel, extract, planMerge, verify } from "../src/verbs/index.js";
import { seededFloats, temporaryFolder } from "./support/checkpoints.js";
import { withShortArrays } from "./support/short-arrays.js";

const MOST = 2 ** 22;
const [ROWS, COLUMNS] = [25_391, 64];
const SHAPES: readonly (readonly [string, number[]])[] = [
  ["model.embed_tokens.weight", [ROWS, COLUMNS]],
  ["lm_head.weight", [ROWS, COLUMNS]],
  ["model.norm.weight", [COLUMNS]],
  ...["input_layernorm", "post_attention_layernorm"].map((name) => [`${name}.weight`, [COLUMNS]] as const),
  ...["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"].map(
    (name) => [`${name}.weight`, [16, COLUMNS]] as const,
  ),
  ["self_attn.o_proj.weight", [COLUMNS, 16]],
  ...["mlp.gate_proj", "mlp.up_proj"].map((name) => [`${name}.weight`, [32, COLUMNS]] as const),
  ["mlp.down_proj.weight", [COLUMNS, 32]],
].map(
  ([name, shape]) =>
    [/^(model|lm_head)/.test(name as string) ? name : `model.layers.0.${name}`, shape] as [string, number[]],
);

const folder = temporaryFolder();
const [base, task, language] = ["base", "task", "language"].map((name) => join(folder, name)) as [
  string,
  string,
  string,
];

beforeAll(async () => {
  for (const [seed, model] of [base, task, language].entries()) {
    mkdirSync(model);
    const tensors = SHAPES.map(([name, shape], i) => {
      const count = shape.reduce((product, extent) => product * extent, 1);
      const [common, own] = [seededFloats(count, 100 + i), seededFloats(count, 1000 * seed + i)];
      const data = common.map((value, at) => value + (seed === 0 ? 0 : 0.1 * (own[at] as number)));
      return { name, shape, dtype: "F32" as const, data };
    });
    await writeSafetensors(join(model, "model.safetensors"), tensors);
    const config = {
      ...{ architectures: ["LlamaForCausalLM"], model_type: "llama", vocab_size: ROWS, hidden_size: COLUMNS },
      ...{ intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 2, head_dim: 8 },
      ...{ rms_norm_eps: 1e-5, rope_theta: 10_000, hidden_act: "silu", max_position_embeddings: 2048 },
      ...{ tie_word_embeddings: false, torch_dtype: "float32" },
    };
    writeFileSync(join(model, "config.json"), JSON.stringify(config));
  }
});

const models = [task, language];
const RECIPES: readonly RecipeInput[] = [
  { method: "swap", task, language, bottom: 0, top: 0 },
  { method: "soup", models },
  { method: "slerp", models: [task, language], t: 0.4 },
  { method: "task_arithmetic", models, base, lambda: 0.5 },
  { method: "ties", models, base, density: 0.2 },
  { method: "dare_ties", models, base, density: 0.3 },
  { method: "della", models, base, density: 0.3 },
  { method: "breadcrumbs", models, base },
  { method: "sce", models, base },
  { method: "model_stock", models, base },
  { method: "karcher", models },
  { method: "multislerp", models, base },
  { method: "widen", models, base },
  { method: "consensus", models, base },
  { method: "arcee_fusion", expert: task, base },
  { method: "iso", models, base },
  { method: "revert", expert: task, base, layers: [0] },
];

const each = RECIPES.map((recipe) => [recipe.method, recipe] as const);
/** What the others are made of, too: copies, averages, operations, order statistics. */
const isQuick = ([method]: (typeof each)[number]) => ["swap", "slerp", "ties"].includes(method);

async function merge(method: string, recipe: RecipeInput) {
  const out = join(folder, method);
  const verified = await withShortArrays(MOST, async () => {
    await (await planMerge(recipe)).write({ out, threads: 1 });
    return verify({ model: out });
  });
  expect(verified).toMatchObject({ verified: true, tensors: SHAPES.length });
}

test.each(each.filter(isQuick))("a merge by %s", merge);
test.each(each.filter((one) => !isQuick(one)))("a merge by %s", { tags: ["slow"] }, merge);

test("diff, analyze, extract and exports", async () => {
  await withShortArrays(MOST, async () => {
    expect(await diff({ a: base, b: task })).toMatchObject({ identical: false });
    await analyze({ base, experts: { task, language }, out: join(folder, "analysis") });
    await extract({ base, model: task, rank: 4, out: join(folder, "adapter") });
    await exportModel({ source: task, format: "onnx", out: join(folder, "onnx") });
  });
});

test("the limit of this test finds a tensor that is read whole", async () => {
  const file = await openSafetensors(join(base, "model.safetensors"));
  const embedding = file.tensors.find(({ name }) => name === "model.embed_tokens.weight");
  await expect(withShortArrays(MOST, () => readTensor(file, embedding as never))).rejects.toThrow(
    `an array of ${ROWS * COLUMNS * 4} bytes, where ${MOST} are allowed`,
  );
});
