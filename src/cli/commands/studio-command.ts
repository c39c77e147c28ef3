import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { shareRecipe, startStudio } from "../../studio/index.js";
import { info, interruptSignal, parsePort, print, withCommonOptions } from "../shared/output.js";
import type { Command } from "../shared/typed.js";

export function add(program: Command): void {
  const command = program
    .command("studio")
    .description(
      "Open the studio: a page on which you see where experts changed, choose layers, try prompts and write the merge. " +
        "Only this machine reaches it. Ctrl-C ends it.",
    )
    .argument("[folder]", "folder of the project; made if there is none", "studio")
    .option("-p, --port <n>", "port to listen on; 0 takes a free one", parsePort, 0)
    .option("--share <recipe>", "write a page of a recipe that opens anywhere, instead of opening the studio")
    .option("--force", "replace the page of --share that is there")
    .option("--no-open", "do not open the browser");
  withCommonOptions(command).action(async (folder, flags) => {
    if (flags.share !== undefined) {
      const file = await shareRecipe(resolve(folder), flags.share, { force: flags.force ?? false });
      print(flags.json ? JSON.stringify({ file }) : `Wrote ${file}`);
      return;
    }
    const signal = interruptSignal();
    const studio = await startStudio({
      folder,
      port: flags.port,
      onBug: (error) => info(flags, String(error instanceof Error ? error.stack : error)),
    });
    try {
      if (flags.json) print(JSON.stringify({ url: studio.url }));
      else print(`Studio of ${folder} at ${studio.url}`);
      if (flags.open) openBrowser(studio.url);
      if (!signal.aborted) await once(signal, "abort");
      if (studio.isBusy()) info(flags, "Cancelling what runs. Merges and experiments can be resumed.");
    } finally {
      await studio.close();
    }
  });
}

function openBrowser(url: string): void {
  const [command = "", ...args] =
    process.platform === "darwin"
      ? ["open"]
      : process.platform === "win32"
        ? ["cmd", "/c", "start", ""]
        : process.env.DISPLAY || process.env.WAYLAND_DISPLAY
          ? ["xdg-open"]
          : [];
  if (command === "") return;
  const child = spawn(command, [...args, url], { stdio: "ignore", detached: true });
  child.on("error", () => undefined);
  child.unref();
}
