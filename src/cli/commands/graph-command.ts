// layergraft graph: what is executed, in words: the graph of a model's decoder.

import type { Command } from "commander";
import { buildDecoder, openModelSource, printGraph, reachable, readSpec } from "../../engine/index.js";
import { SOURCE_ARGUMENT } from "../shared/engine-run.js";
import { type CommonOptions, print, printJson, withCommonOptions } from "../shared/output.js";

interface GraphFlags extends CommonOptions {
  readonly cached?: boolean;
}

export function addGraphCommand(program: Command): void {
  const command = program
    .command("graph")
    .description(
      "Prints what is computed for a model, one operation a line, with types. Reads headers and configuration only.",
    )
    .argument("<source>", SOURCE_ARGUMENT)
    .option("--cached", "with the keys and values of earlier positions, as answers are computed");
  withCommonOptions(command).action(async (source: string, flags: GraphFlags) => {
    const { config } = await openModelSource(source);
    const { logits, weights } = buildDecoder(readSpec(config), { cached: flags.cached ?? false });
    if (!flags.json) return print(printGraph({ logits }));
    printJson({
      nodes: reachable([logits]).map(({ id, op, inputs, dtype, shape, attributes }) => ({
        id,
        op,
        inputs: inputs.map((input) => input.id),
        dtype,
        shape,
        ...(op === "constant" ? { values: attributes.values } : attributes),
      })),
      output: logits.id,
      weights: [...weights.keys()],
    });
  });
}
