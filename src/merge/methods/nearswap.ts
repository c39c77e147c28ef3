// NearSwap: moves each element of one model towards another model's by at most a step.
import { defineOperation } from "../../tensor/expressions/index.js";
import { onPair, type SliceMerge } from "./mergekit.js";
import { defineMethod, type SourceRecipe, sourceField } from "./method.js";
import { computed, isEmpty, tensorOf } from "./operand.js";
import { boundedParameter, resolveParameter } from "./parameter.js";

/** of[0] moved towards of[1] by at most `step`: a + clamp(step / |b - a|, 0, 1) (b - a). */
export const approach = defineOperation("approach", {
  values: 2,
  fields: { step: "size" },
  apply: ([a = 0, b = 0], { step }, { length }, { kernels }) => kernels.wasm.approach(a, b, length, step),
});

export const nearswap = defineMethod({
  name: "nearswap",
  title: "NearSwap",
  summary: "Moves each element of one model towards another model by at most a step.",
  formula: "(1 - w) theta_task + w theta_language, w = clamp(t / |theta_task - theta_language|, 0, 1) per element",
  reference: "alchemonaut/QuartetAnemoi-70B-t0.0001 (2024); mergekit, method nearswap",
  mergekit: { own: [], common: ["t"], isRounded: true, make: fromMergekit },
  fields: () => ({
    task: sourceField("model to move"),
    language: sourceField("model to move towards"),
    t: boundedParameter(0, 1e9).describe("largest step of an element"),
  }),
  example: { method: "nearswap", task: "math-expert", language: "swahili-expert", t: 0.0001 },
  tensors: ({ t }, sources, context) => {
    const [task, language] = [sources.get("task"), sources.get("language")];
    const step = resolveParameter(t, 0, "t", task);
    return computed(task, [task, language], context, (name, tensor) => {
      const length = step(name);
      if (length === 0 || isEmpty(tensor)) return undefined;
      return approach.of([tensor.value, tensorOf(language, name).value], { step: length });
    });
  },
});

/** One slice of a configuration of mergekit. */
function fromMergekit(slice: SliceMerge): SourceRecipe | undefined {
  const t = slice.common({ name: "t", range: { low: 0, high: 1e9 } });
  return onPair(slice, "nearswap", (task, language) => ({ task, language, t }));
}
