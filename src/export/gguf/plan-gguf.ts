// Plans a GGUF file: its tensors with their encodings, and its metadata. Reads headers and configurations, not weights.
import { basename } from "node:path";
import { loadSourceTemplate, loadSourceTokenizerParts, type ModelSource, modelTextOf } from "../../engine/index.js";
import { type DecoderSpec, readSpec } from "../../engine/model/index.js";
import { FAMILIES, findFamily, graphOf, type LlamaCpp, longestContext } from "../../families/index.js";
import { textOf } from "../../formats/checkpoint/index.js";
import { PENALTY_KEY } from "../../formats/gguf/index.js";
import type { Encoding } from "../../kernels/index.js";
import { digestOf, digestOfJson } from "../../kit/files/index.js";
import { CheckpointError, isObject } from "../../kit/index.js";
import { formatSome, plural } from "../../kit/printing/index.js";
import { curveMetadata } from "./curves.js";
import { f32, type GgufLayout, layOutGguf, type Metadata, type MetadataValue, text, u32 } from "./gguf-file.js";
import { type ComputedTensor, decoderMetadata, ropeTensors } from "./metadata.js";
import { type PlannedTensor, planTensors } from "./planned-tensors.js";
import { chooseEncodings, FILE_TYPES, type FileType, type TensorTypes } from "./tensor-types.js";
import { modelName, tokenizerMetadata } from "./tokenizer-metadata.js";
import { unsupportedTraits } from "./unsupported.js";

/** Options of `planGguf`. */
export interface GgufOptions {
  /** Encoding of most tensors, as llama.cpp names them. */
  readonly type: FileType;
  /** `PATTERN=TYPE`: tensors whose name the regular expression finds get this encoding. Default none. */
  readonly tensorTypes?: TensorTypes | undefined;
}

export interface GgufPlan {
  readonly source: ModelSource;
  /** Changes with the model, its files, and the options: equal digests mean equal files. */
  readonly digest: string;
  /** Name of the architecture in llama.cpp. */
  readonly architecture: string;
  readonly type: FileType;
  readonly tensors: readonly (PlannedTensor & { readonly encoding: Encoding })[];
  /** Tensors that follow from the configuration; they come before the others. */
  readonly computed: readonly ComputedTensor[];
  readonly layout: GgufLayout;
  readonly notes: readonly string[];
  /** Settings of the model that the file has no place for. Whoever runs the file from the model's folder applies them. */
  readonly unstored: readonly string[];
}

// Part of the digest: files of a version with other kernels or metadata are not equal.
const FORMAT = 1;

/**
 * Plans the export of a model as a GGUF file for llama.cpp.
 * @throws CheckpointError if llama.cpp does not run the model's family, or a trait of it, or its tokenizer
 * @throws MismatchError if weights have other shapes than the configuration
 * @throws LayergraftError code `usage` for an override that is not valid
 */
export async function planGguf(source: ModelSource, options: GgufOptions): Promise<GgufPlan> {
  return (await ggufPlanner(source))(options);
}

/**
 * Reads what the files of a model have in common, and returns a function that plans one of them.
 * @throws as `planGguf`
 */
