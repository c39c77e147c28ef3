// Sources and the folders that hold them, as commands name them.
import { readdir } from "node:fs/promises";
import { isAbsolute, join, relative, resolve } from "node:path";
import { locateSource } from "../../formats/checkpoint/index.js";
import { exists, isFile } from "../../kit/files/index.js";

/** A source as a file in another folder names it: a path relative to that folder, or the unchanged name on the hub. */
export async function sourceFrom(source: string, folder: string): Promise<string> {
  if (
    isAbsolute(source) ||
    (!(await exists(resolve(source.split("+")[0] ?? ""))) && !(await exists(resolve(source))))
  ) {
    return source;
  }
  const { folder: found, adapter } = await locateSource(source);
  const path = (absolute: string) => relative(resolve(folder), absolute);
  return adapter === undefined ? path(found) : `${path(found)}+${path(adapter)}`;
}

/** Folders in a folder that hold a model or an adapter, by their names. */
export async function checkpointFolders(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const names = entries.filter((entry) => !entry.isFile()).map(({ name }) => name);
  const holds = await Promise.all(
    names.map(async (name) =>
      (await Promise.all(["config.json", "adapter_config.json"].map((file) => isFile(join(folder, name, file))))).some(
        Boolean,
      ),
    ),
  );
  return names.filter((_, i) => holds[i]).sort();
}
