import { mkdir } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { messageOf, OutputError } from "../errors.js";

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

/** @throws OutputError if it cannot be made */
export async function makeCacheFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true }).catch((error: unknown) => {
    const message = `the cache cannot be made (${messageOf(error)}). Set LAYERGRAFT_CACHE to a folder that can be written.`;
    throw new OutputError(message, { file: folder }, error);
  });
}
