// A folder of safetensors: one file, or shards named by `model.safetensors.index.json`.

import { readdir } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { exists, readJsonObject } from "../../kit/files/index.js";
import { CheckpointError, FormatError, isSystemError } from "../../kit/index.js";
import { formatSome } from "../../kit/printing/index.js";
import { quote } from "./header-json.js";
import { openSafetensors, type SafetensorsFile } from "./reader.js";
import { checkpointOfRun } from "./training-run.js";

export const INDEX_FILE = "model.safetensors.index.json";
export const SINGLE_FILE = "model.safetensors";

// What save_pretrained writes; a folder fetched without its index is still recognised by this.
const SHARD_NAME = /^model-(\d{5})-of-(\d{5})\.safetensors$/;
const fiveDigits = (n: number) => String(n).padStart(5, "0");

/** The name of shard `number` (from 1) of `count`. */
export function shardName(number: number, count: number): string {
  return `model-${fiveDigits(number)}-of-${fiveDigits(count)}.safetensors`;
}
const PICKLE = /\.(bin|pt|pth|ckpt)$/;

/** Far more shards than any published model has; limits how many files a hostile index can open. */
export const MAX_SHARDS = 10_000;

/** Files of a folder that are on the hub only. */
export interface RemoteFolder {
  /** Name of the folder for messages, such as `org/model`. */
  readonly source: string;
  /** Names within the folder; the weights of its subfolders may be among them. */
  readonly names: ReadonlySet<string>;
  /** Reads the header of a weight file. */
  open(name: string): Promise<SafetensorsFile>;
}

/**
 * Opens all weight files of a folder, headers only, in the order of their names.
 *
 * Looks for, in this order, as transformers does: `model.safetensors`; an index; a complete set of numbered shards without an index; a
 * single other `.safetensors` file (such as `consolidated.safetensors`). Files of modules follow, see `openModules`.
 * @param remote files that are not on the disk
 * @throws CheckpointError if there are none, or only pickled ones
 * @throws FormatError if a file breaks the format or an index does not fit its files
 */
export async function openShards(folder: string, remote?: RemoteFolder): Promise<SafetensorsFile[]> {
  let names: string[];
  try {
    const elsewhere = [...(remote?.names ?? [])].filter((name) => !name.includes("/"));
    names = [...new Set([...(await readdir(folder)), ...elsewhere])].sort();
  } catch (error) {
    if (isSystemError(error, "ENOENT")) throw new CheckpointError(`${folder} does not exist`, { file: folder }, error);
    if (isSystemError(error, "ENOTDIR")) {
      throw new CheckpointError(`${folder} is a file; give the folder of a checkpoint`, { file: folder }, error);
    }
    throw error;
  }
  const modules = names.includes(MODULES_FILE) ? await openModules(folder, names, remote) : [];
  // As in transformers, the single file takes precedence over the index.
  if (names.includes(INDEX_FILE) && !names.includes(SINGLE_FILE)) {
    return refuseDuplicates([...(await openIndexed(folder, remote)), ...modules]);
  }
  const files: SafetensorsFile[] = [];
  for (const name of weightFiles(folder, names, remote?.source ?? folder))
    files.push(await openOne(folder, name, remote));
  return refuseDuplicates([...files, ...modules]);
}

/**
 * Opens the weights of a model's modules, as sentence-transformers saves them (`2_Dense/model.safetensors`). Names of their
 * tensors begin with the module's folder: `2_Dense/linear.weight`.
 * @param names of the folder and of what is only on the hub
 */
