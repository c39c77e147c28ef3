// config.json of a GGUF file, from its metadata: the inverse of src/export/gguf/metadata.ts.
import {
  ConfigFields,
  type DecoderSpec,
  type DescribedFamily,
  FAMILIES,
  type Family,
  findFamily,
  type GgufMetadata,
  type GgufReading,
  LLAMA_DEFAULTS,
  type LlamaCpp,
  specOf,
} from "../../families/index.js";
import { CheckpointError, type JsonObject } from "../../kit/index.js";
import { shorten } from "../../kit/printing/index.js";
import type { GgufHeader } from "./header.js";

type GgufFamily = Family & { readonly llamaCpp: LlamaCpp & { readonly read: GgufReading } };

/** By `general.architecture`: the first family of each name that says how its files read. */
const FAMILIES_IN_GGUF = new Map<unknown, GgufFamily>();
for (const family of FAMILIES.filter((one): one is GgufFamily => one.llamaCpp?.read !== undefined)) {
  for (const graph of [family.llamaCpp, family.llamaCpp.other?.graph]) {
    if (graph && !FAMILIES_IN_GGUF.has(graph.name)) FAMILIES_IN_GGUF.set(graph.name, family);
  }
}

/** The family of an architecture's name. @throws CheckpointError for one that layergraft does not read */
export function ggufFamily(name: string, path: string): GgufFamily {
  const family = FAMILIES_IN_GGUF.get(name);
  if (family) return family;
  const written = FAMILIES.find(({ llamaCpp }) => llamaCpp?.name === name);
  if (written) {
    throw new CheckpointError(
      `${path} has a ${written.name} model. GGUF files of this family have transposed matrices, which are not read. Pass the model's folder, or its name on the hub.`,
      { file: path },
    );
  }
  const known = [...FAMILIES_IN_GGUF.keys()].join(", ");
  const problem = `has a model of the architecture ${JSON.stringify(shorten(String(name)))}`;
  throw new CheckpointError(`${path} ${problem}; those that can be read are ${known}.`, { file: path });
}

/** Llama 3's scalings of low frequencies that are published, whose divisors a file has instead of the numbers. */
const LLAMA3_FACTORS = [8, 32, 16, 4, 2];

/**
 * The configuration.
 * @throws CheckpointError if a number is missing
 */
export function ggufConfig(family: GgufFamily, read: GgufMetadata, header: GgufHeader, path: string): JsonObject {
  const required = (key: string): number => {
    const value = read.number(key);
    if (value === undefined || !(value > 0)) {
      throw new CheckpointError(`${path} does not say its ${key}, so it cannot be read.`, { file: path, field: key });
    }
    return value;
  };
  const { metadata } = header;
  const token = (name: string) => metadata.get(`tokenizer.ggml.${name}_token_id`) ?? null;
  const [hidden, heads] = [required("embedding_length"), required("attention.head_count")];
  const width = read.number("attention.key_length") ?? hidden / heads;
  const rotated = read.number("rope.dimension_count") ?? 0;
  if (rotated > width) {
    throw new CheckpointError(`${path} says that positions rotate ${rotated} values of heads that have ${width}.`, {
      file: path,
      field: "rope.dimension_count",
    });
  }
  const { className, epsilon = "rms_norm_eps", fields } = family.llamaCpp.read;
  const { rope_scaling: turned, ...own } = fields?.(read) ?? {};
  const scaling = turned === null ? undefined : ropeScaling(read);
  return {
    architectures: [className],
    model_type: family.modelTypes[0],
    hidden_act: "silu",
    vocab_size: read.vocabulary,
    hidden_size: hidden,
    intermediate_size: own.intermediate_size ?? required("feed_forward_length"),
    num_hidden_layers: required("block_count"),
    num_attention_heads: heads,
    num_key_value_heads: read.number("attention.head_count_kv") ?? heads,
    head_dim: width,
    max_position_embeddings: required("context_length"),
    [epsilon]: read.number("attention.layer_norm_epsilon") ?? required("attention.layer_norm_rms_epsilon"),
    rope_theta: read.number("rope.freq_base") ?? 10_000,
    ...(scaling || turned ? { rope_scaling: { ...scaling, ...(turned as JsonObject | undefined) } } : {}),
    tie_word_embeddings: !read.has("output.weight"),
    bos_token_id: token("bos"),
    eos_token_id: token("eos"),
    pad_token_id: token("padding"),
    torch_dtype: "float32",
    ...own,
  };
}

