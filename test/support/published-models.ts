// Published models as the fake hub has them: configurations and headers with true names and shapes, and no weights.
import type { FakeFile } from "./fake-hub.js";
import { fakeFile, hollowFile } from "./fake-hub.js";

interface Published {
  readonly config: Readonly<Record<string, unknown>>;
  /** `total_size` of its model.safetensors.index.json, or the bytes of its only file's tensors. */
  readonly bytes: number;
}

const decoder = (type: string, [hidden, inner, layers, heads, kvHeads, vocabulary]: readonly number[], more = {}) => ({
  ...{ model_type: type, hidden_size: hidden, intermediate_size: inner, num_hidden_layers: layers },
  ...{ num_attention_heads: heads, num_key_value_heads: kvHeads, vocab_size: vocabulary, tie_word_embeddings: false },
  ...{ torch_dtype: "bfloat16", ...more },
});

const LLAMA_8B: Published = {
  config: decoder("llama", [4096, 14336, 32, 32, 8, 128256], { rms_norm_eps: 1e-5, rope_theta: 500000 }),
  bytes: 16_060_522_496,
};
const LLAMA_1B: Published = {
  config: decoder("llama", [2048, 8192, 16, 32, 8, 128256], { tie_word_embeddings: true, head_dim: 64 }),
  bytes: 2_471_628_800,
};
const QWEN3_8B: Published = {
  config: decoder("qwen3", [4096, 12288, 36, 32, 8, 151936], { head_dim: 128, rms_norm_eps: 1e-6 }),
  bytes: 16_381_470_720,
};
const QWEN2_7B: Published = {
  config: decoder("qwen2", [3584, 18944, 28, 28, 4, 152064], { rms_norm_eps: 1e-6 }),
  bytes: 15_231_233_024,
};
const AYA_8B: Published = {
  config: decoder("cohere", [4096, 14336, 32, 32, 8, 256000], { tie_word_embeddings: true, use_qk_norm: false }),
  bytes: 16_056_066_048,
};
const FALCON3_7B: Published = {
  config: decoder("llama", [3072, 23040, 28, 12, 4, 131072], { head_dim: 256, rope_theta: 1000042 }),
  bytes: 14_911_100_928,
};

const PUBLISHED: readonly (readonly [name: RegExp, Published])[] = [
  [/^(meta-llama|MergeBench)\/Llama-3\.1-8B(-Instruct|_\w+)?$/, LLAMA_8B],
  [/^HiTZ\/Latxa-Llama-3\.1-8B$/, LLAMA_8B],
  [/^meta-llama\/Llama-3\.2-1B$/, LLAMA_1B],
  [/^(Qwen|lightonai)\/Qwen3-8B(-Base|-[A-Z]{2})?$/, QWEN3_8B],
  [/^Qwen\/Qwen2\.5-7B-Instruct$/, QWEN2_7B],
  [/^(CohereForAI|CohereLabs)\/aya-expanse-8b$/, AYA_8B],
  [/^tiiuae\/Falcon3-7B-Instruct$/, FALCON3_7B],
];

/** A model by its name on the hub. */
export function published(name: string): Published {
  const found = PUBLISHED.find(([pattern]) => pattern.test(name))?.[1];
  if (found) return found;
  throw new Error(
    `${name} is in no list of published models. Add its configuration and size to ${import.meta.filename}.`,
  );
}

