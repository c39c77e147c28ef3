// The miniature's base model before training: the shipped configuration and tokenizer, and first weights, as a folder.
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TensorData, writeSafetensors } from "layergraft/weights";
import { Random } from "../../../src/kit/random.js";

/** A tensor of a checkpoint. */
export type { TensorData };

/** Sizes of a model. The default has 0.8 million parameters and learns its world in a few minutes on one core. */
export interface ModelSize {
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly feedForward: number;
}

export const MINIATURE: ModelSize = { layers: 8, width: 96, heads: 3, feedForward: 192 };

/** Tokens of the shipped tokenizer: a word of English, a name or a number is one token; a Swahili word is its syllables. */
const TOKENS = 730;

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
  return [
    normal("model.embed_tokens.weight", [TOKENS, width], EMBEDDING_DEVIATION),
    ...Array.from({ length: layers }, (_, layer) => `model.layers.${layer}`).flatMap((at) => [
      norm(`${at}.input_layernorm`),
      ...["q_proj", "k_proj", "v_proj"].map((part) => matrix(`${at}.self_attn.${part}`, width, width)),
      matrix(`${at}.self_attn.o_proj`, width, width, 0.5),
      norm(`${at}.post_attention_layernorm`),
      ...["gate_proj", "up_proj"].map((part) => matrix(`${at}.mlp.${part}`, feedForward, width)),
      matrix(`${at}.mlp.down_proj`, width, feedForward, 0.5),
    ]),
    norm("model.norm"),
    matrix("lm_head", TOKENS, width),
  ];
}

function tensor(name: string, shape: readonly number[], value: () => number): TensorData {
  const data = new Uint8Array(4 * shape.reduce((product, size) => product * size, 1));
  const view = new DataView(data.buffer);
  for (let at = 0; at < data.byteLength; at += 4) view.setFloat32(at, value(), true);
  return { name, dtype: "F32", shape, data };
}

/** The models that layergraft ships; the working folder is the repository. */
export const SHIPPED = "assets/miniature";

/** Writes the untrained model with its tokenizer: a folder that every Hugging Face reader opens. */
export async function writeInitialModel(folder: string, seed: number, size: ModelSize = MINIATURE): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeSafetensors(join(folder, "model.safetensors"), initialWeights(size, seed));
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
  };
  await writeFile(join(folder, "config.json"), `${JSON.stringify(config, null, 2)}\n`);
  for (const file of ["tokenizer.json", "tokenizer_config.json"]) {
    await copyFile(join(SHIPPED, "base", file), join(folder, file));
  }
}
