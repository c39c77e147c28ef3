// Finds out what a plan's steps depend on: the bytes of models and data, the items of tasks. All that is missing or wrong
// is collected, not thrown at once. Digests of large files are kept, so that they are read only when they change.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, readdir, readFile, stat } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import {
  canonicalJson,
  digestOfValue,
  exists,
  LayergraftError,
  MismatchError,
  RecipeError,
  stampOf,
  writeFileAtomically,
} from "../../core/index.js";
import { MISSING_DATA, protocolTitle } from "../../evaluate/index.js";
import type { Problem } from "../../settings/index.js";
import { openCheckpoint, parameterCount } from "../../weights/index.js";
import type { Facts, TaskFacts } from "./facts.js";
import { firstRowsErrors } from "./first-rows.js";
import { dataAccess, openTask, taskDigest } from "./items.js";
import type { TaskRequest } from "./step.js";

export interface ModelFacts {
  readonly identity: string;
  /** Absolute folder, or FOLDER+ADAPTER. */
  readonly folder: string;
  readonly parameters: number;
  readonly bytes: number;
  readonly layers: number;
  /** Where the plan names it. */
  readonly path: readonly PropertyKey[];
}

export interface ReadFactsOptions {
  /** Folder that relative paths start from. */
  readonly folder: string;
  /** Folder where digests are kept; none are kept without. */
  readonly cache?: string;
  /** Folder with the data sets of evaluation. */
  readonly data?: string | undefined;
  /** Whether models and data are read to their ends, for what identifies them. Default true. */
  readonly readsBytes?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Facts as they were found, and what could not be. */
export class ReadFacts implements Facts {
  readonly problems: Problem[] = [];
  /** Tasks whose data are not in the folder of data sets, with what was looked for. */
  readonly lacking = new Map<string, string>();
  readonly models = new Map<string, ModelFacts>();
  readonly tasks = new Map<string, TaskFacts>();
  /** Requests that were read, or could not be. */
  readonly #asked = new Set<string>();
  readonly #options: ReadFactsOptions;
  readonly #digests: DigestCache;
  readonly #data = new Map<string, string>();

  constructor(options: ReadFactsOptions) {
    this.#options = options;
    this.#digests = new DigestCache(options.cache);
  }