async function openModules(
  folder: string,
  names: readonly string[],
  remote: RemoteFolder | undefined,
): Promise<SafetensorsFile[]> {
  const elsewhere = [...(remote?.names ?? [])];
  const folders = new Set([...names, ...elsewhere.map((path) => path.split("/")[0] ?? "")].filter(isModuleFolder));
  const files: SafetensorsFile[] = [];
  for (const module of [...folders].sort()) {
    const path = `${module}/${SINGLE_FILE}`;
    if (!remote?.names.has(path) && !(await exists(join(folder, path)))) continue;
    const file = await openOne(folder, path, remote);
    const tensors = file.tensors.map((tensor) => ({ ...tensor, name: `${module}/${tensor.name}` }));
    files.push({ ...file, tensors });
  }
  return files;
}

/** The list of modules that sentence-transformers writes. */
const MODULES_FILE = "modules.json";

/** Whether a folder has a name that sentence-transformers gives to those of modules, such as 2_Dense. */
export const isModuleFolder = (name: string): boolean => /^\d+_[A-Za-z]\w*$/.test(name);

/** The folder of a tensor of a module, and its name in the file there; undefined for those of the model itself. */
export function moduleTensor(name: string): { readonly folder: string; readonly name: string } | undefined {
  const slash = name.indexOf("/");
  const folder = name.slice(0, Math.max(0, slash));
  return isModuleFolder(folder) ? { folder, name: name.slice(slash + 1) } : undefined;
}

function openOne(folder: string, name: string, remote: RemoteFolder | undefined): Promise<SafetensorsFile> {
  return remote?.names.has(name) ? remote.open(name) : openSafetensors(join(folder, name));
}

/** @param source name of the folder for messages */
function weightFiles(folder: string, names: readonly string[], source: string): string[] {
  if (names.includes(SINGLE_FILE)) return [SINGLE_FILE];
  const shards = names.filter((name) => SHARD_NAME.test(name));
  const [first] = shards;
  if (first !== undefined) {
    const count = Number(SHARD_NAME.exec(first)?.[2]);
    const set = new Set(Array.from({ length: count }, (_, i) => shardName(i + 1, count)));
    const stray = shards.find((name) => !set.has(name));
    if (stray !== undefined) {
      throw new CheckpointError(
        `${source} has ${stray} and ${first} but no ${INDEX_FILE}, so the shards of the model are unclear. Remove those of the other save.`,
        { file: folder },
      );
    }
    if (shards.length !== count) {
      throw new CheckpointError(
        `${source} has ${shards.length} of ${count} shards and no ${INDEX_FILE}; fetch the rest of the checkpoint`,
        { file: folder, expected: `${count} shards`, actual: `${shards.length} shards` },
      );
    }
    return shards;
  }
  const others = names.filter((name) => name.endsWith(".safetensors") && name !== "adapter_model.safetensors");
  if (others.length === 1) return others;
  if (others.length > 1) {
    throw new CheckpointError(
      `${source} has ${formatSome(others)} but neither ${SINGLE_FILE} nor ${INDEX_FILE}, so the file of the model is unclear. Rename it to ${SINGLE_FILE}.`,
      { file: folder },
    );
  }
  if (names.includes("adapter_config.json")) {
    throw new CheckpointError(
      `${source} is a LoRA adapter, not a whole checkpoint; write BASE+${source}, with the folder of its base model in place of BASE`,
      { file: folder },
    );
  }
  const pickles = names.filter((name) => PICKLE.test(name));
  if (pickles.length > 0) {
    throw new CheckpointError(
      `${source} has pickled weights (${formatSome(pickles)}). They can run code when opened, so they are never read; ` +
        `convert them once in Python: AutoModelForCausalLM.from_pretrained("${source}").save_pretrained("NEW_FOLDER", safe_serialization=True)`,
      { file: folder },
    );
  }
  const checkpoint = checkpointOfRun(folder, names);
  if (checkpoint) {
    const base = checkpoint.isAdapter ? "BASE+" : "";
    const whose = checkpoint.isAdapter ? ", with the folder of its base model in place of BASE" : "";
    throw new CheckpointError(
      `${source} is the folder of a training run; write a checkpoint of it, ${base}${checkpoint.path}${whose}`,
      { file: folder },
    );
  }
  throw new CheckpointError(`${source} has no .safetensors file; give the folder of a checkpoint`, { file: folder });
}

