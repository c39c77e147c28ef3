import { InvalidArgumentError } from "commander";
import { formatBytes, plural } from "../../kit/printing/index.js";
import { verify } from "../../verbs/index.js";
import { runWithHub } from "../shared/hub-access.js";
import { elapsed, info, paletteFor, print, printJson, withWorkOptions } from "../shared/output.js";
import type { Command } from "../shared/typed.js";

// Fits a screen.
const MAX_SHOWN = 20;

function parseMoved(text: string, earlier: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
  const equals = text.indexOf("=");
  if (equals < 1 || equals === text.length - 1)
    throw new InvalidArgumentError("It must be ID=FOLDER, such as task=./math.");
  return { ...earlier, [text.slice(0, equals)]: text.slice(equals + 1) };
}

export function add(program: Command): void {
  const command = program
    .command("verify")
    .description(
      "Recompute every tensor of a merged model from its sources and compare it byte by byte. The exit status is 0 if all " +
        "are bit-identical, 1 if any differs.",
    )
    .argument("<folder>", "folder that swap, soup, revert or merge wrote")
    .optionsGroup("Models:")
    .option("--source <id=folder>", "new folder of a source that moved; repeatable", parseMoved)
    .option("--allow-code", "run the file that was the recipe's method");
  withWorkOptions(command).action(async (folder, options) => {
    const start = performance.now();
    const verification = await runWithHub(options, (controls) =>
      verify(folder, { moved: options.source, allowCode: options.allowCode, ...controls }),
    );
    const { verified, deviations, tensors, bytesRead, files, moved } = verification;
    for (const sentence of moved) info(options, `note: ${sentence}`);
    if (options.json) printJson({ folder, ...verification });
    else if (verified) {
      const ok = paletteFor(process.stdout).green("Verified");
      print(
        `${ok} ${folder}: ${plural(tensors, "tensor")} bit-identical (${formatBytes(bytesRead)} read, ${elapsed(start)})`,
      );
    } else {
      const bad = paletteFor(process.stdout).red("Not verified:");
      const more = deviations.length - MAX_SHOWN;
      print([
        deviations.length > 0
          ? `${bad} ${deviations.length} of ${plural(tensors, "tensor")} of ${folder} differ from the plan`
          : `${bad} the tensors of ${folder} are bit-identical, but other files differ`,
        ...deviations.slice(0, MAX_SHOWN).map(({ tensor, what }) => `  ${tensor} ${what}`),
        ...(more > 0 ? [`  and ${more} more; --json lists all`] : []),
        ...files.map(({ file, what }) => `  ${file} ${what === "missing" ? "is missing" : "was changed"}`),
        "The output or a source has changed since it was written.",
      ]);
    }
    if (!verified) process.exitCode = 1;
  });
}
