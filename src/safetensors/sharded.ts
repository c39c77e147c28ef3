// A folder of safetensors: one file, or shards named by `model.safetensors.index.json`.
import { readdir } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { CheckpointError, FormatError, isSystemError } from "../core/errors.js";
import { exists, readJsonObject } from "../core/files.js";
import { formatSome } from "../core/format.js";
import { openSafetensors, type SafetensorsFile } from "./reader.js";

export const INDEX_FILE = "model.safetensors.index.json";
export const SINGLE_FILE = "model.safetensors";

// What save_pretrained writes; a folder fetched without its index still tells its shards by this.
const SHARD_NAME = /^model-(\d{5})-of-(\d{5})\.safetensors$/;
const PICKLE = /\.(bin|pt|pth|ckpt)$/;

// More shards than any published model has, by far; bounds how many files a hostile index makes us open.
const MAX_SHARDS = 10_000;

/**
 * Opens all weight files of a folder, headers only, in the order of their names.
 *
 * Looks for, in this order: an index; `model.safetensors`; a complete set of numbered shards without an index; a
 * single other `.safetensors` file (such as `consolidated.safetensors`).
 * @throws {CheckpointError} if there are none, or only pickled ones
 * @throws {FormatError} if a file breaks the format or an index does not fit its files
 */
export async function openShards(folder: string): Promise<SafetensorsFile[]> {
  let names: string[];
  try {
    names = (await readdir(folder)).sort();
  } catch (error) {
    if (isSystemError(error, "ENOENT")) throw new CheckpointError(`${folder} does not exist`, { file: folder }, error);
    if (isSystemError(error, "ENOTDIR")) {
      throw new CheckpointError(`${folder} is a file; give the folder of a checkpoint`, { file: folder }, error);
    }
    throw error;
  }
  if (names.includes(INDEX_FILE)) return openIndexed(folder);
  const files = weightFiles(folder, names);
  return Promise.all(files.map((name) => openSafetensors(join(folder, name)))).then(refuseDuplicates);
}

function weightFiles(folder: string, names: readonly string[]): string[] {
  if (names.includes(SINGLE_FILE)) return [SINGLE_FILE];
  const shards = names.filter((name) => SHARD_NAME.test(name));
  const [first] = shards;
  if (first !== undefined) {
    const count = Number(SHARD_NAME.exec(first)?.[2]);
    if (shards.length !== count) {
      throw new CheckpointError(
        `${folder} has ${shards.length} of ${count} shards and no ${INDEX_FILE}; fetch the rest of the checkpoint`,
        { file: folder, expected: `${count} shards`, actual: `${shards.length} shards` },
      );
    }
    return shards;
  }
  const others = names.filter((name) => name.endsWith(".safetensors") && name !== "adapter_model.safetensors");
  if (others.length === 1) return others;
  if (others.length > 1) {
    throw new CheckpointError(
      `${folder} holds ${formatSome(others)} but neither ${SINGLE_FILE} nor ${INDEX_FILE}, so which of them are the model is unclear; rename the one to use to ${SINGLE_FILE}`,
      { file: folder },
    );
  }
  if (names.includes("adapter_config.json")) {
    throw new CheckpointError(
      `${folder} is a LoRA adapter, not a whole checkpoint; write BASE+${folder}, with the folder of its base model in place of BASE`,
      { file: folder },
    );
  }
  const pickles = names.filter((name) => PICKLE.test(name));
  if (pickles.length > 0) {
    throw new CheckpointError(
      `${folder} holds pickled weights (${formatSome(pickles)}), which can run code when opened and are never read here; ` +
        `convert them once in Python: AutoModelForCausalLM.from_pretrained("${folder}").save_pretrained("NEW_FOLDER", safe_serialization=True)`,
      { file: folder },
    );
  }
  throw new CheckpointError(`${folder} holds no .safetensors file; give the folder of a checkpoint`, { file: folder });
}

