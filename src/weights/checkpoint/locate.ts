// Finds the folders of a source: FOLDER, FOLDER+ADAPTER, or a model in the hub's local cache. Fetches nothing.

import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, dirname, isAbsolute, join, resolve } from "node:path";
import { CheckpointError, exists } from "../../core/index.js";

export interface SourceLocation {
  /** Absolute path of the checkpoint's folder. */
  readonly folder: string;
  /** Absolute path of the adapter's folder, for FOLDER+ADAPTER. */
  readonly adapter?: string;
}

/**
 * Finds the folders that a source names.
 * @param base folder that relative paths start from; the working folder by default
 * @throws CheckpointError if a folder is not there
 */
export async function locateSource(source: string, base = "."): Promise<SourceLocation> {
  const whole = await locateFolder(source, base);
  if (whole) return { folder: whole };
  // A folder name may contain '+', so every split is tried, the longest folder first.
  for (let plus = source.lastIndexOf("+"); plus > 0; plus = source.lastIndexOf("+", plus - 1)) {
    const folder = await locateFolder(source.slice(0, plus), base);
    if (!folder) continue;
    const adapter = await locateFolder(source.slice(plus + 1), base);
    if (adapter) return { folder, adapter };
    throw new CheckpointError(
      `${source.slice(plus + 1)} does not exist; give the folder of a LoRA adapter after the '+'`,
      { file: source.slice(plus + 1) },
    );
  }
  const hint = /^[\w.-]+\/[\w.-]+$/.test(source)
    ? ", neither as a folder nor in the local cache of the hub; fetch it first"
    : "; give the folder of a checkpoint, or FOLDER+ADAPTER";
  const where = base === "." || isAbsolute(source) ? "" : ` in ${base}, where relative paths start`;
  throw new CheckpointError(`${source} does not exist${where}${hint}`, { file: source });
}

async function locateFolder(path: string, base: string): Promise<string | undefined> {
  if (path === "") return undefined;
  // The shell expands ~ only at the start of an argument: not in a recipe, and not after the '+' of an adapter.
  const folder = /^~(?=[/\\]|$)/.test(path) ? join(homedir(), path.slice(1)) : resolve(base, path);
  if (await exists(folder)) return folder;
  return /^[\w.-]+\/[\w.-]+$/.test(path) ? findInHubCache(path) : undefined;
}

/** The snapshot that `main` points at in the cache of huggingface_hub, if the model is there. */
async function findInHubCache(name: string): Promise<string | undefined> {
  const home = process.env.HF_HOME ?? join(process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache"), "huggingface");
  const cache = process.env.HF_HUB_CACHE ?? join(home, "hub");
  const folder = join(cache, `models--${name.replace("/", "--")}`);
  const ref = join(folder, "refs", "main");
  if (!(await exists(ref))) return undefined;
  const commit = (await readFile(ref, "utf8")).trim();
  if (!/^[0-9a-f]+$/.test(commit)) return undefined;
  const snapshot = join(folder, "snapshots", commit);
  return (await exists(snapshot)) ? snapshot : undefined;
}

// Folder names that training runs write; meaningless without the run's name.
const WITHIN_RUN = /^(last|best|merged|reverted|checkpoint-\d+)$/;

/** Displayed name of a folder: `org/name` for a hub snapshot, `run/last` inside a training run, else its own name. */
export function folderName(folder: string): string {
  const cached = /models--([^/\\]+?)--([^/\\]+)[/\\]snapshots[/\\][0-9a-f]+$/.exec(folder);
  if (cached) return `${cached[1]}/${cached[2]}`;
  const name = basename(folder);
  return WITHIN_RUN.test(name) ? `${basename(dirname(folder))}/${name}` : name;
}
