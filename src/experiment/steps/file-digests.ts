import { readdir, stat } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { type Checkpoint, foldersOf } from "../../formats/checkpoint/index.js";
import { isModuleFolder } from "../../formats/safetensors/index.js";
import { canonicalJson, digestOfFile, digestOfValue, exists, isFile } from "../../kit/files/index.js";
import { planSet } from "../../train/data/index.js";
import { dataOf, type Run } from "../../train/index.js";

/** Vocabularies and settings of checkpoints. Other files, such as notes, do not change the model. */
const TEXT_FILES: ReadonlySet<string> = new Set([
  ...["vocab.txt", "merges.txt", "vocab.json", "added_tokens.json", "special_tokens_map.json"],
  ...["generation_config.json", "adapter_config.json", "chat_template.json", "model.safetensors.index.json"],
]);

/** Whether a file of a model's folder is part of what the model is: weights, configuration, tokenizer. */
function isModelFile(name: string): boolean {
  return (
    /\.(safetensors|model|jinja)$/.test(name) ||
    TEXT_FILES.has(name) ||
    /^(config|params|tokenizer.*)\.json$/.test(name)
  );
}

/** The files of a model: those of its folder, or a GGUF file itself. */
async function modelFiles(place: string): Promise<{ readonly folder: string; readonly names: string[] }> {
  if (await isFile(place)) return { folder: dirname(place), names: [basename(place)] };
  const names = await readdir(place);
  // Of modules, their weights alone are merged.
  const weights = names.filter(isModuleFolder).map((name) => `${name}/model.safetensors`);
  const present = await Promise.all(weights.map((name) => isFile(join(place, name))));
  return { folder: place, names: [...names.filter(isModelFile), ...weights.filter((_, i) => present[i])] };
}

/** The sets of data that a run reads. */
export const setsOf = (run: Run) => dataOf(run).flatMap(({ sets }) => sets.map(planSet));

/** SHA-256 of files and folders. */
export class FileDigests {
  readonly #readsBytes: boolean;

  /** @param readsBytes whether to read models and data whole to identify them */
  constructor(readsBytes = true) {
    this.#readsBytes = readsBytes;
  }

  /** Of a file, or of all files in a folder. */
  async ofPath(path: string): Promise<string> {
    if (!this.#readsBytes) return path;
    if ((await stat(path)).isFile()) return digestOfFile(path);
    const entries = await readdir(path, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile());
    return this.ofFiles(
      path,
      files.map((entry) => relative(path, join(entry.parentPath, entry.name))),
    );
  }

  /** Of some files of a folder. @param known digests by path, of files that are not on this machine */
  async ofFiles(
    folder: string,
    names: readonly string[],
    known: ReadonlyMap<string, string> = new Map(),
  ): Promise<string> {
    if (!this.#readsBytes) return folder;
    const digests: [string, string][] = [];
    for (const name of names.toSorted()) {
      const path = join(folder, name);
      digests.push([name, known.get(path) ?? (await digestOfFile(path))]);
    }
    return digestOfValue(digests);
  }

  /** Identity of a model: its weights, configuration and tokenizer. Of files on the hub, the hub says the digests. */
  async ofModel(checkpoint: Checkpoint): Promise<string> {
    const onHub = new Map(checkpoint.files.flatMap(({ path, remote }) => (remote ? [[path, remote.sha256]] : [])));
    const digests = await Promise.all(
      foldersOf(checkpoint).map(async (place) => {
        const { folder, names } = await modelFiles(place);
        const remote = [...onHub.keys()].filter((path) => dirname(path) === folder).map((path) => basename(path));
        return this.ofFiles(folder, [...new Set([...names, ...remote])], onHub);
      }),
    );
    return `sha256:${digestOfValue(digests)}`;
  }

  /** Identity of the data of a run: what it declares, and its files on this machine, whose paths start from a folder. */
  async ofData({ data, partition }: Readonly<Record<string, unknown>>, run: Run, folder: string): Promise<string> {
    const digests: [string, string][] = [];
    for (const { source } of setsOf(run)) {
      const at = resolve(folder, source);
      if (await exists(at)) digests.push([source, await this.ofPath(at)]);
    }
    return digestOfValue([canonicalJson([data, partition]), digests]);
  }
}
