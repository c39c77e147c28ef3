// The files beside a model's weights, as a folder has them: which belong to other weights, and what is wrong with them.
import { readdir, readFile, realpath, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isFile, readJsonObject, staysIn } from "../../kit/files/index.js";
import { isObject } from "../../kit/index.js";
import { formatSome } from "../../kit/printing/index.js";
import { moduleTensor } from "../safetensors/index.js";
import type { Checkpoint } from "./checkpoint.js";
import {
  type CompanionKind,
  companionOf,
  isCompanionFolder,
  isWorthNoting,
  UNKNOWN_BYTES,
  UNKNOWN_FILES,
} from "./companion-names.js";

/** What comes from the model that gives the tokenizer, and what from the one that gives the configuration. */
export const OF_TOKENIZER: readonly CompanionKind[] = ["tokenizer", "prompting"];
const OF_CONFIG: readonly CompanionKind[] = ["processing", "code", "terms", "unknown"];
export const ofConfig = ({ asStored }: Checkpoint) => (asStored ? OF_CONFIG : [...OF_CONFIG, "quantisation" as const]);

/** The folder of a configuration. That of the tokenizer is another one after a transplant. */
export const homeOf = ({ config }: Checkpoint) => dirname(config.file);

/**
 * Notes on the files that are copied from the models that give the configuration and the tokenizer, and on those that are not.
 * @param sources all models of the merge
 */
export async function companionNotes(
  lead: Checkpoint,
  tokenizer: Checkpoint,
  sources: Iterable<Checkpoint>,
): Promise<string[]> {
  const notes: string[] = [];
  const found = await companionsIn(homeOf(lead), ofConfig(lead));
  if (found.unknown.length > 0) {
    notes.push(`${lead.name} has small files of unknown purpose, which are copied: ${formatSome(found.unknown)}`);
  }
  if (found.leftOut.length > 0) {
    notes.push(
      `${lead.name} has files that are not copied: ${formatSome(found.leftOut)}; copy what the model needs into the result`,
    );
  }
  const { paths } = await companionsIn(tokenizer.texts, OF_TOKENIZER);
  for (const path of paths) notes.push(...(await problemsOf(tokenizer.texts, path, tokenizer.name)));
  for (const path of found.paths) notes.push(...(await problemsOf(homeOf(lead), path, lead.name)));
  return [...notes, ...(await moduleNotes(sources))];
}

/** Modules of sentence-transformers that are trained. */
const TRAINED = ["Dense", "CNN", "LSTM", "WordEmbeddings", "WeightedLayerPooling", "LayerNorm"];

/** Notes on modules whose weights are not in safetensors, such as pickled ones, which are neither merged nor copied. */
async function moduleNotes(sources: Iterable<Checkpoint>): Promise<string[]> {
  const notes = new Set<string>();
  for (const source of sources) {
    const modules = await listedModules(homeOf(source));
    const read = new Set([...source.tensors.keys()].map((name) => moduleTensor(name)?.folder));
    for (const { path, type } of modules) {
      if (!TRAINED.includes(type.slice(type.lastIndexOf(".") + 1)) || read.has(path)) continue;
      notes.add(
        `weights of ${path} of ${source.name} are not in safetensors, so they are neither merged nor copied; open the model in Python and save it again`,
      );
    }
  }
  return [...notes];
}

/** The modules that a folder's modules.json lists; none where it is not there or broken, which another note says. */
async function listedModules(folder: string) {
  // A list, where all other files of settings have an object.
  const parse = (bytes: Buffer) => ({ modules: JSON.parse(bytes.toString("utf8")) });
  const json = await readJsonObject(join(folder, "modules.json"), undefined, parse).catch(() => undefined);
  const modules = Array.isArray(json?.modules) ? json.modules.filter(isObject) : [];
  return modules.map(({ path, type }) => ({ path: String(path), type: String(type) }));
}

