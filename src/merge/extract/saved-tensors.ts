// Changed tensors that an adapter saves whole, as factors cannot hold them.

import { type Part, peftName } from "../../formats/checkpoint/index.js";
import { MismatchError } from "../../kit/index.js";
import { formatSome } from "../../kit/printing/index.js";
import { moduleOf, type OpenedModels, type Pair } from "./open-models.js";

// Not modules that PEFT can save beside factors in every version of transformers.
const UNSAVABLE: readonly Part[] = ["router", "shared_expert_gate", "vision"];

/** @throws MismatchError for changed tensors that PEFT cannot save beside factors */
export function requireSavable(saved: readonly Pair[], { base }: OpenedModels): void {
  const embedding = base.lead.checkpoint.tied ? saved.find(({ part }) => part === "embed_tokens") : undefined;
  const odd = saved.filter(
    ({ tensor, shape, part }) => shape.length > 2 || UNSAVABLE.includes(part) || !/\.(weight|bias)$/.test(tensor),
  );
  const problems = [
    ...(embedding
      ? [`${embedding.tensor} changed and is tied to the output head, which PEFT would leave at the base's`]
      : []),
    ...(odd.length > 0
      ? [`changed, but neither factors nor saved modules hold them: ${formatSome(odd.map(({ tensor }) => tensor))}`]
      : []),
  ];
  if (problems.length > 0) {
    throw new MismatchError(
      "an adapter cannot hold every change; these tensors would have to stay the base's:",
      problems,
      { option: "linearOnly" },
    );
  }
}

const moduleOfSaved = (tensor: string) => tensor.replace(/\.(weight|bias)$/, "");

/** PEFT's name for a tensor that is saved whole; it moves the bias of a module with factors into `base_layer`. */
export function savedName({ tensor }: Pair, adapted: ReadonlySet<string>): string {
  const module = moduleOfSaved(tensor);
  return peftName(adapted.has(module) ? `${module}.base_layer.bias` : tensor);
}

/** PEFT's `modules_to_save`, and whether biases of linear modules are saved, too. */
export function savedModules(
  saved: readonly Pair[],
  linear: readonly Pair[],
): { modules: readonly string[]; hasBiases: boolean } {
  const linearModules = new Set(linear.map(({ tensor }) => moduleOf(tensor)));
  const isBias = ({ tensor }: Pair) => linearModules.has(moduleOfSaved(tensor));
  return {
    modules: [...new Set(saved.filter((pair) => !isBias(pair)).map(({ tensor }) => moduleOfSaved(tensor)))],
    hasBiases: saved.some(isBias),
  };
}