  /** Reads a model's headers and the digest of its bytes. @param where in the plan it is named, or a word on it */
  async readModel(source: string, where: readonly PropertyKey[] | string): Promise<void> {
    const path = [where].flat();
    if (this.models.has(source)) return;
    try {
      const checkpoint = await openCheckpoint(source, { base: this.#options.folder });
      const folders = [checkpoint.folder, ...(checkpoint.adapter ? [checkpoint.adapter.path] : [])];
      const digests = await Promise.all(folders.map((folder) => this.#folderDigest(folder)));
      this.models.set(source, {
        identity: `sha256:${digestOfValue(digests)}`,
        folder: folders.join("+"),
        parameters: parameterCount(checkpoint),
        bytes: checkpoint.files.reduce((sum, { bytes }) => sum + bytes, 0),
        layers: checkpoint.layers,
        path,
      });
    } catch (error) {
      this.#note(path, error);
    }
  }

  /** What a folder's model is: its weights, configuration and tokenizer. Other files change nothing. */
  async #folderDigest(folder: string): Promise<string> {
    const kept = (await readdir(folder)).filter(isModelFile).sort();
    const digests: [string, string][] = [];
    if (this.#options.readsBytes === false) return folder;
    for (const name of kept) digests.push([name, await this.#digests.of(join(folder, name))]);
    return digestOfValue(digests);
  }

  /** Reads the items of a task. @param path where the plan names it */
  async readTask(request: TaskRequest, path: readonly PropertyKey[] = []): Promise<void> {
    const key = canonicalJson(request);
    if (this.#asked.has(key)) return;
    this.#asked.add(key);
    try {
      const task = await openTask(request, this.#options.folder);
      const { items } = await task.load(dataAccess(this.#options.data), {
        limit: request.limit,
        signal: this.#options.signal,
      });
      const [headline] = task.metrics;
      this.tasks.set(key, {
        name: task.name,
        title: task.title,
        protocol: protocolTitle(task.protocol, task.shots),
        items: items.length,
        digest: taskDigest(task, items),
        scale: headline?.scale ?? "share",
        isMean: headline?.by === "mean",
        executes: task.executes,
      });
    } catch (error) {
      const isLacking = error instanceof LayergraftError && error.code === MISSING_DATA;
      if (isLacking && this.#options.data !== undefined) this.lacking.set(request.task, error.message);
      else this.#note(path, error, `task ${request.task}: `);
    }
  }

  /** Reads the digests of the files that a training run names, and their first rows. @param where in the plan, or a word on it */
  async readData(run: Readonly<Record<string, unknown>>, where: readonly PropertyKey[] | string): Promise<void> {
    const path = [where].flat();
    const declared = canonicalJson([run.data, run.partition]);
    if (this.#data.has(declared)) return;
    const digests: [string, string][] = [];
    for (const source of sourcesIn([run.data, run.partition])) {
      const at = resolve(this.#options.folder, source);
      try {
        if (await exists(at)) digests.push([source, await this.#pathDigest(at)]);
        else if (/^[.~/]|\.(jsonl?|parquet|tsv|csv|txt)(\.gz)?$/.test(source)) {
          throw new LayergraftError("data", `${source} does not exist`, { file: at });
        }
      } catch (error) {
        this.#note(path, error);
      }
    }
    for (const error of await firstRowsErrors(run.data, this.#options)) this.#note(path, error);
    this.#data.set(declared, digestOfValue([declared, digests]));
  }

  async #pathDigest(path: string): Promise<string> {
    if (this.#options.readsBytes === false) return path;
    if ((await stat(path)).isFile()) return this.#digests.of(path);
    const names = (await readdir(path, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile());
    const files = names.map((entry) => join(entry.parentPath, entry.name)).sort();
    const digests: [string, string][] = [];
    for (const file of files) digests.push([relative(path, file), await this.#digests.of(file)]);
    return digestOfValue(digests);
  }

  #note(path: readonly PropertyKey[], error: unknown, prefix = ""): void {
    if (!(error instanceof Error)) throw error;
    const [summary = ""] = error.message.split("\n");
    const problems = error instanceof RecipeError || error instanceof MismatchError ? error.problems : [];
    const message = `${prefix}${[problems.length > 0 ? summary : error.message, problems.join("; ")].join(" ").trim()}`;
    this.problems.push({ path, message });
  }

  modelIdentity(source: string): { identity: string; folder: string } {
    const { identity = `missing:${source}`, folder = source } = this.models.get(source) ?? {};
    return { identity, folder };
  }

  dataIdentity(run: Readonly<Record<string, unknown>>): string {
    return this.#data.get(canonicalJson([run.data, run.partition])) ?? "";
  }

  task(request: TaskRequest): TaskFacts {
    const { task, limit = 1 } = request;
    // A task that cannot be read is a problem; the rest of the plan is checked all the same.
    return (
      this.tasks.get(canonicalJson(request)) ?? {
        ...{ name: task, title: task, protocol: "", digest: "", scale: "share", items: limit },
        ...{ isMean: true, executes: false },
      }
    );
  }

  /** Keeps the digests for the next time. */
  save(): Promise<void> {
    return this.#digests.save();
  }
}

/** Vocabularies and settings of checkpoints by their names; notes of people beside them change no answer. */
const TEXT_FILES: ReadonlySet<string> = new Set([
  ...["vocab.txt", "merges.txt", "vocab.json", "added_tokens.json", "special_tokens_map.json"],
  ...["generation_config.json", "adapter_config.json", "chat_template.json", "model.safetensors.index.json"],
]);

/** Whether a file of a model's folder is part of what the model is: weights, configuration, tokenizer. */
export function isModelFile(name: string): boolean {
  return (
    /\.(safetensors|model|jinja)$/.test(name) ||
    TEXT_FILES.has(name) ||
    /^(config|params|tokenizer.*)\.json$/.test(name)
  );
}

/** What stands under `source` anywhere in a declaration of data. */
function sourcesIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(sourcesIn);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    if (key === "source" && typeof inner === "string") return [inner];
    return sourcesIn(inner);
  });
}

const CACHE_FILE = "digests.json";

/** SHA-256 of files, read again only when size or times differ. */
class DigestCache {
  readonly #folder: string | undefined;
  #known: Record<string, { stamp: string; digest: string }> | undefined;
  #isNew = false;

  constructor(folder: string | undefined) {
    this.#folder = folder;
  }

  async of(path: string): Promise<string> {
    this.#known ??= await this.#read();
    const stamp = await stampOf(path);
    const known = this.#known[path];
    if (known?.stamp === stamp) return known.digest;
    const hash = createHash("sha256");
    await pipeline(createReadStream(path, { highWaterMark: 2 ** 22 }), hash);
    const digest = hash.digest("hex");
    this.#known[path] = { stamp, digest };
    this.#isNew = true;
    return digest;
  }

  async #read(): Promise<Record<string, { stamp: string; digest: string }>> {
    if (this.#folder === undefined) return {};
    try {
      return JSON.parse(await readFile(join(this.#folder, CACHE_FILE), "utf8")) as Record<
        string,
        { stamp: string; digest: string }
      >;
    } catch {
      return {}; // none yet, or cut short: everything is read again
    }
  }

  async save(): Promise<void> {
    if (this.#folder === undefined || !this.#isNew) return;
    await mkdir(this.#folder, { recursive: true });
    await writeFileAtomically(join(this.#folder, CACHE_FILE), `${JSON.stringify(this.#known)}\n`);
  }
}
