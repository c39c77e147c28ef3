// The miniature's base model before training: the shipped configuration and tokenizer, and first weights, as a folder.
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TensorData, writeSafetensors } from "layergraft/weights";
import { Random } from "../../../src/kit/random.js";

/** A tensor of a checkpoint. */
export type { TensorData };

/** What a model is made of: a Llama, a Qwen3-MoE, or a Qwen 3.5, in which three of four layers have the gated delta rule. */
export const KINDS = ["llama", "moe", "delta"] as const;
export type Kind = (typeof KINDS)[number];

/** Sizes of a model. The default has 0.8 million parameters and learns its world in a few minutes on one core. */
export interface ModelSize {
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly feedForward: number;
}

export const MINIATURE: ModelSize = { layers: 8, width: 96, heads: 3, feedForward: 192 };

/** Of the mixture: four experts of half the width, of which a token takes two, so it computes as much as in the Llama. */
const EXPERTS = { count: 4, chosen: 2 };
/** Of the delta rule: taps of the convolution, and the other layers are every fourth. */
const DELTA = { kernel: 4, every: 4 };

/** Tokens of the shipped tokenizer: a word of English, a name or a number is one token; a Swahili word is its syllables. */
const TOKENS = 730;

// What embeddings begin with: far larger than the layers' first contributions, so that a word is heard from the start.
const EMBEDDING_DEVIATION = 0.3;

/**
 * First weights, float32: normal, with deviation 1 / sqrt(fan in), half of it for what is added to the residual stream
 * (o_proj, out_proj, down_proj), 0.3 for the embeddings, and norms of one. They depend on the seed and the tensor's name alone.
 */
export function initialWeights(size: ModelSize, seed: number, kind: Kind = "llama"): TensorData[] {
  const { layers, width, heads, feedForward } = size;
  const headWidth = width / heads;
  const normal = (name: string, shape: readonly number[], deviation: number): TensorData => {
    const random = Random.of(seed, `weights of ${name}`);
    return tensor(name, shape, () => deviation * random.normal());
  };
  const matrix = (name: string, out: number, into: number, scale = 1) =>
    normal(`${name}.weight`, [out, into], scale / Math.sqrt(into));
  // Qwen 3.5 stores how far norms are from one.
  const norm = (name: string, of = width) => tensor(`${name}.weight`, [of], () => (kind === "delta" ? 0 : 1));
  const feed = (at: string, inner: number) => [
    ...["gate_proj", "up_proj"].map((part) => matrix(`${at}.${part}`, inner, width)),
    matrix(`${at}.down_proj`, width, inner, 0.5),
  ];
  const attention = (at: string) => [
    matrix(`${at}.q_proj`, kind === "delta" ? 2 * width : width, width), // with gates of the heads
    ...["k_proj", "v_proj"].map((part) => matrix(`${at}.${part}`, width, width)),
    matrix(`${at}.o_proj`, width, width, 0.5),
    ...(kind === "llama" ? [] : ["q_norm", "k_norm"].map((part) => norm(`${at}.${part}`, headWidth))),
  ];
  const delta = (at: string) => [
    matrix(`${at}.in_proj_qkv`, 3 * width, width),
    matrix(`${at}.in_proj_z`, width, width),
    ...["in_proj_b", "in_proj_a"].map((part) => matrix(`${at}.${part}`, heads, width)),
    normal(`${at}.conv1d.weight`, [3 * width, 1, DELTA.kernel], 1 / Math.sqrt(DELTA.kernel)),
    // A head forgets about 1, 4 or 16 percent of its state at each token.
    tensor(`${at}.A_log`, [heads], (head) => head * Math.log(4)),
    tensor(`${at}.dt_bias`, [heads], () => Math.log(Math.expm1(0.01))),
    tensor(`${at}.norm.weight`, [headWidth], () => 1),
    matrix(`${at}.out_proj`, width, width, 0.5),
  ];
  return [
    normal("model.embed_tokens.weight", [TOKENS, width], EMBEDDING_DEVIATION),
    ...Array.from({ length: layers }, (_, layer) => `model.layers.${layer}`).flatMap((at, layer) => [
      norm(`${at}.input_layernorm`),
      ...(kind === "delta" && (layer + 1) % DELTA.every !== 0
        ? delta(`${at}.linear_attn`)
        : attention(`${at}.self_attn`)),
      norm(`${at}.post_attention_layernorm`),
      ...(kind === "moe"
        ? [
            matrix(`${at}.mlp.gate`, EXPERTS.count, width),
            ...Array.from({ length: EXPERTS.count }, (_, expert) => `${at}.mlp.experts.${expert}`).flatMap((expert) =>
              feed(expert, feedForward / EXPERTS.chosen),
            ),
          ]
        : feed(`${at}.mlp`, feedForward)),
    ]),
    norm("model.norm"),
    matrix("lm_head", TOKENS, width),
  ];
}

function tensor(name: string, shape: readonly number[], value: (at: number) => number): TensorData {
  const data = new Uint8Array(4 * shape.reduce((product, size) => product * size, 1));
  const view = new DataView(data.buffer);
  for (let at = 0; at < data.byteLength; at += 4) view.setFloat32(at, value(at / 4), true);
  return { name, dtype: "F32", shape, data };
}

/** The models that layergraft ships; the working folder is the repository. */
export const SHIPPED = "assets/miniature";

/** What a kind's config.json has besides a Llama's. */
function configOf(kind: Kind, { width, heads, feedForward }: ModelSize) {
  if (kind === "llama") return {};
  if (kind === "moe") {
    return {
      architectures: ["Qwen3MoeForCausalLM"],
      model_type: "qwen3_moe",
      num_experts: EXPERTS.count,
      num_experts_per_tok: EXPERTS.chosen,
      moe_intermediate_size: feedForward / EXPERTS.chosen,
      norm_topk_prob: true,
      output_router_logits: true,
      router_aux_loss_coef: 0.001,
    };
  }
  return {
    architectures: ["Qwen3_5ForCausalLM"],
    model_type: "qwen3_5_text",
    full_attention_interval: DELTA.every,
    linear_conv_kernel_dim: DELTA.kernel,
    linear_num_key_heads: heads,
    linear_num_value_heads: heads,
    linear_key_head_dim: width / heads,
    linear_value_head_dim: width / heads,
  };
}

/** Writes the untrained model with its tokenizer: a folder that every Hugging Face reader opens. */
export async function writeInitialModel(
  folder: string,
  seed: number,
  size: ModelSize = MINIATURE,
  kind: Kind = "llama",
): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeSafetensors(join(folder, "model.safetensors"), initialWeights(size, seed, kind));
  const shipped = JSON.parse(await readFile(join(SHIPPED, "base/config.json"), "utf8")) as object;
  const config = {
    ...shipped,
    hidden_size: size.width,
    intermediate_size: size.feedForward,
    num_hidden_layers: size.layers,
    num_attention_heads: size.heads,
    num_key_value_heads: size.heads,
    head_dim: size.width / size.heads,
    torch_dtype: "float32",
    ...configOf(kind, size),
  };
  await writeFile(join(folder, "config.json"), `${JSON.stringify(config, null, 2)}\n`);
  for (const file of ["tokenizer.json", "tokenizer_config.json"]) {
    await copyFile(join(SHIPPED, "base", file), join(folder, file));
  }
}
