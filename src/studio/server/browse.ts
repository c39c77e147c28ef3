// Models and folders of this machine, for the dialog that chooses them.
import { readdir, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { exists } from "../../kit/files/index.js";
import { isAnySystemError, systemMessage, usageError } from "../../kit/index.js";
import type { Output } from "../protocol/index.js";

type Listing = Output<"browse">;
type Kind = Listing["kind"];

/** Entries of a folder that the page lists. */
const MAX_ENTRIES = 2000;

/** @param from a folder, of models or of one; or a GGUF file @throws LayergraftError code `usage` if it cannot be read */
export async function browse(from: string): Promise<Listing> {
  const path = resolve(from.replace(/^~(?=$|\/)/, homedir()));
  try {
    const isFile = (await stat(path)).isFile();
    const kind = isFile ? kindOfFile(path) : await kindOfFolder(path);
    if (kind === undefined) throw usageError(`${path} is not a model. Choose a folder, or a .gguf file.`);
    const folder = kind === "folder" ? path : dirname(path);
    const parent = dirname(folder);
    return { path, kind, folder, parent: parent === folder ? null : parent, entries: await entriesOf(folder) };
  } catch (error) {
    throw isAnySystemError(error) ? usageError(systemMessage(error)) : error;
  }
}

async function entriesOf(folder: string): Promise<Listing["entries"]> {
  const found = await readdir(folder, { withFileTypes: true });
  const shown = found.filter(({ name }) => !name.startsWith(".")).slice(0, MAX_ENTRIES);
  const entries = await Promise.all(
    shown.map(async (entry) => {
      const path = join(folder, entry.name);
      const kind = entry.isFile() ? kindOfFile(path) : await kindOfFolder(path);
      const isReadable = kind !== "folder" || (await isFolder(path));
      return kind !== undefined && isReadable ? { name: entry.name, kind } : undefined;
    }),
  );
  return entries.filter((entry) => entry !== undefined).sort((a, b) => a.name.localeCompare(b.name));
}

const kindOfFile = (path: string): Kind | undefined => (/\.gguf$/i.test(path) ? "model" : undefined);

/** What a folder is: an export of ONNX graphs has no weights that merges read. */
async function kindOfFolder(path: string): Promise<Kind> {
  if (await exists(join(path, "adapter_config.json"))) return "adapter";
  if (!(await exists(join(path, "config.json")))) return "folder";
  if (!(await exists(join(path, "onnx")))) return "model";
  const weights = ["model.safetensors", "model.safetensors.index.json"].map((name) => exists(join(path, name)));
  return (await Promise.all(weights)).includes(true) ? "model" : "onnx";
}

const isFolder = (path: string): Promise<boolean> =>
  readdir(path).then(
    () => true,
    () => false,
  );
