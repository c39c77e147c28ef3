// Plans an ONNX folder for transformers.js: where each weight is stored, and the model's graph. Reads headers and
// configurations, not weights.

import {
  fillsBlocks,
  findSteps,
  type ModelSource,
  type PlacedTensor,
  placedWeights,
  placeTensors,
} from "../../engine/index.js";
import { readSpec } from "../../engine/model/index.js";
import { type ExternalData, lowerGraph } from "../../engine/runtime/index.js";
import { longestContext } from "../../families/index.js";
import { BLOCK_COLUMNS } from "../../kernels/index.js";
import { digestOf, digestOfJson } from "../../kit/files/index.js";
import { CheckpointError, isObject, usageError } from "../../kit/index.js";
import { formatSome } from "../../kit/printing/index.js";
import { AXES, buildOnnxGraph, computeFeeds, type RopeTable } from "./onnx-graph.js";

/** Types: the file in transformers.js (its src/utils/dtypes.js), and the encoding of matrices. */
export const ONNX_TYPES = {
  fp32: { file: "model.onnx", encoding: "F32" },
  fp16: { file: "model_fp16.onnx", encoding: "F16" },
  q8: { file: "model_quantized.onnx", encoding: "Q8_0" },
  q4: { file: "model_q4.onnx", encoding: "Q4_0" },
} as const;

export type OnnxType = keyof typeof ONNX_TYPES;

/** Options of `planOnnx`. */
export interface OnnxOptions {
  /** How matrices are stored. */
  readonly type: OnnxType;
  /** Most bytes of a data file, which a larger tensor exceeds. Default 1.9 GB, which browsers can hold in one buffer. */
  readonly fileBytes?: number;
}

export interface OnnxPlan {
  readonly source: ModelSource;
  readonly type: OnnxType;
  readonly family: string;
  /** Name of the graph's file below `onnx/`. */
  readonly file: string;
  readonly model: Uint8Array;
  /** Files of weights below `onnx/`, with their bytes. */
  readonly data: readonly { readonly name: string; readonly bytes: number }[];
  readonly tensors: readonly PlacedTensor[];
  readonly tables: readonly RopeTable[];
  /** config.json. */
  readonly config: Readonly<Record<string, unknown>>;
  /** Bytes of graph and weights. */
  readonly bytes: number;
  /** Changes with the model, its files, and the type. */
  readonly digest: string;
  readonly notes: readonly string[];
}

// Part of the digest: a version that stores weights in another way has another number.
const FORMAT = 1;
// Of this many positions, tables of rotations with 128 dimensions take 67 MB.
const MAX_POSITIONS = 131_072;
const FILE_BYTES = 1.9e9;
// As ONNX recommends for files that are mapped into memory.
const ALIGNMENT = 4096;

/**
 * Plans the export of a model as a folder for transformers.js.
 * @throws CheckpointError if the engine does not run its family, or weights are missing
 * @throws MismatchError if weights have other shapes than the configuration
 */
export function planOnnx(source: ModelSource, { type, fileBytes = FILE_BYTES }: OnnxOptions): OnnxPlan {
  if (!Object.hasOwn(ONNX_TYPES, type)) {
    const known = Object.keys(ONNX_TYPES).join(", ");
    throw usageError(`type is ${type}; for ONNX it must be one of ${known}`);
  }
  const { file, encoding } = ONNX_TYPES[type];
  const codes = encoding === "Q8_0" || encoding === "Q4_0" ? encoding : undefined;
  const spec = readSpec(source.config, source.tensors.keys());
  if (spec.layers.some(({ valueDim, headDim }) => valueDim !== headDim)) {
    const message = `${source.name} has values of another width than keys, which transformers.js does not cache. It cannot be exported as ONNX.`;
    throw new CheckpointError(message, { file: source.config.file });
  }
  const { kvHeads, headDim } = spec;
  if (spec.layers.some((one) => one.kvHeads !== kvHeads || one.headDim !== headDim || one.keysOf !== undefined)) {
    throw new CheckpointError(
      `${source.name} cannot be exported as ONNX: its layers have heads of different sizes or share keys, and transformers.js reads one size of all layers. Export it as GGUF.`,
      { file: source.config.file },
    );
  }
  if (spec.recurrence) {
    throw new CheckpointError(
      `${source.name} cannot be exported for transformers.js: the export has no cache for the states of ${spec.family}. Use the engine, or export it as GGUF where its family is supported.`,
      { file: source.config.file },
    );
  }
  const { decoder, outputs, uses } = buildOnnxGraph(spec);
  const { steps, notes } = findSteps(decoder, source);

  const places = new Places(`${file}_data`, fileBytes);
  const isEmbedding = (name: string) => decoder.weights.get(name)?.name === spec.embedding.name;
  const isMatrix = (name: string) => uses.products.has(name) || isEmbedding(name);
  const tensors = placeTensors(steps, uses, {
    encoding: codes,
    dtypeOf: (names) => (encoding !== "F32" && names.some(isMatrix) ? "F16" : "F32"),
    take: (bytes) => places.take(bytes),
  });
  const uneven = [...steps].flatMap(([name, step]) =>
    uses.products.has(name) && !fillsBlocks(step) ? [step.tensor] : [],
  );
  const positions = Math.min(spec.contextLength, MAX_POSITIONS);
  const tables = spec.ropes.map(({ dimensions, long }, rope): RopeTable => {
    const above = long?.above ?? positions;
    const [rows, longRows] = above < positions ? [above, positions] : [positions, 0];
    const bytes = (rows + longRows) * dimensions * 2;
    return { rope, rows, longRows, above, cos: places.take(bytes), sin: places.take(bytes) };
  });

  const { weights, quantized } = placedWeights(tensors, steps, decoder.weights, uses);
  const computed = (emitter: Parameters<typeof computeFeeds>[0]) => computeFeeds(emitter, spec, tables);
  const model = lowerGraph(outputs, { weights, quantized, computed, axes: AXES });
  const data = places.files;
  if (data.length > MAX_FILES) {
    throw new CheckpointError(
      `${source.name} needs ${data.length} data files, and transformers.js opens ${MAX_FILES}. Export it as q4.`,
    );
  }
  const config = configOf(source, spec, { type, positions, files: { [file]: data.length } });
  return {
    source,
    type,
    family: spec.family,
    file,
    model,
    data,
    tensors,
    tables,
    config,
    digest: digestOfJson([FORMAT, source.digest, digestOf(model), config]),
    bytes: data.reduce((sum, { bytes }) => sum + bytes, model.byteLength),
    notes: [...notes, ...notesOf(spec, positions, data), ...(codes ? unevenNotes([...new Set(uneven)]) : [])],
  };
}