async function problemsOf(folder: string, path: string, name: string): Promise<string[]> {
  if (await leadsElsewhere(folder, path)) {
    return [
      `${path} of ${name} is a symbolic link out of its folder, so it is not copied; replace the link with the file`,
    ];
  }
  const file = join(folder, path);
  if (!(await isFile(file)))
    return [`${path} of ${name} is not a regular file, so it is not copied; replace it with the file`];
  const { size, mtimeMs } = await stat(file);
  if (size === 0 && companionOf(path) !== "code") return [`${path} of ${name} is empty; download it again`];
  if (!path.endsWith(".json") || size > MAX_PARSED_BYTES) return [];
  const key = `${file} ${size} ${mtimeMs}`;
  const isValid = parsed.get(key) ?? isJson(await readFile(file, "utf8"));
  parsed.set(key, isValid);
  return isValid ? [] : [`${path} of ${name} is not valid JSON; download it again`];
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

// A process plans many recipes of the same models, and a tokenizer takes longer to parse than all else that is planned.
const parsed = new Map<string, boolean>();

// The largest tokenizers have 35 MB.
const MAX_PARSED_BYTES = 300_000_000;

export interface Companions {
  /** Paths of the files of the kinds that were asked for, sorted. */
  readonly paths: readonly string[];
  /** Those of them whose purpose is not known. */
  readonly unknown: readonly string[];
  /** Files and folders that are none, except weights and records of training. */
  readonly leftOut: readonly string[];
}

/** The files of a model's folder that go beside other weights. */
export async function companionsIn(folder: string, kinds: readonly CompanionKind[]): Promise<Companions> {
  const names = (await readdir(folder)).sort();
  const inFolders = names.filter(isCompanionFolder).map(async (name) => {
    const inside = await readdir(join(folder, name)).catch(() => []);
    return inside.sort().map((one) => `${name}/${one}`);
  });
  const all = [...names, ...(await Promise.all(inFolders)).flat()];
  // A model with custom code (`auto_map`) cannot be opened without it. The code is copied and never run.
  const hasCode = kinds.includes("code") && (await namesCode(folder, names));
  const paths = all.filter((path) => {
    const kind = companionOf(path);
    return kind === "code" ? hasCode : kind && kind !== "unknown" && kinds.includes(kind);
  });
  const unknown: string[] = [];
  const leftOut: string[] = [];
  for (const path of kinds.includes("unknown") ? names : []) {
    const kind = companionOf(path) ?? "none";
    const found = await stat(join(folder, path)).catch(() => undefined);
    if (!found || !["unknown", "none"].includes(kind)) continue;
    const isSmall = found.isFile() && found.size <= UNKNOWN_BYTES && unknown.length < UNKNOWN_FILES;
    if (kind === "unknown" && isSmall && !(await leadsElsewhere(folder, path))) unknown.push(path);
    else if (isWorthNoting(path, found.isDirectory())) leftOut.push(path);
  }
  return { paths: [...paths, ...unknown], unknown, leftOut };
}

/** Whether a configuration in a folder names classes in files beside it. */
async function namesCode(folder: string, names: readonly string[]): Promise<boolean> {
  for (const name of names) {
    const mayName = name === "config.json" || ["tokenizer", "processing"].includes(companionOf(name) ?? "");
    if (!mayName || !name.endsWith("config.json")) continue;
    const json = await readJsonObject(join(folder, name)).catch(() => undefined);
    if (json && "auto_map" in json) return true;
  }
  return false;
}

/** Whether a file is a symbolic link out of its model. Snapshots in a hub cache link to the blobs beside them. */
export async function leadsElsewhere(folder: string, path: string): Promise<boolean> {
  const home = await realpath(folder);
  const [, repository] = /^(.*)[/\\]snapshots[/\\][^/\\]+/.exec(home) ?? [];
  const blobs = repository === undefined ? [] : [join(repository, "blobs")];
  return !(await staysIn(join(folder, path), folder, ...blobs).catch(() => false));
}