function refuseDuplicates(files: SafetensorsFile[]): SafetensorsFile[] {
  const home = new Map<string, string>();
  for (const file of files) {
    for (const { name } of file.tensors) {
      const other = home.get(name);
      if (other !== undefined) {
        throw new FormatError(`tensor ${quote(name)} is in both ${other} and ${file.path}`, {
          file: file.path,
          tensor: name,
        });
      }
      home.set(name, file.path);
    }
  }
  return files;
}

/** Opens the files that an index names and checks that each tensor is in the file that the index names. */
async function openIndexed(folder: string, remote: RemoteFolder | undefined): Promise<SafetensorsFile[]> {
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
  if (tensorsOf.size > MAX_SHARDS) {
    throw new FormatError(`${path} names ${tensorsOf.size} files, over the limit of ${MAX_SHARDS}`, {
      file: path,
      expected: `at most ${MAX_SHARDS} files`,
      actual: `${tensorsOf.size} files`,
    });
  }

  const missing: string[] = [];
  for (const name of tensorsOf.keys()) {
    if (!remote?.names.has(name) && !(await exists(join(folder, name)))) missing.push(name);
  }
  if (missing.length > 0) {
    throw new CheckpointError(
      `${path} names ${formatSome(missing.sort().map(quote))}, which ${missing.length === 1 ? "is" : "are"} not there; fetch the rest of the checkpoint`,
      { file: path },
    );
  }
  const files: SafetensorsFile[] = [];
  for (const name of [...tensorsOf.keys()].sort()) {
    const file = await openOne(folder, name, remote);
    checkAgainstIndex(file, tensorsOf.get(name) ?? new Set(), path);
    files.push(file);
  }
  return refuseDuplicates(files);
}

/** A name in an index must be a plain file name inside the folder, or inside a folder of it. */
function checkFileName(file: unknown, tensor: string, index: string): string {
  if (typeof file !== "string" || file === "") {
    throw new FormatError(`${index} gives no file for tensor ${quote(tensor)}; fetch or save it again`, {
      file: index,
      tensor,
      actual: file === "" ? "an empty name" : file === null ? "null" : typeof file,
    });
  }
  const where = { file: index, tensor, actual: file };
  const parts = file.split(/[/\\]/);
  if (
    isAbsolute(file) ||
    /^[a-zA-Z]:/.test(file) ||
    file.includes("\\") ||
    file.includes("\0") ||
    parts.includes("..")
  ) {
    throw new FormatError(
      `${index} names ${quote(file)} for tensor ${quote(tensor)}, which is outside its folder. Do not trust this checkpoint.`,
      where,
    );
  }
  // Linux, macOS and Windows limit names to 255 units; the system's own error would be unclear.
  if (parts.some((part) => part.length > 255)) {
    throw new FormatError(`${index} names ${quote(file)}, which is too long for a file name`, where);
  }
  if (!file.endsWith(".safetensors")) {
    throw new FormatError(`${index} names ${quote(file)}, which is not a .safetensors file`, where);
  }
  return file;
}

function checkAgainstIndex(file: SafetensorsFile, expected: ReadonlySet<string>, index: string): void {
  const present = new Set(file.tensors.map((tensor) => tensor.name));
  const absent = [...expected].filter((name) => !present.has(name));
  if (absent.length > 0) {
    throw new FormatError(`${index} says that ${file.path} holds ${formatSome(absent.map(quote))}, but it does not`, {
      file: file.path,
      tensor: absent[0] ?? "",
    });
  }
  const extra = [...present].filter((name) => !expected.has(name));
  if (extra.length > 0) {
    throw new FormatError(`${file.path} holds ${formatSome(extra.map(quote))}, which ${index} does not name`, {
      file: file.path,
      tensor: extra[0] ?? "",
    });
  }
}
