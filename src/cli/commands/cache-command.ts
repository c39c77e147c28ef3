import { basename, dirname } from "node:path";
import { right, terminalLines } from "../../figures/index.js";
import { readGgufHeader } from "../../formats/gguf/index.js";
import { openSafetensors } from "../../formats/safetensors/index.js";
import { type CacheEntry, cacheEntries, clearCache, modelCacheSettings } from "../../kit/files/index.js";
import { commandLine, formatBytes, formatDuration, plural } from "../../kit/printing/index.js";
import { asTyped } from "../shared/command-name.js";
import { print, printJson } from "../shared/output.js";
import type { Command } from "../shared/typed.js";

const MADE_FOR = { gguf: "llama.cpp", weights: "engine" } as const;

export function add(program: Command): void {
  program
    .command("cache")
    .description(
      "List prepared models: exports for llama.cpp, and merged or decoded weights of the engine. The least recently used " +
        "are deleted beyond LAYERGRAFT_CACHE_GB (default: 50). LAYERGRAFT_CACHE is the folder.",
    )
    .option("--clear", "delete all of them; running models are not affected on Linux and macOS")
    .optionsGroup("Output:")
    .option("--json", "print the result as JSON")
    .action(async (options) => {
      const { folder, mostBytes } = modelCacheSettings();
      const found = options.clear ? await clearCache({ folder, mostBytes }) : await cacheEntries({ folder, mostBytes });
      const entries = await Promise.all(
        found.toReversed().map(async (entry) => ({ ...entry, model: options.clear ? null : await modelOf(entry) })),
      );
      const bytes = entries.reduce((sum, entry) => sum + entry.bytes, 0);
      if (options.json) return printJson({ folder, mostBytes, cleared: options.clear ?? false, bytes, entries });
      const total = `${plural(entries.length, "prepared model")}, ${formatBytes(bytes)}`;
      if (options.clear) return print([`Deleted ${total}, in ${folder}.`]);
      if (entries.length === 0) return print([`No prepared models in ${folder}.`]);
      print([
        `${total} of at most ${formatBytes(mostBytes)}, in ${folder}`,
        "",
        ...terminalLines({
          columns: ["file", right("size"), right("last used"), "for", "model"],
          rows: entries.map(({ path, kind, bytes: size, used, isPartial, model }) => [
            `${basename(dirname(path))}/${basename(path).slice(0, SHOWN_DIGITS)}...`,
            formatBytes(size),
            `${formatDuration(Math.max(0, Date.now() - used) / 1000)} ago`,
            MADE_FOR[kind],
            isPartial ? "not complete" : (model ?? ""),
          ]),
        }),
        "",
        asTyped(`Delete them with ${commandLine`cache --clear`}.`),
      ]);
    });
}

/** Digits of a file's name that tell it from others. */
const SHOWN_DIGITS = 12;

/** The model that a file was first made for, where the file names it. */
async function modelOf({ kind, path, isPartial }: CacheEntry): Promise<string | null> {
  if (isPartial) return null;
  try {
    if (kind === "weights") return (await openSafetensors(path)).metadata.model ?? null;
    const name = readGgufHeader(path).metadata.get("general.name");
    return typeof name === "string" ? name : null;
  } catch {
    return null;
  }
}
