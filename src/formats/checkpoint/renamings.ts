// How transformers 5.24 names tensors of a family's files in memory, and PEFT in adapters: made by test/census/renamings.js.
import TABLE from "./renamings.json" with { type: "json" };

/** What transformers reads in every family: text parts that were saved as models of their own. */
const TEXT_PARTS = [
  [/^(?:model\.)?language_model\.lm_head(?!\w)/, "lm_head"],
  [/^model\.language_model\.model(?!\w)/, "model.language_model"],
] as const;

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
    : (name) => [...rules, ...TEXT_PARTS].reduce((now, [pattern, to]) => now.replace(pattern, to), name);
}

/** Gives the name in memory, which is the same in families without rules. */
export const inMemoryOf = (modelType: unknown) => namesInMemory(modelType) ?? ((name: string) => name);

/** Whether a name in memory is that of a tensor whose values transformers converts, so that nothing in a file equals it. */
export const isConverted = (inMemory: string) => inMemory.includes("CONVERTED");
