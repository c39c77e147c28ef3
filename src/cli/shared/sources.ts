// Sources and the folders that hold them, as commands name them.
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { isFile } from "../../kit/files/index.js";

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