function refuseDuplicates(files: SafetensorsFile[]): SafetensorsFile[] {
  const home = new Map<string, string>();
  for (const file of files) {
    for (const { name } of file.tensors) {
      const other = home.get(name);
      if (other !== undefined) {
        throw new FormatError(`tensor ${JSON.stringify(name)} stands both in ${other} and in ${file.path}`, {
          file: file.path,
          tensor: name,
        });
      }
      home.set(name, file.path);
    }
  }
  return files;
}

/** Opens the files that an index names and checks that each tensor is where the index says. */
async function openIndexed(folder: string): Promise<SafetensorsFile[]> {
  const path = join(folder, INDEX_FILE);
  const weightMap = (await readJsonObject(path)).weight_map;
  if (typeof weightMap !== "object" || weightMap === null || Array.isArray(weightMap)) {
    throw new FormatError(`${path} has no weight_map; fetch or save it again`, { file: path, field: "weight_map" });
  }
  const tensorsOf = new Map<string, Set<string>>();
  for (const [tensor, file] of Object.entries(weightMap)) {
    const name = checkFileName(file, tensor, path);
    const tensors = tensorsOf.get(name) ?? new Set();
    tensorsOf.set(name, tensors.add(tensor));
  }
  if (tensorsOf.size === 0) throw new FormatError(`${path} names no tensor`, { file: path, field: "weight_map" });
  if (tensorsOf.size > MAX_SHARDS)
    throw new FormatError(`${path} names ${tensorsOf.size} files, over the limit of ${MAX_SHARDS}`, { file: path });

  const missing: string[] = [];
  for (const name of tensorsOf.keys()) if (!(await exists(join(folder, name)))) missing.push(name);
  if (missing.length > 0) {
    throw new CheckpointError(
      `${path} names ${formatSome(missing.sort())}, which ${missing.length === 1 ? "is" : "are"} not there; fetch the rest of the checkpoint`,
      { file: path },
    );
  }
  const files: SafetensorsFile[] = [];
  for (const name of [...tensorsOf.keys()].sort()) {
    const file = await openSafetensors(join(folder, name));
    checkAgainstIndex(file, tensorsOf.get(name) ?? new Set(), path);
    files.push(file);
  }
  return refuseDuplicates(files);
}

/** A name in an index must be a plain file name inside the folder, or inside a folder of it. */
function checkFileName(file: unknown, tensor: string, index: string): string {
  const where = { file: index, tensor, actual: String(file) };
  if (typeof file !== "string" || file === "") {
    throw new FormatError(`${index} gives no file for tensor ${JSON.stringify(tensor)}`, where);
  }
  const parts = file.split(/[/\\]/);
  if (
    isAbsolute(file) ||
    /^[a-zA-Z]:/.test(file) ||
    file.includes("\\") ||
    file.includes("\0") ||
    parts.includes("..")
  ) {
    throw new FormatError(
      `${index} names ${JSON.stringify(file)} for tensor ${JSON.stringify(tensor)}, which lies outside its folder; do not trust this checkpoint`,
      where,
    );
  }
  if (!file.endsWith(".safetensors")) {
    throw new FormatError(`${index} names ${JSON.stringify(file)}, which is not a .safetensors file`, where);
  }
  return file;
}

function checkAgainstIndex(file: SafetensorsFile, expected: ReadonlySet<string>, index: string): void {
  const present = new Set(file.tensors.map((tensor) => tensor.name));
  const absent = [...expected].filter((name) => !present.has(name));
  if (absent.length > 0) {
    throw new FormatError(`${index} says that ${file.path} holds ${formatSome(absent)}, but it does not`, {
      file: file.path,
      tensor: absent[0] ?? "",
    });
  }
  const extra = [...present].filter((name) => !expected.has(name));
  if (extra.length > 0) {
    throw new FormatError(`${file.path} holds ${formatSome(extra)}, which ${index} does not name`, {
      file: file.path,
      tensor: extra[0] ?? "",
    });
  }
}