export async function ggufPlanner(source: ModelSource): Promise<(options: GgufOptions) => GgufPlan> {
  const read = readSpec(source.config, source.tensors.keys(), "export");
  const page = findFamily(source.config.modelType)?.llamaCpp;
  const architecture = page && graphOf(page, read);
  const isRecurrent = read.layers.some(({ weights }) => weights.mix);
  const spec = isRecurrent ? read : { ...read, recurrence: null };
  const problems = architecture ? unsupportedTraits(spec, architecture) : [];
  if (!architecture || problems.length > 0) {
    const reason = architecture
      ? `llama.cpp does not run this ${spec.family} model: ${problems.join("; ")}`
      : `${spec.family} models are not supported; supported are ${exportedFamilies().join(", ")}`;
    const instead = "Without an export, layergraft and transformers run its folder.";
    throw new CheckpointError(`${source.name} cannot be exported as GGUF: ${reason}. ${instead}`, {
      file: source.config.file,
    });
  }
  const { tensors, unused } = planTensors(source, spec, architecture);
  const tied = !tensors.some(({ name }) => name === "output.weight");
  const layers = spec.layers.length;
  const is70B = layers === 80 && (architecture.name === "qwen2" || spec.heads !== spec.kvHeads);
  const computed = ropeTensors(spec, architecture);

  const parts = await loadSourceTokenizerParts(source);
  const stopIds = await modelTextOf(source).stopIds();
  const template = await loadSourceTemplate(source);
  const { vocabularySize: rows } = spec;
  const tokenizer = tokenizerMetadata(parts, rows, source.name, stopIds, architecture.tokenizer, template?.source);
  const { logits, applied } = await modelTextOf(source).generationConfig();
  const { repetition_penalty: penalty, ...unstored } = applied;
  const described: readonly (readonly [string, MetadataValue])[] = [
    ...decoderMetadata(spec, architecture),
    ...(await curveMetadata(source, spec)),
    ...(architecture.deepstack
      ? [[`${architecture.name}.n_deepstack_layers`, u32(deepstackLayers(source))] as const]
      : []),
    ...tokenizer.metadata,
    ...(template ? [["tokenizer.chat_template", text(template.source)] as const] : []),
    ...(penalty === undefined ? [] : [[PENALTY_KEY, f32(logits.repetitionPenalty ?? 1)] as const]),
  ];
  return ({ type, tensorTypes }) => {
    const chosen = chooseEncodings(tensors, type, { layers, tied, is70B }, tensorTypes);
    const planned = tensors.map((tensor, i) => ({ ...tensor, encoding: chosen.encodings[i] as Encoding }));
    const general: [string, MetadataValue][] = [
      ["general.architecture", text(architecture.name)],
      ["general.type", text("model")],
      ["general.name", text(modelName(basename(source.name), parts))],
      ["general.file_type", u32(FILE_TYPES[type].id)],
      ["general.quantization_version", u32(2)],
    ];
    const metadata: Metadata = new Map([...general, ...described]);
    const layout = layOutGguf(metadata, [
      ...computed.map(({ name, values }) => ({ name, shape: [values.length], encoding: "F32" as const })),
      ...planned,
    ]);
    return {
      source,
      digest: digestOfJson([FORMAT, source.digest, digestOf(layout.header)]),
      architecture: architecture.name,
      type,
      tensors: planned,
      computed,
      layout,
      notes: [...partNotes(source), ...notesOf(spec, architecture, unused), ...chosen.notes, ...tokenizer.notes],
      unstored: Object.keys(unstored),
    };
  };
}

function deepstackLayers({ config: { json } }: ModelSource): number {
  const indexes = isObject(json.vision_config) ? json.vision_config.deepstack_visual_indexes : [];
  return Array.isArray(indexes) ? indexes.length : 0;
}

const exportedFamilies = () => FAMILIES.flatMap(({ name, traits, llamaCpp }) => (traits && llamaCpp ? [name] : []));

function partNotes({ config: { json } }: ModelSource): string[] {
  return textOf(json) === json ? [] : ["only the text part of this multimodal model is exported"];
}

function notesOf(spec: DecoderSpec, { windows, roundsYarn }: LlamaCpp, unused: readonly string[]): string[] {
  const { layers, contextLength, ropes, recurrence } = spec;
  const notes: string[] = [];
  const widths = layers.flatMap(({ window }) => (window === null ? [] : [window]));
  const narrowest = Math.min(...widths);
  if (!windows && narrowest < contextLength) {
    notes.push(`llama.cpp ignores this family's window of ${narrowest} tokens, so longer texts get other answers`);
  }
  const [rope] = ropes;
  if (roundsYarn && rope?.scaling?.type === "yarn" && !rope.scaling.truncate) {
    notes.push("llama.cpp rounds the range of pairs that YaRN blends, so answers differ a little");
  }
  if (recurrence?.leastStep) {
    notes.push(
      `llama.cpp has no least step of the state space, here ${recurrence.leastStep}, so answers differ a little`,
    );
  }
  if (rope?.dynamic) {
    notes.push(
      `llama.cpp does not stretch the rotation with the text (dynamic), so the file supports ${rope.dynamic.above} positions, and the original ${longestContext(spec)}`,
    );
  }
  if (rope?.long) {
    notes.push(
      `llama.cpp rotates by the size of its context, not of the text: use a context of at most ${rope.long.above} for shorter texts`,
    );
  }
  if (unused.length > 0)
    notes.push(`${plural(unused.length, "tensor")} are not part of the decoder: ${formatSome(unused)}`);
  return notes;
}
