// How transformers 5.24 names tensors of a family's files in memory, and PEFT in adapters: made by test/census/renamings.js.
import TABLE from "./renamings.json" with { type: "json" };

/**
 * Gives the name in memory of a tensor in a file; undefined if the family has the same names in both.
 * @param modelType `model_type` of the whole model
 */
export function namesInMemory(modelType: unknown): ((name: string) => string) | undefined {
  const rules = TABLE.filter(({ families }) => families.some((one) => one === modelType))
    .flatMap((group) => group.rules)
    .map(([pattern = "", to = ""]) => [new RegExp(pattern), to] as const);
  return rules.length === 0
    ? undefined
    : (name) => rules.reduce((now, [pattern, to]) => now.replace(pattern, to), name);
}

/** Whether a name in memory is that of a tensor whose values transformers converts, so that nothing in a file equals it. */
export const isConverted = (inMemory: string) => inMemory.includes("CONVERTED");
