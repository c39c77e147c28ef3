// The miniature's base model before training: its configuration and its first weights, as a Hugging Face folder.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { elementCount, Random, writeFileAtomically } from "../../core/index.js";
import { type TensorData, writeSharded } from "../../weights/index.js";
import { MAX_POSITIONS, SPECIAL_TOKENS, tokenizerConfigJson, tokenizerJson, vocabulary } from "./vocabulary.js";

/** Sizes of a model. The default has 0.8 million parameters and learns its world in a few minutes on one core. */
export interface ModelSize {
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly feedForward: number;
}

export const MINIATURE: ModelSize = { layers: 8, width: 96, heads: 3, feedForward: 192 };

/** The content of config.json: a Llama. */
export function modelConfig({ layers, width, heads, feedForward }: ModelSize): Record<string, unknown> {
  const tokens = vocabulary();
  const id = (name: keyof typeof SPECIAL_TOKENS) => tokens.indexOf(SPECIAL_TOKENS[name]);
  return {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    vocab_size: tokens.length,
    hidden_size: width,
    intermediate_size: feedForward,
    num_hidden_layers: layers,
    num_attention_heads: heads,
    num_key_value_heads: heads,
    head_dim: width / heads,
    hidden_act: "silu",
    max_position_embeddings: MAX_POSITIONS,
    rms_norm_eps: 1e-5,
    rope_theta: 10000,
    rope_scaling: null,
    attention_bias: false,
    mlp_bias: false,
    tie_word_embeddings: false,
    initializer_range: 0.02,
    ...{ pad_token_id: id("pad"), bos_token_id: id("bos"), eos_token_id: id("eos") },
    torch_dtype: "float32",
    use_cache: true,
  };
}

// What embeddings begin with: far larger than the layers' first contributions, so that a word is heard from the start.
const EMBEDDING_DEVIATION = 0.3;

/**
 * First weights, float32: normal, with deviation 1 / sqrt(fan in), half of it for what is added to the residual stream
 * (o_proj, down_proj), 0.3 for the embeddings, and norms of one. They depend on the seed and the tensor's name alone.
 */
export function initialWeights({ layers, width, feedForward }: ModelSize, seed: number): TensorData[] {
  const normal = (name: string, shape: readonly [number, number], deviation: number): TensorData => {
    const random = Random.of(seed, `weights of ${name}`);
    return tensor(name, shape, () => deviation * random.normal());
  };
  const matrix = (name: string, out: number, into: number, scale = 1) =>
    normal(`${name}.weight`, [out, into], scale / Math.sqrt(into));
  const norm = (name: string) => tensor(`${name}.weight`, [width], () => 1);
  const size = vocabulary().length;
  return [
    normal("model.embed_tokens.weight", [size, width], EMBEDDING_DEVIATION),
    ...Array.from({ length: layers }, (_, layer) => `model.layers.${layer}`).flatMap((at) => [
      norm(`${at}.input_layernorm`),
      ...["q_proj", "k_proj", "v_proj"].map((part) => matrix(`${at}.self_attn.${part}`, width, width)),
      matrix(`${at}.self_attn.o_proj`, width, width, 0.5),
      norm(`${at}.post_attention_layernorm`),
      ...["gate_proj", "up_proj"].map((part) => matrix(`${at}.mlp.${part}`, feedForward, width)),
      matrix(`${at}.mlp.down_proj`, width, feedForward, 0.5),
    ]),
    norm("model.norm"),
    matrix("lm_head", size, width),
  ];
}

function tensor(name: string, shape: readonly number[], value: () => number): TensorData {
  const data = new Uint8Array(4 * elementCount(shape));
  const view = new DataView(data.buffer);
  for (let at = 0; at < data.byteLength; at += 4) view.setFloat32(at, value(), true);
  return { name, dtype: "F32", shape, data };
}

/** Writes the untrained model with its tokenizer: a folder that every Hugging Face reader opens. */
export async function writeInitialModel(folder: string, seed: number, size: ModelSize = MINIATURE): Promise<void> {
  await mkdir(folder, { recursive: true });
  const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;
  await writeSharded(folder, initialWeights(size, seed));
  await writeFileAtomically(join(folder, "config.json"), json(modelConfig(size)));
  await writeFileAtomically(join(folder, "tokenizer.json"), json(tokenizerJson()));
  await writeFileAtomically(join(folder, "tokenizer_config.json"), json(tokenizerConfigJson()));
}
