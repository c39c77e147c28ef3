// The command of the verb, and what it does beside: a preview of the examples, and a folder for PyTorch.
import { Option } from "commander";
import { previewLegend, renderPreview } from "../../figures/index.js";
import { usageError } from "../../kit/index.js";
import { handOverVerb, type Located, previewExamples, trainVerb, type Verb } from "../../verbs/shared/index.js";
import { hubAccess } from "../shared/hub-access.js";
import { paletteFor, parsePositive, print, runWithProgress, warn } from "../shared/output.js";
import { verbCommand } from "../shared/verb-command.js";
import { carryOut } from "../shared/verb-run.js";

export const add = verbCommand(trainVerb, {
  flags: {
    preview: (command) =>
      command.option("--preview <n>", "print the first n examples as the model sees them, and exit", parsePositive),
    engine: (command) =>
      command.addOption(
        new Option("--engine <engine>", "trainer; trl writes a folder to run with PyTorch")
          .choices(["embedded", "trl"])
          .default("embedded"),
      ),
    gpus: (command) => command.option("--gpus <n>", "processes per machine (default: 1)", parsePositive),
    machines: (command) => command.option("--machines <n>", "number of machines (default: 1)", parsePositive),
    precision: (command) =>
      command.addOption(
        new Option("--precision <type>", "type of weights (default: auto, bfloat16 on a GPU)").choices(
          handOverVerb.schema.shape.precision.unwrap().options,
        ),
      ),
  },
  async instead({ input, ...places }, flags) {
    if (typeof flags.preview === "number") await printPreview({ input, ...places }, flags.preview);
    else if (flags.engine === "trl") {
      if (flags.push !== undefined && !flags.dryRun) {
        throw usageError("--push needs --engine embedded. Push a checkpoint with layergraft push.");
      }
      const { gpus, machines, precision } = flags;
      const cluster = Object.entries({ gpus, machines, precision }).filter(([, value]) => value !== undefined);
      const whole = { ...Object(input), ...Object.fromEntries(cluster) };
      await carryOut(handOverVerb as unknown as Verb, { input: whole, ...places }, flags);
    } else return false;
    return true;
  },
});

async function printPreview({ input, ...places }: Located<never>, count: number): Promise<void> {
  const palette = paletteFor(process.stdout);
  const { streams, warnings } = await runWithProgress({ quiet: true }, (controls) =>
    previewExamples(input, count, { ...places, signal: controls.signal, hub: hubAccess("plan", controls) }),
  );
  print(previewLegend(palette));
  for (const { lines, examples } of streams) {
    for (const line of lines) print(line);
    for (const { title, pieces } of examples) print(["", palette.bold(title), ...renderPreview(pieces, palette)]);
  }
  for (const warning of warnings) warn(warning);
}
