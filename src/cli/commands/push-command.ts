import type { Command } from "commander";
import type { PushOptions } from "../../verbs/index.js";
import { type CommonOptions, info, print, printJson, withCommonOptions } from "../shared/output.js";
import { printPush, runPush } from "../shared/push.js";

type PushFlags = CommonOptions & Pick<PushOptions, "private" | "branch" | "message" | "dryRun">;

export function add(program: Command): void {
  const command = program
    .command("push")
    .description(
      "Push a model or adapter to the Hugging Face hub, as one commit. Creates the repository if it is missing. Files that " +
        "are there already are not sent again, so repeat an interrupted push to finish it. Needs a token with write " +
        "access, except with --dry-run: HF_TOKEN, or the one that hf auth login stores.",
    )
    .argument("<folder>", "folder of a model or adapter")
    .argument("<org/name>", "repository on the hub")
    .optionsGroup("Repository:")
    .option("--private", "create the repository as private")
    .option("--branch <name>", "branch to push to, created if missing (default: main)")
    .option("--message <text>", "title of the commit")
    .option("--dry-run", "list what would be sent, and exit");
  withCommonOptions(command).action(push);
}

async function push(folder: string, name: string, options: PushFlags): Promise<void> {
  const { private: isPrivate, branch, message, dryRun } = options;
  const result = await runPush(folder, { name, private: isPrivate, branch, message, dryRun }, options);
  if (options.json) return printJson(result);
  if (dryRun) {
    if (result.created) info(options, `${name} does not exist yet, or is private, and would be created`);
    for (const path of result.sent) print(`send      ${path}`);
    for (const path of result.unchanged) print(`unchanged ${path}`);
    for (const path of result.removed) print(`remove    ${path}`);
  }
  printPush(result);
}
