// Every family with a page. To add one, write its page and add it here. A family without a page is merged, too: by the
// words in its tensors' names.
import { apertus } from "./apertus.js";
import { bert } from "./bert.js";
import { cohere } from "./cohere.js";
import { deepseek } from "./deepseek.js";
import { ernie } from "./ernie.js";
import { exaone } from "./exaone.js";
import { exported } from "./exported.js";
import { falcon } from "./falcon.js";
import { gemma } from "./gemma.js";
import { glm } from "./glm.js";
import { gpt } from "./gpt.js";
import { granite } from "./granite.js";
import { hunyuan } from "./hunyuan.js";
import { lfm } from "./lfm.js";
import { llama } from "./llama.js";
import { mistral } from "./mistral.js";
import { nemotron } from "./nemotron.js";
import { olmo } from "./olmo.js";
import { others } from "./others.js";
import type { Family } from "./page/family.js";
import { DECODER, type TensorNames } from "./page/tensor-names.js";
import { phi } from "./phi.js";
import { qwen } from "./qwen.js";
import { smollm } from "./smollm.js";
import { starcoder } from "./starcoder.js";

export const FAMILIES: readonly Family[] = [
  ...llama,
  ...mistral,
  ...qwen,
  ...cohere,
  ...gemma,
  ...granite,
  ...olmo,
  ...phi,
  ...starcoder,
  ...smollm,
  ...exaone,
  ...glm,
  ...apertus,
  ...ernie,
  ...hunyuan,
  ...lfm,
  ...falcon,
  ...nemotron,
  ...gpt,
  ...deepseek,
  ...exported,
  ...bert,
  ...others,
];

export function findFamily(modelType: string): Family | undefined {
  return FAMILIES.find(({ modelTypes }) => modelTypes.includes(modelType));
}

/** Where a family's tensors are; undefined where its page does not say. */
export function tensorNamesOf(family: Family | undefined): TensorNames | undefined {
  return family?.tensors && { ...DECODER, ...family.tensors };
}

/** What families write before the list of their layers. */
export const STEMS: readonly string[] = [
  ...new Set([...DECODER.stems, ...FAMILIES.flatMap(({ tensors }) => tensors?.stems ?? [])]),
];

export { brief, ConfigFields } from "./page/config-fields.js";
export {
  type DescribedFamily,
  type Family,
  LLAMA_DEFAULTS,
} from "./page/family.js";
export { type KindRule, SHARED_RULES } from "./page/layer-kinds.js";
export { type GgufMetadata, type GgufReading, graphOf, type LlamaCpp } from "./page/llama-cpp.js";
export { specOf } from "./page/make-spec.js";
export { blockOf, compareParts, isBias, isMatrix, type LayerPart, type OutsidePart, type Part } from "./page/parts.js";
export { frequenciesAt, LAYER_TYPES, longestContext } from "./page/rope.js";
export type {
  Activation,
  DecoderSpec,
  ExpertMatrices,
  ExpertWeights,
  LayerSpec,
  LayerWeights,
  LinearWeights,
  NormSpec,
  NormWeights,
  RecurrenceSpec,
  RopeSpec,
  RoutingSpec,
  StateSpec,
  StoredWeight,
} from "./page/spec.js";
export { DECODER_STEMS, type TensorNames } from "./page/tensor-names.js";
