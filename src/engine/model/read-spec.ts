import {
  brief,
  ConfigFields,
  type DecoderSpec,
  type DescribedFamily,
  FAMILIES,
  type Family,
  findFamily,
  LAYER_TYPES,
  LLAMA_DEFAULTS,
  specOf,
} from "../../families/index.js";
import { type CheckpointConfig, textOf, unquantise } from "../../formats/checkpoint/index.js";
import { CheckpointError } from "../../kit/index.js";

const STILL = "Merging and analysis work for it.";

const EXPERTS = "experts are not supported in this family";

/** Fields that families do not have. Where one is set, the model differs from its `model_type`. */
const FOREIGN = {
  num_local_experts: EXPERTS,
  num_experts: EXPERTS,
  n_routed_experts: EXPERTS,
  alibi: "only rotary positions are supported",
};

const isDescribed = (family: Family | undefined): family is DescribedFamily => family?.traits !== undefined;

/**
 * Specifies the decoder of a checkpoint, or of its text tower in a multimodal one. Missing fields have the family's
 * defaults in transformers.
 * @param tensors names in the checkpoint: they say how experts are stored
 * @param purpose families that are only exported are not run
 * @throws CheckpointError if the family or its settings are not supported, with all reasons
 */
export function readSpec(
  config: CheckpointConfig,
  tensors: Iterable<string> = [],
  purpose: "run" | "export" = "run",
): DecoderSpec {
  const { file, json, modelType } = config;
  const family = findFamily(modelType);
  if (family?.runs === false && purpose === "run") {
    throw new CheckpointError(
      `${file} describes a ${family.name} model, which can be merged and exported as GGUF for llama.cpp, but not run or trained by the engine.`,
      { file, field: "model_type", actual: modelType },
    );
  }
  if (!isDescribed(family)) {
    const known = FAMILIES.filter((one) => isDescribed(one) && one.runs !== false)
      .flatMap(({ modelTypes }) => modelTypes)
      .join(", ");
    throw new CheckpointError(
      `${file} has the model_type ${brief(modelType)}, which cannot be run or trained; supported are ${known}. ${STILL}`,
      { file, field: "model_type", expected: known, actual: modelType },
    );
  }
  const text = textOf(json);
  // A multimodal checkpoint names the dtype of its weights once, for all its towers.
  const dtype = json.dtype ?? json.torch_dtype;
  const fields = new ConfigFields(text, { ...LLAMA_DEFAULTS, ...family.defaults, dtype });
  if (config.quantized) {
    fields.refuse(
      "quantization_config",
      `marks the weights as quantized (${config.quantized})${config.unread ? `, and ${config.unread}` : ""}; ${unquantise(config.quantized)}`,
    );
  }
  if (config.whileRunning) {
    fields.refuse(
      "quantization_config",
      `says that ${config.whileRunning}, which layergraft does not; merge it instead`,
    );
  }
  const spec = specOf(family, fields, config, tensors);
  for (const [field, reason] of Object.entries(FOREIGN)) {
    const value = fields.get(field);
    if (value && !family.unread?.includes(field) && !(reason === EXPERTS && spec.routing)) {
      fields.refuse(field, `is ${brief(value)}; ${reason}`);
    }
  }
  fields.checkUnread();
  if (!fields.isRead("layer_types")) fields.choicesOrNull("layer_types", spec.layers.length, LAYER_TYPES);
  if (fields.problems.length > 0) {
    const list = fields.problems.map((problem) => `  - ${problem}`).join("\n");
    throw new CheckpointError(
      `${file} describes a decoder (${family.name}) that cannot be run or trained:\n${list}\n${STILL}`,
      { file, field: fields.firstProblem ?? "" },
    );
  }
  return spec;
}