/** Numbers of the metadata, and the tensors whose first axis they count. */
const COUNTED = { expert_count: /\.ffn_(gate_)?up_exps\.weight$/, "ssm.time_step_rank": /\.ssm_a$/ };

/**
 * The page and the specification of the decoder.
 * @throws CheckpointError if the metadata do not describe one
 */
export function ggufSpec(
  json: JsonObject,
  read: GgufMetadata,
  { tensors }: GgufHeader,
  path: string,
): { page: LlamaCpp; spec: DecoderSpec } {
  for (const [key, pattern] of Object.entries(COUNTED)) {
    const [count, tensor] = [read.number(key), tensors.find(({ name }) => pattern.test(name))];
    if (count === undefined || !tensor || tensor.shape[0] === count) continue;
    throw new CheckpointError(`${path} says that its ${key} is ${count}, but ${tensor.name} is [${tensor.shape}].`, {
      file: path,
      field: key,
    });
  }
  const family = findFamily(String(json.model_type)) as GgufFamily & DescribedFamily;
  const fields = new ConfigFields(json, { ...LLAMA_DEFAULTS, ...family.defaults });
  const layersField = "num_hidden_layers";
  const facts = { layers: fields.count(layersField), layersField, tied: fields.flag("tie_word_embeddings") };
  const spec = specOf(family, fields, facts, []);
  if (fields.problems.length > 0) {
    const list = fields.problems.map((problem) => `  - ${problem}`).join("\n");
    throw new CheckpointError(`${path} does not describe a ${family.name} model:\n${list}`, { file: path });
  }
  return { page: family.llamaCpp, spec };
}

function ropeScaling(read: GgufMetadata): JsonObject | undefined {
  const [type, factor] = [read.text("rope.scaling.type"), read.number("rope.scaling.factor")];
  const original = read.number("rope.scaling.original_context_length");
  if (type === "linear") return { rope_type: "linear", factor };
  if (type === "yarn") {
    const scaling = { rope_type: "yarn", factor, original_max_position_embeddings: original };
    const [given, stretch] = ["attn_factor", "yarn_log_multiplier"].map((key) => read.number(`rope.scaling.${key}`));
    // llama.cpp multiplies the factor that it computes by the key's; with a multiplier, by the inverse of that one's.
    const own = (by: number) => (factor === undefined || factor <= 1 ? 1 : 0.1 * by * Math.log(factor) + 1);
    const attention_factor = ((given ?? 1) * own(1)) / own(stretch ?? 0);
    return given || stretch ? { ...scaling, attention_factor } : scaling;
  }
  const divisors = read.values("rope_freqs.weight");
  return divisors && dividedScaling(divisors, read);
}

/**
 * The scaling that makes these divisors: Llama 3's where they are those of a published model, else the divisors themselves, as
 * LongRoPE has them (transformers, modeling_rope_utils.py).
 */
function dividedScaling(divisors: readonly number[], read: GgufMetadata): JsonObject {
  const theta = read.number("rope.freq_base") ?? 10_000;
  const [low, high, original] = [1, 4, 8192];
  const factor = LLAMA3_FACTORS.find((one) =>
    divisors.every((divisor, i) => {
      const turns = (original * theta ** (-i / divisors.length)) / (2 * Math.PI);
      const share = Math.min(1, Math.max(0, (turns - low) / (high - low)));
      const expected = 1 / ((1 - share) / one + share);
      return Math.abs(expected - divisor) <= 1e-3 * expected;
    }),
  );
  if (factor !== undefined) {
    const fields = { low_freq_factor: low, high_freq_factor: high, original_max_position_embeddings: original };
    return { rope_type: "llama3", factor, ...fields };
  }
  return {
    rope_type: "longrope",
    short_factor: divisors,
    long_factor: divisors,
    original_max_position_embeddings: read.number("context_length"),
    attention_factor: read.number("rope.scaling.attn_factor") ?? 1,
  };
}
