// A world small enough to be learned in seconds: twenty people, what they do, an instruction about it and its answer, which
// follows from the instruction by a rule. Its words are a tokenizer, and a Llama of 0.1M random weights is the base.
// Shares no code with src/.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const PEOPLE = "amina baraka chiku dalila enzi faraji gasira hasani imani jabari".split(" ");
const DOINGS = "sees likes draws finds hides sells".split(" ");
const THINGS = "mango drum boat goat lamp rope shell basket".split(" ");
const RULE_WORDS = ["say", "ask", "deny", "that", "the", "yes", "no", ",", ".", "?", ">"];

/** Special tokens, then words, in the order of their ids. */
export const WORDS: readonly string[] = [
  "<pad>",
  "<s>",
  "</s>",
  "<unk>",
  ...RULE_WORDS,
  ...PEOPLE,
  ...DOINGS,
  ...THINGS,
];

/** An instruction and its answer. */
export interface Item {
  readonly prompt: string;
  readonly response: string;
}

/** All that can be asked, in an order that looks random and is always the same. */
export function items(count: number, seed = 1): Item[] {
  const all = PEOPLE.flatMap((who) =>
    DOINGS.flatMap((does) =>
      THINGS.flatMap((what): Item[] => [
        { prompt: `say that ${who} ${does} the ${what} >`, response: `yes , ${who} ${does} the ${what} .` },
        { prompt: `ask that ${who} ${does} the ${what} >`, response: `${who} ${does} the ${what} ?` },
        { prompt: `deny that ${who} ${does} the ${what} >`, response: `no , ${who} ${does} no ${what} .` },
      ]),
    ),
  );
  const random = generator(seed);
  const keyed = all.map((item) => [random(), item] as const).sort(([a], [b]) => a - b);
  return keyed.slice(0, count).map(([, item]) => item);
}

/** Numbers in [0, 1). */
export function generator(seed: number): () => number {
  let state = (seed * 2654435761) >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state = (state ^ (state << 5)) >>> 0;
    return state / 2 ** 32;
  };
}

export function writeItems(path: string, rows: readonly object[]): string {
  writeFileSync(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  return path;
}

export interface BaseOptions {
  readonly layers?: number;
  readonly hidden?: number;
  readonly dtype?: "F32" | "BF16";
  readonly seed?: number;
  /** Another tokenizer.json, and how many tokens it has. */
  readonly tokenizer?: { readonly json: object; readonly size: number };
}

/** Writes the base: tokenizer, configuration, random weights. */
export function writeBase(folder: string, options: BaseOptions = {}): string {
  const { layers = 2, hidden = 64, dtype = "F32", seed = 1 } = options;
  const { json: tokenizerJson, size: vocabulary } = options.tokenizer ?? { json: tokenizer(), size: WORDS.length };
  mkdirSync(folder, { recursive: true });
  const [heads, kvHeads, wide] = [4, 2, 2 * hidden];
  const keyValue = (hidden / heads) * kvHeads;
  const shapes: [string, number[]][] = [["model.embed_tokens.weight", [vocabulary, hidden]]];
  for (let layer = 0; layer < layers; layer++) {
    const at = `model.layers.${layer}`;
    shapes.push(
      [`${at}.input_layernorm.weight`, [hidden]],
      [`${at}.self_attn.q_proj.weight`, [hidden, hidden]],
      [`${at}.self_attn.k_proj.weight`, [keyValue, hidden]],
      [`${at}.self_attn.v_proj.weight`, [keyValue, hidden]],
      [`${at}.self_attn.o_proj.weight`, [hidden, hidden]],
      [`${at}.post_attention_layernorm.weight`, [hidden]],
      [`${at}.mlp.gate_proj.weight`, [wide, hidden]],
      [`${at}.mlp.up_proj.weight`, [wide, hidden]],
      [`${at}.mlp.down_proj.weight`, [hidden, wide]],
    );
  }
  shapes.push(["model.norm.weight", [hidden]], ["lm_head.weight", [vocabulary, hidden]]);
  const random = generator(seed);
  const tensors = shapes.map(([name, shape]) => {
    const size = shape.reduce((product, extent) => product * extent, 1);
    const deviation = 1 / Math.sqrt(shape.at(-1) ?? 1);
    const normal = () => deviation * (random() + random() + random() + random() - 2) * Math.sqrt(3);
    return { name, shape, values: Float32Array.from({ length: size }, shape.length === 1 ? () => 1 : normal) };
  });
  writeFileSync(join(folder, "model.safetensors"), safetensors(tensors, dtype));
  const config = {
    ...{ architectures: ["LlamaForCausalLM"], model_type: "llama", hidden_size: hidden, intermediate_size: wide },
    ...{
      num_hidden_layers: layers,
      num_attention_heads: heads,
      num_key_value_heads: kvHeads,
      head_dim: hidden / heads,
    },
    ...{ vocab_size: vocabulary, max_position_embeddings: 64, rms_norm_eps: 1e-5, tie_word_embeddings: false },
    ...{ bos_token_id: 1, eos_token_id: 2, pad_token_id: 0, hidden_act: "silu", rope_theta: 10000 },
    torch_dtype: dtype === "F32" ? "float32" : "bfloat16",
  };
  const json = (name: string, value: unknown) =>
    writeFileSync(join(folder, name), `${JSON.stringify(value, null, 1)}\n`);
  json("config.json", config);
  json("generation_config.json", { bos_token_id: 1, eos_token_id: 2, pad_token_id: 0 });
  json("tokenizer.json", tokenizerJson);
  json("tokenizer_config.json", {
    ...{ tokenizer_class: "PreTrainedTokenizerFast", model_max_length: 64 },
    ...{ bos_token: "<s>", eos_token: "</s>", pad_token: "<pad>", unk_token: "<unk>" },
  });
  return folder;
}

/** Words between spaces. */
function tokenizer(): object {
  const special = WORDS.slice(0, 4).map((content, id) => ({
    ...{ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true },
  }));
  return {
    ...{ version: "1.0", truncation: null, padding: null, added_tokens: special, normalizer: null },
    pre_tokenizer: { type: "WhitespaceSplit" },
    ...{ post_processor: null, decoder: null },
    model: { type: "WordLevel", vocab: Object.fromEntries(WORDS.map((word, id) => [word, id])), unk_token: "<unk>" },
  };
}

interface Values {
  readonly name: string;
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

/** The bytes of a safetensors file. BF16 is cut, not rounded. */
function safetensors(tensors: readonly Values[], dtype: "F32" | "BF16"): Uint8Array {
  let at = 0;
  const header: Record<string, unknown> = { __metadata__: { format: "pt" } };
  const parts = tensors.map(({ name, shape, values }) => {
    const bits = new Uint32Array(values.buffer);
    const data = dtype === "F32" ? bits : Uint16Array.from(bits, (word) => word >>> 16);
    header[name] = { dtype, shape, data_offsets: [at, at + data.byteLength] };
    at += data.byteLength;
    return new Uint8Array(data.buffer);
  });
  const text = JSON.stringify(header);
  const json = Buffer.from(text.padEnd(Math.ceil(text.length / 8) * 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([length, json, ...parts]);
}
