import type { Command } from "commander";
import { buildDecoder, openModelSource, printGraph, reachable, readSpec } from "../../engine/index.js";
import { WEIGHTS_ARGUMENT } from "../shared/engine-run.js";
import { hubAccess } from "../shared/hub-access.js";
import { type CommonOptions, print, printJson, runWithProgress, withCommonOptions } from "../shared/output.js";

interface GraphFlags extends CommonOptions {
  readonly cached?: boolean;
}

export function addGraphCommand(program: Command): void {
  const command = program
    .command("graph")
    .description(
      "Print the computation graph of a model, one operation per line, with types. Reads only headers and configuration.",
    )
    .argument("<source>", WEIGHTS_ARGUMENT)
    .optionsGroup("Output:")
    .option("--cached", "print the graph with a key-value cache, used to generate text");
  withCommonOptions(command).action(async (source: string, flags: GraphFlags) => {
    const { config } = await runWithProgress(flags, (controls) =>
      openModelSource(source, { hub: hubAccess("plan", controls) }),
    );
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