// MAX_EXTERNAL_DATA_CHUNKS of transformers.js.
const MAX_FILES = 100;

/** Gives tensors places in data files. */
class Places {
  readonly files: { name: string; bytes: number }[] = [];
  readonly #name: string;
  readonly #most: number;

  constructor(name: string, most: number) {
    this.#name = name;
    this.#most = most;
  }

  take(length: number): ExternalData {
    let file = this.files.at(-1);
    let offset = Math.ceil((file?.bytes ?? 0) / ALIGNMENT) * ALIGNMENT;
    if (!file || (offset > 0 && offset + length > this.#most)) {
      const index = this.files.length;
      file = { name: index === 0 ? this.#name : `${this.#name}_${index}`, bytes: 0 };
      this.files.push(file);
      offset = 0;
    }
    file.bytes = offset + length;
    return { location: file.name, offset, length };
  }
}

type Spec = ReturnType<typeof readSpec>;

/** The configuration of the decoder alone, with the sizes that transformers.js reads. */
function configOf(
  { config: { json, modelType } }: ModelSource,
  spec: Spec,
  { type, positions, files }: { type: OnnxType; positions: number; files: Readonly<Record<string, number>> },
): Record<string, unknown> {
  const text = [json.text_config, json.llm_config].find(isObject);
  const { eos_token_id, bos_token_id, pad_token_id } = json;
  return {
    ...(text ? { eos_token_id, bos_token_id, pad_token_id } : {}),
    ...(text ?? json),
    model_type: modelType === "meta" ? "llama" : modelType,
    vocab_size: spec.vocabularySize,
    hidden_size: spec.hidden,
    num_hidden_layers: spec.layers.length,
    num_attention_heads: spec.heads,
    num_key_value_heads: spec.kvHeads,
    head_dim: spec.headDim,
    max_position_embeddings: positions,
    "transformers.js_config": { dtype: type, use_external_data_format: files },
  };
}

function notesOf(spec: Spec, positions: number, data: OnnxPlan["data"]): string[] {
  const notes: string[] = [];
  const { ropes } = spec;
  const longest = longestContext(spec);
  if (longest > positions) {
    notes.push(`the exported model supports ${positions} positions, and the original ${longest}`);
  }
  const long = ropes.find(({ long: other }) => other && other.above < positions)?.long;
  if (long) {
    notes.push(
      `rotations change when a text grows beyond ${long.above} tokens; keys in the cache keep the earlier ones, as in transformers`,
    );
  }
  const large = data.filter(({ bytes }) => bytes > 2 ** 31);
  if (large.length > 0) notes.push(`${large.map(({ name }) => name).join(", ")} is too large for browsers`);
  return notes;
}

function unevenNotes(tensors: readonly string[]): string[] {
  if (tensors.length === 0) return [];
  const rows = `the rows of ${formatSome(tensors)} do not fill blocks of ${BLOCK_COLUMNS}`;
  return [`${rows}, so ${tensors.length === 1 ? "it is" : "they are"} stored as fp16`];
}
