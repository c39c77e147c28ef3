// Reads what a plan's steps depend on: models, data and tasks. Collects problems instead of throwing them.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, readdir, readFile, stat } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { z } from "zod";
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
import { firstRowsErrors } from "./check-first-rows.js";
import type { Facts, TaskFacts } from "./facts.js";
import { dataAccess, openTask, taskDigest } from "./items.js";
import type { TaskRequest } from "./step.js";

export interface ModelFacts {
  readonly identity: string;
  /** Absolute folder, or FOLDER+ADAPTER. */
  readonly folder: string;
  readonly parameters: number;
  readonly bytes: number;
  readonly layers: number;
  /** Path of its name in the plan. */
  readonly path: readonly PropertyKey[];
}

export interface ReadFactsOptions {
  /** Folder that relative paths start from. */
  readonly folder: string;
  /** Folder for the cache of file digests. Default: no cache. */
  readonly cache?: string;
  /** Folder with the data sets of evaluation. */
  readonly data?: string | undefined;
  /** Whether to read models and data whole to identify them. Default: true. */
  readonly readsBytes?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

export class ReadFacts implements Facts {
  readonly problems: Problem[] = [];
  /** Tasks whose data are not in the folder of data sets, with the reason. */
  readonly missing = new Map<string, string>();
  readonly models = new Map<string, ModelFacts>();
  readonly tasks = new Map<string, TaskFacts>();
  /** Tasks that were read, or failed to be. */
  readonly #requested = new Set<string>();
  readonly #options: ReadFactsOptions;
  readonly #digests: DigestCache;
  readonly #data = new Map<string, string>();

  constructor(options: ReadFactsOptions) {
    this.#options = options;
    this.#digests = new DigestCache(options.cache);
  }

  /** Reads a model's headers and the digest of its bytes. @param path of its name in the plan */
  async readModel(source: string, path: readonly PropertyKey[]): Promise<void> {
    if (this.models.has(source)) return;
    try {
      const checkpoint = await openCheckpoint(source, {
        base: this.#options.folder,
        // Steps run models from the cache. A check needs no weights.
        hub: { fetch: this.#options.readsBytes === false ? "headers" : "files", signal: this.#options.signal },
      });
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

  /** Digest of a model's weights, configuration and tokenizer. */
  async #folderDigest(folder: string): Promise<string> {
    const files = (await readdir(folder)).filter(isModelFile);
    return this.#filesDigest(folder, files);
  }

  async #filesDigest(folder: string, names: readonly string[]): Promise<string> {
    if (this.#options.readsBytes === false) return folder;
    const digests: [string, string][] = [];
    for (const name of names.toSorted()) digests.push([name, await this.#digests.of(join(folder, name))]);
    return digestOfValue(digests);
  }

  /** Reads the items of a task. @param path of its name in the plan */
  async readTask(request: TaskRequest, path: readonly PropertyKey[] = []): Promise<void> {
    const key = canonicalJson(request);
    if (this.#requested.has(key)) return;
    this.#requested.add(key);
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
        metric: headline,
        ...(headline?.by === "group mean" ? { groups: items.map(({ group }) => group) } : {}),
      });
    } catch (error) {
      const isMissing = error instanceof LayergraftError && error.code === MISSING_DATA;
      if (isMissing && this.#options.data !== undefined) this.missing.set(request.task, error.message);
      else this.#note(path, error, `task ${request.task}: `);
    }
  }

  /** Reads the digests of a training run's data files, and their first rows. @param path of the data in the plan */
  async readData(run: Readonly<Record<string, unknown>>, path: readonly PropertyKey[]): Promise<void> {
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
    const entries = await readdir(path, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile());
    return this.#filesDigest(
      path,
      files.map((entry) => relative(path, join(entry.parentPath, entry.name))),
    );
  }

  #note(path: readonly PropertyKey[], error: unknown, prefix = ""): void {
    if (!(error instanceof Error)) throw error;
    const [summary = ""] = error.message.split("\n");
    const problems = error instanceof RecipeError || error instanceof MismatchError ? error.problems : [];
    const message = `${prefix}${[problems.length > 0 ? summary : error.message, problems.join("; ")].join(" ").trim()}`;
    this.problems.push({ path, message });
  }

  modelIdentity(source: string): { identity: string; folder: string; layers: number | undefined } {
    const { identity = `missing:${source}`, folder = source, layers } = this.models.get(source) ?? {};
    return { identity, folder, layers };
  }

  dataIdentity(run: Readonly<Record<string, unknown>>): string {
    return this.#data.get(canonicalJson([run.data, run.partition])) ?? "";
  }

  task(request: TaskRequest): TaskFacts {
    const { task, limit = 1 } = request;
    // For a task that failed to be read, so that the rest of the plan can be checked.
    return (
      this.tasks.get(canonicalJson(request)) ?? {
        ...{ name: task, title: task, protocol: "", digest: "", scale: "share", items: limit },
        ...{ isMean: true, executes: false },
      }
    );
  }

  /** Saves the cache of digests. */
  save(): Promise<void> {
    return this.#digests.save();
  }
}

/** Vocabularies and settings of checkpoints. Other files, such as notes, do not change the model. */
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

/** Every `source` in a declaration of data. */
function sourcesIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(sourcesIn);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    if (key === "source" && typeof inner === "string") return [inner];
    return sourcesIn(inner);
  });
}

const CACHE_FILE = "digests.json";

const cacheSchema = z.record(z.string(), z.object({ stamp: z.string(), digest: z.string() }));

/** SHA-256 of files. A file is read again only if its size or times change. */
class DigestCache {
  readonly #file: string | undefined;
  #known: Map<string, { stamp: string; digest: string }> | undefined;
  #isChanged = false;

  constructor(folder: string | undefined) {
    this.#file = folder === undefined ? undefined : join(folder, CACHE_FILE);
  }

  async of(path: string): Promise<string> {
    this.#known ??= await this.#read();
    const stamp = await stampOf(path);
    const known = this.#known.get(path);
    if (known?.stamp === stamp) return known.digest;
    const hash = createHash("sha256");
    await pipeline(createReadStream(path, { highWaterMark: 2 ** 22 }), hash);
    const digest = hash.digest("hex");
    this.#known.set(path, { stamp, digest });
    this.#isChanged = true;
    return digest;
  }

  async #read(): Promise<Map<string, { stamp: string; digest: string }>> {
    if (this.#file === undefined) return new Map();
    try {
      return new Map(Object.entries(cacheSchema.parse(JSON.parse(await readFile(this.#file, "utf8")))));
    } catch {
      return new Map(); // none yet, or damaged: everything is read again
    }
  }

  async save(): Promise<void> {
    if (this.#file === undefined || !this.#isChanged) return;
    await mkdir(dirname(this.#file), { recursive: true });
    await writeFileAtomically(this.#file, `${JSON.stringify(Object.fromEntries(this.#known ?? []))}\n`);
  }
}
