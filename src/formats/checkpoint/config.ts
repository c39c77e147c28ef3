import { basename, join } from "node:path";
import { exists, readJsonObject } from "../../kit/files/index.js";
import { CheckpointError, DTYPE_BY_TORCH_NAME, type DType, isObject, type JsonObject } from "../../kit/index.js";

export interface CheckpointConfig {
  /** Path of config.json or params.json. */
  readonly file: string;
  /** The whole document, as `edit` makes it. */
  readonly json: JsonObject;
  /** Makes the document of the file's, where tensors contradict it or other models change it. */
  readonly edit?: (json: JsonObject) => JsonObject;
  /** `model_type` of the decoder: of the text tower in a multimodal model; "meta" for a params.json. */
  readonly modelType: string;
  /** Number of transformer layers of the decoder, L; undefined if no field says. */
  readonly layers: number | undefined;
  /** What that field says where the tensors count other layers, which `layers` has. */
  readonly statedLayers?: number;
  /** Field that `layers` was read from. */
  readonly layersField: string;
  /** Whether the model has an encoder and a decoder, each with its layers. */
  readonly isEncoderDecoder: boolean;
  /** Layers after the L-th that predict further tokens (DeepSeek, GLM); not part of the decoder. */
  readonly predictionLayers: number;
  /** `tie_word_embeddings`; undefined if missing. */
  readonly tied: boolean | undefined;
  readonly vocabularySize: number | undefined;
  readonly hiddenSize: number | undefined;
  /** How weights are quantised, such as "bitsandbytes"; undefined where they are not, or are read as their values. */
  readonly quantized: string | undefined;
  /** Why codes are only copied, as a clause; undefined where they are read as values. */
  readonly unread?: string;
  /** Why a model with plain weights computes otherwise than they say, as a clause; it can be merged, but not run here. */
  readonly whileRunning?: string;
}

const META_FILE = "params.json";

/** Lists with one entry for each layer, which some families have in place of a number. */
const PER_LAYER = ["layer_types", "layers_block_type", "block_configs"];

/** Names of the number of layers in different families. */
export const LAYER_COUNTS: readonly string[] = ["num_hidden_layers", "n_layer", "n_layers", "num_layers"];

/**
 * Reads config.json, or params.json where a folder has only Meta's.
 * @throws CheckpointError if neither exists
 */
export async function readConfig(folder: string): Promise<CheckpointConfig> {
  const hfFile = join(folder, "config.json");
  const metaFile = join(folder, META_FILE);
  const meta = !(await exists(hfFile)) && (await exists(metaFile));
  const file = meta ? metaFile : hfFile;
  if (!meta && !(await exists(hfFile))) {
    throw new CheckpointError(
      `${folder} has no config.json. Pass the folder of a complete checkpoint, with configuration and weights.`,
      { file: folder },
    );
  }
  return parseConfig(await readJsonObject(file), file);
}

/**
 * Reads a configuration that is in memory.
 * @param file path for errors; a params.json is recognized by its name
 * @throws CheckpointError if it says another thing than a number for that of the layers
 */
export function parseConfig(json: JsonObject, file: string): CheckpointConfig {
  const meta = basename(file) === META_FILE;
  const text = textOf(json);

  const [layersField, layers] = pick(text, LAYER_COUNTS, file);
  const natural = (value: unknown) =>
    Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined;
  const modelType = text.model_type ?? json.model_type;
  const tied = json.tie_word_embeddings ?? text.tie_word_embeddings ?? undefined;
  if (tied !== undefined && typeof tied !== "boolean") {
    const actual = JSON.stringify(tied);
    const field = "tie_word_embeddings";
    throw new CheckpointError(`${file}: ${field} is ${actual}; it must be true or false`, { file, field, actual });
  }
  return {
    file,
    json,
    modelType: meta ? "meta" : typeof modelType === "string" ? modelType : "unknown",
    layers,
    layersField,
    isEncoderDecoder: json.is_encoder_decoder === true,
    predictionLayers: natural(text.num_nextn_predict_layers) ?? 0,
    tied,
    vocabularySize: natural(text.vocab_size),
    hiddenSize: natural(text.hidden_size ?? text.n_embd ?? text.dim),
    quantized: quantisationIn(json),
  };
}

/** The settings of quantisation; undefined if the configuration has none. */
export function quantisationSettings(json: JsonObject): unknown {
  const text = textOf(json);
  // MLX writes `quantization`, and only newer versions the other one, too.
  const settings = json.quantization_config ?? json.compression_config ?? text.quantization_config ?? json.quantization;
  return isObject(settings) && Object.keys(settings).length === 0 ? undefined : (settings ?? undefined);
}

/** A configuration without settings of quantisation. */
export function withoutQuantisation(config: CheckpointConfig): CheckpointConfig {
  const edit = ({ compression_config: _, quantization: ___, ...json }: JsonObject): JsonObject => {
    const { quantization_config: __, ...others } = mapTowers(json, (key, value) =>
      key === "quantization_config" ? undefined : value,
    );
    return others;
  };
  return { ...edited(config, edit), quantized: undefined };
}

