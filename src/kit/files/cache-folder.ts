import { mkdtemp, rmdir } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { messageOf, OutputError } from "../errors.js";
import { makeFolder } from "./files.js";

/** A folder in LAYERGRAFT_CACHE (default: layergraft in XDG_CACHE_HOME or ~/.cache). */
export function cacheFolder(
  name: string,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): string {
  const variable = (key: string) => environment[key]?.trim() || undefined;
  const root =
    variable("LAYERGRAFT_CACHE") ?? join(variable("XDG_CACHE_HOME") ?? join(homedir(), ".cache"), "layergraft");
  return join(root, name);
}

/** Makes a folder of the cache to write into. @throws OutputError if it cannot be made, or is read-only */
export async function makeCacheFolder(folder: string): Promise<void> {
  let isThere = false;
  try {
    await makeFolder(folder);
    isThere = true;
    // Permissions alone do not tell: the file system may be read-only, or another machine's.
    await rmdir(await mkdtemp(join(folder, ".layergraft-")));
  } catch (error) {
    const what = isThere ? `the cache ${folder} cannot be written` : "the cache cannot be made";
    const message = `${what} (${messageOf(error)}). Set LAYERGRAFT_CACHE to a folder that can be written.`;
    throw new OutputError(message, { file: folder }, error);
  }
}