/** The tensors of a model, as transformers names them. */
export function shapesOf(config: Published["config"]): [name: string, shape: number[]][] {
  const field = (name: string) => Number(config[name]);
  const [hidden, inner, heads] = ["hidden_size", "intermediate_size", "num_attention_heads"].map(field) as [
    number,
    number,
    number,
  ];
  const width = Number(config.head_dim ?? hidden / heads);
  const kv = width * field("num_key_value_heads");
  const type = config.model_type;
  const layer: [string, number[]][] = [
    ["self_attn.q_proj.weight", [heads * width, hidden]],
    ["self_attn.k_proj.weight", [kv, hidden]],
    ["self_attn.v_proj.weight", [kv, hidden]],
    ["self_attn.o_proj.weight", [hidden, heads * width]],
    ["mlp.gate_proj.weight", [inner, hidden]],
    ["mlp.up_proj.weight", [inner, hidden]],
    ["mlp.down_proj.weight", [hidden, inner]],
    ["input_layernorm.weight", [hidden]],
    ...(type === "cohere" ? [] : ([["post_attention_layernorm.weight", [hidden]]] as [string, number[]][])),
    ...(type === "qwen3" ? ["q", "k"] : []).map((one): [string, number[]] => [`self_attn.${one}_norm.weight`, [width]]),
    ...(type === "qwen2" ? ["q", "k", "v"] : []).map((one): [string, number[]] => [
      `self_attn.${one}_proj.bias`,
      [one === "q" ? heads * width : kv],
    ]),
  ];
  const embedding = [field("vocab_size"), hidden];
  return [
    ["model.embed_tokens.weight", embedding],
    ...Array.from({ length: field("num_hidden_layers") }, (_, i) =>
      layer.map(([name, shape]): [string, number[]] => [`model.layers.${i}.${name}`, shape]),
    ).flat(),
    ["model.norm.weight", [hidden]],
    ...(config.tie_word_embeddings ? [] : ([["lm_head.weight", embedding]] as [string, number[]][])),
  ];
}

const SHARD_BYTES = 5e9;
const bytesOf = (shape: readonly number[]) => shape.reduce((product, extent) => product * extent, 2);

/**
 * The files of a model in bfloat16.
 * @param tokenizer content of a tokenizer.json with <|end_of_text|>; its vocabulary may be smaller than the model's
 */
export function publishedFiles(name: string, tokenizer: Buffer): Map<string, FakeFile> {
  const { config } = published(name);
  const shards: [string, number[]][][] = [[]];
  let filled = 0;
  for (const tensor of shapesOf(config)) {
    const bytes = bytesOf(tensor[1]);
    if (filled > 0 && filled + bytes > SHARD_BYTES) {
      shards.push([]);
      filled = 0;
    }
    shards.at(-1)?.push(tensor);
    filled += bytes;
  }
  const number = (n: number) => String(n).padStart(5, "0");
  const shardName = (i: number) =>
    shards.length === 1 ? "model.safetensors" : `model-${number(i + 1)}-of-${number(shards.length)}.safetensors`;
  const weight_map = Object.fromEntries(shards.flatMap((shard, i) => shard.map(([tensor]) => [tensor, shardName(i)])));
  const text = (path: string, value: unknown): [string, FakeFile] => [
    path,
    fakeFile(path, Buffer.from(JSON.stringify(value))),
  ];
  const architecture = { llama: "Llama", qwen2: "Qwen2", qwen3: "Qwen3", cohere: "Cohere" }[String(config.model_type)];
  return new Map([
    text("config.json", { architectures: [`${architecture}ForCausalLM`], ...config }),
    ["tokenizer.json", fakeFile("tokenizer.json", tokenizer)],
    text("tokenizer_config.json", { eos_token: "<|end_of_text|>" }),
    ...(shards.length === 1 ? [] : [text("model.safetensors.index.json", { metadata: {}, weight_map })]),
    // Models differ, and so do their bytes.
    ...shards.map((shard, i): [string, FakeFile] => [shardName(i), shardFile(shard, name)]),
  ]);
}

function shardFile(tensors: readonly [string, number[]][], name: string): FakeFile {
  let at = 0;
  const entries = tensors.map(([tensor, shape]) => {
    const from = at;
    at += bytesOf(shape);
    return [tensor, { dtype: "BF16", shape, data_offsets: [from, at] }];
  });
  const header = Buffer.from(JSON.stringify({ __metadata__: { name }, ...Object.fromEntries(entries) }));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return hollowFile(Buffer.concat([length, header]), 8 + header.length + at);
}