/** The dtype that a configuration states for the weights; bfloat16 if it states none. */
export function statedDType(json: JsonObject): DType {
  const text = textOf(json);
  const stated = json.dtype ?? json.torch_dtype ?? text.dtype ?? text.torch_dtype;
  const known: Readonly<Record<string, DType>> = DTYPE_BY_TORCH_NAME;
  return (typeof stated === "string" && Object.hasOwn(known, stated) && known[stated]) || "BF16";
}

function quantisationIn(json: JsonObject): string | undefined {
  const settings = quantisationSettings(json);
  if (settings === undefined) return undefined;
  if (!isObject(settings)) return "quantization_config";
  const method = settings.quant_method ?? settings.quant_algo;
  return typeof method === "string" ? method : "quantization_config";
}

/** What to do with a model that is quantised in a way that is only copied. */
export const unquantise = (method: string) =>
  method === "bitsandbytes"
    ? "use the original model, or load this one in Python and save what model.dequantize() makes of it"
    : "use the original model";

/** Fields of a multimodal configuration that hold that of the decoder. */
const TEXT_TOWERS = ["text_config", "llm_config"];

/** Whether a field of a multimodal configuration is that of the decoder. */
export function isTower(key: string, value: unknown): value is JsonObject {
  return TEXT_TOWERS.includes(key) && isObject(value);
}

/** The configuration of the decoder: of the text tower in a multimodal model. */
export function textOf(json: JsonObject): JsonObject {
  return TEXT_TOWERS.map((key) => json[key]).find(isObject) ?? json;
}

/** A configuration with that of the decoder as `change` makes it. */
export function mapText(json: JsonObject, change: (text: JsonObject) => JsonObject): JsonObject {
  const tower = TEXT_TOWERS.find((key) => isObject(json[key]));
  return tower === undefined ? change(json) : { ...json, [tower]: change(textOf(json)) };
}

/** A configuration with each field as `to` makes it, those of its text towers too. */
export function mapTowers(json: JsonObject, to: (key: string, value: unknown) => unknown): JsonObject {
  return Object.fromEntries(
    Object.entries(json).map(([key, value]) => [key, isTower(key, value) ? mapTowers(value, to) : to(key, value)]),
  );
}

/** A configuration whose document is edited, also when its file is read again. */
export function edited(config: CheckpointConfig, edit: (json: JsonObject) => JsonObject): CheckpointConfig {
  const before = config.edit ?? ((json) => json);
  return { ...config, json: edit(config.json), edit: (json) => edit(before(json)) };
}

/**
 * A configuration whose head is not tied to the embedding.
 * @param like that of a model with such a head: its text tower can tie other tensors
 */
export function untied(config: CheckpointConfig, like?: CheckpointConfig): CheckpointConfig {
  const field = { tie_word_embeddings: false };
  const inner =
    like !== undefined && textOf(like.json) !== like.json ? textOf(like.json).tie_word_embeddings : undefined;
  const edit = (json: JsonObject) => ({
    ...mapTowers(json, (key, value) => (key in field ? (inner ?? false) : value)),
    ...field,
  });
  return { ...edited(config, edit), tied: false };
}

/** A configuration with another number of rows of the vocabulary. */
export function withVocabulary(config: CheckpointConfig, rows: number): CheckpointConfig {
  const edit = (json: JsonObject) =>
    mapTowers(json, (key, value) => (key === "vocab_size" && value === config.vocabularySize ? rows : value));
  return { ...edited(config, edit), vocabularySize: rows };
}

/** A configuration with another number of layers, all of one kind. */
export function withLayers(config: CheckpointConfig, layers: number): CheckpointConfig {
  const edit = (json: JsonObject) =>
    mapTowers(json, (key, value) => (LAYER_COUNTS.includes(key) && value === config.layers ? layers : value));
  return { ...edited(config, edit), layers };
}

// Far above any model; a hostile number must not size an allocation.
const MAX_LAYERS = 10_000;

function pick(
  config: Record<string, unknown>,
  fields: readonly string[],
  file: string,
): [field: string, layers: number | undefined] {
  for (const field of fields) {
    const value = config[field];
    if (value === undefined || value === null) continue;
    if (!Number.isSafeInteger(value) || (value as number) < 1 || (value as number) > MAX_LAYERS) {
      throw new CheckpointError(`${file}: ${field} is ${JSON.stringify(value)}, not a number of layers`, {
        file,
        field,
        actual: JSON.stringify(value),
      });
    }
    return [field, value as number];
  }
  const list = PER_LAYER.find((field) => Array.isArray(config[field]));
  if (list === undefined) return [fields[0] ?? "", undefined];
  return [list, (config[list] as unknown[]).length];
}
