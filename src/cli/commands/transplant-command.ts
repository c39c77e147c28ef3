import { outputFields, runMerge, withMergeOptions } from "../shared/merge-run.js";
import { parseCount } from "../shared/output.js";
import type { Command } from "../shared/typed.js";

export function add(program: Command): void {
  const command = program
    .command("transplant")
    .description(
      "Give a model the tokenizer of another model, so that experts with different tokenizers can be merged. Rows of " +
        "tokens that both have are kept; others are sums of these, found by orthogonal matching pursuit in the other " +
        "model's embedding (arXiv 2506.06607).",
    )
    .argument("<model>", "model that gets the tokenizer")
    .requiredOption("--tokenizer <source>", "model whose tokenizer it gets, with weights")
    .option("--k <n>", "most shared tokens that a new token is made of (default: 64)", parseCount);
  withMergeOptions(command).action(async (task, options) => {
    const { tokenizer, k } = options;
    await runMerge({ method: "transplant", task, tokenizer, k, ...outputFields(options) }, options);
  });
}
