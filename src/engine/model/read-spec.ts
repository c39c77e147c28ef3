// From a checkpoint's configuration to the description of its decoder, or the reasons why there is none.
// Not a reader of weights: whether they have the shapes described is seen when they are bound.

import { CheckpointError, isObject } from "../../core/index.js";
import type { CheckpointConfig } from "../../weights/index.js";
import { brief, ConfigFields } from "./families/config-fields.js";
import { LLAMA_DEFAULTS, specOf } from "./families/family.js";
import { FAMILIES, findFamily } from "./families/index.js";
import type { DecoderSpec } from "./families/spec.js";

const STILL = "Merging and analysing such checkpoints needs none of this and works all the same.";

const EXPERTS = "mixtures of experts are not computed here";

/** Fields that no family here has. Where one is set, the model is not what its `model_type` says. */
const FOREIGN = {
  num_local_experts: EXPERTS,
  num_experts: EXPERTS,
  n_routed_experts: EXPERTS,
  alibi: "only rotary positions are computed here",
};

/**
 * Describes the decoder of a checkpoint: of the text tower in a multimodal one. What config.json does not say is as
 * transformers has it by default for the family.
 * @throws {CheckpointError} if the family is not known, or asks for what is not computed here; with all reasons
 */
export function readSpec(config: CheckpointConfig): DecoderSpec {
  const { file, json, modelType } = config;
  const family = findFamily(modelType);
  if (!family) {
    const known = FAMILIES.flatMap(({ modelTypes }) => modelTypes).join(", ");
    throw new CheckpointError(
      `${file} is of the family ${brief(modelType)}, whose decoder is not known here, so it cannot be run or trained; known are ${known}. ${STILL}`,
      { file, field: "model_type", expected: known, actual: modelType },
    );
  }
  const text = [json.text_config, json.llm_config].find(isObject) ?? json;
  // A multimodal checkpoint names the dtype of its weights once, for all its towers.
  const dtype = json.dtype ?? json.torch_dtype;
  const fields = new ConfigFields(text, { ...LLAMA_DEFAULTS, ...family.defaults, dtype });
  if (config.quantized) fields.refuse("quantization_config", "says that the weights are quantised");
  for (const [field, reason] of Object.entries(FOREIGN)) {
    const value = fields.get(field);
    if (value) fields.refuse(field, `is ${brief(value)}; ${reason}`);
  }
  const spec = specOf(family, fields, config);
  if (fields.problems.length > 0) {
    const list = fields.problems.map((problem) => `  - ${problem}`).join("\n");
    throw new CheckpointError(
      `${file} describes a decoder (${family.name}) that cannot be run or trained here:\n${list}\n${STILL}`,
      { file, field: fields.firstProblem ?? "" },
    );
  }
  return spec;
}
