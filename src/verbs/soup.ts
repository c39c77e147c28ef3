import type { SoupInput } from "./inputs.js";
import { type MergeResult, type MergeWorkOptions, methodVerb } from "./merge.js";
import { callVerb } from "./verb.js";

/** An average of models, as a verb. */
export const soupVerb = methodVerb("soup", {
  description: "Average models tensor by tensor: equally, with weights, or by the inverse magnitude of their change.",
  groups: { Models: ["models", "base", "weights"] },
  flags: {
    models: { flag: "model", value: "source[=weight]", read: "weighted", help: "model to average; repeatable" },
  },
});

/** Writes a merge of the method `soup`. @throws as `merge` */
export function soup(input: SoupInput, options: MergeWorkOptions = {}): Promise<MergeResult> {
  return callVerb(soupVerb, input, options);
}
