import type { RevertInput } from "./inputs.js";
import { type MergeResult, type MergeWorkOptions, methodVerb } from "./merge.js";
import { callVerb } from "./verb.js";

/** What restores parts of an expert, as a verb. */
export const revertVerb = methodVerb("revert", {
  description:
    "Reset layers, parts or little-changed rows of an expert to the base it was fine-tuned from (Bandarkar et al., arXiv " +
    "2410.01335, section 3.3). Prints the share of parameters that stay the expert's.",
  groups: {
    Models: ["expert", "base"],
    Selection: ["layers", "parts", "rows_below", "rows", "keep_share", "from", "keep"],
  },
});

/** Writes a merge of the method `revert`. @throws as `merge` */
export function revert(input: RevertInput, options: MergeWorkOptions = {}): Promise<MergeResult> {
  return callVerb(revertVerb, input, options);
}
