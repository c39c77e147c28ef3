import type { TransplantInput } from "./inputs.js";
import { type MergeResult, type MergeWorkOptions, methodVerb } from "./merge.js";
import { callVerb } from "./verb.js";

/** What gives a model another tokenizer, as a verb. */
export const transplantVerb = methodVerb("transplant", {
  description:
    "Give a model the tokenizer of another model, so that experts with different tokenizers can be merged. Rows of " +
    "tokens that both have are kept; others are sums of these, by default found by orthogonal matching pursuit in the " +
    "other model's embedding (arXiv 2506.06607).",
  positional: ["task"],
  groups: {
    Options: ["tokenizer", "approximation_method", "k", "cosine_similarity", "subword_method", "magikarp"],
  },
  flags: { task: { flag: "model", help: "model that gets the tokenizer" } },
});

/** Writes a merge of the method `transplant`. @throws as `merge` */
export function transplant(input: TransplantInput, options: MergeWorkOptions = {}): Promise<MergeResult> {
  return callVerb(transplantVerb, input, options);
}
