import { relative } from "node:path";
import type { Command } from "commander";
import { writeExample } from "../../demo/index.js";
import { commandLine, shellQuote } from "../../kit/printing/index.js";
import { type CommonOptions, info, interruptSignal, print, printJson, withCommonOptions } from "../shared/output.js";

const QUESTION = "Asha alikuwa na ndizi tisa. Asha aliuza ndizi saba. Asha ana ndizi ngapi sasa?";

export function add(program: Command): void {
  const command = program
    .command("example")
    .description(
      "Write a folder to practice in: a small base, a math expert, a Swahili expert, adapters, recipes, tasks and plans. " +
        "The commands of the documentation run there as printed.",
    )
    .argument("[folder]", "folder to write; an example that is there is replaced", "example");
  withCommonOptions(command).action(async (folder: string, flags: CommonOptions) => {
    const { files } = await writeExample(folder, interruptSignal());
    if (flags.json) return printJson({ folder, files });
    const width = Math.max(...files.map(({ names }) => names.join(", ").length));
    print(files.map(({ names, about }) => `${names.join(", ").padEnd(width)}  ${about}`));
    info(
      flags,
      `\nTry:\n\n${relative("", folder) && `  cd ${shellQuote(relative("", folder))}\n`}` +
        `  ${commandLine`swap --task math-expert --language swahili-expert --out merged`}\n` +
        `  ${commandLine`generate merged --chat --prompt ${QUESTION}`}`,
    );
  });
}
