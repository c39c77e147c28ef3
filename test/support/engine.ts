// Models whose answers are known in advance, and a tokenizer with tokens shorter and longer than characters and words.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TensorData, writeSafetensors } from "../../src/formats/safetensors/index.js";
import { encodeValues, type FloatDType } from "./checkpoints.js";

/** Tokens as they stand in the text; two are the bytes of one character. */
export const TOKENS = [
  ...["<unk>", "<s>", "</s>", "a", "b", "c", "ab", " ", "ST", "OP", "byte C3", "byte A9", "x", "S", "T", "O", "P"],
  ...["user", "bot", ":", "\n", "hi", "!", "?"],
] as const;

/** Rows of the vocabulary. */
export const VOCABULARY = TOKENS.length;

/** The id of a token. */
export function idOf(token: (typeof TOKENS)[number]): number {
  return TOKENS.indexOf(token);
}

// GPT-2's alphabet of bytes: letters stand for themselves, these do not.
const ALPHABET: Partial<Record<string, string>> = { " ": "Ġ", "\n": "Ċ", "byte C3": "Ã", "byte A9": "©" };
const MERGES = ["a b", "S T", "O P", "u s", "e r", "us er", "b o", "bo t", "h i"];
const SPECIAL = ["<unk>", "<s>", "</s>"];

/** Writes tokenizer.json, tokenizer_config.json and a chat template: `user:hi\nbot:`. */
export function writeTokenizer(folder: string, options: { readonly template?: boolean } = {}): void {
  const plain = TOKENS.map((token) => ALPHABET[token] ?? token);
  const parts = [...new Set(MERGES.flatMap((merge) => [...merge.split(" "), merge.replace(" ", "")]))];
  // What merging goes through has ids, too, which the models here never see.
  const all = [...plain, ...parts.filter((part) => !plain.includes(part))];
  const tokenizer = {
    version: "1.0",
    added_tokens: SPECIAL.map((content, id) => ({ id, content, special: true, normalized: false })),
    normalizer: null,
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
    post_processor: {
      type: "TemplateProcessing",
      single: [{ SpecialToken: { id: "<s>", type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
      pair: [],
      special_tokens: { "<s>": { id: "<s>", ids: [1], tokens: ["<s>"] } },
    },
    decoder: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
    model: {
      type: "BPE",
      vocab: Object.fromEntries(all.map((token, id) => [token, id])),
      merges: MERGES,
      unk_token: "<unk>",
    },
  };
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(tokenizer));
  const settings = { bos_token: "<s>", eos_token: "</s>", unk_token: "<unk>" };
  writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify(settings));
  if (options.template === false) return;
  const template =
    "{{ bos_token }}{% for m in messages %}{{ m.role if m.role == 'user' else 'bot' }}:{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}bot:{% endif %}";
  writeFileSync(join(folder, "chat_template.jinja"), template);
}

/**
 * Writes a model of one layer that adds nothing, so that each token says which is next: the head has the embedding of a
 * token where its successor stands.
 * @param next successors by token; where there is none, `</s>`
 */
export async function writeScripted(
  folder: string,
  next: Partial<Record<(typeof TOKENS)[number], (typeof TOKENS)[number]>>,
  options: { readonly config?: Record<string, unknown>; readonly dtype?: FloatDType; readonly template?: boolean } = {},
): Promise<string> {
  const { dtype = "F32", config = {} } = options;
  const width = VOCABULARY;
  const tensor = (name: string, shape: number[], value: (row: number, column: number) => number): TensorData => {
    const columns = shape[1] ?? 1;
    const count = (shape[0] as number) * columns;
    const values = Array.from({ length: count }, (_, i) => value(Math.floor(i / columns), i % columns));
    return { name, dtype, shape, data: encodeValues(values, dtype) };
  };
  const successors = TOKENS.map((token) => idOf(next[token] ?? "</s>"));
  const at = "model.layers.0";
  const none = () => 0;
  mkdirSync(folder, { recursive: true });
  await writeSafetensors(join(folder, "model.safetensors"), [
    tensor("model.embed_tokens.weight", [width, width], (row, column) => (row === column ? 1 : 0)),
    tensor(`${at}.input_layernorm.weight`, [width], () => 1),
    ...["q", "k", "v", "o"].map((p) => tensor(`${at}.self_attn.${p}_proj.weight`, [width, width], none)),
    tensor(`${at}.post_attention_layernorm.weight`, [width], () => 1),
    tensor(`${at}.mlp.gate_proj.weight`, [4, width], none),
    tensor(`${at}.mlp.up_proj.weight`, [4, width], none),
    tensor(`${at}.mlp.down_proj.weight`, [width, 4], none),
    tensor("model.norm.weight", [width], () => 1),
    tensor("lm_head.weight", [width, width], (row, column) => (successors[column] === row ? 1 : 0)),
  ]);
  const json = {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    hidden_size: width,
    intermediate_size: 4,
    num_hidden_layers: 1,
    num_attention_heads: 2,
    vocab_size: width,
    max_position_embeddings: 64,
    tie_word_embeddings: false,
    eos_token_id: 2,
    ...config,
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify(json));
  writeTokenizer(folder, options);
  return folder;
}
