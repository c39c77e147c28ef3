// The tensors of a GGUF file, each of one or several parts of a model's weights.
import type { ModelSource } from "../../engine/index.js";
import { type DecoderSpec, locateWeights } from "../../engine/model/index.js";
import type { LlamaCpp } from "../../families/index.js";
import { type FolderRows, type LaidOutTensor, layOutTensors, type Writing } from "../../formats/gguf/index.js";
import { elementCount, MismatchError } from "../../kit/index.js";
import type { Step } from "../../merge/index.js";
import type { ElementRange } from "../../tensor/streaming/index.js";

/** A tensor computed from steps of a plan. */
export interface PlannedTensor extends Omit<LaidOutTensor, "parts"> {
  /** One after another. */
  readonly parts: readonly PlannedPart[];
}

/** Values of a step, or some of its rows. */
export interface PlannedPart extends Writing {
  readonly step: Step;
  readonly within?: ElementRange;
}

/** Elements that a part fills. */
export function elementsOfPart({ step, within, turn }: PlannedPart): number {
  const read = within ? within.end - within.begin : elementCount(step.shape);
  return read / (turn?.every ?? 1);
}

/**
 * The tensors of a decoder in the order of computation.
 * @throws CheckpointError if weights are missing
 * @throws MismatchError if one has another shape than the configuration
 */
export function planTensors(
  source: ModelSource,
  spec: DecoderSpec,
  architecture: LlamaCpp,
): { tensors: PlannedTensor[]; unused: readonly string[] } {
  const { stored, unused } = locateWeights(spec, source.tensors.keys(), source.name);
  const wrong = new Set<string>();
  const partOf = ({ name, shape, from, count, width, ...writing }: FolderRows): PlannedPart => {
    const step = source.tensors.get(stored.get(name) ?? "") as Step;
    if (step.shape.join() !== shape.join()) wrong.add(`${step.tensor} is [${step.shape}], not [${shape}]`);
    const within = { begin: from * width, end: (from + count) * width };
    return count * width === elementCount(shape) ? { step, ...writing } : { step, within, ...writing };
  };
  const tensors: PlannedTensor[] = [];
  layOutTensors(spec, architecture, (tensor) => tensors.push({ ...tensor, parts: tensor.parts.map(partOf) }));
  if (wrong.size > 0) {
    throw new MismatchError(`the weights of ${source.name} do not match its configuration:`, [...wrong]);
  }
  return { tensors, unused };
}
