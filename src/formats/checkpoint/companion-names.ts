// Which files of a folder belong to a model beside its weights and configuration. Downloads, copies and uploads use this list.
import { isModuleFolder } from "../safetensors/index.js";

/** `unknown` is small text that nothing here knows. */
export type CompanionKind = "tokenizer" | "prompting" | "processing" | "quantisation" | "code" | "terms" | "unknown";

/** Tokenizer files of transformers (`vocab_files_names`), sentencepiece and Mistral. */
const TOKENIZER_FILES: readonly string[] = [
  ...["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"],
  ...["tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "sentencepiece.model", "spm.model"],
  ...["spm_char.model", "source.spm", "target.spm", "vocab.json", "vocab.txt", "merges.txt", "bpe.codes", "dict.txt"],
  ...["normalizer.json", "emoji.json", "entity_vocab.json", "target_vocab.json", "byte_maps.json", "tekken.json"],
];

/** Templates and generation defaults. */
const PROMPTING_FILES = ["chat_template.jinja", "chat_template.json", "generation_config.json"];

/** Processors of images, sound and video; the modules around an embedding model (sentence-transformers). */
const PROCESSING_FILES = [
  ...["preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json"],
  ...["image_processor_config.json", "feature_extractor_config.json", "audio_tokenizer_config.json", "mel_filters.npz"],
  ...["modules.json", "config_sentence_transformers.json", "sentence_bert_config.json", "router_config.json"],
];

/** How weights are quantised, beside config.json: readers take them as such where the file is there. */
const QUANTISATION = /^(hf_quant|quantize|quant)_config\.json$/;

/** A folder in which transformers stores further templates. */
export const TEMPLATES = "additional_chat_templates";

const TERMS = /^(LICEN[CS]E|NOTICE|COPYING|USE_POLICY)[\w-]*(\.(md|txt))?$/i;

/** Text that may be part of a model. */
const TEXT = /\.(json|jinja|txt|model|ya?ml|toml|tsv|vocab)$/i;

/** What describes weights or configuration, and records of training and evaluation. */
const RECORDS =
  /^(config|params|adapter_config|layergraft|training|extraction|modelcard|trainer_state|training_args|training_config)\.(json|ya?ml)$|(_results|\.index)\.json$|^(requirements|README|CHANGELOG)\b/i;

/** Weights of any format. */
const WEIGHTS =
  /\.(safetensors|bin|pth?|ckpt|gguf|ggml|onnx(_data)?|msgpack|h5|ot|tflite|mlmodel|npz|npy|pkl|zip|tar|gz)$/i;

const IMAGES = /\.(png|jpe?g|gif|svg|webp|pdf|mp4)$/i;

/** Folders with other forms of the weights, and what training writes. */
const OTHER_FOLDERS =
  /^(original|onnx|openvino|coreml|flax|checkpoint-\d+|global_step\d+|runs|logs|wandb|best|last|merged|reverted|assets|images|figures|examples)$/i;

/** What a file is for, by its path in the folder; undefined if it does not belong beside other weights. */
export function companionOf(path: string): CompanionKind | undefined {
  const [folder = "", name, ...deeper] = path.split("/");
  if (deeper.length > 0) return undefined;
  if (name !== undefined) {
    if (folder === TEMPLATES && name.endsWith(".jinja")) return "prompting";
    return isModuleFolder(folder) && /\.(json|txt|model)$/.test(name) ? "processing" : undefined;
  }
  if (TOKENIZER_FILES.includes(path) || path.endsWith(".tiktoken")) return "tokenizer";
  if (PROMPTING_FILES.includes(path)) return "prompting";
  if (PROCESSING_FILES.includes(path) || /^sentence_\w+_config\.json$/.test(path)) return "processing";
  if (QUANTISATION.test(path)) return "quantisation";
  if (path.endsWith(".py")) return "code";
  if (TERMS.test(path)) return "terms";
  return TEXT.test(path) && !RECORDS.test(path) && !path.startsWith(".") ? "unknown" : undefined;
}

/** Whether a folder in that of a model has companions. */
export const isCompanionFolder = (name: string): boolean => name === TEMPLATES || isModuleFolder(name);

/** Whether it is worth a note that a file or folder is not copied. */
export function isWorthNoting(name: string, isFolder: boolean): boolean {
  if (name.startsWith(".")) return false;
  return isFolder
    ? !isCompanionFolder(name) && !OTHER_FOLDERS.test(name)
    : ![RECORDS, WEIGHTS, IMAGES, /\.(py|log|jsonl|md|csv)$/i].some((pattern) => pattern.test(name));
}

/** Size in bytes up to which an unknown file is taken for a part of the model, and how many of them. */
export const UNKNOWN_BYTES = 1_000_000;
export const UNKNOWN_FILES = 50;
